"""Whom a question asks about, what is told of somebody else, and what asks for the past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from every_case import every_case

from shared_core.conversation.answers import ended_facts, past_relations, past_slots, past_text
from shared_core.core.domain import MemoryId
from shared_core.nlp.question_subject import asked_people, is_about_another
from shared_core.nlp.relation_phrases import (
    asked_kin,
    asks_about_user,
    relations_for_question,
    topic_of,
)
from shared_core.ports.graph import Edge
from shared_core.ports.runs import Fact

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
    edge(1, "user", "mother", "Grace"),
    edge(2, "user", "son", "Max"),
    edge(3, "user", "son", "Ben"),
    edge(4, "user", "works_at", "Acme"),
    edge(5, "Max", "works_at", "Tesco"),
    edge(6, "user", "lives_in", "York"),
]


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
    ("我姐夫叫什么", ["brother_in_law"]),
    ("Where does my mother-in-law live?", ["mother_in_law"]),
    ("What are my kids called?", ["child"]), ("我的孩子叫什么", ["child"]),
)  # fmt: skip
def test_the_longest_word_for_kin_counts_and_all_words_are_known(
    question: str, kin: list[str]
) -> None:
    assert sorted(kin) == sorted(asked_kin(question))


@every_case(
    ("Where does my mother live?", False), ("Do I have a dog?", False),
    ("Can you tell me my wife's name?", False), ("whats my wifes name", False),
    ("wheres my office", True), ("我妈妈住在哪里？", False),
    ("我有狗吗？", False), ("我家孩子多大？", False), ("告诉我我大女儿几岁", False),
    ("Does my mother like my job?", True), ("Where do my wife and I live?", True),
    ("What did my sister give me?", True), ("我和我妈妈住在哪里？", True),
    ("我住在哪里？", True), ("我给我女儿买了什么？", True),
)  # fmt: skip
def test_whose_somebody_is_does_not_make_a_question_one_about_the_user(
    question: str, of_the_user: bool
) -> None:
    assert of_the_user is asks_about_user(question)


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
    ("我妈妈住在哪里？", "Grace住在成都", "", True),
    ("我妈妈住在哪里？", "我住在北京", "", None),
)
def test_a_memory_is_about_whom_is_asked_about_or_about_others(
    question: str, text: str, slot: str, theirs: bool | None
) -> None:
    people = asked_people(question, EDGES)
    assert people is not None
    assert theirs is people.is_about(text, slot)


@every_case(
    "Where do I live?", "What did my mother give me?", "My mother is ill.", "Who wrote Hamlet?",
    "我住在哪里？", "我妈妈病了",
)  # fmt: skip
def test_what_asks_of_nobody_around_the_user_alone_asks_of_no_people(text: str) -> None:
    assert asked_people(text, EDGES) is None


@every_case(
    ("Max is my brother and works at Tesco.", "", True), ("我妈妈住在成都", "", True),
    ("My wife and I live in York.", "", False), ("我和妈妈住在成都", "", False),
    ("I live in York.", "", False), ("User lives in York.", "residence", False),
    ("User's son lives in Hull.", "relation.son.place", True),
)  # fmt: skip
def test_what_tells_of_another_is_told_apart(text: str, slot: str, other: bool) -> None:
    assert other is is_about_another(text, slot)


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
def test_relations_are_of_those_who_are_asked_about(
    question: str, relations: list[tuple[str, str, str]]
) -> None:
    of_kin = {"mother": ["grace"], "妈妈": ["grace"], "son": ["max", "ben"]}
    kin = [name for word, names in of_kin.items() if word in question for name in names]
    assert relations == relations_for_question(EDGES, question, "Dan", ["user", *kin], 10)


@every_case(
    ("Where did I live before?", {"residence", "place"}),
    ("Where have I lived?", {"residence", "place"}),
    ("Where did I use to work?", {"employer", "job", "work_city"}),
    ("What was my last job?", {"employer", "job"}),
    ("我以前住在哪里？", {"residence", "place"}), ("我住过哪里？", {"residence", "place"}),
    ("我之前在哪里上班？", {"employer", "work_city"}),
    ("Where do I live?", set()), ("我住在哪里？", set()),
    ("Where did my mother live before?", set()), ("I lived in Leeds before.", set()),
)  # fmt: skip
def test_a_question_asks_for_the_past(question: str, slots: set[str]) -> None:
    assert slots == past_slots(question)


def test_what_ended_is_told_once_and_what_was_never_true_is_not() -> None:
    facts = [
        fact(1, "residence", "York", 20, None),
        fact(2, "residence", "Leeds", 0, 5),
        fact(3, "residence", "leeds", 8, 10),
        fact(4, "residence", "Hull", 10, 20),
        fact(5, "residence", "Bath", 7, 7),
        fact(6, "residence", "York", 5, 7),
        fact(7, "residence", "Derby", 3, 40),
    ]
    ended = ended_facts(facts, NOW)
    assert [one.value for one in ended] == ["Hull", "leeds"]
    assert past_text(ended[0]) == "User lives in Hull. (past, until 2026-02-11)"
    assert past_relations(ended[:1], "我以前住在哪里？", "Dan") == [("Dan", "曾住在", "Hull")]
    assert past_relations(ended[:1], "Where did I live?", "Dan") == [("Dan", "lived in", "Hull")]
    assert past_relations(ended, "Where did I live?", "") == []


def test_the_topic_of_a_question_is_what_it_asks_for_besides_whom_and_how() -> None:
    assert "appointment" in topic_of("When is my doctor's appointment?")
    assert "手术" in topic_of("我妈妈的手术是什么时候？")
    assert not topic_of("我妈妈在哪里上班？").strip(" ？")
