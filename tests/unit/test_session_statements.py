"""What a session tells, as statements that stand alone; and which relations a question asks for."""

from every_case import every_case
from turns import said as turn

from shared_core.conversation import standalone_statements as standalone
from shared_core.extraction import grouping
from shared_core.extraction.rule_reader import ResolvedClause
from shared_core.nlp.kinship import Referent


def told(*texts: str) -> list[str]:
    events = [turn(n, text) for n, text in enumerate(texts)]
    return [one.text for one in standalone.session_statements(events)]


@every_case(
    (["我叫小朱", "我女儿叫灿灿", "她今年几岁了？"], ["小朱有一个女儿叫灿灿"]),
    (["我女儿叫灿灿", "她今年5岁", "她喜欢画画"], ["灿灿是我的女儿，今年5岁，喜欢画画"]),
    (["My name is Ana", "I have an aunt called Eve"], ["Ana has an aunt called Eve."]),
    (["我叫小朱", "我住在上海"], ["我叫小朱", "我住在上海"]),
    (["My name is 王伟. I live in 上海."], ["My name is 王伟.", "I live in 上海."]),
    (["My daughter is called 灿灿. She loves 画画."], ["灿灿 is my daughter and loves 画画."]),
    (["My name is 王伟", "My wife is called 李娜"], ["王伟 has a wife called 李娜."]),
    (["My name is Chen Wei, 我女儿叫小美。", "她5岁"],
     ["My name is Chen Wei.", "小美是我的女儿，5岁"]),
    (["我喜欢Python and I hate Java"], ["我喜欢Python", "I hate Java."]),
    (["我女儿叫Mia and she is 5"], ["Mia is my daughter and is 5."]),
    (["My son is called 小明, 他今年5岁"], ["小明是我的儿子，今年5岁"]),
    (["我女儿叫Mia", "她5岁"], ["Mia是我的女儿，5岁"]),
    (["I met 王伟 in 北京 yesterday"], ["I met 王伟 in 北京 yesterday."]),
    (["我 love 火锅"], ["我love火锅"]),
    (["I have two sons, Ben and Max. Ben is 9 and Max is 6."],
     ["I have two sons, Ben and Max.", "Ben is my son and is 9.", "Max is my son and is 6."]),
    (["I have two sons.", "The older is Ben.", "The younger one is 6 and loves chess."],
     ["I have two sons.", "My older son is Ben.", "My younger son is 6 and loves chess."]),
    (["We have two dogs, one is called Rex and the other is called Bo."],
     ["We have two dogs.", "My dog is called Rex.", "My dog is called Bo."]),
    (["我们有两个孩子，大的叫乐乐，小的叫欢欢", "乐乐5岁"],
     ["我们有两个孩子", "乐乐是我的大孩子，5岁", "我小孩子叫欢欢"]),
    (["我有两个儿子，大的叫小明，今年5岁，小的3岁，喜欢唱歌"],
     ["我有两个儿子", "小明是我的大儿子，今年5岁", "我小儿子3岁，喜欢唱歌"]),
    (["大的苹果好吃"], ["大的苹果好吃"]),
    (["My boss is Maria. She is from Spain."], ["Maria is my boss and is from Spain."]),
    (["我老板是王芳。她来自西班牙。"], ["王芳是我的老板，来自西班牙"]),
    (["我老板是Maria。她来自西班牙。"], ["Maria是我的老板，来自西班牙"]),
    (["My mentor is Maria. She is from Spain."], ["My mentor is Maria.", "Maria is from Spain."]),
    (["Tom and Jerry is my favourite cartoon"], ["Tom and Jerry is my favourite cartoon."]),
    (["我喜欢吃桔子", "桔子是我最喜欢的水果"], ["我喜欢吃桔子", "桔子是我最喜欢的水果"]),
    (["She loves art", "他喜欢踢球", "它三岁了"], []),
    (["很甜", "Do you like tea?", "你好", "ok, thanks!"], []),
    (["帮我写一首诗", "Tell me a joke about my cat", "Please help me", "我想问一下"], []),
    (["I hate flying.", "I hate flying!"], ["I hate flying."]),
    (["我女儿叫灿灿", "她昨天打碎了花瓶"], ["我女儿叫灿灿", "灿灿昨天打碎了花瓶"]),
    # What is said of somebody just introduced is theirs.
    (["I have a daughter called Mia.", "She is 7 and she loves swimming."],
     ["Mia is my daughter, is 7 and loves swimming."]),
    (["I have a daughter, Mia.", "She is 7."], ["Mia is my daughter and is 7."]),
    (["I have a son named Leo.", "He is 4 and likes trains."],
     ["Leo is my son, is 4 and likes trains."]),
    (["My daughter is called Mia.", "She goes to Oak Primary School.",
      "Her teacher is Mr Brown.", "She hates broccoli."],
     ["Mia is my daughter, goes to Oak Primary School and hates broccoli.",
      "Mia's teacher is Mr Brown."]),
    # A clause without a subject has that of the one before, or is left out.
    (["我有一个女儿，叫小雨", "她今年七岁了，喜欢游泳"],
     ["小雨是我的女儿，今年七岁了，喜欢游泳"]),
    (["我女儿叫小雨", "小雨七岁了，喜欢游泳"], ["小雨是我的女儿，七岁了，喜欢游泳"]),
    (["My daughter is called Mia.", "Mia is 7 and loves swimming."],
     ["Mia is my daughter, is 7 and loves swimming."]),
    (["我搬到上海了，换了工作，现在是程序员"], ["我搬到上海了", "我换了工作", "我是程序员"]),
    (["我妻子对花生过敏", "她是护士"], ["我妻子对花生过敏，是护士"]),
    (["我女儿叫小雨", "她和我都喜欢游泳，住在北京"], ["我女儿叫小雨", "小雨和我都喜欢游泳"]),
    (["我女儿叫小雨", "她说我胖，喜欢画画"], ["我女儿叫小雨"]),
    # Whose the pronoun is may be somebody the clause names before it.
    (["我女儿叫灿灿", "我妈妈喜欢她的工作"], ["我女儿叫灿灿"]),
    (["我女儿叫灿灿", "王老师说她的字好看"], ["我女儿叫灿灿"]),
    (["My daughter is called Mia.", "My mother loves her job."],
     ["My daughter is called Mia."]),
    (["My son is called Tom.", "My brother sold his car."], ["My son is called Tom."]),
    (["My daughter is called Mia.", "The nurse loves her job."],
     ["My daughter is called Mia."]),
    # It can be nobody's but theirs: the words stay.
    (["My wife loves her job."], ["My wife loves her job."]),
    (["我妈妈喜欢她的工作"], ["我妈妈喜欢她的工作"]),
    (["My son is called Tom.", "My mother loves her job."],
     ["My son is called Tom.", "My mother loves her job."]),
    (["My son is called Tom.", "Tom broke his arm."],
     ["My son is called Tom.", "Tom broke his arm."]),
    (["My daughter is called Mia.", "My brother likes her drawings."],
     ["My daughter is called Mia.", "My brother likes Mia's drawings."]),
)  # fmt: skip
def test_a_session_becomes_statements(said, statements):
    assert statements == told(*said)


