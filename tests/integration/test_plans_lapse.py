"""A plan holds until its date is over, and is history afterwards."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shared_core import AsOf, Event, MemoryEngine, Scope

SCOPE = Scope("app", "ana")


async def tell(memory: MemoryEngine, text: str) -> None:
    said_at = datetime(2026, 3, 10, 10, tzinfo=UTC)
    turn = Event(event_id="e1", author="ana", role="user", text=text, occurred_at=said_at)
    await memory.append_events(SCOPE, "t1", [turn])
    await memory.consolidate(SCOPE, "t1")


@pytest.mark.both_engines
async def test_a_plan_lapses_by_itself(memory: MemoryEngine) -> None:
    await tell(memory, "my flight to Rome is on Sept 14")
    before, after = (AsOf(valid=datetime(2026, 9, day, 12, tzinfo=UTC)) for day in (14, 15))
    [plan] = await memory.facts(SCOPE, "plan", as_of=before)
    assert "flight to Rome is on Sept 14" == plan.value
    assert [] == await memory.facts(SCOPE, "plan", as_of=after)
    assert ["plan"] == [one.slot for one in await memory.facts(SCOPE, history=True)]


@pytest.mark.both_engines
async def test_a_plan_to_come_is_a_fact_that_holds(memory: MemoryEngine) -> None:
    await tell(memory, "my wedding is on 4 May 2099")
    [plan] = await memory.facts(SCOPE, "plan")
    assert datetime(2099, 5, 5, tzinfo=UTC) == plan.valid_until
