"""Turns that are read late: what they say ends where what was said after them ended it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from person import Person, at, read_by

from shared_core import Conflict
from shared_core.core.domain import Extraction, StatementDraft, TripleDraft
from tests.integration.test_runs import Scripted, fact
from tests.integration.two_at_once import meeting

TURN = "A turn of the story."


def lives(rows: Sequence[Any]) -> list[tuple[str, int, int | None]]:
    """Return values with the days on which they began and ended."""
    return sorted(
        (value, (begins - at(0)).days, ends and (ends - at(0)).days) for value, begins, ends in rows
    )


async def history(ann: Person) -> list[tuple[str, int, int | None]]:
    found = await ann.facts(history=True)
    return lives([(one.value, one.valid_from, one.valid_until) for one in found])


def edges(ann: Person) -> list[tuple[str, int, int | None]]:
    columns = "SELECT object, valid_from, valid_until FROM hippocampus.edges"
    return lives(ann.sql(f"{columns} WHERE tenant_id = %(tenant)s"))


def retractions(ann: Person) -> int:
    return len(ann.rows("retractions")["retractions"])


def sizes(ann: Person) -> dict[str, int]:
    """Return how many rows each table has."""
    return {table: len(rows) for table, rows in ann.rows().items()}


JOB = {
    "en": ("I work at Acme.", "I don't work at Acme any more.", "Acme"),
    "zh": ("我在腾讯工作。", "我不在腾讯工作了。", "腾讯"),
}


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_what_was_retracted_before_it_was_read_is_history(ann, language):
    works, left, name = JOB[language]
    await ann.tell(0, works, thread="a")
    await ann.tell(4, left, thread="b")
    retracted = await ann.consolidate("b")
    assert (1, []) == (retractions(ann), await history(ann))
    late = await ann.consolidate("a")
    assert [(name, 0, 4)] == await history(ann) == edges(ann)
    assert [] == [one for one in await ann.list_memories(kinds=["semantic"])]
    assert retracted.run_id and late.run_id
    with pytest.raises(Conflict, match=str(late.run_id)):  # it builds on the retraction
        await ann.undo_run(retracted.run_id)
    before = sizes(ann)
    await ann.undo_run(late.run_id)
    assert [] == await history(ann)
    await ann.consolidate("a")
    assert [(name, 0, 4)] == await history(ann)
    assert before == sizes(ann)


@pytest.mark.parametrize("order", list(permutations("abc")))
async def test_places_in_any_order(ann, order):
    await ann.tell(0, "I live in Leeds.", thread="a")
    await ann.tell(2, "I live in York.", thread="b")
    await ann.tell(4, "I don't live in York any more.", thread="c")
    for thread in order:
        await ann.consolidate(thread)
    assert [("Leeds", 0, 2), ("York", 2, 4)] == await history(ann) == edges(ann)


async def test_edges_of_a_model_in_any_order(ann):
    script = {
        event_id: Extraction(triples=[
            TripleDraft(subject="Mia", relation="lives_in", object=place, functional=True,
                        event_id=event_id)])
        for event_id, place in (("e0", "Leeds"), ("e2", "York"), ("e4", "Rome"))
    }  # fmt: skip
    ann = read_by(ann, Scripted(script))
    for day in (4, 0, 2):
        await ann.say(day, TURN, thread=f"day {day}")
    assert [("Leeds", 0, 2), ("Rome", 4, None), ("York", 2, 4)] == edges(ann)


async def test_a_retraction_goes_with_its_turn_its_run_and_its_user(ann):
    left = JOB["en"][1]
    runs = [await ann.say(day, left, thread=f"b{day}") for day in range(3)]
    assert 3 == retractions(ann)
    await ann.forget_turns("b0", ["e0"])
    assert 2 == retractions(ann)
    await ann.undo_run(runs[1])
    assert 1 == retractions(ann)
    await ann.tell(0, JOB["en"][0], thread="a")
    await ann.forget_thread("b2")
    assert 0 == retractions(ann)
    await ann.consolidate("a")
    assert [("Acme", 0, None)] == await history(ann)
    await ann.say(5, left, thread="c")
    await ann.forget_scope()
    assert 0 == retractions(ann)


async def test_a_retraction_that_another_worker_reads_at_the_same_time_counts(ann_with):
    employed, gone = (Scripted({}), Scripted({}))
    one, other = ann_with(extractor=employed), ann_with(extractor=gone)
    await one.tell(0, JOB["en"][0], thread="a")
    await one.tell(4, JOB["en"][1], thread="b")
    barrier = asyncio.Barrier(2)
    for ann in (one, other):
        meeting(ann.memory, "known", barrier)
    await asyncio.gather(one.consolidate("a"), other.consolidate("b"))
    assert [("Acme", 0, 4)] == await history(one)
    assert [1, 1] == [len(reader.seen) for reader in (employed, gone)]


async def test_a_retraction_read_late_leaves_what_was_said_after_it(ann):
    for day, text in ((0, JOB["en"][0]), (4, JOB["en"][0]), (2, JOB["en"][1])):
        await ann.say(day, text, thread=f"day {day}")
    assert [("Acme", 0, None)] == await history(ann)


async def test_a_value_that_holds_two_facts_of_a_script_is_read_in_order(ann):
    """A model's facts of slots the rules do not know follow the same rules."""
    script = {
        "e0": Extraction(facts=[fact("e0", "guitar", "Fender")]),
        "e4": Extraction(facts=[fact("e4", "guitar", "Gibson")]),
        "e8": Extraction(facts=[fact("e8", "guitar", "", operation="retract")]),
    }
    ann = read_by(ann, Scripted(script))
    for day in (8, 4, 0):
        await ann.say(day, TURN, thread=f"day {day}")
    assert [("Fender", 0, 4), ("Gibson", 4, 8)] == await history(ann)


