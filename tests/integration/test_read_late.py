"""Turns that are read late: what they say ends where what was said after them ended it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import psycopg
import pytest

from shared_core import Conflict, Event, MemoryEngine, Scope, open_memory
from shared_core.core.domain import Extraction, StatementDraft, TripleDraft
from tests.integration.test_runs import Scripted, fact, living, snapshot
from tests.integration.two_at_once import meeting

ANN = Scope("app", "ann")
START = datetime(2026, 3, 2, 9, tzinfo=UTC)


def said(thread: str, day: int, text: str) -> Event:
    return Event(
        event_id=f"{thread}{day}",
        author="user",
        role="user",
        text=text,
        occurred_at=START + timedelta(days=day),
    )


async def history(memory: MemoryEngine) -> list[tuple[str, int, int | None]]:
    return sorted(
        (one.value, (one.valid_from - START).days,
         None if one.valid_until is None else (one.valid_until - START).days)
        for one in await memory.facts(ANN, history=True)
    )  # fmt: skip


def edges(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as superuser:
        rows = superuser.execute("SELECT object, valid_from, valid_until FROM hippocampus.edges")
        return sorted(
            (value, (begins - START).days, None if ends is None else (ends - START).days)
            for value, begins, ends in rows.fetchall()
        )


def retractions(dsn: str) -> int:
    with psycopg.connect(dsn) as superuser:
        return len(superuser.execute("SELECT FROM hippocampus.retractions").fetchall())


JOB = {
    "en": ("I work at Acme.", "I don't work at Acme any more.", "Acme"),
    "zh": ("我在腾讯工作。", "我不在腾讯工作了。", "腾讯"),
}


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_what_was_retracted_before_it_was_read_is_history(
    memory: MemoryEngine, dsn: str, language: str
) -> None:
    works, left, name = JOB[language]
    await memory.append_events(ANN, "a", [said("a", 0, works)])
    await memory.append_events(ANN, "b", [said("b", 4, left)])
    retracted = await memory.consolidate(ANN, "b")
    assert (1, []) == (retractions(dsn), await history(memory))
    late = await memory.consolidate(ANN, "a")
    assert [(name, 0, 4)] == await history(memory) == edges(dsn)
    assert [] == [one for one in await memory.list_memories(ANN, kinds=["semantic"])]
    assert retracted.run_id and late.run_id
    with pytest.raises(Conflict, match=str(late.run_id)):  # it builds on the retraction
        await memory.undo_run(ANN, retracted.run_id)
    before = snapshot(dsn)
    await memory.undo_run(ANN, late.run_id)
    assert [] == await history(memory)
    await memory.consolidate(ANN, "a")
    assert [(name, 0, 4)] == await history(memory)
    assert {table: len(rows) for table, rows in before.items()} == {
        table: len(rows) for table, rows in snapshot(dsn).items()
    }


@pytest.mark.parametrize("order", list(permutations("abc")))
async def test_places_in_any_order(memory: MemoryEngine, dsn: str, order: Sequence[str]) -> None:
    turns = {"a": (0, "I live in Leeds."), "b": (2, "I live in York."),
             "c": (4, "I don't live in York any more.")}  # fmt: skip
    for thread, (day, text) in turns.items():
        await memory.append_events(ANN, thread, [said(thread, day, text)])
    for thread in order:
        await memory.consolidate(ANN, thread)
    assert [("Leeds", 0, 2), ("York", 2, 4)] == await history(memory) == edges(dsn)


async def test_edges_of_a_model_in_any_order(dsn: str) -> None:
    script = {
        f"{thread}{day}": Extraction(triples=[
            TripleDraft(subject="Mia", relation="lives_in", object=place, functional=True,
                        event_id=f"{thread}{day}")])
        for thread, day, place in (("a", 0, "Leeds"), ("b", 2, "York"), ("c", 4, "Rome"))
    }  # fmt: skip
    async with open_memory(dsn, extractor=Scripted(script), worker=False) as memory:
        for thread, day in (("c", 4), ("a", 0), ("b", 2)):
            await memory.append_events(ANN, thread, [said(thread, day, "A turn of the story.")])
            await memory.consolidate(ANN, thread)
    assert [("Leeds", 0, 4), ("Rome", 4, None), ("York", 2, 4)] == edges(dsn)


async def test_a_retraction_goes_with_its_turn_its_run_and_its_user(
    memory: MemoryEngine, dsn: str
) -> None:
    left = JOB["en"][1]
    for day in range(3):
        await memory.append_events(ANN, f"b{day}", [said("b", day, left)])
    runs = [(await memory.consolidate(ANN, f"b{day}")).run_id for day in range(3)]
    assert 3 == retractions(dsn)
    await memory.forget_turns(ANN, "b0", ["b0"])
    assert 2 == retractions(dsn)
    assert runs[1]
    await memory.undo_run(ANN, runs[1])
    assert 1 == retractions(dsn)
    await memory.append_events(ANN, "a", [said("a", 0, JOB["en"][0])])
    await memory.forget_thread(ANN, "b2")
    assert 0 == retractions(dsn)
    await memory.consolidate(ANN, "a")
    assert [("Acme", 0, None)] == await history(memory)
    await memory.append_events(ANN, "c", [said("c", 5, left)])
    await memory.consolidate(ANN, "c")
    await memory.forget_scope(ANN)
    assert 0 == retractions(dsn)


async def test_a_retraction_that_another_worker_reads_at_the_same_time_counts(dsn: str) -> None:
    employed, gone = (Scripted({}), Scripted({}))
    async with (
        open_memory(dsn, extractor=employed, worker=False) as one,
        open_memory(dsn, extractor=gone, worker=False) as other,
    ):
        await one.append_events(ANN, "a", [said("a", 0, JOB["en"][0])])
        await one.append_events(ANN, "b", [said("b", 4, JOB["en"][1])])
        barrier = asyncio.Barrier(2)
        for memory in (one, other):
            meeting(memory, "known", barrier)
        await asyncio.gather(one.consolidate(ANN, "a"), other.consolidate(ANN, "b"))
        assert [("Acme", 0, 4)] == await history(one)
        assert [1, 1] == [len(reader.seen) for reader in (employed, gone)]


async def test_a_retraction_read_late_leaves_what_was_said_after_it(memory: MemoryEngine) -> None:
    for thread, day in (("a", 0), ("c", 4)):
        await memory.append_events(ANN, thread, [said(thread, day, JOB["en"][0])])
        await memory.consolidate(ANN, thread)
    await memory.append_events(ANN, "b", [said("b", 2, JOB["en"][1])])
    await memory.consolidate(ANN, "b")
    assert [("Acme", 0, None)] == await history(memory)


async def test_a_value_that_holds_two_facts_of_a_script_is_read_in_order(dsn: str) -> None:
    """A model's facts of slots the rules do not know follow the same rules."""
    script = {
        "a0": Extraction(facts=[fact("a0", "guitar", "Fender")]),
        "b4": Extraction(facts=[fact("b4", "guitar", "Gibson")]),
        "c8": Extraction(facts=[fact("c8", "guitar", "", operation="retract")]),
    }
    async with open_memory(dsn, extractor=Scripted(script), worker=False) as memory:
        for thread, day in (("c", 8), ("b", 4), ("a", 0)):
            await memory.append_events(ANN, thread, [said(thread, day, "A turn of the story.")])
            await memory.consolidate(ANN, thread)
        assert [("Fender", 0, 4), ("Gibson", 4, 8)] == await history(memory)


