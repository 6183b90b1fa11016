"""Runs the rules of retention over many memories, in short transactions of a few users each."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias, TypeVar
from uuid import UUID

from shared_core.core.domain import MemoryKind
from shared_core.core.retention_policy import FATES, Fate
from shared_core.policies import fading, retention, retention_counts
from shared_core.policies.retention_counts import Counted
from shared_core.ports.operations import Lock, Policy, TenantBusy
from shared_core.ports.retention import Counts, DueMemory, Kept, MemoryPlace, Weak
from shared_core.ports.storage import Storage

READ_AT_ONCE = 5_000
"""Maximum number of memories read by one transaction."""
LISTED_AT_ONCE = 10_000
"""Maximum number of ids of due memories read at once, sorted by user after that."""
TENANTS_AT_ONCE = 200
"""Maximum number of users in one transaction: each takes locks and statements of its own."""

T = TypeVar("T")
Rule: TypeAlias = Callable[[str, Sequence[UUID]], Policy[T]]
"""Makes the policy for some memories of a tenant."""


@dataclass(slots=True)
class MovedBatch:
    """What became of the memories of one transaction.

    along: memories erased with others: tenant, id and kind.
    """

    counts: Counter[tuple[MemoryKind, Fate]] = field(default_factory=Counter)
    retimed: int = 0
    along: set[tuple[str, UUID, MemoryKind]] = field(default_factory=set)


async def together(
    storage: Storage, rule: Rule[T], memories: Mapping[str, Sequence[UUID]], lock: Lock
) -> dict[str, T]:
    """Run the rule on memories of several tenants in one transaction; return results by tenant.

    If another transaction holds one of the tenants, each gets a transaction of its own, so that
    none of them waits for the others. lock: "skip" then leaves out the tenants that others hold.
    """
    policies = {tenant: partial(rule, tenant, ids) for tenant, ids in memories.items()}
    try:
        return await storage.transact_all(policies, lock="none" if lock == "none" else "skip")
    except TenantBusy:
        results = {}
        for tenant, policy in policies.items():
            try:
                results[tenant] = await storage.transact(tenant, policy, lock=lock)
            except TenantBusy:
                continue
        return results


def by_tenant(places: Iterable[MemoryPlace], limit: int) -> Iterator[Mapping[str, Sequence[UUID]]]:
    """Yield memories by tenant, in order, at most `limit` of them and TENANTS_AT_ONCE at a time."""
    group: dict[str, list[UUID]] = {}
    size = 0
    for tenant, memory_id in sorted(places):
        if size == limit or (tenant not in group and len(group) == TENANTS_AT_ONCE):
            yield group
            group, size = {}, 0
        group.setdefault(tenant, []).append(memory_id)
        size += 1
    if group:
        yield group


async def _each(storage: Storage, path: str, rule: Rule[T]) -> AsyncIterator[T]:
    """Yield the results of a rule that only reads, on all memories below a path."""
    after: MemoryPlace = ("", UUID(int=0))
    while page := await storage.retention.memories_below(path, after, READ_AT_ONCE):
        for group in by_tenant(page, READ_AT_ONCE):
            for result in (await together(storage, rule, group, "none")).values():
                yield result
        after = page[-1]


async def retime_page(storage: Storage, path: str, limit: int) -> tuple[int, int]:
    """Retime the next page of memories below a path whose policies changed.

    Returns the numbers of memories examined, 0 at the end, and changed.
    """
    [marks] = await storage.read(path, [retention.MARK])
    if not marks:
        return 0, 0
    page = await storage.retention.memories_below(path, marks[0], limit)
    changed = 0
    for group in by_tenant(page, limit):
        changed += sum((await together(storage, retention.retime, group, "wait")).values())
    after = page[-1] if page else None
    await storage.transact(path, lambda: retention.note_retimed(marks[0], after))
    return len(page), changed


async def _due(storage: Storage, path: str, now: datetime) -> AsyncIterator[Sequence[DueMemory]]:
    after: DueMemory = (datetime.min.replace(tzinfo=UTC), "", UUID(int=0))
    while page := await storage.retention.due_memories(path, now, after, LISTED_AT_ONCE):
        yield page
        after = page[-1]


async def move_on(
    storage: Storage, path: str, now: datetime, limit: int
) -> AsyncIterator[MovedBatch]:
    """Move the due memories below a path on by one stage; yield the result of each transaction.

    limit: maximum number of memories of one transaction. Memories that others hold stay.
    """
    rule = partial(_moved_on, now=now)
    async for page in _due(storage, path, now):
        for group in by_tenant(((tenant, one) for _, tenant, one in page), limit):
            batch = MovedBatch()
            for tenant, moved in (await together(storage, rule, group, "skip")).items():
                batch.counts += moved.counts
                batch.retimed += moved.retimed
                batch.along |= {(tenant, one, kind) for one, kind in moved.along.items()}
            yield batch


def _moved_on(tenant: str, ids: Sequence[UUID], now: datetime) -> Policy[fading.Moved]:
    return fading.move_on(tenant, ids, now)


async def due(
    storage: Storage, path: str, now: datetime, limit: int
) -> tuple[Counts, Mapping[MemoryKind, int], Sequence[tuple[Kept, Fate]]]:
    """Return what move_on() would do: counts by fate, counts along, and the first memories.

    limit: maximum number of memories returned, the longest due first.
    """

    def rule(tenant: str, ids: Sequence[UUID]) -> Policy[fading.Ahead]:
        return fading.what_moves_on(tenant, ids, now)

    counts: Counter[tuple[MemoryKind, Fate]] = Counter()
    along: dict[MemoryPlace, MemoryKind] = {}
    listed: dict[MemoryPlace, Fate] = {}
    async for page in _due(storage, path, now):
        fates: dict[MemoryPlace, Fate] = {}
        for group in by_tenant(((tenant, one) for _, tenant, one in page), READ_AT_ONCE):
            for tenant, ahead in (await together(storage, rule, group, "none")).items():
                along |= {(tenant, one): kind for one, kind in ahead.along.items()}
                for one, (kind, fate) in ahead.fates.items():
                    counts[kind, fate] += 1
                    fates[tenant, one] = fate
        for _, *place in page:
            if len(listed) < limit and (where := (place[0], place[1])) in fates:
                listed[where] = fates[where]
    found: dict[MemoryPlace, Kept] = {}
    for group in by_tenant(listed, READ_AT_ONCE):
        for tenant, some in (await together(storage, retention.kept, group, "none")).items():
            found |= {(tenant, one.memory_id): one for one in some}
    first = [(found[place], fate) for place, fate in listed.items() if place in found]
    return counts_of(counts), Counter(along.values()), first


def counts_of(counts: Mapping[tuple[MemoryKind, Fate], int]) -> Counts:
    """Return counts by fate and kind; fates without memories are included."""
    return {
        fate: {kind: count for (kind, of), count in sorted(counts.items()) if of == fate}
        for fate in FATES
    }


async def weak_below(
    storage: Storage, path: str, weak: Weak, now: datetime
) -> tuple[int, float, list[UUID]]:
    """Return the number of memories that fade, their average score, and the ids of the weak."""
    count, total, found = 0, 0.0, list[UUID]()

    def rule(tenant: str, ids: Sequence[UUID]) -> Policy[tuple[int, float, list[UUID]]]:
        return fading.judge(tenant, ids, weak, now)

    async for some, score_sum, ids in _each(storage, path, rule):
        count, total = count + some, total + score_sum
        found += ids
    return count, total / count if count else 0.0, sorted(found)


async def counted(storage: Storage, path: str, now: datetime, days: Sequence[float]) -> Counted:
    """Return the statistics of all memories below a path."""

    def rule(tenant: str, ids: Sequence[UUID]) -> Policy[Counted]:
        return retention_counts.count(tenant, ids, now, days)

    counts = Counted(leaving={one: dict.fromkeys(FATES, 0) for one in days})
    async for some in _each(storage, path, rule):
        counts.add(some)
    return counts
