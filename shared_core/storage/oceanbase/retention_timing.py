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
from shared_core.core.retention_policy import FADING, POLICIES, STAGES, RetentionPolicy, Rules
from shared_core.ports.retention import Fate, Kept
from shared_core.storage._rows import POLICY_COLUMNS, policy_of
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, pages

_APPLICATION = re.compile(r"/[^/]+/")


class Policies:
    """The nearest policy of a tenant and a kind of memory, as of one transaction."""

    def __init__(self, tx: Transaction, tenants: Iterable[str]) -> None:
        paths = {path for tenant in tenants for path in paths_above(tenant)} | {ROOT}
        self._stored: dict[tuple[str, MemoryKind], RetentionPolicy | None] = {}
        for page in pages(sorted(paths)):
            for path, kind, *columns in tx.rows(
                f"SELECT tenant_id, kind, fades, {', '.join(POLICY_COLUMNS)}"
                " FROM retention_policies WHERE tenant_id IN %s",
                page,
            ):
                columns[-1] = bool(columns[-1])
                self._stored[path, kind] = policy_of(columns)

    def own(self, path: str) -> Rules:
        """Return what was set for a path itself."""
        return {kind: rule for (of, kind), rule in self._stored.items() if of == path}

    def of(self, tenant: str, kind: MemoryKind) -> RetentionPolicy | None:
        """Return what holds for a kind of memory in a tenant; None if it never fades."""
        for path in paths_above(tenant):
            if (path, kind) in self._stored:
                return self._stored[path, kind]
        return POLICIES["default"] if kind in FADING else None


def paths_above(path: str) -> list[str]:
    """Return a path, that of its application and that of all, the nearest first."""
    application = _APPLICATION.match(path)
    return list(dict.fromkeys([path, *([application[0]] if application else []), ROOT]))


