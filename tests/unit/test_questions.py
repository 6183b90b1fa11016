"""What a question asks: whether a text asks at all, of whom, for which facts, and of which time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

from every_case import every_case
from hypothesis import given, strategies as st

from shared_core.conversation.answers import past_relations, past_text
from shared_core.core.domain import MemoryId
from shared_core.knowledge.past_facts import ended_facts, past_facts, past_slots
from shared_core.nlp import question_subject as subject, relation_phrases as phrases
from shared_core.nlp.asked_slots import asked_slots
from shared_core.nlp.text import search_terms
from shared_core.ports.graph import Edge
from shared_core.ports.runs import Fact
from shared_core.recall.query import query_terms
from shared_core.recall.ranking import query_words, words_held


@every_case(
    "我吃不吃香菜", "我该不该跳槽", "我喜不喜欢猫", "我喜欢不喜欢加班", "我吃没吃过药",
    "你还记不记得我生日", "体检医生咋说的", "我上次咋回的老家", "这事咋整", "我打算啥时候领证",
    "我什么时候去体检", "我生日几号", "我几点下班", "妈妈生日是几月几号", "我星期几有课",
    "我女儿上几年级", "我家住几楼", "我哪天搬家", "我在这家公司多久了", "我鞋穿多大码",
    "我女儿几岁", "我怎么去公司", "我老婆叫什么", "谁是我老板", "你知道谁吃素", "谁知道我住哪",
    "我是不是对花生过敏", "你能不能告诉我",
)  # fmt: skip
def test_it_asks(question):
    assert phrases.is_question(question)


@every_case(
    "家人们谁懂啊 我被裁了", "谁懂啊", "谁知道呢", "谁知道呢。", "谁说不是呢", "怎么又下雨了",
    "咋又加班", "我怎么这么倒霉", "怎么可能", "怎么说呢", "我怎么都睡不着", "怎么劝也不听",
    "我不怎么吃辣", "最近没怎么睡", "好什么好", "看什么看", "没什么", "他动不动就发火",
    "我时不时去游泳", "爱去不去", "累得我不要不要的", "不是不是", "不不不", "没没没", "去不去都行",
    "信不信由你", "几点都行", "我什么时候也去一趟", "等啥时候有空再说", "我下个月十几号出差",
    "我十几岁就出来打工", "我有几点建议", "注意以下几点", "昨天来了好几号人", "没多久就辞职了",
    "多久都等", "他咋咋呼呼的", "我吃素", "周末我和小美去爬山", "我女儿喜欢画画",
)  # fmt: skip
def test_it_tells_or_complains(statement):
    assert not phrases.is_question(statement)


@every_case(
    "where do i live?", "Where do I live", "hey, where do i live?", "ok, what's my name?!",
    "我住哪里？", "对了，我住哪里", "那，我吃不吃香菜",
)  # fmt: skip
def test_a_single_question_only_asks(text):
    assert phrases.only_asks(text)


@every_case(
    "I moved to York, where is the gym?", "I live in York.", "I'm vegan. What can I eat?",
    "where do I live? I moved to York", "我搬家了，我住哪里？", "我吃素。能吃什么？", "我住在成都",
    "york\nwhere is it?",
)  # fmt: skip
def test_a_text_that_tells_something_does_more_than_ask(text):
    assert not phrases.only_asks(text)


@every_case(
    "What is the capital of France?", "Who wrote Hamlet?", "How tall is Mount Everest?",
    "whats the capital of France", "whos the king of Norway", "What is the boiling point of water?",
    "中国的首都是哪里？", "水的沸点是多少？", "珠穆朗玛峰有多高？", "上海有多少人口？",
    "《红楼梦》是谁写的？",
)  # fmt: skip
def test_a_question_that_names_something_else_is_about_the_world(question):
    assert subject.asks_about_world(question)


@every_case(
    "Where do I live?", "What is my daughter's name?", "Do you like mangoes?", "我住在哪里？",
    "住在哪里？", "生日是哪天？", "周末有什么安排？", "What is the date of the meeting?",
    "女儿的学校在哪里？", "你喜欢吃桔子吗？", "I love the capital of France.", "北京是中国的首都",
)  # fmt: skip
def test_one_that_may_ask_of_the_user_is_not(question):
    assert not subject.asks_about_world(question)


@every_case(
    ("我住在深圳", "中国的首都是哪里？", False), ("我在中国银行工作", "中国的首都是哪里？", True),
    ("I live in Leeds.", "What is the capital of France?", False),
    ("I went to France.", "What is the capital of France?", True),
)  # fmt: skip
def test_a_memory_has_to_do_with_what_it_names(text, question, shares):
    assert shares is subject.shares_words(text, question)


@every_case(
    ("User's name is Anna.", True), ("My name is Anna.", True), ("我叫小朱", True),
    ("用户的名字叫小朱。", True), ("Anna has a daughter called Mia.", False),
    ("User's daughter is called Mia.", False), ("我女儿叫灿灿", False),
)  # fmt: skip
def test_the_name_of_the_user_is_told_from_that_of_others(text, own):
    assert own is subject.states_user_name(text)


def test_runs_of_words_are_names_and_i_is_the_user():
    assert subject.mentioned("Where does Mia Chen live?")[:3] == [
        "where does mia chen", "does mia chen live", "where does mia"
    ]  # fmt: skip
    assert "mia chen" in subject.mentioned("Where does Mia Chen live?")
    assert "user" not in subject.mentioned("Where does Mia live?")
    assert subject.mentioned("Where do I work?")[0] == "user"


def test_chinese_names_stand_in_a_row_without_spaces():
    found = subject.mentioned("灿灿住在哪里？")
    assert {"灿灿", "灿灿住在哪里"} <= set(found)
    assert subject.mentioned("我在哪里工作")[0] == "user"


def test_long_questions_are_bounded_and_empty_ones_name_nobody():
    assert len(subject.mentioned("word " * 10_000)) <= subject.MOST_NAMES
    assert len(subject.mentioned("很" * 10_000 + "长")) <= subject.MOST_NAMES
    assert subject.mentioned("?! 🙂") == []


def test_whose_it_is_is_named():
    assert {"mia", "mia's", "mia's home"} <= set(subject.mentioned("Where is Mia's home?"))
    assert "mia chen" in subject.mentioned("Is it Mia Chen’s?")


def test_of_a_long_question_the_likely_names_are_looked_up():
    filler = " ".join(f"word{number}" for number in range(100))
    assert {"user", "mia", "tom", "york"} <= set(
        subject.mentioned(f"Has Mia {filler} me and Tom in York?")
    )
    chinese = "我上周跟你说过我们公司的小明最近打算搬到北京去工作因为他女朋友李小红在那边找到新职位"
    assert {"user", "小明", "北京", "李小红"} <= set(subject.mentioned(chinese))


def words_shown(query: str, text: str) -> tuple[str, ...]:
    return words_held(query_words(query, query_terms(query)), set(search_terms(text)))


@every_case(
    ("Where do the Dogs live?", "My dog lives here", ("Dogs", "live")),
    ("Which café, cafe?", "The CAFÉ is shut", ("café", "cafe")), ("tea tea TEA", "tea", ("tea",)),
    ("What is it?", "what it is", ()), ("她喜欢喝什么茶？", "她喜欢喝绿茶", ("她喜欢喝", "茶")),
    ("喝茶", "茶馆里喝", ("喝", "茶")), ("茶", "绿茶", ("茶",)),
    ("Lisa的猫叫什么", "Lisa 有一只猫", ("Lisa", "猫")), ("don't sail", "Bob sails", ("sail",)),
    ("Ｔea", "tea", ("Tea",)), ("ネコ", "ネコがいる", ("ネコ",)), ("🦜", "🦜", ()), ("", "tea", ()),
)  # fmt: skip
def test_words_are_shown_as_asked(query, text, expected):
    assert expected == words_shown(query, text)


def test_of_a_long_query_only_what_was_searched_for_is_shown():
    query = " ".join(["first", *(f"word{number}" for number in range(500))])
    assert ("word499",) == words_shown(query, "first word499")


@given(st.text(max_size=40))
def test_a_text_holds_every_word_of_itself_that_is_searched_for(query):
    words = query_words(query, query_terms(query))
    found = "".join(words_held(words, query_terms(query)))
    assert bool(found) == bool(words)
    assert () == words_held(words, ())


KNOWN = (
    "employer", "job", "work_city", "residence", "name", "age", "birthday", "allergy", "like",
    "activity", "instrument", "medication", "car", "rent", "rule", "salary", "email", "weight",
    "height", "size", "origin", "health", "pet_kind", "zodiac", "marital_status", "passport_expiry",
    "favourite.band", "favourite.colour", "favourite.food", "relation.sister",
    "relation.sister.age", "relation.wife.birthday", "relation.mother.place",
    "relation.daughter.age", "relation.son.school", "relation.dog", "about.mia.age", "shoe_size",
)  # fmt: skip


@every_case(*[
    (question, set(slots.split())) for slots, questions in {
        "employer work_city": ["Where do I work now?", "where do i work",
            "Do you remember where I work?", "我在哪里上班？"],
        "employer": ["who am i working for these days", "Who employs me?", "wheres my office",
            "我现在在哪家公司工作？"],
        "employer job": ["What is my job?"],
        "job": ["what do I do for a living", "Tell me what I do for a living", "我的职业是什么？"],
        "residence": ["Which city is my home these days?", "Remind me where I live",
            "where does the user live", "Where is my house now?", "我如今家在什么地方？",
            "現在我住哪裡", "用户住在哪里"],
        "birthday": ["what's the user's birthday", "When was I born?", "WHEN is my bday"],
        "name": ["What’s my name?", "whats my name?", "我叫什么名字", "你知道我的名字吗"],
        "age": ["can you tell me how old I am?"], "origin": ["where was i born"],
        "allergy": ["What food could make me ill?", "Which food must I avoid?",
            "what am I allergic to", "哪种水果我碰不得？"],
        "instrument": ["which instrument do I play"],
        "medication": ["What is my blood pressure medicine now",
            "What do I take for my blood glucose these days?"],
        "favourite.band": ["What is my favourite band?", "我最喜欢的乐队是什么"],
        "favourite.colour": ["What's my favorite color"],
        "rule": ["how long should your replies be for me"],
        "relation.sister": ["What is my sister called?", "what's my sister's name",
            "whats my sisters name", "whos my sister"],
        "relation.daughter.age": ["How old is my little girl?", "how old are my kids"],
        "relation.wife.birthday": ["When is my wife's birthday?", "whens my wifes bday",
            "我老婆的生日是哪天"],
        "relation.mother.place": ["Where does my mother live?", "whats my moms address"],
        "relation.dog": ["Name of our dog?", "who is our dog?", "我家狗叫什么？"],
        "relation.son.school": ["Where do my kids go to school?", "我儿子读哪所学校"],
        "activity instrument": ["我业余在练什么乐器？"], "relation.sister.age": ["我姐姐多大"],
        "car": ["我而家揸咩車？"],
    }.items() for question in questions
])  # fmt: skip
def test_a_question_asks_for_facts(question, slots):
    assert slots == asked_slots(question, KNOWN)


@every_case(
    # Statements, commands, and nothing.
    "I love my job.", "", "Send my salary expectations to the recruiter.",
    "My address changed, please note it.", "Draft my birthday invitation", "我的名字叫小王",
    "我身体有些不舒服", "回答我一个问题，要快", "x" * 5_000, "where do i work " * 100,
    # About somebody or something else.
    "Where is the station?", "What is the capital of France?", "Where does Anna live?",
    "What does my sister think of my job?", "我姐姐喜欢我的工作吗", "中国的首都是哪里",
    "我忘了小王住在哪里", "我想知道姚明身高多少", "告诉我李白是哪里人",
    "我想问一下马斯克的年薪是多少", "我客户的邮箱是什么", "我们经理的生日是哪天",
    "我前妻在哪里工作", "Do you know what Tom's favourite food is?", "我哋賣得最好嗰盒花叫咩名",
    "what does the dog think of where we live", "wheres the station", "whos that guy",
    "whats my sisters cat called", "whats up with my wifes birthday party", "who is it",
    "whos my sisters boss", "whos my sister seeing", "whats my name day",
    # About another time.
    "Where am I staying next week?", "Where have I worked?", "Where did I live before?",
    "我小时候住在哪里？", "我去年在哪里上班", "我上一份工作是什么", "我明年住哪",
    "我下个月要搬到哪里", "What did I get for my birthday?", "How much did I make on the flat?",
    # About a part of it, or in the same words about something else.
    "Where is my house key?", "What is my work email password?", "What is my job interview time?",
    "What is my role in the Apollo project?", "What is my car insurance number?",
    "What is my name day?", "What do I take for granted?", "What things kill my roses?",
    "What drugs are illegal where I live?", "What animal did I see at the zoo?",
    "When did I apply for my passport?", "Am I married to my job?",
    "Where do I work out at weekends?",
    "what did i end up in instead of playing on the wing", "我的房子多大？", "我多大概率能考上",
    "我多高兴", "我多重要", "我在哪一行写错了", "我养什么花好", "我有动物园的票吗",
    "我怎么回答面试官", "我该怎么称呼她", "车什么时候到，我在等",
)  # fmt: skip
def test_other_texts_ask_for_no_fact(text):
    assert set() == asked_slots(text, KNOWN)


def test_slots_that_are_unknown_here_are_not_asked_for():
    assert set() == asked_slots("Where do I live?", ["employer", "", "relation", "favourite"])


NOON = datetime(2026, 1, 22, 12, tzinfo=UTC)
NOW = NOON + timedelta(days=30)


def edge(number: int, subject: str, relation: str, object_: str) -> Edge:
    return Edge(
        edge_id=UUID(int=number), subject=subject, relation=relation, object=object_,
        subject_entity=subject, object_entity=object_, functional=False, confidence=1.0,
        valid_from=NOON + timedelta(minutes=number), valid_until=None, recorded_at=NOON,
        superseded_at=None, current=True, source_event_ids=(),
    )  # fmt: skip


EDGES = [
    edge(1, "user", "mother", "Grace"), edge(2, "user", "son", "Max"),
    edge(3, "user", "son", "Ben"), edge(4, "user", "works_at", "Acme"),
    edge(5, "Max", "works_at", "Tesco"), edge(6, "user", "lives_in", "York"),
]  # fmt: skip


def fact(number: int, slot: str, value: str, begin: int, end: int | None) -> Fact:
    return Fact(
        memory_id=MemoryId(UUID(int=number)), fact_type="profile", slot=slot, value=value,
        statement=f"User lives in {value}.", confidence=1.0, extractor="rules", pattern="",
        valid_from=NOON + timedelta(days=begin),
        valid_until=None if end is None else NOON + timedelta(days=end),
        thread_id=None, source_event_ids=(),
    )  # fmt: skip


@every_case(
    ("我太太叫什么？", ["wife"]), ("我夫人叫什么？", ["wife"]),
    ("What is my spouse's name?", ["wife", "husband", "partner"]),
    ("我丈母娘住哪里？", ["mother_in_law"]), ("我岳母住哪里？", ["mother_in_law"]),
    ("我表妹几岁了？", ["cousin"]), ("我舅妈是谁？", ["aunt"]),
    ("我姐夫叫什么", ["brother_in_law"]), ("Where does my mother-in-law live?", ["mother_in_law"]),
    ("What are my kids called?", ["child"]), ("我的孩子叫什么", ["child"]),
    ("我女儿喜欢什么？", ["daughter"]), ("My mom's birthday?", ["mother"]), ("今天好热", []),
)  # fmt: skip
def test_the_longest_word_for_kin_counts_and_all_words_are_known(question, kin):
    assert sorted(kin) == sorted(phrases.asked_kin(question))


@every_case(
    ("Where does my mother live?", False), ("Do I have a dog?", False),
    ("Can you tell me my wife's name?", False), ("whats my wifes name", False),
    ("wheres my office", True), ("我妈妈住在哪里？", False), ("我有狗吗？", False),
    ("我家孩子多大？", False), ("告诉我我大女儿几岁", False), ("Does my mother like my job?", True),
    ("Where do my wife and I live?", True), ("What did my sister give me?", True),
    ("我和我妈妈住在哪里？", True), ("我住在哪里？", True), ("我给我女儿买了什么？", True),
)  # fmt: skip
def test_whose_somebody_is_does_not_make_a_question_one_about_the_user(question, of_the_user):
    assert of_the_user is phrases.asks_about_user(question)


@every_case(
    ("Where does my mother work?", "Grace is my mother and lives in Leeds.", "", True),
    ("whats my mothers job", "Grace is my mother and lives in Leeds.", "", True),
    ("wheres my mother", "Max works at Tesco.", "", False),
    ("Where does my mother work?", "Grace moved to Hull.", "", True),
    ("Where does my mother work?", "Max is my son and works at Tesco.", "", False),
    ("Where does my mother work?", "Max works at Tesco.", "", False),
    ("Where does my mother work?", "I work at Acme.", "", None),
    ("Where does my mother work?", "We met in York.", "", None),
    ("Where does Max work?", "User's son Ben works at Lidl.", "relation.son.employer", False),
    ("Where does Max work?", "Max works at Tesco.", "", True),
    ("What are my kids called?", "User's son is called Ben.", "relation.son", True),
    ("What are my sons called?", "User's daughter is called Ida.", "relation.daughter", False),
    ("我妈妈住在哪里？", "我哥哥住在成都", "", False),
    ("我妈妈住在哪里？", "Grace住在成都", "", True), ("我妈妈住在哪里？", "我住在北京", "", None),
)  # fmt: skip
def test_a_memory_is_about_whom_is_asked_about_or_about_others(question, text, slot, theirs):
    people = subject.asked_people(question, EDGES)
    assert people is not None
    assert theirs is people.is_about(text, slot)


@every_case(
    "Where do I live?", "What did my mother give me?", "My mother is ill.", "Who wrote Hamlet?",
    "我住在哪里？", "我妈妈病了",
)  # fmt: skip
def test_what_asks_of_nobody_around_the_user_alone_asks_of_no_people(text):
    assert subject.asked_people(text, EDGES) is None


@every_case(
    ("Max is my brother and works at Tesco.", "", True), ("我妈妈住在成都", "", True),
    ("My wife and I live in York.", "", False), ("我和妈妈住在成都", "", False),
    ("I live in York.", "", False), ("User lives in York.", "residence", False),
    ("User's son lives in Hull.", "relation.son.place", True),
)  # fmt: skip
def test_what_tells_of_another_is_told_apart(text, slot, other):
    assert other is subject.is_about_another(text, slot)


@every_case(
    ("Where does my mother live?", [("Dan", "mother", "Grace")]),
    ("Where does my son work?", [("Max", "works at", "Tesco"), ("Dan", "son", "Ben"),
                                 ("Dan", "son", "Max")]),
    ("我妈妈在哪里上班？", [("Dan", "妈妈", "Grace")]),
    ("Where does my sister work?", []), ("我姐姐住在哪里？", []),
    ("Where do I work?", [("Dan", "works at", "Acme")]),
    ("Do my mother and I live in York?", [("Dan", "lives in", "York"),
                                         ("Dan", "mother", "Grace")]),
)  # fmt: skip
def test_relations_are_of_those_who_are_asked_about(question, relations):
    of_kin = {"mother": ["grace"], "妈妈": ["grace"], "son": ["max", "ben"]}
    kin = [name for word, names in of_kin.items() if word in question for name in names]
    assert relations == phrases.relations_for_question(EDGES, question, "Dan", ["user", *kin], 10)


@every_case(
    ("Where did I live before?", {"residence", "place"}),
    ("Where have I lived?", {"residence", "place"}),
    ("Where did I use to work?", {"employer", "job", "work_city"}),
    ("What was my last job?", {"employer", "job"}), ("我以前住在哪里？", {"residence", "place"}),
    ("我住过哪里？", {"residence", "place"}), ("我之前在哪里上班？", {"employer", "work_city"}),
    ("Where do I live?", set()), ("我住在哪里？", set()),
    ("Where did my mother live before?", set()), ("I lived in Leeds before.", set()),
)  # fmt: skip
def test_a_question_asks_for_the_past(question, slots):
    assert slots == past_slots(question)


def test_what_ended_is_told_once_and_what_was_never_true_is_not():
    facts = [
        fact(1, "residence", "York", 20, None), fact(2, "residence", "Leeds", 0, 5),
        fact(3, "residence", "leeds", 8, 10), fact(4, "residence", "Hull", 10, 20),
        fact(5, "residence", "Bath", 7, 7), fact(6, "residence", "York", 5, 7),
        fact(7, "residence", "Derby", 3, 40),
    ]  # fmt: skip
    ended = ended_facts(facts, NOW)
    assert [one.value for one in ended] == ["Hull", "leeds"]
    assert past_text(ended[0]) == "User lives in Hull. (past, until 2026-02-11)"
    assert past_relations(ended[:1], "我以前住在哪里？", "Dan") == [("Dan", "曾住在", "Hull")]
    assert past_relations(ended[:1], "Where did I live?", "Dan") == [("Dan", "lived in", "Hull")]
    assert past_relations(ended, "Where did I live?", "") == []


@every_case(
    ("Where did I live before?", ["Hull", "Leeds"]), ("did I ever play the flute", ["flute"]),
    ("我以前住在哪里？", ["Hull", "Leeds"]), ("我以前吹过笛子吗", ["笛子"]),
    ("Who was my first dentist?", []), ("what was I called as a child", []),
)  # fmt: skip
def test_a_question_about_the_past_asks_for_facts_that_ended(question, values):
    facts = [
        fact(1, "residence", "York", 20, None), fact(2, "residence", "Leeds", 0, 5),
        fact(3, "residence", "Hull", 10, 20),
        replace(fact(4, "relation.dog", "Rex", 0, 9), statement="User's dog is called Rex."),
        fact(8, "residence", "Derby", 1, 1.01),  # a mistake
        replace(fact(5, "instrument", "flute", 0, 8), statement="User plays the flute."),
        replace(fact(6, "instrument", "笛子", 0, 7), statement="用户会吹笛子。"),
        replace(fact(7, "dentist", "Dr. Wu", 0, None), statement="User's dentist is Dr. Wu."),
    ]  # fmt: skip
    assert values == [one.value for one in past_facts(facts, question, NOW)]


def test_no_more_than_three_are_told():
    facts = [fact(at, "residence", f"Town {at}", at, at + 1) for at in range(9)]
    told = past_facts(facts, "Where did I live before?", NOW)
    assert ["Town 8", "Town 7", "Town 6"] == [one.value for one in told]


def test_the_topic_of_a_question_is_what_it_asks_for_besides_whom_and_how():
    assert "appointment" in phrases.topic_of("When is my doctor's appointment?")
    assert "手术" in phrases.topic_of("我妈妈的手术是什么时候？")
    assert not phrases.topic_of("我妈妈在哪里上班？").strip(" ？")


ZHU = [
    edge(1, "user", "is_called", "小朱"), edge(2, "user", "daughter", "灿灿"),
    edge(3, "灿灿", "has_age", "5岁"), edge(4, "灿灿", "likes", "画画"),
    edge(5, "user", "likes", "吃桔子"), edge(6, "user", "favourite_fruit", "桔子"),
    edge(7, "user", "lives_in", "上海"),
]  # fmt: skip


@every_case(
    ("小朱的女儿喜欢什么？", [("小朱", "喜欢", "桔子"), ("灿灿", "喜欢", "画画"),
                    ("小朱", "女儿", "灿灿")]),
    ("灿灿几岁了？", [("灿灿", "年龄", "5岁")]), ("你喜欢吃桔子吗？", [("小朱", "喜欢", "桔子")]),
    ("我住在哪里？", [("小朱", "住在", "上海")]), ("How old is 灿灿?", [("灿灿", "age", "5岁")]),
    ("给我讲个笑话", []),
    ("灿灿", [("灿灿", "喜欢", "画画"), ("灿灿", "年龄", "5岁"), ("小朱", "女儿", "灿灿")]),
)  # fmt: skip
def test_a_question_gets_the_relations_it_asks_for(question, relations):
    kin = ["灿灿"] if phrases.asked_kin(question) else []
    named = [*subject.mentioned(question), *kin]
    assert relations == phrases.relations_for_question(ZHU, question, "小朱", named, 10)


@every_case(
    ("What is my job?", {"employer", "job"}), ("我的工作是什么", {"employer", "job", "work_city"}),
    ("Where do I live?", {"residence", "place"}), ("What is my wife's job?", set()),
    ("I love my job.", set()), ("What is the capital of France?", set()),
)  # fmt: skip
def test_a_question_asks_for_what_the_user_has_one_of(question, slots):
    assert slots == phrases.work_and_home_slots(question)


def test_a_user_without_a_name_has_no_relations_told():
    found = partial(phrases.relations_for_question, ZHU)
    assert [] == found("我喜欢什么？", "", subject.mentioned("我喜欢什么？"), 10)
    assert [("灿灿", "喜欢", "画画")] == found("灿灿喜欢什么？", "", ["灿灿"], 10)


def test_relations_are_told_in_words():
    told = {"likes": "喜欢", "daughter": "女儿", "mother": "妈妈", "sister": "姐妹"}
    assert told == {name: phrases.relation_label(name, "zh") for name in told}
    told = {"favourite_food": "likes", "lives_in": "lives in", "sister_in_law": "sister in law",
            "plays_with": "plays with"}  # fmt: skip
    assert told == {name: phrases.relation_label(name, "en") for name in told}
    assert "plays with" == phrases.relation_label("plays_with", "zh")
