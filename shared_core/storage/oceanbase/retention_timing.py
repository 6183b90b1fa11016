"""Memories with their counters and policies: when they leave a stage, and what becomes of them.

The formulas are those of shared_core.core.decay; the functions of PostgreSQL say the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from shared_core.core.decay import initial_strength, retention_score, stage_end
from shared_core.core.domain import MemoryId, MemoryKind
from shared_core.core.namespaces import ROOT, from_path, path_end
from shared_core.core.retention_policy import FADING, POLICIES, STAGES, Fate, RetentionPolicy, Rules
from shared_core.policies.timing import POLICY_COLUMNS, policy_of
from shared_core.ports.retention import Kept
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction

_APPLICATION = re.compile(r"/[^/]+/")


class Policies:
    """The stored policies of some tenants: the nearest one counts."""

    def __init__(self, tx: Transaction, tenants: Iterable[str]) -> None:
        paths = {path for tenant in tenants for path in paths_above(tenant)} | {ROOT}
        self._stored: dict[tuple[str, MemoryKind], RetentionPolicy | None] = {}
        for path, kind, *columns in tx.rows_in(
            f"SELECT tenant_id, kind, fades, {', '.join(POLICY_COLUMNS)}"
            " FROM retention_policies WHERE tenant_id IN %s",
            [sorted(paths)],
        ):
            columns[-1] = bool(columns[-1])
            self._stored[path, kind] = policy_of(columns)

    def own(self, path: str) -> Rules:
        """Return the policies set for a path itself."""
        return {kind: rule for (of, kind), rule in self._stored.items() if of == path}

    def of(self, tenant: str, kind: MemoryKind) -> RetentionPolicy | None:
        """Return the policy for a kind of memory in a tenant; None: it never fades."""
        for path in paths_above(tenant):
            if (path, kind) in self._stored:
                return self._stored[path, kind]
        return POLICIES["default"] if kind in FADING else None


def paths_above(path: str) -> list[str]:
    """Return a path, its application's and the root, the nearest first."""
    application = _APPLICATION.match(path)
    return list(dict.fromkeys([path, *([application[0]] if application else []), ROOT]))