async def test_what_made_history_of_a_fact_may_be_said_again_before_the_fact_is_undone(
    memory: MemoryEngine,
) -> None:
    for thread, day, text in (
        ("b", 4, "I live in York."),
        ("a", 0, "I live in Leeds."),
        ("c", 6, "I live in York."),
    ):
        await memory.append_events(ANN, thread, [said(thread, day, text)])
        await memory.consolidate(ANN, thread)
    _, late, first = await memory.runs(ANN)
    with pytest.raises(Conflict, match="2 later runs build on"):
        await memory.undo_run(ANN, first.run_id)
    await memory.undo_run(ANN, late.run_id)  # the one that said York again touched nothing of it
    assert [("York", 4, None)] == await history(memory)


NEAR = {
    "en": ("York", "Rome", "Ann lives near York with Tom."),
    "zh": ("上海", "北京", "安和汤姆住在上海附近。"),
}


def story(language: str) -> dict[str, Extraction]:
    """Return what four turns tell: of a place, of another one, and of the first again, twice."""
    here, there, near = NEAR[language]
    homes = {"a0": here, "b4": there, "c2": here, "d6": here}
    return {
        event_id: Extraction(
            facts=[fact(event_id, "home", home)],
            statements=[StatementDraft(text=near, event_ids=(event_id,))] if home == here else [],
        )
        for event_id, home in homes.items()
    }


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("order", [["a0 b4"], ["b4", "a0"], ["b4", "a0 c2"], ["a0", "b4", "c2"]])
async def test_a_statement_goes_with_a_fact_that_is_history(
    dsn: str, language: str, order: Sequence[str]
) -> None:
    """Closed by the run itself, written as history, or history that is said once more."""
    async with open_memory(dsn, extractor=Scripted(story(language)), worker=False) as memory:
        for number, ids in enumerate(order):
            turns = [said(one[0], int(one[1]), "A turn of the story.") for one in ids.split()]
            await memory.append_events(ANN, f"t{number}", turns)
            before = snapshot(dsn)
            last = await memory.consolidate(ANN, f"t{number}")
        home = f"User: home is {NEAR[language][1]}."
        assert {home} == await living(memory, "semantic")
        after = snapshot(dsn)
        assert last.run_id
        await memory.undo_run(ANN, last.run_id)
        assert before == snapshot(dsn)
        await memory.consolidate(ANN, f"t{number}")
        assert {table: len(rows) for table, rows in after.items()} == {
            table: len(rows) for table, rows in snapshot(dsn).items()
        }