@every_case(
    "我住在哪里", "我住在哪儿呢", "我叫什么", "我在哪上班", "我在哪家公司上班", "我老婆叫啥",
    "我女儿喜欢啥", "我女儿喜欢什么颜色", "我是谁", "我女儿多大了", "我女儿喜欢画画么", "我女儿呢",
    "小雨呢", "中国的首都是哪里", "我最喜欢的水果是什么来着", "我为什么搬家", "我有多少钱",
)  # fmt: skip
def test_a_question_without_a_question_mark_is_no_statement(question):
    assert [] == told(question)


@every_case(
    "我什么都吃", "我谁都不认识", "我多少有点紧张", "我没什么爱好", "我女儿什么都喜欢",
    "我喜欢苹果什么的", "我不喜欢什么人", "我没去过什么地方", "我住在哪吒街", "我还有一只猫呢",
    "我在看书呢", "我女儿喜欢画画呢", "我有几个朋友在北京",
)  # fmt: skip
def test_a_word_that_may_ask_and_does_not_is_a_statement(statement):
    assert [statement] == told(statement)


def test_a_statement_names_its_turns_and_class_and_the_first_of_many_are_kept(monkeypatch):
    events = [
        turn(name, text)
        for name, text in [("a", "我女儿叫灿灿"), ("b", "今天下雨"), ("c", "她喜欢画画")]
    ]
    [daughter] = [one for one in standalone.session_statements(events) if "灿灿" in one.text]
    assert {"a", "c"} == set(daughter.event_ids)
    assert "private" == daughter.privacy
    events = [turn(place, text) for place, text in enumerate(["北京是中国的首都", "桔子熟了"])]
    assert ["public", None] == [one.privacy for one in standalone.session_statements(events)]
    texts = ["".join(f"Ab{turn}x{n} is in Berlin. " for n in range(300)) for turn in range(3)]
    found = told(*texts)
    assert [f"Ab0x{n} is in Berlin" for n in range(300)] == [one.strip(".") for one in found[:300]]
    assert standalone.MAX_STATEMENTS == len(found)
    asked = []

    def counted(clause: ResolvedClause) -> list[tuple[Referent, str]]:
        asked.append(clause)
        return grouping.described_by(clause)

    monkeypatch.setattr("shared_core.conversation.standalone_statements.described_by", counted)
    told("".join(f"Ab{n} is in Berlin. " for n in range(200)))
    assert 0 < len(asked) <= 400


@every_case(
    ("小朱有一个女儿叫灿灿", "灿灿是我的女儿，今年5岁", True),
    ("Ana has a daughter called Mia.", "Mia is my daughter and is 5.", True),
    ("小朱有一个女儿叫灿灿", "小朱有一个女儿叫灿灿", False),
    ("小朱有一个女儿叫灿灿", "灿灿喜欢画画", False),
    ("我喜欢吃桔子", "桔子是我最喜欢的水果", False),
)
def test_who_is_only_named_says_less(text, other, less):
    assert less is standalone.says_less(text, other)