def arousal_of(value: str) -> float:
    """Return the arousal in the JSON value of a memory: 0 to 1, 0 without one."""
    part = json.loads(value) if '"arousal"' in value else None
    for name in ("metadata", "emotion", "arousal"):
        part = part.get(name) if isinstance(part, Mapping) else None
    if isinstance(part, bool) or not isinstance(part, int | float):
        return 0.0
    return float(min(max(part, 0), 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedMemory:
    """A memory and its counters: everything its score and next stage depend on.

    stage: an index into STAGES. strength: from the caller's function; None: from the importance.
    """

    tenant: str
    memory_id: UUID
    kind: MemoryKind
    importance: float
    arousal: float
    updated_at: datetime
    created_at: datetime
    superseded_at: datetime | None
    is_counted: bool
    stage: int
    staged_at: datetime | None
    pinned_at: datetime | None
    strength: float | None
    access_count: int
    last_accessed_at: datetime | None
    forget_at: datetime | None

    @property
    def initial(self) -> float:
        """Its initial strength, 0 to 1."""
        return initial_strength(self.importance) if self.strength is None else self.strength

    @property
    def used_at(self) -> datetime:
        """When it was last read or written."""
        return max(self.updated_at, self.last_accessed_at or self.updated_at)

    def leaves_at(self, rule: RetentionPolicy | None) -> datetime | None:
        """Return when it leaves its stage as things stand; None: never."""
        if self.superseded_at is not None or self.pinned_at is not None or rule is None:
            return None
        since = self.created_at
        if self.staged_at is not None:
            since = max(since, self.staged_at) if self.stage == 0 else self.staged_at
        return self.end_of(self.stage, since, rule)

    def end_of(self, stage: int, since: datetime, rule: RetentionPolicy) -> datetime | None:
        """Return when it leaves a stage that it entered at a moment; None: never."""
        return stage_end(
            STAGES[stage],
            initial=self.initial,
            last_used_at=self.used_at,
            since=since,
            accesses=self.access_count,
            arousal=self.arousal,
            policy=rule,
        )


TIMED_COLUMNS = (
    "m.tenant_id, m.memory_id, m.kind, m.importance,"
    " IF(INSTR(m.value, '\"arousal\"') > 0, m.value, ''), m.updated_at, m.created_at,"
    " m.superseded_at, a.stage, a.staged_at, a.pinned_at, a.strength, a.access_count,"
    " a.last_accessed_at, a.forget_at"
)
WITH_COUNTERS = (
    "memories m LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id"
    " AND a.memory_id = m.memory_id"
)


def timed_of(row: Row) -> CountedMemory:
    """Return the memory in TIMED_COLUMNS."""
    return CountedMemory(
        tenant=row[0],
        memory_id=row[1],
        kind=row[2],
        importance=row[3],
        arousal=arousal_of(row[4]),
        updated_at=row[5],
        created_at=row[6],
        superseded_at=row[7],
        is_counted=row[8] is not None,
        stage=row[8] or 0,
        staged_at=row[9],
        pinned_at=row[10],
        strength=row[11],
        access_count=row[12] or 0,
        last_accessed_at=row[13],
        forget_at=row[14],
    )


def counters(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> dict[UUID, CountedMemory]:
    """Return stored memories with their counters, by id."""
    found = (
        timed_of(row)
        for row in tx.rows_in(
            f"SELECT {TIMED_COLUMNS} FROM {WITH_COUNTERS}"
            " WHERE m.tenant_id = %s AND m.memory_id IN %s",
            [tenant, list(dict.fromkeys(memory_ids))],
        )
    )
    return {one.memory_id: one for one in found}


def timed(
    tx: Transaction,
    tenant: str,
    memory_ids: Iterable[UUID],
    now: datetime,
    strengths: Mapping[UUID, float | None] | None = None,
) -> None:
    """Put written memories into their first stage, and note when they leave it.

    strengths: from the caller's function, by id.
    """
    strengths = strengths or {}
    policies = Policies(tx, [tenant])
    rows = []
    for memory_id, one in counters(tx, tenant, memory_ids).items():
        rule = policies.of(tenant, one.kind)
        if one.superseded_at is None and (rule is not None or one.stage > 0):
            fresh = replace(one, stage=0, staged_at=None, strength=strengths.get(memory_id))
            rows.append((tenant, memory_id, 0, None, fresh.strength, fresh.leaves_at(rule)))
    tx.insert(
        "memory_access",
        ("tenant_id", "memory_id", "stage", "staged_at", "strength", "forget_at"),
        rows,
        update=("stage", "staged_at", "strength", "forget_at"),
    )


def retime(
    tx: Transaction, tenant: str, memory_ids: Iterable[UUID], *, counted_only: bool = False
) -> int:
    """Recompute when fading memories leave their stage; return the number of changes.

    counted_only: skip memories without counters.
    """
    policies = Policies(tx, [tenant])
    rows = []
    for one in counters(tx, tenant, memory_ids).values():
        rule = policies.of(tenant, one.kind)
        if not one.is_counted and (counted_only or rule is None):
            continue
        leaves_at = one.leaves_at(rule)
        if leaves_at != one.forget_at or not one.is_counted:
            rows.append((tenant, one.memory_id, leaves_at))
    tx.insert("memory_access", ("tenant_id", "memory_id", "forget_at"), rows, update=("forget_at",))
    return len(rows)


MOST_ACCESSES = 2_147_483_647
"""The maximum of the column access_count."""
PAGE = 5000
"""Maximum number of memories held in memory while all are read."""
TIMED_WIDTH = 15
"""Number of columns in TIMED_COLUMNS."""
KEPT_COLUMNS = f"{TIMED_COLUMNS}, m.namespace, m.`key`, m.text, m.demoted_at, x.text"
WITH_ARCHIVE = (
    f"{WITH_COUNTERS} LEFT JOIN memory_archive x ON x.tenant_id = m.tenant_id"
    " AND x.memory_id = m.memory_id"
)
RIPE = (
    "a.forget_at <= %s AND (a.staged_at IS NULL OR a.staged_at < %s)"
    " AND a.tenant_id >= %s AND a.tenant_id < %s"
)
"""The condition that counters a below a path say the memory is due."""


@dataclass(frozen=True, slots=True)
class DueMemory:
    """A memory, its policy, and when it leaves its stage."""

    memory: CountedMemory
    rule: RetentionPolicy | None
    due_at: datetime | None

    @property
    def fate(self) -> Fate:
        """What becomes of it when it leaves its stage."""
        return fate_of(self.memory.stage, self.rule)


def fate_of(stage: int, rule: RetentionPolicy | None) -> Fate:
    """Return what becomes of a memory that leaves a stage."""
    if stage == 0:
        return "demoted"
    is_archived = rule is None or rule.archive_threshold is not None
    return "archived" if stage == 1 and is_archived else "erased"


def kept_of(row: Row, policies: Policies) -> Kept:
    """Return the memory with its retention from KEPT_COLUMNS."""
    one = timed_of(row[:TIMED_WIDTH])
    namespace, key, text, demoted_at, archived = row[TIMED_WIDTH : TIMED_WIDTH + 5]
    return Kept(
        memory_id=MemoryId(one.memory_id),
        namespace=from_path(one.tenant + namespace[1:]),
        key=key,
        kind=one.kind,
        text=text if demoted_at is None or archived is None else archived,
        stage=STAGES[one.stage],
        staged_at=one.staged_at,
        pinned=one.pinned_at is not None,
        strength=one.initial,
        importance=one.importance,
        arousal=one.arousal,
        access_count=one.access_count,
        last_accessed_at=one.last_accessed_at,
        used_at=one.used_at,
        created_at=one.created_at,
        forget_at=one.forget_at,
        rule=policies.of(one.tenant, one.kind),
    )


def all_kept(tx: Transaction, rows: Iterable[Row]) -> list[Kept]:
    """Return memories with their retention from KEPT_COLUMNS, in their order."""
    found = list(rows)
    policies = Policies(tx, {row[0] for row in found})
    return [kept_of(row, policies) for row in found]


def ripe_values(path: str, now: datetime) -> list[object]:
    """Return the values of RIPE."""
    return [now, now, path, path_end(path)]


def due_of(one: CountedMemory, policies: Policies) -> DueMemory:
    """Return a memory with its policy and the end of its stage."""
    rule = policies.of(one.tenant, one.kind)
    return DueMemory(one, rule, one.leaves_at(rule))


def living(
    tx: Transaction, path: str, now: datetime
) -> Iterator[tuple[CountedMemory, RetentionPolicy | None]]:
    """Yield the memories below a path in all stages, each with its policy."""
    after: tuple[object, object] = ("", b"")
    while True:
        rows = tx.rows(
            f"SELECT {TIMED_COLUMNS} FROM {WITH_COUNTERS}"
            " WHERE m.tenant_id >= %s AND m.tenant_id < %s"
            " AND (m.tenant_id, m.memory_id) > (%s, %s)"
            " AND m.superseded_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > %s)"
            f" ORDER BY m.tenant_id, m.memory_id LIMIT {PAGE}",
            [path, path_end(path), *after, now],
        )
        policies = Policies(tx, {row[0] for row in rows})
        for row in rows:
            one = timed_of(row)
            yield one, policies.of(one.tenant, one.kind)
        if len(rows) < PAGE:
            return
        after = rows[-1][:2]


def score_of(one: CountedMemory, decay_rate: float, now: datetime) -> float:
    """Return the retention score of a memory, 0 to 1."""
    return retention_score(
        initial=one.initial,
        days=(now - one.used_at).total_seconds() / 86_400,
        accesses=one.access_count,
        arousal=one.arousal,
        decay_rate=decay_rate,
    )
