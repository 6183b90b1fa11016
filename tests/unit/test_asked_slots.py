"""Which facts a question asks for."""

from __future__ import annotations

from every_case import every_case

from shared_core.nlp.asked_slots import asked_slots

KNOWN = (
    "employer", "job", "work_city", "residence", "name", "age", "birthday", "allergy", "like",
    "activity", "instrument", "medication", "car", "rent", "rule", "salary", "email", "weight",
    "height", "size", "origin", "health", "pet_kind", "zodiac", "marital_status", "passport_expiry",
    "favourite.band", "favourite.colour", "favourite.food", "relation.sister",
    "relation.sister.age", "relation.wife.birthday", "relation.mother.place",
    "relation.daughter.age", "relation.son.school", "relation.dog", "about.mia.age", "shoe_size",
)  # fmt: skip
WORKPLACE = {"employer", "work_city"}


@every_case(
    ("Where do I work now?", WORKPLACE),
    ("where do i work", WORKPLACE),
    ("Do you remember where I work?", WORKPLACE),
    ("who am i working for these days", {"employer"}),
    ("Who employs me?", {"employer"}),
    ("What is my job?", {"employer", "job"}),
    ("what do I do for a living", {"job"}),
    ("Tell me what I do for a living", {"job"}),
    ("Which city is my home these days?", {"residence"}),
    ("Remind me where I live", {"residence"}),
    ("where does the user live", {"residence"}),
    ("Where is my house now?", {"residence"}),
    ("what's the user's birthday", {"birthday"}),
    ("What’s my name?", {"name"}),
    ("can you tell me how old I am?", {"age"}),
    ("When was I born?", {"birthday"}),
    ("where was i born", {"origin"}),
    ("What food could make me ill?", {"allergy"}),
    ("Which food must I avoid?", {"allergy"}),
    ("what am I allergic to", {"allergy"}),
    ("which instrument do I play", {"instrument"}),
    ("What is my blood pressure medicine now", {"medication"}),
    ("What do I take for my blood glucose these days?", {"medication"}),
    ("What is my favourite band?", {"favourite.band"}),
    ("What's my favorite color", {"favourite.colour"}),
    ("how long should your replies be for me", {"rule"}),
    ("What is my sister called?", {"relation.sister"}),
    ("what's my sister's name", {"relation.sister"}),
    ("How old is my little girl?", {"relation.daughter.age"}),
    ("how old are my kids", {"relation.daughter.age"}),
    ("When is my wife's birthday?", {"relation.wife.birthday"}),
    ("Where does my mother live?", {"relation.mother.place"}),
    ("Name of our dog?", {"relation.dog"}),
    ("Where do my kids go to school?", {"relation.son.school"}),
    ("whats my name?", {"name"}),
    ("WHEN is my bday", {"birthday"}),
    ("whats my sisters name", {"relation.sister"}),
    ("whens my wifes bday", {"relation.wife.birthday"}),
    ("wheres my office", {"employer"}),
    ("whos my sister", {"relation.sister"}),
    ("who is our dog?", {"relation.dog"}),
    ("whats my moms address", {"relation.mother.place"}),
    ("我现在在哪家公司工作？", {"employer"}),
    ("我在哪里上班？", WORKPLACE),
    ("我如今家在什么地方？", {"residence"}),
    ("現在我住哪裡", {"residence"}),
    ("用户住在哪里", {"residence"}),
    ("我业余在练什么乐器？", {"activity", "instrument"}),
    ("哪种水果我碰不得？", {"allergy"}),
    ("我的职业是什么？", {"job"}),
    ("我叫什么名字", {"name"}),
    ("你知道我的名字吗", {"name"}),
    ("我姐姐多大", {"relation.sister.age"}),
    ("我老婆的生日是哪天", {"relation.wife.birthday"}),
    ("我儿子读哪所学校", {"relation.son.school"}),
    ("我家狗叫什么？", {"relation.dog"}),
    ("我而家揸咩車？", {"car"}),
    ("我最喜欢的乐队是什么", {"favourite.band"}),
)
def test_a_question_asks_for_facts(question: str, slots: set[str]) -> None:
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
    "我下个月要搬到哪里",
    "What did I get for my birthday?", "How much did I make on the flat?",
    # About a part of it, or in the same words about something else.
    "Where is my house key?", "What is my work email password?",
    "What is my job interview time?",
    "What is my role in the Apollo project?", "What is my car insurance number?",
    "What is my name day?", "What do I take for granted?", "What things kill my roses?",
    "What drugs are illegal where I live?", "What animal did I see at the zoo?",
    "When did I apply for my passport?", "Am I married to my job?",
    "Where do I work out at weekends?",
    "what did i end up in instead of playing on the wing", "我的房子多大？", "我多大概率能考上",
    "我多高兴", "我多重要", "我在哪一行写错了", "我养什么花好", "我有动物园的票吗",
    "我怎么回答面试官",
    "我该怎么称呼她", "车什么时候到，我在等",
)  # fmt: skip
def test_other_texts_ask_for_no_fact(text: str) -> None:
    assert set() == asked_slots(text, KNOWN)


def test_slots_that_are_unknown_here_are_not_asked_for() -> None:
    assert set() == asked_slots("Where do I live?", ["employer", "", "relation", "favourite"])