async def test_a_statement_that_was_told_since_stays(dsn: str) -> None:
    async with open_memory(dsn, extractor=Scripted(story("en")), worker=False) as memory:
        for thread, day in (("b", 4), ("d", 6), ("a", 0)):
            await memory.append_events(ANN, thread, [said(thread, day, "A turn of the story.")])
            await memory.consolidate(ANN, thread)
        here, _, near = NEAR["en"]
        assert {near, f"User: home is {here}."} == await living(memory, "semantic")


SAID_AGAIN = {
    "fact": Extraction(facts=[fact("a8", "home", "York", other_event_ids=("a0",))]),
    "edge": Extraction(triples=[
        TripleDraft(subject="Mia", relation="lives_in", object="York", functional=True,
                    event_id="a8", other_event_ids=("a0",))]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["fact", "edge"])
async def test_what_rests_on_an_earlier_turn_was_said_again_all_the_same(
    dsn: str, kind: str
) -> None:
    """Day 8 needs day 0 to be understood; what is said of day 4 is read last."""

    def alone(event_id: str, home: str) -> Extraction:
        one = SAID_AGAIN[kind]
        return Extraction(
            facts=[fact(event_id, "home", home) for _ in one.facts],
            triples=[
                replace(triple, object=home, event_id=event_id, other_event_ids=())
                for triple in one.triples
            ],
        )

    script = {"a0": alone("a0", "York"), "a8": SAID_AGAIN[kind], "b4": alone("b4", "Rome")}
    async with open_memory(dsn, extractor=Scripted(script), worker=False) as memory:

        async def now() -> list[tuple[Any, ...]]:
            return edges(dsn) if kind == "edge" else list(await history(memory))

        for thread, day in (("a", 0), ("a", 8), ("b", 4)):
            await memory.append_events(ANN, thread, [said(thread, day, "A turn of the story.")])
            before = snapshot(dsn)
            await memory.consolidate(ANN, thread)
            if day:
                [run, *_] = await memory.runs(ANN)
                await memory.undo_run(ANN, run.run_id)
                assert before == snapshot(dsn)
                await memory.consolidate(ANN, thread)
        assert [("Rome", 4, 8), ("York", 0, None)] == await now()
        await memory.forget_turns(ANN, "a", ["a0"])
        assert [("Rome", 4, 8)] == await now()
