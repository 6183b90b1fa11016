"""Whom a name means of those whom the user has named: nobody if it may be two."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from every_case import every_case

from shared_core.core.domain import Event, KnownPerson, MemoryId, ThreadId
from shared_core.core.ids import uuid7
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.nlp.kinship import entities_of, title_in

START = datetime(2026, 5, 13, tzinfo=UTC)


def known(name: str, relation: str = "son", *aliases: str, day: int = 0) -> KnownPerson:
    return KnownPerson(
        memory_id=MemoryId(uuid7()),
        relation=relation,
        name=name,
        statement=f"User's {relation} is called {name}.",
        turns=((ThreadId("a"), "e0"),),
        told_at=START + timedelta(days=day),
        aliases=aliases,
    )


def names(*people: KnownPerson) -> dict[str, str]:
    return {name: one.subject for name, one in entities_of(people).items()}


def test_a_name_of_two_is_left_out_whatever_its_case() -> None:
    assert {"Mia": "Mia"} == names(known("Emil"), known("EMIL", "neighbour"), known("Mia"))


def test_an_alias_means_who_it_stands_for_and_gives_way_to_a_name() -> None:
    mia, emil = known("Mia", "daughter", "Mimi", "emil"), known("Emil")
    assert {"Mia": "Mia", "Mimi": "Mia", "Emil": "Emil"} == names(mia, emil)
    assert {"Mia": "Mia", "Eva": "Eva"} == names(
        known("Mia", "daughter", "Mimi"), known("Eva", "sister", "Mimi")
    )


@every_case(
    ("User's older sister is called Runa.", "older sister"),
    ("用户的妹妹叫小芳。", "妹妹"),
    ("Runa, a sister.", ""),
)
def test_the_words_of_the_relation_are_those_of_the_statement(statement: str, title: str) -> None:
    assert title == title_in(statement)


def test_each_turn_knows_who_had_been_named_by_then() -> None:
    emil, mia = known("Emil", day=2), known("Mia", "daughter", day=4)
    turns = [
        Event(event_id=str(day), author="u", role="user", text=text,
              occurred_at=START + timedelta(days=day))
        for day, text in ((1, "Emil is six."), (3, "Emil is eight. Mia is two."),
                          (5, "Mia is three."), (1.5, "Emil is seven."))
    ]  # fmt: skip
    read = RuleExtractor().knowing([mia, emil]).read(turns)
    assert [("Emil", "eight", (emil.memory_id,)), ("Mia", "three", (mia.memory_id,))] == [
        (fact.subject, fact.value, fact.people) for fact in read.facts
    ]
    assert [] == RuleExtractor().read(turns).facts
