"""How the memories of a profile hang together, and what a conversation is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from every_case import every_case

from shared_core.core.domain import Event, ThreadId
from shared_core.core.ids import uuid7
from shared_core.errors import InvalidInput
from shared_core.profiles.entries import BACK, BY_TOPIC, EventParagraph, Finding, Mind
from shared_core.profiles.memory import Memory
from shared_core.profiles.theory_of_mind import Observed, mind_by_rules
from shared_core.profiles.transcript import conversation_of

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def event(text: str, day: int, *turns: str) -> EventParagraph:
    basis = tuple((ThreadId("t"), turn) for turn in turns)
    return EventParagraph(event_id=uuid7(), text=text, occurred_at=NOW + timedelta(days=day),
                          bases=(basis,) if basis else ())  # fmt: skip


@every_case(("User lives in Leeds.", "User lives in Lisbon."), ("用户住在北京。", "用户住在上海。"))
def test_what_took_the_place_of_a_statement_replaces_it(first: str, second: str) -> None:
    memory = Memory("bot")
    memory.update_profile(first, at=NOW)
    memory.update_profile(second, at=NOW + timedelta(days=1))
    [relation] = memory.relations()
    [old], [new] = memory.profile_memory.history, memory.profile_memory.statements
    assert ("replaces", new.statement_id, old.statement_id) == (
        relation.kind, relation.source_id, relation.target_id,
    )  # fmt: skip
    assert 0 < relation.confidence <= 1


def test_a_retraction_replaces_nothing() -> None:
    memory = Memory("bot")
    memory.update_profile("User works at Acme.", at=NOW)
    memory.update_profile("User no longer works at Acme.", at=NOW + timedelta(days=1))
    assert 1 == len(memory.profile_memory.history)
    assert () == memory.relations()


def test_an_event_goes_on_with_the_nearest_earlier_one_of_its_topics() -> None:
    memory = Memory("bot")
    work, trip, exam, office = (
        event("The boss praised the user.", 0),
        event("用户去了北京旅行。", 1),
        event("用户准备考试。", 2),
        event("用户和同事开会，讨论学习计划。", 3),
    )
    memory.update_events([work, trip, exam, office])
    follows = {one.source_id: one for one in memory.relations() if one.kind == "follows"}
    assert {office.event_id} == {*follows}
    assert exam.event_id == follows[office.event_id].target_id
    assert 0 < follows[office.event_id].confidence < BY_TOPIC


def test_an_event_is_not_compared_with_what_is_long_before_it() -> None:
    memory = Memory("bot")
    between = [event(f"Number {n} rained on the hill {n}.", 2 * n) for n in range(1, BACK + 1)]
    last = event("The office was closed by the boss.", 2 * BACK + 2)
    memory.update_events([event("The boss praised the user.", 0), *between, last])
    assert () == memory.relations()


def test_findings_rest_on_what_was_drawn_from_the_same_turns() -> None:
    memory = Memory("bot")
    told, other = event("It rained.", 0, "1", "2"), event("It snowed.", 2, "3")
    memory.update_events([told, other])
    memory.mind = Mind(
        findings=(
            Finding(
                finding_id=uuid7(), dimension="emotion", label="joy", text="joy", confidence=0.5,
                found_at=NOW, extractor="x", basis=((ThreadId("t"), "2"),),
            ),
        )
    )  # fmt: skip
    [relation] = memory.relations()
    assert ("concluded_from", told.event_id, 0.5) == (
        relation.kind, relation.target_id, relation.confidence,
    )  # fmt: skip
    shown: Any = memory.to_dict()
    assert ["concluded_from"] == [one["kind"] for one in shown["relations"]]
    assert (2, other.occurred_at.isoformat()) == (shown["event_count"], shown["last_event_date"])
    assert memory == Memory.from_dict(shown)


def test_a_conversation_tells_what_it_is_about() -> None:
    given = {
        "conversation_id": "c",
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "user", "content": "我在一家公司上班，老板很严格。", "message_type": "command",
             "metadata": {"mood": 1}},
            {"role": "assistant", "content": "Do you like to travel?"},
        ],
    }  # fmt: skip
    shown: Any = conversation_of(given, NOW).to_dict()
    assert ("我在一家公司上班，老板很严格。", ["work"], 3) == (
        shown["conversation_summary"], shown["topics"], shown["message_count"],
    )  # fmt: skip
    assert shown["started_at"] < shown["ended_at"]
    assert [("text", {}), ("command", {"mood": 1}), ("text", {})] == [
        (one["message_type"], one["metadata"]) for one in shown["messages"]
    ]
    assert shown == conversation_of(shown, NOW + timedelta(days=1)).to_dict()


@every_case(({"metadata": "x"}, "the metadata of message 0 must be a dict"),
     ({"message_type": 7}, "the message_type of message 0 must be a word"),
     ({"message_type": "x" * 51}, "at most 50 characters")
)  # fmt: skip
def test_bad_parts_of_a_message_are_named(message: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        conversation_of([{"role": "user", "content": "Hi there.", **message}], NOW)


def test_a_wish_at_the_end_of_a_long_turn_is_found() -> None:
    long = "The weather was fine. " * 400 + "I want to learn Rust."
    observed = Observed(
        turns=[Event(event_id="1", author="u", role="user", text=long, occurred_at=NOW)],
        bases={}, facts=(), emotions={}, ended=(), at=NOW,
    )  # fmt: skip
    assert ["I want to learn Rust."] == [
        quote for one in mind_by_rules(observed, Mind()) for quote in one.quotes
    ]
