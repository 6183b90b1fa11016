"""What rests on something goes with it: reflections with memories, knowledge with its context."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from shared_core import Event, JobType, MemoryEngine, RetentionPolicy, Scope, open_memory
from shared_core.core.domain import NO_USAGE, InsightDraft, Memory, ModelUsage
from shared_core.extraction.rule_based import RuleExtractor

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def said(number: int, text: str, **more: Any) -> Event:
    return Event(**{
        "event_id": f"e{number}", "author": "user", "role": "user", "text": text,
        "occurred_at": START + timedelta(minutes=number), **more,
    })  # fmt: skip


class Concluding(RuleExtractor):
    """A fake: reads by rules, and concludes one thing from all memories."""

    async def reflect(
        self, memories: Sequence[Memory]
    ) -> tuple[Sequence[InsightDraft], ModelUsage]:
        ids = tuple(memory.memory_id for memory in memories)
        return [InsightDraft(text="Ana hides an affair with Zorro.", memory_ids=ids)], NO_USAGE


async def texts(memory: MemoryEngine, *kinds: Any) -> list[str]:
    return sorted(one.text for one in await memory.list_memories(ANN, kinds=kinds, limit=1000))


async def said_again_and_again(memory: MemoryEngine, text: str) -> list[Any]:
    runs = []
    for number in range(3):
        await memory.append_events(ANN, "t", [said(number, text)])
        runs.append((await memory.consolidate(ANN, "t")).run_id)
    assert 1 == (await memory.reflect(ANN)).reflections_generated
    return runs


async def test_a_reflection_goes_with_a_remembered_memory(dsn: str) -> None:
    async with open_memory(dsn, extractor=Concluding(), worker=False) as memory:
        keys = await memory.remember(ANN, ["Ana has an affair.", "Ana meets Zorro on Fridays."])
        assert 1 == (await memory.reflect(ANN)).reflections_generated
        assert 2 == await memory.forget(ANN, keys[0])
        assert [] == await texts(memory, "reflection")
        assert ["Ana meets Zorro on Fridays."] == await texts(memory, "item", "semantic")


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_reflection_goes_with_its_fact(memory: MemoryEngine, language: str) -> None:
    text = {"en": "I love jazz.", "zh": "我喜欢爵士乐。"}[language]
    await said_again_and_again(memory, text)
    [fact] = await memory.facts(ANN)
    await memory.forget(ANN, str(fact.memory_id))
    assert [] == await texts(memory, "reflection")


async def test_a_reflection_goes_with_the_run_that_wrote_its_fact(memory: MemoryEngine) -> None:
    runs = await said_again_and_again(memory, "I love jazz.")
    for run_id in reversed(runs):
        await memory.undo_run(ANN, run_id)
    assert [] == await texts(memory, "semantic", "reflection")


async def test_a_reflection_is_retired_with_its_fact_and_comes_back_by_undo(
    memory: MemoryEngine,
) -> None:
    await said_again_and_again(memory, "I live in Berlin.")
    pattern = await texts(memory, "reflection")
    await memory.append_events(ANN, "t", [said(9, "I live in Rome now.")])
    moved = await memory.consolidate(ANN, "t")
    assert [] == await texts(memory, "reflection")
    assert [] == await memory.recall(ANN, "again and again", kinds=["reflection"])
    assert moved.run_id
    await memory.undo_run(ANN, moved.run_id)
    assert pattern == await texts(memory, "reflection")


async def test_a_reflection_expires_with_the_first_of_its_memories(dsn: str) -> None:
    async with open_memory(dsn, extractor=Concluding(), worker=False) as memory:
        soon = datetime.now(UTC) + timedelta(hours=1)
        await memory.append_events(
            ANN, "t", [said(1, "Zorro came by.", expires_at=soon), said(2, "Fridays are best.")]
        )
        await memory.reflect(ANN)
        [reflection] = await memory.list_memories(ANN, kinds=["reflection"])
        assert soon == reflection.expires_at


async def test_a_faded_memory_leaves_its_reflection(dsn: str) -> None:
    async with open_memory(dsn, extractor=Concluding(), worker=False) as memory:
        await memory.append_events(ANN, "t", [said(1, "Zorro came by."), said(2, "Ana smiled.")])
        await memory.reflect(ANN)
        [faded, _] = await memory.list_memories(ANN, kinds=["episodic"])
        kept = [one.key for one in await memory.list_memories(ANN) if one.key != faded.key]
        assert 2 == await memory.retention.pin(ANN, kept)
        policy = RetentionPolicy(threshold=1, min_age_days=0)
        assert 1 == len((await memory.cleanup(ANN, policy)).forgotten)
        assert 1 == len(await texts(memory, "reflection"))


async def test_a_forgotten_summary_takes_those_it_replaced(memory: MemoryEngine, dsn: str) -> None:
    for number, text in enumerate(["I live in Zanzibar.", "I work at Acme.", "I like papayas."]):
        await memory.append_events(ANN, "t", [said(number, text)])
        await memory.consolidate(ANN, "t")
    await memory.append_events(ANN, "other", [said(7, "I play chess."), said(8, "Nice set.")])
    await memory.consolidate(ANN, "other")
    assert 3 == await memory.forget(ANN, "summary/t")
    with psycopg.connect(dsn) as superuser:
        kept = "SELECT key FROM hippocampus.memories WHERE kind = 'summary'"
        assert [("summary/other",)] == superuser.execute(kept).fetchall()


class Rolling(RuleExtractor):
    """A fake: carries each summary on, as a model does."""

    reread_turns = 0

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        return " ".join([previous, *(event.text for event in events)]).strip(), NO_USAGE


async def test_a_summary_expires_with_what_it_carries_on(dsn: str) -> None:
    now = datetime.now(UTC)
    soon, later = now + timedelta(hours=1), now + timedelta(hours=2)
    async with open_memory(dsn, extractor=Rolling(), worker=False) as memory:
        for number, expires_at in enumerate([later, soon, None, later]):
            turn = said(number, f"Zorro visits on day {number}.", expires_at=expires_at)
            await memory.append_events(ANN, "t", [turn])
            await memory.consolidate(ANN, "t")
        [summary] = await memory.list_memories(ANN, kinds=["summary"])
        assert ("day 0" in summary.text, soon) == (True, summary.expires_at)


async def test_a_summary_that_expired_is_no_part_of_the_next(dsn: str) -> None:
    async with open_memory(dsn, extractor=Rolling(), worker=False) as memory:
        await memory.append_events(ANN, "t", [said(1, "Zorro visits tonight.")])
        await memory.consolidate(ANN, "t")
        with psycopg.connect(dsn) as superuser:
            for table in ("events", "memories"):
                superuser.execute(f"UPDATE hippocampus.{table} SET expires_at = '2026-01-01'")
        await memory.append_events(ANN, "t", [said(2, "It rains in Bonn.")])
        await memory.consolidate(ANN, "t")
        [summary] = await memory.list_memories(ANN, kinds=["summary"])
        assert ("It rains in Bonn.", None) == (summary.text, summary.expires_at)


async def test_expired_turns_without_a_memory_are_swept(memory: MemoryEngine, dsn: str) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    turns = [
        said(1, "I like papayas.", expires_at=soon),
        said(2, "ok", expires_at=soon),
        said(3, "Be kind to Zorro.", role="system", expires_at=soon),
        said(4, "ok"),
    ]
    await memory.append_events(ANN, "t", turns)
    await memory.sweep_expired()
    with psycopg.connect(dsn) as superuser:
        left = "SELECT event_id FROM hippocampus.events ORDER BY seq"
        assert 4 == len(superuser.execute(left).fetchall())
        for table in ("events", "memories"):
            superuser.execute(
                f"UPDATE hippocampus.{table} SET expires_at = '2026-01-01'"
                " WHERE expires_at IS NOT NULL"
            )
        superuser.commit()
        assert 0 == await memory.sweep_expired(("app", "ann", "notes"))
        assert 4 == len(superuser.execute(left).fetchall())
        assert 1 == await memory.sweep_expired()
        assert [("e4",)] == superuser.execute(left).fetchall()
    again = await memory.append_events(ANN, "t", turns)
    assert not any(again)


NAMES = {
    "en": ("My daughter Zoraida is five.", "She loves drawing and plays chess.", "Zoraida"),
    "zh": ("我女儿叫灿灿。", "她喜欢画画，今年五岁。", "灿灿"),
}


def rows_with(dsn: str, word: str) -> list[str]:
    """Return what of knowledge holds a word, facts' keys and edges included."""
    with psycopg.connect(dsn) as superuser:
        return [
            table
            for table in ("memories", "facts", "edges")
            for (row,) in superuser.execute(f"SELECT t::text FROM hippocampus.{table} t")
            if word in row
        ]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_who_a_pronoun_means_is_forgotten_with_the_turn_that_said_so(
    memory: MemoryEngine, dsn: str, language: str, at_once: bool
) -> None:
    first, second, name = NAMES[language]
    await memory.append_events(ANN, "t", [said(1, first)])
    if not at_once:
        await memory.consolidate(ANN, "t")
    await memory.append_events(ANN, "t", [said(2, second), said(3, "I like papayas.")])
    await memory.consolidate(ANN, "t", job_type=JobType.DEEP_REFLECTION)
    told = [one for one in await memory.facts(ANN) if name in one.statement]
    assert ("e1", "e2") in [one.source_event_ids for one in told]
    await memory.forget(ANN, "summary/t")
    await memory.forget_turns(ANN, "t", ["e1"])
    assert [] == rows_with(dsn, name)
    assert ["User likes papayas."] == [one.statement for one in await memory.facts(ANN)]


