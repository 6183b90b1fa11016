"""Memories with all that tells how they are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from shared_core.core.decay import retention_score
from shared_core.core.domain import MemoryId
from shared_core.core.namespaces import from_path, path_end
from shared_core.core.retention_policy import STAGES, RetentionPolicy
from shared_core.ports.retention import Fate, Kept
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.retention_timing import (
    TIMED_COLUMNS,
    WITH_COUNTERS,
    Policies,
    Timed,
    timed_of,
)

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
