"""Facts that a caller ends, and lets hold again: with what hangs on them, and with their past."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from shared_core import (
    AsOf,
    Conflict,
    Event,
    Fact,
    InvalidInput,
    MemoryEngine,
    NewMemory,
    NotFound,
    Scope,
    open_memory,
)
from shared_core.core.domain import Extraction, FactDraft, InsightDraft, StatementDraft, TripleDraft
from shared_core.extraction.rule_based import RuleExtractor

ANN = Scope("app", "ann")
DAY = timedelta(days=1)
START = datetime(2024, 1, 1, tzinfo=UTC)
TABLES = ("memories", "facts", "fact_closures", "edges", "memory_sources", "threads")


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
    clock.day = day
    event = Event(event_id=f"e{day}", author="u", role="user", text=text, occurred_at=at(day))
    await memory.append_events(ANN, "t", [event])
    await memory.consolidate(ANN, "t")


async def fact(memory: MemoryEngine, value: str) -> Fact:
    [found] = [one for one in await memory.facts(ANN, history=True) if one.value == value]
    return found


async def values(memory: MemoryEngine, as_of: AsOf | None = None) -> list[Any]:
    return sorted(str(one.value) for one in await memory.facts(ANN, as_of=as_of))


async def recalled(memory: MemoryEngine, query: str, as_of: AsOf | None = None) -> str:
    hits = await memory.recall(ANN, query, kinds=["semantic"], limit=50, as_of=as_of)
    return " ".join(hit.memory.text for hit in hits)


def rows(dsn: str) -> dict[str, list[str]]:
    """Return every row of what corrections change, as text."""
    with psycopg.connect(dsn) as superuser:
        return {
            table: sorted(
                str(row[0])
                for row in superuser.execute(f"SELECT to_jsonb(t) FROM hippocampus.{table} t")
            )
            for table in TABLES
        }


@pytest.mark.parametrize(
    ("text", "value", "query"),
    [("I live in Rome.", "Rome", "Where does she live?"), ("我住在上海。", "上海", "她住在哪里？")],
)
async def test_a_retracted_fact_ends_and_is_restored_with_its_past(
    memory: MemoryEngine, clock: Clock, text: str, value: str, query: str
) -> None:
    await say(memory, clock, 1, text)
    key = str((await fact(memory, value)).memory_id)
    clock.day = 10
    ended = await memory.retract(ANN, key, at=at(5))
    assert (at(5), at(10)) == (ended.valid_until, ended.superseded_at)
    assert ended == await fact(memory, value)
    assert [] == await values(memory)
    assert value not in await recalled(memory, query)
    assert [value] == await values(memory, AsOf(valid=at(4)))
    assert [] == await values(memory, AsOf(valid=at(5)))
    clock.day = 20
    held = await memory.restore(ANN, key)
    assert (None, None) == (held.valid_until, held.superseded_at)
    assert held == await fact(memory, value)
    assert [value] == await values(memory)
    assert value in await recalled(memory, query)
    clock.day = 30
    for known, expected in ((9, [value]), (10, []), (19, []), (20, [value])):
        as_of = AsOf(valid=at(25), known=at(known))
        assert expected == await values(memory, as_of), known
        assert bool(expected) == (value in await recalled(memory, query, as_of)), known
    [then] = await memory.facts(ANN, history=True, as_of=AsOf(known=at(15)))
    assert (at(5), at(10)) == (then.valid_until, then.superseded_at)


async def test_a_fact_is_named_by_itself_its_key_and_its_id(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I live in Rome.")
    rome = await fact(memory, "Rome")
    clock.day = 9
    for name in (rome, rome.key, rome.memory_id):
        ended = await memory.retract(ANN, name, at=at(5).astimezone(timezone(timedelta(hours=2))))
        assert ended.valid_until is not None
        assert (at(5), UTC) == (ended.valid_until, ended.valid_until.tzinfo)
        assert rome == await memory.restore(ANN, name)
    [listed] = await memory.list_memories(ANN, kinds=["semantic"])
    assert rome.key == listed.key


async def test_a_restored_fact_is_given_the_end_it_had(memory: MemoryEngine, clock: Clock) -> None:
    await say(memory, clock, 1, "I live in Rome.")
    rome = await fact(memory, "Rome")
    clock.day = 9
    had = await memory.retract(ANN, rome, at=at(5))
    clock.day = 12
    await memory.restore(ANN, rome)
    [before] = await memory.facts(ANN, history=True, as_of=AsOf(known=at(11)))
    assert had.valid_until == before.valid_until == at(5)
    assert at(12) == (await memory.retract(ANN, rome)).valid_until
    await memory.undo_run(ANN, (await memory.runs(ANN))[0].run_id)
    await memory.undo_run(ANN, (await memory.runs(ANN))[1].run_id)
    assert had == await fact(memory, "Rome")


async def test_every_end_that_was_taken_back_is_kept(memory: MemoryEngine, clock: Clock) -> None:
    await say(memory, clock, 1, "I live in Rome.")
    key = str((await fact(memory, "Rome")).memory_id)
    for day in (10, 20, 30):
        clock.day = day
        await memory.retract(ANN, key)
        clock.day = day + 5
        await memory.restore(ANN, key)
    clock.day = 50
    shown = [await values(memory, AsOf(known=at(day + 0.5))) for day in range(9, 37)]
    assert [
        [] if any(begin <= day < begin + 5 for begin in (10, 20, 30)) else ["Rome"]
        for day in range(9, 37)
    ] == shown


async def test_a_value_comes_back_after_the_one_that_took_its_place_is_retracted(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I live in Rome.")
    await say(memory, clock, 10, "I moved to Paris.")
    rome, paris = await fact(memory, "Rome"), await fact(memory, "Paris")
    with pytest.raises(Conflict, match="Paris") as refused:
        await memory.restore(ANN, str(rome.memory_id))
    assert str(paris.memory_id) in str(refused.value)
    clock.day = 20
    await memory.retract(ANN, str(paris.memory_id))
    await memory.restore(ANN, str(rome.memory_id))
    assert ["Rome"] == await values(memory)
    clock.day = 30
    shown = [await values(memory, AsOf(valid=at(day))) for day in (5, 15, 25)]
    assert [["Rome"], ["Paris"], ["Rome"]] == shown


async def test_what_is_disliked_now_is_not_liked_again(memory: MemoryEngine, clock: Clock) -> None:
    await say(memory, clock, 1, "I like jazz.")
    await say(memory, clock, 2, "I hate jazz.")
    liked = next(one for one in await memory.facts(ANN, history=True) if one.slot == "like")
    with pytest.raises(Conflict, match="jazz"):
        await memory.restore(ANN, str(liked.memory_id))
    assert ["dislike"] == [one.slot for one in await memory.facts(ANN)]


class Scripted(RuleExtractor):
    """A fake that reads one thing out of the first turn."""

    name = "fake-v1"

    async def extract(self, events: Any, context: Any) -> Extraction:
        [turn] = events
        return Extraction(
            facts=[FactDraft(
                fact_type="profile", slot="employer", value="Acme", functional=True,
                statement="Ann works at Acme.", event_id=turn.event_id, confidence=0.9,
                pattern="fake", language="en")],
            statements=[StatementDraft(text="Acme pays Ann well.", event_ids=(turn.event_id,))],
            insights=[InsightDraft(text="Ann can afford it.", event_ids=(turn.event_id,))],
            triples=[TripleDraft(subject="user", relation="works_at", object="Acme",
                                 event_id=turn.event_id, functional=True)],
        )  # fmt: skip


async def test_what_hangs_on_a_fact_ends_and_comes_back_with_it(dsn: str, clock: Clock) -> None:
    async with open_memory(dsn, clock=clock, worker=False, extractor=Scripted()) as memory:
        await say(memory, clock, 1, "They pay me.")
        key = str((await fact(memory, "Acme")).memory_id)
        before = rows(dsn)
        clock.day = 10
        await memory.retract(ANN, key)
        retracted = rows(dsn)
        assert [] == await memory.list_memories(ANN, kinds=["semantic"])
        assert all('"superseded_at": null' not in row for row in retracted["edges"])
        clock.day = 20
        await memory.restore(ANN, key)
        back = rows(dsn)
        assert 1 == len(back.pop("fact_closures"))
        assert {table: found for table, found in before.items() if table in back} == back
        [restoration, retraction, _] = await memory.runs(ANN)
        assert ["restoration", "retraction"] == [restoration.kind, retraction.kind]
        with pytest.raises(Conflict, match=str(restoration.run_id)):
            await memory.undo_run(ANN, retraction.run_id)
        await memory.undo_run(ANN, restoration.run_id)
        assert retracted == rows(dsn)
        await memory.undo_run(ANN, retraction.run_id)
        assert before == rows(dsn)


async def test_a_run_is_undone_after_what_restored_its_ends(
    memory: MemoryEngine, clock: Clock, dsn: str
) -> None:
    await say(memory, clock, 1, "I live in Rome.")
    before = rows(dsn)
    await say(memory, clock, 2, "I moved to Paris.")
    clock.day = 3
    await memory.retract(ANN, str((await fact(memory, "Paris")).memory_id))
    await memory.restore(ANN, str((await fact(memory, "Rome")).memory_id))
    *later, first, _ = await memory.runs(ANN)
    with pytest.raises(Conflict, match=str(later[0].run_id)):
        await memory.undo_run(ANN, first.run_id)
    for run in (*later, first):
        await memory.undo_run(ANN, run.run_id)
    assert before["facts"] == rows(dsn)["facts"]
    assert [] == rows(dsn)["fact_closures"]


async def test_what_was_forgotten_is_not_restored(memory: MemoryEngine, clock: Clock) -> None:
    await say(memory, clock, 1, "I live in Rome.")
    key = str((await fact(memory, "Rome")).memory_id)
    await memory.retract(ANN, key)
    await memory.restore(ANN, key)
    await memory.forget(ANN, key)
    for correct in (memory.retract, memory.restore):
        with pytest.raises(NotFound, match=key):
            await correct(ANN, key)


async def test_one_of_two_that_correct_at_once_is_refused(
    memory: MemoryEngine, clock: Clock
) -> None:
    import asyncio

    await say(memory, clock, 1, "I live in Rome.")
    key = str((await fact(memory, "Rome")).memory_id)
    for correct in (memory.retract, memory.restore):
        done = await asyncio.gather(*(correct(ANN, key) for _ in range(4)), return_exceptions=True)
        assert 1 == sum(isinstance(one, Fact) for one in done), done
        assert 3 == sum(isinstance(one, Conflict) for one in done), done


async def test_bad_names_and_moments_are_refused(memory: MemoryEngine, clock: Clock) -> None:
    await say(memory, clock, 5, "I live in Rome.")
    await memory.remember(ANN, NewMemory(text="Ann hums.", key="hum"))
    rome = str((await fact(memory, "Rome")).memory_id)
    clock.day = 9
    for correct in (memory.retract, memory.restore):
        for unknown in ("no such key", "00000000-0000-7000-8000-000000000001", "", "\0", "\ud800"):
            with pytest.raises(NotFound, match="there is no memory"):
                await correct(ANN, unknown)
        with pytest.raises(NotFound):
            await correct(Scope("app", "bob"), rome)
        with pytest.raises(InvalidInput, match="'hum' is a memory of kind 'semantic', not a fact"):
            await correct(ANN, "hum")
        with pytest.raises(InvalidInput, match="as a UUID or a text"):
            await correct(ANN, 7)  # type: ignore[arg-type]
    moments: list[tuple[Any, str]] = [
        (at(4), "forget"), (at(10), "future"), (at(6).replace(tzinfo=None), "at has no time zone"),
        (at(6).date(), "at must be a datetime"), ("2024-01-07", "at must be a datetime"),
    ]  # fmt: skip
    for moment, why in moments:
        with pytest.raises(InvalidInput, match=why):
            await memory.retract(ANN, rome, at=moment)
    with pytest.raises(Conflict, match="has not ended"):
        await memory.restore(ANN, rome)
    await memory.retract(ANN, rome, at=at(5))
    with pytest.raises(Conflict, match="has ended already"):
        await memory.retract(ANN, rome)
    assert [] == await values(memory, AsOf(valid=at(5)))


async def test_a_fact_that_the_graph_ends_and_restores_keeps_its_past(
    dsn: str, clock: Clock
) -> None:
    async with open_memory(dsn, clock=clock, worker=False) as memory:
        await say(memory, clock, 1, "I live in Rome.")
        clock.day = 10
        before = rows(dsn)
        change = await memory.graph.retract(ANN, "user", "lives_in", "Rome")
        [edge_id] = change.closed
        assert [] == await values(memory)
        assert "Rome" not in await recalled(memory, "Where does she live?")
        clock.day = 20
        closed = rows(dsn)
        await memory.graph.restore(ANN, edge_id)
        assert ["Rome"] == await values(memory)
        assert "Rome" in await recalled(memory, "Where does she live?")
        for known, expected in ((9, ["Rome"]), (10, []), (19, []), (20, ["Rome"])):
            as_of = AsOf(known=at(known))
            assert expected == await values(memory, as_of), known
            assert bool(expected) == ("Rome" in await recalled(memory, "Where?", as_of)), known
        for expected_rows in (closed, before):
            [last, *_] = [run for run in await memory.runs(ANN) if run.undone_at is None]
            await memory.undo_run(ANN, last.run_id)
            assert expected_rows == rows(dsn)


async def test_what_hangs_on_a_fact_ends_and_comes_back_with_its_edge(
    dsn: str, clock: Clock
) -> None:
    async with open_memory(dsn, clock=clock, worker=False, extractor=Scripted()) as memory:
        await say(memory, clock, 1, "They pay me.")
        before = rows(dsn)
        clock.day = 10
        change = await memory.graph.retract(ANN, "user", "works_at")
        assert [] == await memory.list_memories(ANN, kinds=["semantic"])
        clock.day = 20
        await memory.graph.restore(ANN, change.closed[0])
        back = rows(dsn)
        assert 1 == len(back.pop("fact_closures"))
        assert {table: found for table, found in before.items() if table in back} == back


@pytest.mark.parametrize("told", [("I like tea.", "I dislike tea."), ("我喜欢茶。", "我讨厌茶。")])
async def test_an_edge_is_not_restored_beside_its_opposite(
    memory: MemoryEngine, clock: Clock, told: tuple[str, str]
) -> None:
    await say(memory, clock, 1, told[0])
    [liked] = await memory.graph.history(ANN, "user")
    await say(memory, clock, 5, told[1])
    [fact] = await memory.facts(ANN)
    with pytest.raises(Conflict, match="the opposite holds now"):
        await memory.graph.restore(ANN, liked.edge_id)
    assert [fact] == await memory.facts(ANN)
    await memory.retract(ANN, str(fact.memory_id))
    assert (await memory.graph.restore(ANN, liked.edge_id)).current
    assert [liked.fact_id] == [one.memory_id for one in await memory.facts(ANN)]


async def test_one_slot_is_read_at_a_moment_beside_its_opposite(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I live in Rome.")
    await say(memory, clock, 2, "I like tea.")
    [liked] = [one.slot for one in await memory.facts(ANN) if one.value == "tea"]
    await say(memory, clock, 5, "I dislike tea.")
    for day, expected in ((3, ["tea"]), (6, [])):
        for as_of in (AsOf(valid=at(day)), AsOf(known=at(day), valid=at(day))):
            found = await memory.facts(ANN, liked, as_of=as_of)
            assert expected == [one.value for one in found], (day, as_of)
    ended = await memory.facts(ANN, liked, history=True, as_of=AsOf(known=at(6)))
    assert [("tea", at(5))] == [(one.value, one.valid_until) for one in ended]
    early = await memory.facts(ANN, liked, history=True, as_of=AsOf(known=at(3)))
    assert [("tea", None)] == [(one.value, one.valid_until) for one in early]
    clock.day = 10
    [disliked] = [one for one in await memory.facts(ANN) if one.value == "tea"]
    await memory.retract(ANN, str(disliked.memory_id))
    clock.day = 20
    [like] = ended
    await memory.restore(ANN, str(like.memory_id))
    for day, expected in ((3, ["tea"]), (6, []), (11, ["tea"])):
        found = await memory.facts(ANN, liked, as_of=AsOf(valid=at(day)))
        assert expected == [one.value for one in found], day
