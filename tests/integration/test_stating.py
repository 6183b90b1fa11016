"""Facts that a caller states as key and value, and edges that a caller adds to the user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared_core import AsOf, Conflict, Event, InvalidInput, MemoryEngine, Scope, open_memory
from shared_core.core.domain import Extraction, TripleDraft
from shared_core.extraction.rule_based import RuleExtractor

pytestmark = pytest.mark.both_engines

ANN = Scope("app", "ann")
DAY = timedelta(days=1)
START = datetime(2024, 1, 1, tzinfo=UTC)


class Clock:
    """The time of a test, in days since its start."""

    def __init__(self) -> None:
        self.day = 0.0

    def __call__(self) -> datetime:
        return at(self.day)


def at(day: float) -> datetime:
    return START + day * DAY


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def memory(dsn: str, clock: Clock) -> AsyncIterator[MemoryEngine]:
    async with open_memory(dsn, clock=clock, worker=False) as engine:
        yield engine


async def say(memory: MemoryEngine, clock: Clock, day: float, text: str) -> None:
    clock.day = max(day, clock.day)
    event = Event(event_id=f"e{day}", author="u", role="user", text=text, occurred_at=at(day))
    await memory.append_events(ANN, "t", [event])
    await memory.consolidate(ANN, "t")


async def seen(memory: MemoryEngine, slot: str, relation: str, **when: Any) -> list[list[str]]:
    """What holds of a slot: as facts, as facts as of a moment, as edges and in recall."""
    as_of = AsOf(**when)
    now = [] if when else [await memory.facts(ANN, slot)]
    facts = [*now, await memory.facts(ANN, slot, as_of=as_of)]
    near = await memory.graph.neighbourhood(ANN, "user", depth=1, as_of=as_of if when else None)
    hits = await memory.list_memories(ANN, kinds=["semantic"], as_of=as_of if when else None)
    values = sorted({fact.value for fact in await memory.facts(ANN, slot, history=True)})
    return [
        *[sorted(fact.value for fact in found) for found in facts],
        sorted(edge.object for edge in near.edges if edge.relation == relation),
        [one for one in values if any(one in hit.text for hit in hits)],
    ]


@pytest.mark.parametrize(
    ("said", "old", "slot", "value", "statement"),
    [
        ("I work at Google.", "Google", "company", "Zenith", "User works at Zenith."),
        ("我在谷歌工作。", "谷歌", "公司", "Zenith", "用户在Zenith工作。"),
        ("I work at Google.", "Google", "employer", "华为", "用户在华为工作。"),
    ],
)
async def test_a_stated_fact_takes_the_place_of_another(
    memory: MemoryEngine, clock: Clock, said: str, old: str, slot: str, value: str, statement: str
) -> None:
    await say(memory, clock, 1, said)
    clock.day = 9
    fact = await memory.state_fact(ANN, slot, value, valid_from=at(5))
    assert ("employer", value, statement, at(5), None) == (
        fact.slot, fact.value, fact.statement, fact.valid_from, fact.valid_until)  # fmt: skip
    assert [fact] == await memory.facts(ANN, "employer")
    assert [[value]] * 4 == await seen(memory, "employer", "works_at")
    assert [[old]] * 3 == await seen(memory, "employer", "works_at", valid=at(4))
    assert statement == (await memory.recall(ANN, value, kinds=["semantic"]))[0].memory.text
    assert fact == await memory.state_fact(ANN, "employer", f" {value.lower()} ")
    [run, *_] = await memory.runs(ANN)
    assert ("statement", "caller") == (run.kind, run.extractor)
    assert {"facts": 1, "closed": 1, "edges": 1} == dict(run.counts)
    await memory.undo_run(ANN, run.run_id)
    assert [[old]] * 4 == await seen(memory, "employer", "works_at")


async def test_what_a_user_says_meets_what_was_stated(memory: MemoryEngine, clock: Clock) -> None:
    clock.day = 9
    await memory.state_fact(ANN, "employer", "Zenith", valid_from=at(2))
    await say(memory, clock, 5, "I work at Google.")  # said before it was stated
    assert [["Zenith"]] * 4 == await seen(memory, "employer", "works_at")
    await say(memory, clock, 12, "I work at Meta.")
    assert [["Meta"]] * 4 == await seen(memory, "employer", "works_at")
    old = await memory.state_fact(ANN, "employer", "Acme", valid_from=at(1))
    assert (at(1), at(2)) == (old.valid_from, old.valid_until)
    assert [["Meta"]] * 4 == await seen(memory, "employer", "works_at")
    assert [["Acme"]] * 3 == await seen(memory, "employer", "works_at", valid=at(1.5))


async def test_a_slot_holds_one_value_or_several(memory: MemoryEngine, clock: Clock) -> None:
    async def values(slot: str) -> list[str]:
        return sorted(one.value for one in await memory.facts(ANN, slot))

    for clock.day, (slot, value) in enumerate(
        [("like", "jazz"), ("likes", "tea"), ("dislike", "jazz"), ("theme", "dark"),
         ("theme", "light"), ("戒指尺寸", "42")]
    ):  # fmt: skip
        await memory.state_fact(ANN, slot, value)
    assert (["tea"], ["jazz"], ["light"]) == (
        await values("like"), await values("dislike"), await values("theme"))  # fmt: skip
    [size] = await memory.facts(ANN, "戒指尺寸")
    assert ("custom", "用户的戒指尺寸是42。") == (size.fact_type, size.statement)


@pytest.mark.parametrize(
    ("said", "subject", "slot", "value", "expected"),
    [
        ("My daughter Mia is funny.", "Mia", "age", "5",
         ("relation.daughter.age", "Mia is 5 years old.")),
        ("I like tea.", "sister", "residence", "Leeds",
         ("relation.sister.place", "User's sister lives in Leeds.")),
        ("我喜欢茶。", "女儿", "age", "五", ("relation.daughter.age", "用户的女儿五岁。")),
        ("I like tea.", "USER", "favourite colour", "blue",
         ("favourite.colour", "User's favourite colour is blue.")),
    ],
)  # fmt: skip
async def test_a_fact_of_somebody_else_is_stated(
    memory: MemoryEngine,
    clock: Clock,
    said: str,
    subject: str,
    slot: str,
    value: str,
    expected: tuple[str, str],
) -> None:
    await say(memory, clock, 1, said)
    fact = await memory.state_fact(ANN, slot, value, subject=subject)
    assert expected == (fact.slot, fact.statement)


async def test_what_cannot_be_stated_is_refused(memory: MemoryEngine, clock: Clock) -> None:
    refused: list[tuple[Any, Any, dict[str, Any], str]] = [
        ("employr", "x", {}, "did you mean 'employer'"),
        ("emplyoer", "x", {}, "did you mean 'employer'"),
        ("compny", "x", {}, r"did you mean 'company' \(employer\)\? .*'my.compny'"),
        ("password", "x", {}, "secret"),
        ("...", "x", {}, "must be a name of letters"),
        (3, "x", {}, "slot must be a string"),
        ("age", 30, {}, "value must be a text, e.g. '30', got 30"),
        ("employer", " ", {}, "value"),
        ("employer", "...", {}, "value must be a text of"),
        ("employer", "x", {"subject": "!"}, "subject must be a name"),
        ("employer", "x", {"valid_from": "2024"}, "valid_from must be a datetime"),
        ("employer", "x", {"valid_from": datetime(2024, 1, 1)}, "valid_from has no time zone"),  # noqa: DTZ001
    ]
    for slot, value, more, why in refused:
        with pytest.raises(InvalidInput, match=why):
            await memory.state_fact(ANN, slot, value, **more)
    assert [] == await memory.facts(ANN, history=True)
    own = await memory.state_fact(ANN, "my.compny", "x")
    assert [own] == await memory.facts(ANN, "my.compny")
    for name in ("game", "shoe_size"):
        assert [] == await memory.facts(ANN, name)
    with pytest.raises(InvalidInput, match="did you mean 'employer'"):
        await memory.facts(ANN, "employr")


async def test_an_edge_of_the_user_is_a_fact_as_well(memory: MemoryEngine, clock: Clock) -> None:
    await say(memory, clock, 1, "I live in Leeds.")
    clock.day = 9
    await memory.graph.merge_aliases(ANN, "user", ["Ann"])
    change = await memory.graph.add(ANN, "Ann", "resides in", "Porto", valid_from=at(5))
    assert [["Porto"]] * 4 == await seen(memory, "residence", "lives_in")
    assert [["Leeds"]] * 3 == await seen(memory, "residence", "lives_in", valid=at(4))
    [fact] = await memory.facts(ANN, "residence")
    assert ("User lives in Porto.", at(5)) == (fact.statement, fact.valid_from)
    [edge] = [one for one in await memory.graph.history(ANN, "user") if one.current]
    assert fact.memory_id == edge.fact_id
    await memory.retract(ANN, fact)
    assert [[]] * 4 == await seen(memory, "residence", "lives_in")
    await memory.restore(ANN, fact.memory_id)
    assert [["Porto"]] * 4 == await seen(memory, "residence", "lives_in")
    restored, retracted, added, *_ = await memory.runs(ANN)
    assert change.run_id == added.run_id
    for run in (restored, retracted, added):
        await memory.undo_run(ANN, run.run_id)
    assert [["Leeds"]] * 4 == await seen(memory, "residence", "lives_in")
    await memory.graph.add(ANN, "Mia", "lives_in", "Oslo")
    await memory.graph.add(ANN, "user", "works_at", "Meta", functional=False)
    assert ["Leeds"] == [one.value for one in await memory.facts(ANN)]


async def test_an_end_to_come_ends_nothing_before(memory: MemoryEngine, clock: Clock) -> None:
    await say(memory, clock, 1, "I work at Google.")
    await memory.graph.retract(ANN, "user", "works_at", valid_until=at(30))
    planned = [fact.valid_until for fact in await memory.facts(ANN)]
    assert [at(30)] == planned
    for clock.day, expected in ((1.0, ["Google"]), (29.0, ["Google"]), (30.0, [])):
        assert [expected] * 4 == await seen(memory, "employer", "works_at"), clock.day
        found = await memory.recall(ANN, "Google", kinds=["semantic"])
        assert len(expected) == len(found), clock.day
        assert expected == [one.value for one in await memory.facts(ANN, as_of=AsOf(known=at(20)))]


@pytest.mark.parametrize("how", ["state", "say", "add", "retract", "graph", "end"])
async def test_an_end_to_come_is_moved(memory: MemoryEngine, clock: Clock, how: str) -> None:
    await say(memory, clock, 1, "I work at Google.")
    await memory.graph.retract(ANN, "user", "works_at", valid_until=at(30))
    clock.day = 9
    if how == "state":
        await memory.state_fact(ANN, "employer", "Meta")
    elif how == "say":
        await say(memory, clock, 9, "I work at Meta.")
    elif how == "add":
        await memory.graph.add(ANN, "user", "works_at", "Meta")
    elif how == "retract":
        await memory.retract(ANN, (await memory.facts(ANN))[0])
    elif how == "graph":
        await memory.graph.retract(ANN, "user", "works_at")
    else:
        await say(memory, clock, 9, "I no longer work at Google.")
    expected = ["Meta"] if how in ("state", "say", "add") else []
    assert [expected] * 4 == await seen(memory, "employer", "works_at")
    [old] = [one for one in await memory.facts(ANN, history=True) if one.value == "Google"]
    assert at(9) == old.valid_until
    [run, *_] = await memory.runs(ANN)
    await memory.undo_run(ANN, run.run_id)
    assert [["Google"]] * 4 == await seen(memory, "employer", "works_at")
    [back] = await memory.facts(ANN)
    assert at(30) == back.valid_until
    restored = await memory.restore(ANN, back)
    assert restored.valid_until is None
    assert [["Google"]] * 4 == await seen(memory, "employer", "works_at")


async def test_a_fact_that_begins_later_ends_another_then(
    memory: MemoryEngine, clock: Clock
) -> None:
    await memory.state_fact(ANN, "employer", "Meta", valid_from=at(30))
    held = await memory.state_fact(ANN, "employer", "Google")
    assert at(30) == held.valid_until
    for clock.day, expected in ((0.0, "Google"), (29.0, "Google"), (30.0, "Meta")):
        assert [[expected]] * 4 == await seen(memory, "employer", "works_at"), clock.day


async def test_a_fact_is_not_restored_beside_an_edge(dsn: str, clock: Clock) -> None:
    class WithoutFacts(RuleExtractor):
        async def extract(self, events: Any, context: Any) -> Extraction:
            if "Meta" not in events[0].text:
                return await super().extract(events, context)
            edge = TripleDraft(subject="user", relation="works_at", object="Meta",
                               event_id=events[0].event_id)  # fmt: skip
            return Extraction(triples=[edge])

    async with open_memory(dsn, clock=clock, worker=False, extractor=WithoutFacts()) as memory:
        await say(memory, clock, 1, "I work at Google.")
        [fact] = await memory.facts(ANN)
        clock.day = 3
        await memory.retract(ANN, fact)
        await say(memory, clock, 5, "Meta it is.")
        with pytest.raises(Conflict, match=r"beside the edge \(user\) -\[works_at\]-> \(Meta\)"):
            await memory.restore(ANN, fact)
        await memory.graph.retract(ANN, "user", "works_at", "Meta")
        await memory.restore(ANN, fact)
        assert [["Google"]] * 4 == await seen(memory, "employer", "works_at")


async def test_facts_that_are_stated_at_once_follow_each_other(memory: MemoryEngine) -> None:
    async def state(number: int) -> None:
        if number % 2:
            await memory.state_fact(ANN, "employer", f"Firm {number}")
        else:
            await memory.graph.add(ANN, "user", "works_at", f"Firm {number}")

    await asyncio.gather(*(state(number) for number in range(8)))
    [current] = await memory.facts(ANN, "employer")
    assert 8 == len(await memory.facts(ANN, "employer", history=True))
    near = await memory.graph.neighbourhood(ANN, "user", depth=1)
    assert [current.value] == [edge.object for edge in near.edges]


async def test_without_a_graph_facts_are_stated_alone(dsn: str, clock: Clock) -> None:
    async with open_memory(dsn, clock=clock, worker=False, graph_enabled=False) as memory:
        await memory.state_fact(ANN, "employer", "Google")
        clock.day = 2
        await memory.state_fact(ANN, "employer", "Meta")
        assert ["Meta"] == [one.value for one in await memory.facts(ANN)]
