"""Sessions at their edges: beside an erasure, full, and said again after a lost answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from http_clients import client_of

from shared_core import InvalidInput, MemoryEngine, Scope
from tests.integration.talking import ANN, SCOPE, Watch, info, jobs, opened, rows

GATE = 4711
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def gated(memory: MemoryEngine, after: int) -> None:
    """Let erasing wait for the gate after so many of its steps."""
    steps: Callable[..., list[Any]] = memory._storage._erasing_steps  # type: ignore[attr-defined]

    def with_gate(*given: Any) -> list[Any]:
        found = steps(*given)
        gate = (f"SELECT pg_advisory_xact_lock({GATE})".encode(), {})
        return [*found[:after], gate, *found[after:]]

    memory._storage._erasing_steps = with_gate  # type: ignore[attr-defined]


async def waiting(superuser: psycopg.Connection[Any], count: int, task: asyncio.Task[Any]) -> None:
    """Return when so many wait for locks, or a task is done."""
    while not task.done():
        [(found,)] = superuser.execute(WAITING).fetchall()
        if found >= count:
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("after", [3, 4, 6])
async def test_an_input_beside_an_erasure_is_whole_or_not_there(dsn: str, after: int) -> None:
    async with opened(dsn, Watch()) as memory, opened(dsn, Watch()) as other:
        await memory.process_memory("I live in Rome", ANN)
        await other.open()
        gated(memory, after)
        with psycopg.connect(dsn, autocommit=True) as superuser:
            superuser.execute(f"SELECT pg_advisory_lock({GATE})")
            erasing = asyncio.create_task(memory.forget_scope(SCOPE))
            await waiting(superuser, 1, erasing)
            hearing = asyncio.create_task(other.process_memory("I live in Oslo", ANN))
            await waiting(superuser, 2, hearing)
            superuser.execute(f"SELECT pg_advisory_unlock({GATE})")
            await asyncio.gather(erasing, hearing)
            said = superuser.execute("SELECT text FROM hippocampus.events").fetchall()
        assert ([("active", 1)], [("I live in Oslo",)]) == (rows(dsn), said)


@pytest.mark.parametrize("most", [1, 2])
async def test_a_full_session_is_ended_by_whoever_looks(dsn: str, most: int) -> None:
    async with opened(dsn, Watch(), max_events=most) as memory:
        for text in ("I live in Rome", "My cat is called Tom")[:most]:
            assert [] == rows(dsn) or await info(memory)
            await memory.process_memory(text, ANN)
        assert {} == await info(memory)
        assert 1 == await memory.session_ends.run()
        assert ([("ending", most)], ["pending"]) == (rows(dsn), jobs(dsn))


async def test_an_input_with_an_id_is_taken_in_once(dsn: str) -> None:
    async with opened(dsn, Watch()) as memory, client_of(memory) as client:
        body = {"input": "I live in Rome", "user_id": ANN, "event_id": "m1"}
        for _ in range(2):
            assert 200 == (await client.post("/process", json=body)).status_code
        await memory.process_memory("I live in Rome", ANN, event_id="m1")
        assert [("active", 1)] == rows(dsn)
        await memory.process_memory("I live in Rome", ANN, event_id="m2")
        await memory.process_memory("I live in Rome", ANN)
        assert [("active", 3)] == rows(dsn)
        with pytest.raises(InvalidInput, match="event_id"):
            await memory.process_memory("I live in Rome", ANN, event_id="")


async def test_what_was_said_long_before_a_pronoun_is_not_read(dsn: str) -> None:
    async with opened(dsn, Watch()) as memory:
        for filler in ("Rain fell. " * 400, "下雨了。" * 1_100):
            await memory.process_memory(f"My daughter is called Mia. {filler}", ANN)
            answer = await memory.process_memory("How old is she?", ANN)
            assert "How old is she?" == answer["resolved_query"]
            await memory.end_session(ANN)
        await memory.process_memory(f"{'Rain fell. ' * 400} My daughter is called Mia.", ANN)
        answer = await memory.process_memory("How old is she?", ANN)
        assert "How old is Mia?" == answer["resolved_query"]


async def test_a_sentence_that_is_cut_tells_nothing(dsn: str) -> None:
    said = "My sister is a friend of my daughter Mia. "
    async with opened(dsn, Watch()) as memory:
        await memory.process_memory(said + "x" * (4_000 - 17) + ". Rain fell.", ANN)
        answer = await memory.process_memory("How old is she?", ANN)
        assert "How old is she?" == answer["resolved_query"]


async def test_users_with_a_slash_in_their_id_are_found(dsn: str) -> None:
    async with opened(dsn, Watch()) as memory, client_of(memory) as client:
        await memory.process_memory("I live in Rome", "a/b")
        status = (await client.get("/session-status/a%2Fb")).json()
        assert status["has_active_session"]
        await memory.graph.add(Scope("default", "a/b"), "user", "lives in", "Rome")
        graph = (await client.get("/graph/a%2Fb")).json()
        assert "Rome" in str(graph)
