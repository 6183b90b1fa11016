"""Arguments of any type get a clear error that names them, never one from inside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from adk_memory import OpenMemoryService, PgSessionService
from benchmarks.fuzz_calls import Caller, raw_place
from benchmarks.odd_values import deep
from langgraph_store import PgHippocampusStore
from shared_core import InvalidInput, MemoryEngine, NewMemory, Scope
from shared_core.core import shown

ANA = Scope("app", "ana")
DEEP, LONG = deep(5_000), 10**5_000
ODD: dict[str, tuple[Callable[[Any], Awaitable[object]], str]] = {
    "a deep id": (lambda memory: memory.forget(ANA, DEEP), "keys"),
    "a deep thread": (lambda memory: memory.consolidate(ANA, DEEP), "thread_id"),
    "a deep scope": (lambda memory: memory.recall(DEEP, "tea"), "scope"),
    "a long limit": (lambda memory: memory.recall(ANA, "tea", limit=LONG), "limit"),
    "a deep edge": (lambda memory: memory.graph.restore(ANA, DEEP), "edge_id"),
    "a long delay": (lambda memory: memory.jobs.request(ANA, "t", delay_s=LONG), "delay_s"),
    "a deep type of jobs": (lambda memory: memory.jobs.request(ANA, "t", DEEP), "job_type"),
    "a strategy": (lambda memory: memory.append_events(ANA, "t", [], strategy=1), "strategy"),
    "its end": (lambda memory: memory.turns.end_session(ANA, "t", "x"), "strategy"),
    "events": (lambda memory: memory.append_events(ANA, "t", 5), "events"),
    "memories": (lambda memory: memory.remember(ANA, {1}), "memories"),
    "an author": (lambda memory: memory.remember(ANA, NewMemory(text="a", author={})), "author"),
    "metadata": (
        lambda memory: memory.remember(ANA, NewMemory(text="a", metadata=DEEP)),
        "metadata",
    ),
    "an assembler": (lambda memory: memory.context_window(ANA, "t", "q", assembler=1), "assembler"),
    "a prefix": (lambda memory: memory.sweep_expired(7), "prefix"),
    "a swept limit": (lambda memory: memory.sweep_expired((), limit="1"), "limit"),
    "an export": (lambda memory: anext(memory.export(datetime.now(UTC))), "scope"),
    "an import": (lambda memory: memory.import_lines(7), "source"),
    "lines": (lambda memory: memory.import_lines([[]]), "text"),
    "a thread of runs": (lambda memory: memory.runs(ANA, thread_id="a\x00b"), "thread_id"),
    "ids of jobs": (lambda memory: memory.jobs.retry([1]), "job_ids"),
    "an id of a job": (lambda memory: memory.jobs.list(job_id=3.0), "job_id"),
    "a state of jobs": (lambda memory: memory.jobs.list(statuses=["x"]), "status"),
    "a payload": (lambda memory: memory.jobs.ask(ANA, "t", DEEP), "payload"),
    "users of a token": (lambda memory: memory.tokens.create("app", users=int), "users"),
    "versions": (lambda memory: memory.instructions.history(ANA, "k", limit=()), "limit"),
    "aliases": (lambda memory: memory.graph.merge_aliases(ANA, "a", 7), "aliases"),
    "progress": (lambda memory: memory.retention.forget_faded(progress=1), "progress"),
    "a moment": (lambda memory: memory.profiles.shown(ANA, as_of="now"), "as_of"),
    "a slice": (lambda memory: memory.slice(ANA, "yesterday", query=5), "query"),
    "its last day": (
        lambda memory: memory.slice(
            ANA, "tomorrow", asked_at=datetime.max.replace(tzinfo=UTC), zone="Asia/Tokyo"
        ),
        "out of range",
    ),
}


@pytest.mark.parametrize(("call", "word"), ODD.values(), ids=ODD)
async def test_an_argument_that_cannot_be_used_is_named(
    memory: MemoryEngine, call: Callable[[Any], Awaitable[object]], word: str
) -> None:
    with pytest.raises(InvalidInput, match=word):
        await call(memory)


OF_A_STORE: dict[str, tuple[Callable[[Any], Awaitable[object]], str]] = {
    "labels": (lambda store: store.aget(7, "k"), "namespace"),
    "no labels": (lambda store: store.adelete(None, "k"), "namespace"),
    "a mapping": (lambda store: store.aput({"a": 1}, "k", {}), "namespace"),
    "a deep label": (lambda store: store.aget((DEEP,), "k"), "namespace"),
    "a deep key": (lambda store: store.aget(("a",), DEEP), "key"),
    "a long key": (lambda store: store.aget(("a",), LONG), "key"),
    "operations": (lambda store: store.abatch(7), "ops"),
    "a lifetime": (lambda store: store.aput(("a",), "k", {}, ttl=LONG), "time to live"),
    "a filter": (lambda store: store.asearch(("a",), filter={"$and": [LONG]}), "filter"),
    "an index": (lambda store: store.aput(("a",), "k", {}, index={"a": [None]}), "index"),
    "a prefix": (lambda store: store.alist_namespaces(prefix=7), "prefix"),
}


@pytest.mark.parametrize(("call", "word"), OF_A_STORE.values(), ids=OF_A_STORE)
async def test_an_argument_of_a_store_is_named(
    memory: MemoryEngine, call: Callable[[Any], Awaitable[object]], word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        await call(PgHippocampusStore(engine=memory))


async def test_an_argument_of_adk_is_named(memory: MemoryEngine) -> None:
    sessions, service = PgSessionService(engine=memory), OpenMemoryService(engine=memory)
    names = {"app_name": "app", "user_id": "ana"}
    with pytest.raises(TypeError, match="session_id"):
        await sessions.get_session(**names, session_id=[])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="config"):
        await sessions.get_session(**names, session_id="s", config="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Session"):
        await sessions.append_event(7, 8)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="events"):
        await service.add_events_to_memory(**names, events=["x"])  # type: ignore[list-item]
    session = await sessions.create_session(**names, state={"deep": DEEP})
    assert "too deep" in str(session.state["deep"])


def test_a_value_that_python_cannot_write_is_shown_by_its_type() -> None:
    assert shown(DEEP) == "(dict, too deep or too long to show)"
    assert shown(LONG) == "(int, too deep or too long to show)"
    assert shown("x" * 100) == "'" + "x" * 79


async def test_random_calls_raise_no_internal_error(memory: MemoryEngine) -> None:
    caller = Caller(memory, seed=1)
    for number in range(300):
        await caller.call(number)
    assert caller.outcomes.raw == {}
    assert caller.outcomes.counts["returned"] > 50 < caller.outcomes.counts["InvalidInput"]


def test_an_error_from_inside_is_told_from_one_that_is_raised_on_purpose() -> None:
    with pytest.raises(AttributeError) as inside:
        _ = Scope("a", "b").nothing  # type: ignore[attr-defined]
    assert raw_place(inside.value)
    assert raw_place(InvalidInput("limit must be a number")) is None
    assert raw_place(InvalidInput(" "))