def arousal_of(value: str) -> float:
    """Return the arousal that the value of a memory, as JSON text, tells: 0 to 1, 0 for none."""
    part = json.loads(value) if '"arousal"' in value else None
    for name in ("metadata", "emotion", "arousal"):
        part = part.get(name) if isinstance(part, Mapping) else None
    if isinstance(part, bool) or not isinstance(part, int | float):
        return 0.0
    return float(min(max(part, 0), 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A memory and its counters: all that its score and its next stage are made of.

    stage: its number. strength: what the caller's function gave, None for that of its importance.
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
        """The strength of it when it was new, 0 to 1."""
        return initial_strength(self.importance) if self.strength is None else self.strength

    @property
    def used_at(self) -> datetime:
        """When it was last read, or written."""
        return max(self.updated_at, self.last_accessed_at or self.updated_at)

    def leaves_at(self, rule: RetentionPolicy | None) -> datetime | None:
        """Return when it leaves its stage, as things stand; None for never."""
        if self.superseded_at is not None or self.pinned_at is not None or rule is None:
            return None
        since = self.created_at
        if self.staged_at is not None:
            since = max(since, self.staged_at) if self.stage == 0 else self.staged_at
        return stage_end(
            STAGES[self.stage],
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


def timed_of(row: Row) -> Timed:
    """Return what the columns TIMED_COLUMNS say."""
    return Timed(
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


def counters(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> dict[UUID, Timed]:
    """Return memories with their counters; those that are not there are left out."""
    found = (
        timed_of(row)
        for page in pages(list(dict.fromkeys(memory_ids)))
        for row in tx.rows(
            f"SELECT {TIMED_COLUMNS} FROM {WITH_COUNTERS}"
            " WHERE m.tenant_id = %s AND m.memory_id IN %s",
            tenant,
            page,
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
    """Put memories that were written into their first stage, and note when they leave it.

    strengths: what a caller's function gave, of those it was asked for.
    """
    given = strengths or {}
    policies = Policies(tx, [tenant])
    rows = []
    for memory_id, one in counters(tx, tenant, memory_ids).items():
        rule = policies.of(tenant, one.kind)
        if one.superseded_at is None and (rule is not None or one.stage > 0):
            fresh = _fresh(one, given.get(memory_id))
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
    """Note anew when memories leave their stage, of those that fade; return how many changed.

    counted_only: none that has no counters yet.
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


def _fresh(one: Timed, strength: float | None) -> Timed:
    return replace(one, stage=0, staged_at=None, strength=strength)


PAGE = 5000
"""Memories that are in memory at once, where all are looked at."""

_TIMED = 15
KEPT_COLUMNS = f"{TIMED_COLUMNS}, m.namespace, m.`key`, m.text, m.demoted_at, x.text"
WITH_ARCHIVE = (
    f"{WITH_COUNTERS} LEFT JOIN memory_archive x ON x.tenant_id = m.tenant_id"
    " AND x.memory_id = m.memory_id"
)
RIPE = (
    "a.forget_at <= %s AND (a.staged_at IS NULL OR a.staged_at < %s)"
    " AND a.tenant_id >= %s AND a.tenant_id < %s"
)
"""Of counters a below a path: they are due by what they say."""


@dataclass(frozen=True, slots=True)
class Due:
    """A memory that is due, the policy it goes by, and what becomes of it."""

    memory: Timed
    rule: RetentionPolicy | None
    due_at: datetime | None

    @property
    def fate(self) -> Fate:
        """What becomes of it when it leaves its stage."""
        return fate_of(self.memory.stage, self.rule)


def fate_of(stage: int, rule: RetentionPolicy | None) -> Fate:
    """Return what becomes of a memory that leaves a stage, by its number."""
    if stage == 0:
        return "demoted"
    is_archived = rule is None or rule.archive_threshold is not None
    return "archived" if stage == 1 and is_archived else "erased"


def kept_of(row: Row, policies: Policies) -> Kept:
    """Return how a memory is kept, from the columns KEPT_COLUMNS."""
    one = timed_of(row[:_TIMED])
    namespace, key, text, demoted_at, archived = row[_TIMED : _TIMED + 5]
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
    """Return how memories are kept, from the columns KEPT_COLUMNS, in their order."""
    found = list(rows)
    policies = Policies(tx, {row[0] for row in found})
    return [kept_of(row, policies) for row in found]


def ripe_values(path: str, now: datetime) -> list[object]:
    """Return the values of RIPE."""
    return [now, now, path, path_end(path)]


def due_of(one: Timed, policies: Policies) -> Due:
    """Return what is to become of a memory, as things stand."""
    rule = policies.of(one.tenant, one.kind)
    return Due(one, rule, one.leaves_at(rule))


def living(
    tx: Transaction, path: str, now: datetime
) -> Iterator[tuple[Timed, RetentionPolicy | None]]:
    """Yield what is remembered below a path, in whatever stage, each with its policy."""
    after: tuple[object, object] = ("", b"")
    while True:
        rows = tx.rows(
            f"SELECT {TIMED_COLUMNS} FROM {WITH_COUNTERS}"
            " WHERE m.tenant_id >= %s AND m.tenant_id < %s"
            " AND (m.tenant_id, m.memory_id) > (%s, %s)"
            " AND m.superseded_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > %s)"
            f" ORDER BY m.tenant_id, m.memory_id LIMIT {PAGE}",
            path, path_end(path), *after, now,
        )  # fmt: skip
        policies = Policies(tx, {row[0] for row in rows})
        for row in rows:
            one = timed_of(row)
            yield one, policies.of(one.tenant, one.kind)
        if len(rows) < PAGE:
            return
        after = rows[-1][:2]


def score_of(one: Timed, decay_rate: float, now: datetime) -> float:
    """Return how well a memory is kept, 0 to 1."""
    return retention_score(
        initial=one.initial,
        days=(now - one.used_at).total_seconds() / 86_400,
        accesses=one.access_count,
        arousal=one.arousal,
        decay_rate=decay_rate,
    )