async def test_what_made_history_of_a_fact_may_be_said_again_before_the_fact_is_undone(ann):
    for day, text in ((4, "I live in York."), (0, "I live in Leeds."), (6, "I live in York.")):
        await ann.say(day, text, thread=f"day {day}")
    _, late, first = await ann.runs()
    with pytest.raises(Conflict, match="2 later runs build on"):
        await ann.undo_run(first.run_id)
    await ann.undo_run(late.run_id)  # the one that said York again touched nothing of it
    assert [("York", 4, None)] == await history(ann)


NEAR = {
    "en": ("York", "Rome", "Ann lives near York with Tom."),
    "zh": ("上海", "北京", "安和汤姆住在上海附近。"),
}


def story(language: str) -> dict[str, Extraction]:
    """Return what four turns tell: of a place, of another one, and of the first again, twice."""
    here, there, near = NEAR[language]
    homes = {"e0": here, "e4": there, "e2": here, "e6": here}
    return {
        event_id: Extraction(
            facts=[fact(event_id, "home", home)],
            statements=[StatementDraft(text=near, event_ids=(event_id,))] if home == here else [],
        )
        for event_id, home in homes.items()
    }


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("order", [[(0, 4)], [(4,), (0,)], [(4,), (0, 2)], [(0,), (4,), (2,)]])
async def test_a_statement_goes_with_a_fact_that_is_history(ann, language, order):
    """Closed by the run itself, written as history, or history that is said once more."""
    ann = read_by(ann, Scripted(story(language)))
    for thread, days in enumerate(order):
        for day in days:
            await ann.tell(day, TURN, thread=f"t{thread}")
        before = ann.rows()
        last = await ann.consolidate(f"t{thread}")
    assert [f"User: home is {NEAR[language][1]}."] == await ann.texts("semantic")
    after = sizes(ann)
    await ann.undo_run(last.run_id)
    assert before == ann.rows()
    await ann.consolidate(f"t{thread}")
    assert after == sizes(ann)


async def test_a_statement_that_was_told_since_stays(ann):
    ann = read_by(ann, Scripted(story("en")))
    for day in (4, 6, 0):
        await ann.say(day, TURN, thread=f"day {day}")
    here, _, near = NEAR["en"]
    assert [near, f"User: home is {here}."] == await ann.texts("semantic")


SAID_AGAIN = {
    "fact": Extraction(facts=[fact("e8", "home", "York", other_event_ids=("e0",))]),
    "edge": Extraction(triples=[
        TripleDraft(subject="Mia", relation="lives_in", object="York", functional=True,
                    event_id="e8", other_event_ids=("e0",))]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["fact", "edge"])
async def test_what_rests_on_an_earlier_turn_was_said_again_all_the_same(ann, kind):
    """Day 8 needs day 0 to be understood; what is said of day 4 is read last."""

    def alone(event_id: str, home: str) -> Extraction:
        one, of = SAID_AGAIN[kind], {"event_id": event_id, "other_event_ids": ()}
        return Extraction(
            facts=[fact(event_id, "home", home) for _ in one.facts],
            triples=[replace(triple, object=home, **of) for triple in one.triples],
        )

    script = {"e0": alone("e0", "York"), "e8": SAID_AGAIN[kind], "e4": alone("e4", "Rome")}
    ann = read_by(ann, Scripted(script))

    async def now() -> list[tuple[Any, ...]]:
        return edges(ann) if kind == "edge" else list(await history(ann))

    for thread, day in (("a", 0), ("a", 8), ("b", 4)):
        await ann.tell(day, TURN, thread=thread)
        before = ann.rows()
        await ann.consolidate(thread)
        if day:
            [run, *_] = await ann.runs()
            await ann.undo_run(run.run_id)
            assert before == ann.rows()
            await ann.consolidate(thread)
    assert [("Rome", 4, 8), ("York", 0, None)] == await now()
    await ann.forget_turns("a", ["e0"])
    assert [("Rome", 4, 8)] == await now()
