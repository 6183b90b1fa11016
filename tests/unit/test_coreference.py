"""Whom and what a pronoun or a name means, and of whom a turn is stored: of nobody in doubt."""

import tomllib
from datetime import timedelta
from pathlib import Path
from typing import TypedDict, cast

from every_case import every_case
from turns import START, said as turn

from shared_core.conversation.standalone_statements import session_statements
from shared_core.core.domain import Event, FactDraft, KnownPerson, MemoryId, Role, ThreadId
from shared_core.core.ids import uuid7
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.extraction.rule_reader import read_turn
from shared_core.nlp.coreference import MAX_PRONOUNS, resolve_query
from shared_core.nlp.discourse import DiscourseState
from shared_core.nlp.kinship import entities_of, title_in


def said(*texts: str, role: Role = "user") -> list[Event]:
    return [turn(n, text, author=role, role=role) for n, text in enumerate(texts)]


MIA = ["My daughter is called Mia"]
RESOLVED = [
    # before, query, resolved
    (["我儿子叫小明"], "他国庆去哪里？", "小明国庆去哪里？"),
    (["我儿子叫小明"], "他妈妈是谁？", "小明妈妈是谁？"),
    (MIA, "Tell me about her", "Tell me about Mia"),
    (MIA, "What's her name?", "What's Mia's name?"),
    (MIA, "And is she happy?", "And is Mia happy?"),
    (["我叫小朱", "我女儿叫灿灿"], "她今年几岁了？", "灿灿今年几岁了？"),
    (["我喜欢吃桔子"], "你喜欢吃这个吗？", "你喜欢吃桔子吗？"),
    (["桔子熟了", "很甜"], "你喜欢吃这个吗？", "你喜欢吃桔子吗？"),
    (["我在看《三体》"], "你看过它吗？", "你看过《三体》吗？"),
    (["我儿子叫东东", "我女儿叫灿灿"], "他几岁？", "东东几岁？"),
    (["我家狗叫豆豆"], "它几岁？", "豆豆几岁？"), (["我妈身体不好"], "她怎么样？", "我妈怎么样？"),
    (["张伟是我表哥"], "他在哪里上班？", "张伟在哪里上班？"),
    (["老王昨天来了"], "他带了什么？", "老王带了什么？"),
    (["My daughter is called Cancan"], "How old is she?", "How old is Cancan?"),
    (MIA, "When is her birthday?", "When is Mia's birthday?"),
    (MIA, "What can I give her for Easter?", "What can I give Mia for Easter?"),
    (["My mom is 70."], "Where does she live?", "Where does my mom live?"),
    (["My boss is strict."], "She hates delays?", "My boss hates delays?"),
    (["I love mangoes"], "Do you like them?", "Do you like mangoes?"),
    (["I bought a Tesla"], "Do you like it?", "Do you like the Tesla?"),
    (["My son Leo met Mary. Leo likes chess. Leo won."], "Is he good?", "Is Leo good?"),
    (["I have a daughter called Mia."], "How old is she?", "How old is Mia?"),
    (["My daughter is called Mia.", "Her teacher is Mr Brown."], "Is she tall?", "Is Mia tall?"),
    (["My daughter is called Mia.", "Her brother is tall."], "Is she tall?", "Is Mia tall?"),
]  # fmt: skip
OPEN = [
    *[(MIA, query) for query in (
        "What did my mother cook on her birthday?", "Does Anna love her job?",
        "Anna said she is ill", 'Who wrote "She loves you"?', "How old are they?",
        "What is the weather like?")],
    (["我女儿叫灿灿"], "我妈妈喜欢她的工作吗？"), (["我女儿叫灿灿"], "王老师说她怎么样？"),
    (["我儿子叫小明"], "维他命有用吗？"), (["我儿子叫小明"], "利他主义是什么？"),
    (["我儿子叫小明"], "马耳他在哪里？"), (["我儿子叫小明"], "他乡是什么意思？"),
    ([], "她今年几岁了？"), (["我女儿叫灿灿", "我老师叫李红"], "她很严格吗？"),
    (["我老婆叫李娜", "她妈妈住在上海"], "她喜欢跳舞吗？"),
    (["我女儿叫灿灿", "灿灿的老师姓陈"], "她严格吗？"), (["小明和小红吵架了"], "她哭了吗？"),
    (["我喜欢吃桔子", "我喜欢喝茶"], "你喜欢这个吗？"),
    (["I have two daughters, Ann and Mia."], "How old is she?"),
    (["Priya emailed Dana."], "Does she want the report?"),
    (["My sister came with her friend."], "Was she late?"),
    (["My son is called Leo."], "How old is she?"),
    *[(["My daughter is called Mia.", teacher], "Is she tall?") for teacher in (
        "Her teacher is Ms Lee.", "Her teacher is nice.")],
    (["My daughter is called Mia.", "Her teacher is Mr Brown."], "Is he tall?"),
    (["I have a daughter called Mia.", "She is 7 and she loves swimming.",
      "My wife Joanna is allergic to peanuts."], "How old is she?"),
    # Whom the first means was said before these turns.
    (["She is 7 and she loves swimming.", "My wife Joanna is tall."], "How old is she?"),
    (["她今年七岁了", "我妻子对花生过敏"], "她几岁？"),
]  # fmt: skip


@every_case(*RESOLVED)
def test_a_pronoun_becomes_the_one_it_can_mean(before, query, resolved):
    assert resolved == resolve_query(query, said(*before))


@every_case(*OPEN)
def test_a_pronoun_that_may_mean_two_or_nobody_stays(before, query):
    assert query == resolve_query(query, said(*before))