async def test_a_turn_that_names_somebody_itself_needs_no_other(memory: MemoryEngine) -> None:
    await memory.append_events(ANN, "t", [said(1, "My daughter Mia is five.")])
    await memory.append_events(ANN, "t", [said(2, "My daughter Mia loves art.")])
    await memory.append_events(ANN, "t", [said(3, "I live in Rome with Mia.")])
    await memory.consolidate(ANN, "t")
    await memory.forget_turns(ANN, "t", ["e1"])
    told = {one.value: one.source_event_ids for one in await memory.facts(ANN)}
    assert [("e2",), ("e3",)] == sorted(told[one] for one in told if one in ("art", "Rome"))


async def test_a_repeat_that_needs_another_turn_keeps_nothing_alive(
    memory: MemoryEngine, dsn: str
) -> None:
    turns = ["My daughter Zoraida loves art.", "She loves art."]
    await memory.append_events(ANN, "t", [said(n, text) for n, text in enumerate(turns)])
    await memory.consolidate(ANN, "t", job_type=JobType.DEEP_REFLECTION)
    await memory.forget_turns(ANN, "t", ["e0"])
    assert [] == rows_with(dsn, "Zoraida")


async def test_a_memory_that_ends_while_a_model_reflects_leaves_no_reflection(dsn: str) -> None:
    class Interrupted(Concluding):
        async def reflect(
            self, memories: Sequence[Memory]
        ) -> tuple[Sequence[InsightDraft], ModelUsage]:
            facts = [one for one in memories if one.kind == "semantic"]
            if not seen:
                await memory.append_events(ANN, "t", [said(2, "I live in Rome now.")])
                await memory.consolidate(ANN, "t")
            seen.append([one.text for one in facts])
            return await super().reflect(facts)

    seen: list[list[str]] = []
    async with open_memory(dsn, extractor=Interrupted(), worker=False) as memory:
        await memory.append_events(ANN, "t", [said(1, "I live in Berlin.")])
        await memory.consolidate(ANN, "t")
        report = await memory.reflect(ANN)
        [rome] = await memory.facts(ANN)
        assert [["User lives in Berlin."], ["User lives in Rome."]] == seen
        assert [(rome.memory_id,)] == [one.memory_ids for one in report.reflections]


async def test_a_turn_that_is_in_several_threads_is_named_once(memory: MemoryEngine) -> None:
    for thread in ("t", "u", "v"):
        await memory.append_events(ANN, thread, [said(1, "I love jazz.")])
        await memory.consolidate(ANN, thread)
    [fact] = await memory.facts(ANN)
    [kept] = await memory.list_memories(ANN, kinds=["semantic"])
    assert (("e1",), ("e1",)) == (fact.source_event_ids, kept.source_event_ids)
