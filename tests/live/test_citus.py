"""Tier "live": a Citus cluster, named by HIPPOCAMPUS_CITUS_DSN: a user who is no superuser, in a
database that has the extensions citus and vector. Its schema hippocampus_live is dropped first."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import psycopg
import pytest

from shared_core import Event, Scope, open_memory
from shared_core.storage.postgres.connection.citus import place_of, spread

DSN = os.environ.get("HIPPOCAMPUS_CITUS_DSN", "")
SCHEMA = "hippocampus_live"
pytestmark = pytest.mark.skipif(not DSN, reason="HIPPOCAMPUS_CITUS_DSN names no cluster")
ANA, ZHU = Scope("app", "ana"), Scope("app", "朱莉")


def said(number: int, text: str) -> Event:
    return Event(
        event_id=f"e{number}",
        author="user",
        role="user",
        text=text,
        occurred_at=datetime(2026, 3, 1, 9, number, tzinfo=UTC),
    )


async def test_the_whole_loop_runs_on_a_cluster() -> None:
    with psycopg.connect(DSN, autocommit=True) as admin:
        admin.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    async with open_memory(DSN, schema=SCHEMA):
        pass  # migrated
    first = spread(DSN, SCHEMA)
    assert all(table.moved == (place_of(table.table) != "coordinator") for table in first)
    assert not any(table.moved for table in spread(DSN, SCHEMA))
    async with open_memory(DSN, schema=SCHEMA) as memory:
        for scope, texts in (
            (ANA, ["My name is Ana.", "I live in Oslo.", "I moved to Bergen."]),
            (ZHU, ["我叫朱莉。", "我住在深圳。"]),
        ):
            turns = [said(number, text) for number, text in enumerate(texts)]
            await memory.append_events(scope, "t1", turns, later=True)
        assert await memory.flush(60)
        assert {fact.value for fact in await memory.facts(ANA)} >= {"Ana", "Bergen"}
        assert "深圳" in (await memory.recall(ZHU, "我住在哪里？"))[0].memory.text
        assert "Oslo" not in str([hit.memory.text for hit in await memory.recall(ZHU, "Oslo")])
        await memory.context_window(ANA, "t1", "Where do I live?")
        await memory.process_memory("I like tea.", "ana", app="app")
        [run, *_] = await memory.runs(ANA)
        await memory.undo_run(ANA, run.run_id)
        await memory.graph.entities(ANA)
        await memory.forget_turns(ANA, "t1", ["e0"])
        await memory.forget_scope(ZHU)
        assert await memory.list_memories(ZHU) == []