def test_nobody_is_meant_who_was_named_long_ago():
    before = said("My daughter is called Mia", *["The printer hums."] * 15)
    assert "How old is she?" == resolve_query("How old is she?", before)


def test_what_the_agent_calls_its_own_is_nobody_of_the_user():
    before = said("My daughter is called Mia", role="agent")
    assert "How old is she?" == resolve_query("How old is she?", before)


def test_a_name_the_agent_repeats_is_the_one_spoken_of():
    before = [
        *said("I have two daughters, Ann and Mia."),
        *said("How is Mia?", "Mia sounds lovely.", role="agent"),
    ]
    assert "How old is Mia?" == resolve_query("How old is she?", before)


def test_a_text_with_too_many_pronouns_is_left_as_it_is():
    before = said("My son is called Ben")
    most = "Is he well? " * MAX_PRONOUNS
    assert resolve_query(most, before).startswith("Is Ben well?")
    assert most + "Is he?" == resolve_query(most + "Is he?", before)


@every_case("", "她" * 5_000, "\ud800", "she " * 3_000)
def test_odd_queries_come_back_as_they_are(text):
    assert text == resolve_query(text, said("我家有只猫"))


class Session(TypedDict):
    """turns: what the user says. said: what the last turn tells; whom: of whom, "" for nobody."""

    turns: list[str]
    said: str
    whom: str


def sessions() -> list[Session]:
    text = Path(__file__).with_name("pronoun_sessions.toml").read_text(encoding="utf-8")
    return cast("list[Session]", [one for found in tomllib.loads(text).values() for one in found])


SESSIONS = sessions()


def stored(session: Session) -> list[str]:
    """Return the statements that tell what the last turn does."""
    told = session_statements(said(*session["turns"]))
    return [one.text for one in told if session["said"] in one.text]


def last_facts(session: Session) -> list[FactDraft]:
    discourse = DiscourseState()
    return [read_turn(event, discourse).facts for event in said(*session["turns"])][-1]


@every_case(*[one for one in SESSIONS if one["whom"]])
def test_a_pronoun_that_can_mean_one_is_stored_of_them(session):
    [statement] = stored(session)
    assert session["whom"] in statement


@every_case(*[one for one in SESSIONS if not one["whom"]])
def test_a_pronoun_that_may_mean_somebody_else_is_stored_of_nobody(session):
    assert [] == stored(session)
    assert [] == last_facts(session)


def test_the_sessions_are_of_both_kinds_and_languages():
    chinese = [one for one in SESSIONS if not one["turns"][0].isascii()]
    assert 50 <= len(chinese) <= len(SESSIONS) - 50
    for some in (chinese, [one for one in SESSIONS if one not in chinese]):
        resolved = sum(bool(one["whom"]) for one in some)
        assert 0.4 <= resolved / len(some) <= 0.6


@every_case(
    "My ex-husband lives in Bonn.", "My ex-wife is called Kate.", "I have an ex wife called Kate.",
    "My former husband lives in Bonn.", "My step-mother lives in Bonn.", "Kate is my ex-wife.",
    "我前妻住在天津", "我前夫叫大伟",
)  # fmt: skip
def test_whom_one_was_married_to_is_not_the_husband_or_wife(said):
    assert [] == last_facts({"turns": [said], "said": said, "whom": ""})


def known(name: str, relation: str = "son", *aliases: str, day: int = 0) -> KnownPerson:
    return KnownPerson(
        memory_id=MemoryId(uuid7()), relation=relation, name=name,
        statement=f"User's {relation} is called {name}.", turns=((ThreadId("a"), "e0"),),
        told_at=START + timedelta(days=day), aliases=aliases,
    )  # fmt: skip


def names(*people: KnownPerson) -> dict[str, str]:
    return {name: one.subject for name, one in entities_of(people).items()}


def test_a_name_of_two_is_left_out_whatever_its_case():
    assert {"Mia": "Mia"} == names(known("Emil"), known("EMIL", "neighbour"), known("Mia"))


def test_an_alias_means_who_it_stands_for_and_gives_way_to_a_name():
    mia, emil = known("Mia", "daughter", "Mimi", "emil"), known("Emil")
    assert {"Mia": "Mia", "Mimi": "Mia", "Emil": "Emil"} == names(mia, emil)
    assert {"Mia": "Mia", "Eva": "Eva"} == names(
        known("Mia", "daughter", "Mimi"), known("Eva", "sister", "Mimi")
    )


@every_case(
    ("User's older sister is called Runa.", "older sister"), ("用户的妹妹叫小芳。", "妹妹"),
    ("Runa, a sister.", ""),
)  # fmt: skip
def test_the_words_of_the_relation_are_those_of_the_statement(statement, title):
    assert title == title_in(statement)


def test_each_turn_knows_who_had_been_named_by_then():
    emil, mia = known("Emil", day=2), known("Mia", "daughter", day=4)
    turns = [
        turn(str(day), text, START + timedelta(days=day))
        for day, text in ((1, "Emil is six."), (3, "Emil is eight. Mia is two."),
                          (5, "Mia is three."), (1.5, "Emil is seven."))
    ]  # fmt: skip
    read = RuleExtractor().knowing([mia, emil]).read(turns)
    assert [("Emil", "eight", (emil.memory_id,)), ("Mia", "three", (mia.memory_id,))] == [
        (fact.subject, fact.value, fact.people) for fact in read.facts
    ]
    assert [] == RuleExtractor().read(turns).facts
