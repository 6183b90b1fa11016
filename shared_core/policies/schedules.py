"""Tasks that one process at a time does: taken while due, kept, and ended with a next time.

They belong to no tenant: their policies run in the path above all.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from shared_core.core.domain import JsonValue
from shared_core.ports.operations import (
    Condition,
    Delete,
    Insert,
    Last,
    Policy,
    Select,
    Update,
    equal,
)

TABLE = "schedules"


def take_turn(task: str, worker_id: str, now: datetime, lease_until: datetime) -> Policy[bool]:
    """Claim a task for a while; return whether it was due and nobody else was at it.

    A task that never ran is due. Two processes that claim it at once need the lock of their tenant.
    """
    named = (equal("task", task),)
    held = {"worker_id": worker_id, "lease_until": lease_until}
    [rows] = yield [Select(TABLE, ("next_at", "lease_until"), named, lock="update")]
    if not rows:
        columns = {"task": task, "next_at": now, **held}
        yield Last([Insert(TABLE, tuple(columns), [tuple(columns.values())])])
        return True
    [(next_at, lease)] = rows
    if next_at > now or (lease is not None and lease > now):
        return False
    yield Last([Update(TABLE, held, named)])
    return True


def keep_turn(task: str, worker_id: str, lease_until: datetime) -> Policy[bool]:
    """Extend the claim of a task; return whether the worker still has it."""
    changed = Update(TABLE, {"lease_until": lease_until}, _of(task, worker_id), ("task",))
    [rows] = yield [changed]
    yield Last([])
    return bool(rows)


def end_turn(
    task: str, worker_id: str, now: datetime, next_at: datetime, result: Mapping[str, JsonValue]
) -> Policy[None]:
    """Store the result of a task and when it is due again, if the worker still has it."""
    values = {
        "worker_id": None, "lease_until": None, "next_at": next_at, "done_at": now,
        "result": result,
    }  # fmt: skip
    yield Last([Update(TABLE, values, _of(task, worker_id))])


def last_turn(task: str) -> Select:
    """Return the read of a task: when it is due, when it was done, and with which result."""
    return Select(TABLE, ("next_at", "done_at", "result"), (equal("task", task),))


def drop_task(task: str) -> Policy[None]:
    """Forget a task."""
    yield Last([Delete(TABLE, (equal("task", task),))])


def _of(task: str, worker_id: str) -> tuple[Condition, ...]:
    return (equal("task", task), equal("worker_id", worker_id))
