"""Who was named stays known in every thread: what is said of them corrects what was said."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from shared_core import AsOf, Conflict, Event, MemoryEngine, Scope, open_memory
from shared_core.core.domain import Extraction, Role
from tests.integration.test_runs import Scripted, fact, snapshot
from tests.integration.two_at_once import while_reading

ANN = Scope("app", "ann")
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
EMIL = ("My son Emil is seven.", "Emil is eight.", "relation.son.age", "seven", "eight")
XIAOYU = ("我女儿叫小雨，今年五岁。", "小雨今年六岁了。", "relation.daughter.age", "五岁", "六岁")


def said(thread: str, day: int, text: str, role: Role = "user", **more: Any) -> Event:
    return Event(
        event_id=f"e{day}",
        author=role,
        role=role,
        text=text,
        occurred_at=START + timedelta(days=day),
        metadata={"thread": thread},
        **more,
    )


async def tell(memory: MemoryEngine, thread: str, day: int, text: str, **more: Any) -> Any:
    await memory.append_events(ANN, thread, [said(thread, day, text, **more)])
    return (await memory.consolidate(ANN, thread)).run_id


async def values(memory: MemoryEngine, slot: str, as_of: AsOf | None = None) -> list[str]:
    return sorted(one.value for one in await memory.facts(ANN, slot, as_of=as_of))


async def said_of(memory: MemoryEngine) -> list[tuple[str, str]]:
    return sorted((one.slot, one.value) for one in await memory.facts(ANN))


def left_of(dsn: str, word: str) -> list[str]:
    """Return every row of derived knowledge that still holds a word."""
    tables = ("memories", "facts", "edges", "retractions")
    with psycopg.connect(dsn) as superuser:
        rows = [
            str(row[0])
            for table in tables
            for row in superuser.execute(
                f"SELECT to_jsonb(t) - 'terms' FROM hippocampus.{table} t"
            ).fetchall()
        ]
    return [row for row in rows if word.casefold() in row.casefold()]


@pytest.mark.parametrize(
    ("told", "corrected", "slot", "before", "after"),
    [
        EMIL,
        ("My son Emil is seven.", "Emil turned eight yesterday.", *EMIL[2:]),
        ("My son Emil is seven.", "Emil is eight, not seven.", *EMIL[2:]),
        ("My daughter Mia lives in Leeds.", "Mia lives in York.",
         "relation.daughter.place", "Leeds", "York"),
        ("My sister Freja works at Equinor.", "Freja works at Shell now.",
         "relation.sister.employer", "Equinor", "Shell"),
        XIAOYU,
        ("我妹妹叫小芳，在腾讯工作。", "小芳现在在百度工作。",
         "relation.sister.employer", "腾讯", "百度"),
    ],
)  # fmt: skip
async def test_a_name_told_in_one_thread_is_known_in_the_next(
    memory: MemoryEngine, told: str, corrected: str, slot: str, before: str, after: str
) -> None:
    await tell(memory, "a", 0, told)
    assert [before] == await values(memory, slot)
    await tell(memory, "b", 4, corrected)
    assert [after] == await values(memory, slot)
    assert [before] == await values(memory, slot, AsOf(valid=START + timedelta(days=1)))


async def test_a_pronoun_may_mean_who_was_named_in_another_thread(memory: MemoryEngine) -> None:
    await tell(memory, "a", 0, "My sister Freja works at Equinor.")
    await tell(memory, "b", 4, "Freja called me yesterday. She works at Shell now.")
    assert ["Shell"] == await values(memory, "relation.sister.employer")


@pytest.mark.parametrize("gap", [2, 12])
async def test_a_name_is_known_however_many_turns_later(memory: MemoryEngine, gap: int) -> None:
    await tell(memory, "a", 0, EMIL[0])
    for day in range(1, gap):
        await tell(memory, "a", day, f"What about day {day}?")
    await tell(memory, "a", gap, EMIL[1])
    assert ["eight"] == await values(memory, "relation.son.age")


async def test_a_name_of_two_means_nobody(memory: MemoryEngine) -> None:
    await tell(memory, "a", 0, EMIL[0])
    await tell(memory, "b", 1, "My neighbour Emil lives in Oslo.")
    before = await said_of(memory)
    await tell(memory, "c", 4, EMIL[1])
    assert before == await said_of(memory)


async def test_what_the_conversation_says_of_a_name_goes_before(memory: MemoryEngine) -> None:
    await tell(memory, "a", 0, EMIL[0])
    await memory.append_events(ANN, "b", [said("b", 4, "My neighbour Emil lives in Oslo.")])
    await tell(memory, "b", 5, "Emil is forty. He moved to Bergen.")
    assert ["seven"] == await values(memory, "relation.son.age")
    assert ["Bergen"] == await values(memory, "relation.neighbour.place")


async def test_nobody_is_known_whom_only_an_assistant_named(memory: MemoryEngine) -> None:
    await memory.append_events(ANN, "a", [said("a", 0, "Hello! I work at Acme.")])
    await tell(memory, "a", 1, "My son Emil is seven.", role="agent")
    await tell(memory, "b", 4, EMIL[1])
    assert [("employer", "Acme")] == await said_of(memory)


async def test_nobody_is_known_whom_a_model_took_from_an_assistant(dsn: str) -> None:
    script = {"e0": Extraction(facts=[fact("e0", "relation.son", "Emil", functional=False)])}
    async with open_memory(dsn, extractor=Scripted(script), worker=False) as memory:
        await tell(memory, "a", 0, "Your son Emil is seven.", role="agent")
        await tell(memory, "b", 4, EMIL[1])
        assert [("relation.son", "Emil")] == await said_of(memory)


async def test_nobody_is_known_before_they_were_named(memory: MemoryEngine) -> None:
    """What was said before the naming, and is read after it, would seem to be said with it."""
    await tell(memory, "a", 4, EMIL[0])
    await tell(memory, "b", 0, "Emil is six.")
    assert ["seven"] == await values(memory, "relation.son.age")
    assert 1 == len(await memory.facts(ANN, "relation.son.age", history=True))


async def test_threads_read_out_of_order_end_in_the_same_truth(memory: MemoryEngine) -> None:
    await tell(memory, "a", 0, EMIL[0])
    await tell(memory, "c", 8, "Emil is nine.")
    await tell(memory, "b", 4, EMIL[1])
    assert ["nine"] == await values(memory, "relation.son.age")
    held = await memory.facts(ANN, "relation.son.age", history=True)
    assert [("eight", 4, 8), ("nine", 8, None), ("seven", 0, 8)] == sorted(
        (one.value, (one.valid_from - START).days,
         one.valid_until and (one.valid_until - START).days) for one in held
    )  # fmt: skip


async def test_a_merged_name_means_the_same(memory: MemoryEngine) -> None:
    await tell(memory, "a", 0, "My daughter Mia lives in Leeds.")
    await memory.graph.merge_aliases(ANN, "Mia", ["Mimi", "米娅"])
    await tell(memory, "b", 4, "Mimi lives in York.")
    assert ["York"] == await values(memory, "relation.daughter.place")
    await tell(memory, "c", 5, "米娅住在巴黎。")
    assert ["巴黎"] == await values(memory, "relation.daughter.place")
    assert ["巴黎"] == [
        edge.object
        for edge in (await memory.graph.neighbourhood(ANN, "Mia")).edges
        if edge.relation == "lives_in"
    ]


@pytest.mark.parametrize("story", [
    [EMIL[1], "Emil loves chess. He speaks Danish."],
    ["Emil no longer likes chess."],
])  # fmt: skip
async def test_what_rests_on_a_name_goes_with_the_turn_that_told_it(
    memory: MemoryEngine, dsn: str, story: Sequence[str]
) -> None:
    await tell(memory, "a", 0, EMIL[0])
    await tell(memory, "c", 1, "I work at Acme.")
    for number, text in enumerate(story):
        await tell(memory, f"b{number}", 4 + number, text)
    await memory.forget_turns(ANN, "a", ["e0"])
    assert [("employer", "Acme")] == await said_of(memory)
    own = {text.casefold() for text in story}
    derived = [
        row for row in left_of(dsn, "Emil") if not any(text in row.casefold() for text in own)
    ]
    assert [] == derived


async def test_a_name_told_twice_survives_the_second_telling(memory: MemoryEngine) -> None:
    await tell(memory, "a", 0, EMIL[0])
    await tell(memory, "b", 2, "My son Emil likes chess.")
    await tell(memory, "c", 4, EMIL[1])
    await memory.forget_turns(ANN, "b", ["e2"])
    assert ["eight"] == await values(memory, "relation.son.age")
    await memory.forget_turns(ANN, "a", ["e0"])
    assert [] == await memory.facts(ANN)


async def test_a_run_is_undone_before_the_one_that_named_whom_it_means(
    memory: MemoryEngine, dsn: str
) -> None:
    naming = await tell(memory, "a", 0, EMIL[0])
    await memory.append_events(ANN, "b", [said("b", 4, EMIL[1])])
    before = snapshot(dsn)
    meaning = (await memory.consolidate(ANN, "b")).run_id
    again = await tell(memory, "c", 5, "Emil is eight.")
    with pytest.raises(Conflict, match=f"{again}.*{meaning}"):
        await memory.undo_run(ANN, naming)
    [eight] = await memory.facts(ANN, "relation.son.age")
    assert ("e0", "e4", "e5") == eight.source_event_ids
    await memory.undo_run(ANN, again)
    [eight] = await memory.facts(ANN, "relation.son.age")
    assert ("e0", "e4") == eight.source_event_ids
    await memory.forget_turns(ANN, "c", ["e5"])
    await memory.undo_run(ANN, meaning)
    after = snapshot(dsn)
    after["threads"] = [row for row in after["threads"] if "'c'" not in row]
    assert before == after
    await memory.undo_run(ANN, naming)
    assert [] == await memory.facts(ANN, history=True)


async def test_undoing_what_was_said_again_leaves_nothing_of_its_basis(
    memory: MemoryEngine,
) -> None:
    await tell(memory, "a", 0, EMIL[0])
    await tell(memory, "b", 4, EMIL[1])
    await memory.undo_run(ANN, await tell(memory, "c", 5, EMIL[1]))
    await memory.forget_turns(ANN, "b", ["e4"])
    assert [] == await values(memory, "relation.son.age")


async def test_what_rests_on_a_name_expires_with_it(dsn: str) -> None:
    now = START + timedelta(days=5)
    async with open_memory(dsn, worker=False, clock=lambda: now) as memory:
        ends = START + timedelta(days=9)
        await tell(memory, "a", 0, EMIL[0], expires_at=ends)
        await tell(memory, "b", 4, EMIL[1])
        assert ["eight"] == await values(memory, "relation.son.age")
        now = ends + timedelta(seconds=1)
        assert [] == await memory.facts(ANN)
        await tell(memory, "c", 10, "Emil is nine.")
        assert [] == await memory.facts(ANN)


async def test_a_namesake_who_is_told_of_meanwhile_is_minded(dsn: str) -> None:
    """Between the reading of who is known and the writing, another run names a second Emil."""
    async with open_memory(dsn, worker=False) as memory, open_memory(dsn, worker=False) as other:
        await tell(memory, "a", 0, EMIL[0])
        await other.append_events(ANN, "b", [said("b", 1, "My neighbour Emil lives in Oslo.")])

        async def late() -> None:
            if await values(other, "relation.neighbour") == []:
                await other.consolidate(ANN, "b")

        while_reading(memory, before=late)
        await tell(memory, "c", 4, EMIL[1])
        assert ["seven"] == await values(memory, "relation.son.age")


async def test_a_naming_turn_that_is_forgotten_meanwhile_is_minded(dsn: str) -> None:
    async with open_memory(dsn, worker=False) as memory, open_memory(dsn, worker=False) as other:
        await tell(memory, "a", 0, EMIL[0])
        while_reading(memory, before=lambda: other.forget_turns(ANN, "a", ["e0"]))
        await tell(memory, "c", 4, EMIL[1])
        assert [] == await memory.facts(ANN, history=True)
