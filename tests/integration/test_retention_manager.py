"""MemoryRetentionManager does what its documentation says, on one user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from shared_core import Event, InvalidInput, MemoryRetentionManager, MemoryStats, Scope, open_memory

pytestmark = pytest.mark.both_engines

ANN, BOB = Scope("app", "ann"), Scope("app", "bob")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


async def test_reads_keep_and_a_cleanup_erases_the_rest(dsn: str) -> None:
    now = [START]
    async with open_memory(dsn, clock=lambda: now[0], worker=False) as memory:
        for scope in (ANN, BOB):
            await memory.append_events(
                scope, "t",
                [Event(event_id=text, author="user", role="user", text=text, occurred_at=START)
                 for text in ("I sail.", "I ski.")],
            )  # fmt: skip
        keeper = MemoryRetentionManager(memory, ANN)
        assert {"high": 2, "medium": 0, "low": 0} == await keeper.get_retention_distribution()
        now[0] += timedelta(days=10)
        assert {"high": 0, "medium": 0, "low": 2} == await keeper.get_retention_distribution()
        [sail] = [one for one in await memory.list_memories(ANN) if one.text == "I sail."]
        await keeper.record_access(sail.memory_id)
        await keeper.record_batch_access([str(sail.memory_id), uuid4()])
        assert 2 == (await memory.accesses(ANN, [sail.memory_id]))[sail.memory_id].access_count
        now[0] += timedelta(days=10)
        planned = await keeper.cleanup_low_value_memories(dry_run=True)
        assert (2, 1) == (planned.total_memories, planned.cleaned_count)
        assert 0 == (await keeper.cleanup_low_value_memories(threshold=0)).cleaned_count
        assert 0 == (await keeper.cleanup_low_value_memories(min_age_days=21)).cleaned_count
        done = await keeper.cleanup_low_value_memories()
        assert done == MemoryStats(
            total_memories=1, high_value_count=0, medium_value_count=1, low_value_count=0,
            avg_retention_score=pytest.approx(0.54, abs=0.01), cleaned_count=1,
        )  # fmt: skip
        assert 2 == len(await memory.list_memories(BOB))
        with pytest.raises(InvalidInput, match="memory_ids must be UUIDs"):
            await keeper.record_access("sail")
