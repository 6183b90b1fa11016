"""What retention reads of memories, pins, and the times of their next stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import get_args
from uuid import UUID

from shared_core.core.domain import MemoryId, MemoryKind
from shared_core.core.ids import is_uuid
from shared_core.core.namespaces import from_path, storable
from shared_core.core.retention_policy import STAGES, Rules, Stage
from shared_core.policies.reviving import ARCHIVE
from shared_core.policies.timing import (
    COUNTERS,
    RULES,
    TIMED,
    RuleOf,
    arousal_of,
    hold,
    policy_of,
    retimed,
    rules_of,
    select_timed,
    timed_of,
)
from shared_core.ports.operations import (
    Delete,
    Insert,
    Join,
    Last,
    Policy,
    Row,
    Select,
    Update,
    UpdateEach,
    equal,
    is_not_null,
    one_of,
)
from shared_core.ports.retention import Accesses, Kept

_KEPT = (*TIMED, "namespace", "key", "text", "demoted_at", "x.text")
MARK = Select("retimings", ("after_tenant", "after_id"))
"""Reads the last memory below a path (the tenant) that was retimed."""


def effective_rules(rows: Sequence[Row], path: str) -> Rules:
    """Return how all kinds fade at a path, from the rows of RULES."""
    rule = rules_of(rows, path)
    return {kind: rule(kind) for kind in get_args(MemoryKind)}


def own_rules(rows: Sequence[Row], path: str) -> Rules:
    """Return the policies set for a path itself, from the rows of RULES."""
    return {row[1]: policy_of(row[2:]) for row in rows if row[0] == path}


def retime(tenant: str, memory_ids: Sequence[UUID]) -> Policy[int]:
    """Recompute when memories leave their stage, by new policies; return how many change."""
    rules, _, rows = yield [RULES, hold(memory_ids), select_timed(memory_ids)]
    operations = retimed(map(timed_of, rows), rules_of(rules, tenant))
    yield Last(operations)
    return sum(len(one.rows) for one in operations if isinstance(one, Insert))


def note_retimed(before: Row, after: Row | None) -> Policy[None]:
    """Note the last memory below a path that was retimed; None for all.

    before: the row of MARK. Another one means that policies were set anew meanwhile: it stays.
    """
    columns = ("after_tenant", "after_id")
    where = tuple(equal(column, value) for column, value in zip(columns, before, strict=True))
    if after is None:
        yield Last([Delete("retimings", where)])
    else:
        yield Last([Update("retimings", dict(zip(columns, after, strict=True)), where)])


def pin(memory_ids: Sequence[UUID], now: datetime) -> Policy[list[MemoryId]]:
    """Pin memories, so that they never fade; return the ids of those that exist."""
    _, rows = yield [hold(memory_ids), select_timed(memory_ids)]
    found = sorted(map(timed_of, rows), key=lambda one: one.memory_id)
    pins = [(one.memory_id, one.pinned_at or now, None) for one in found]
    columns = ("memory_id", "pinned_at", "forget_at")
    yield Last([Insert("memory_access", columns, pins, "update", columns[1:])] if pins else [])
    return [MemoryId(one.memory_id) for one in found]


def unpin(tenant: str, memory_ids: Sequence[UUID]) -> Policy[list[MemoryId]]:
    """Let pinned memories fade again; return their ids."""
    rules, _, rows = yield [RULES, hold(memory_ids), select_timed(memory_ids)]
    rule = rules_of(rules, tenant)
    pinned = [one for one in map(timed_of, rows) if one.pinned_at is not None]
    free = sorted((replace(one, pinned_at=None) for one in pinned), key=lambda one: one.memory_id)
    changed = [(one.memory_id, None, one.leaves_at(rule(one.kind))) for one in free]
    columns = ("pinned_at", "forget_at")
    yield Last([UpdateEach("memory_access", ("memory_id",), columns, changed)] if changed else [])
    return [MemoryId(one.memory_id) for one in free]


def kept(tenant: str, memory_ids: Sequence[UUID]) -> Policy[list[Kept]]:
    """Return the retention of memories, by id; unknown ones are passed over."""
    ids = sorted(set(memory_ids))
    where = (one_of("memory_id", ids),)
    rules, rows = yield [
        RULES,
        Select("memories", _KEPT, where, (COUNTERS, ARCHIVE), order=("memory_id",)),
    ]
    rule = rules_of(rules, tenant)
    return [_kept_of(row, tenant, rule) for row in rows]


def staged(
    tenant: str,
    stages: Sequence[Stage],
    kinds: Sequence[MemoryKind] | None,
    limit: int,
    offset: int,
) -> Policy[list[Kept]]:
    """Return faded memories in some stages, latest first."""
    where = [
        one_of("stage", [STAGES.index(stage) for stage in stages]),
        is_not_null("staged_at"),
        is_not_null("m.demoted_at"),
    ]
    if kinds is not None:
        where.append(one_of("m.kind", list(kinds)))
    [rows] = yield [
        Select(
            "memory_access",
            ("memory_id", "staged_at"),
            tuple(where),
            (Join("memories", "m", (("memory_id", "memory_id"),)),),
            order=("-staged_at", "memory_id"),
            limit=limit + offset,
        )
    ]
    ids = [row[0] for row in rows[offset:]]
    found = {one.memory_id: one for one in (yield from kept(tenant, ids))}
    return [found[one] for one in ids]


def _kept_of(row: Row, tenant: str, rule: RuleOf) -> Kept:
    one = timed_of(row)
    namespace, key, text, demoted_at, archived = row[len(TIMED) :]
    return Kept(
        memory_id=MemoryId(one.memory_id),
        namespace=from_path(tenant + namespace[1:]),
        key=key,
        kind=one.kind,
        text=text if demoted_at is None or archived is None else archived,
        stage=STAGES[one.stage],
        staged_at=one.staged_at,
        pinned=one.pinned_at is not None,
        strength=one.initial,
        importance=one.importance,
        arousal=arousal_of(one.value),
        access_count=one.access_count,
        last_accessed_at=one.last_accessed_at,
        used_at=one.used_at,
        created_at=one.created_at,
        forget_at=one.forget_at,
        rule=rule(one.kind),
    )


def select_named(namespace: str, names: Sequence[str]) -> tuple[Select, Select]:
    """Return the operations that read memories named by key in a namespace, and by id."""
    keys = sorted({name for name in names if storable(name)})
    ids = sorted({UUID(name) for name in names if is_uuid(name)})
    columns = ("memory_id", "key")
    return (
        Select("memories", columns, (equal("namespace", namespace), one_of("key", keys))),
        Select("memories", columns, (one_of("memory_id", ids),)),
    )


def named_ids(rows: Sequence[Sequence[Row]]) -> list[UUID]:
    """Return the ids of named memories, from the rows of select_named()."""
    return sorted({row[0] for some in rows for row in some})


def unknown_names(rows: Sequence[Sequence[Row]], names: Sequence[str]) -> list[str]:
    """Return the names that match no memory, in order, from the rows of select_named()."""
    keyed, by_id = rows
    keys, ids = {row[1] for row in keyed}, {row[0] for row in by_id}
    return [
        name for name in names if name not in keys and not (is_uuid(name) and UUID(name) in ids)
    ]


def select_accesses(memory_ids: Sequence[UUID]) -> Select:
    """Return the operation that reads the counters of memories that were ever read."""
    return Select(
        "memory_access",
        ("memory_id", "access_count", "last_accessed_at"),
        (one_of("memory_id", list(memory_ids)), is_not_null("last_accessed_at")),
    )


def accesses_of(rows: Sequence[Row]) -> dict[MemoryId, Accesses]:
    """Return counters by memory id, from the rows of select_accesses()."""
    return {MemoryId(memory_id): Accesses(count, last) for memory_id, count, last in rows}
