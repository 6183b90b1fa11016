"""Rows of memories that tests write by operations, and how they read them."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from shared_core.ports import operations as ops
from shared_core.ports.storage import Storage

NOW = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
ANA, BEN, ALONE = "/app/ana/", "/app/ben/", "/other/ana/"
MEMORY = (
    "memory_id", "namespace", "key", "kind", "text", "value", "terms", "term_count", "importance",
    "occurred_at", "created_at", "updated_at", "thread_id", "superseded_at",
)  # fmt: skip
MANY = 1100
"""More values than one statement of an engine takes."""


def number(place: int) -> UUID:
    return UUID(int=place)


def memory(place: int, **given: object) -> list[object]:
    row: dict[str, object] = {
        "memory_id": number(place), "namespace": "/facts/", "key": f"k{place:05}", "kind": "item",
        "text": f"text {place}", "value": {"content": f"text {place}"}, "terms": "",
        "term_count": 0, "importance": 5, "occurred_at": NOW + timedelta(seconds=place),
        "created_at": NOW, "updated_at": NOW, "thread_id": None, "superseded_at": None,
    }  # fmt: skip
    return [{**row, **given}[column] for column in MEMORY]


def memories(*places: int) -> ops.Insert:
    return ops.Insert("memories", MEMORY, [memory(place) for place in places])


def thread(thread_id: str) -> ops.Insert:
    return ops.Insert("threads", ("thread_id", "created_at", "updated_at"), [(thread_id, NOW, NOW)])


async def write(storage: Storage, *operations: ops.Operation, tenant: str = ANA) -> None:
    def policy() -> ops.Policy[None]:
        yield ops.Last(operations)

    await storage.transact(tenant, policy)


async def returned(
    storage: Storage, operation: ops.Operation, tenant: str = ANA, **options: Any
) -> Sequence[ops.Row]:
    """Return the rows that an operation returns within a transaction that is committed."""

    def policy() -> ops.Policy[Sequence[ops.Row]]:
        [rows] = yield [operation]
        yield ops.Last([])
        return rows

    return await storage.transact(tenant, policy, **options)


async def rows_of(
    storage: Storage,
    table: str,
    *columns: str | ops.Aggregate | ops.Member,
    tenant: str = ANA,
    **more: Any,
) -> list[ops.Row]:
    [rows] = await storage.read(tenant, [ops.Select(table, columns, **more)])
    return rows


async def places(storage: Storage, *where: ops.Condition, **more: Any) -> list[int]:
    """Return the numbers of the memories that a Select finds."""
    rows = await rows_of(storage, "memories", "memory_id", where=where, **more)
    found = [row[0].int for row in rows]
    return found if "order" in more else sorted(found)


def until(event: asyncio.Event) -> ops.Policy[None]:
    """Read again and again until an event."""
    while not event.is_set():
        yield [ops.Select("threads", ("thread_id",))]
