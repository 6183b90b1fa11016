"""When memories leave their stage, reckoned from stored rows. The formula is core.decay's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, TypeAlias
from uuid import UUID

from shared_core.core.decay import initial_strength, score_after, stage_end
from shared_core.core.domain import JsonValue, MemoryKind
from shared_core.core.namespaces import ROOT
from shared_core.core.retention_policy import FADING, POLICIES, STAGES, RetentionPolicy
from shared_core.ports.operations import Insert, Join, Member, Operation, Row, Select, equal, one_of

RuleOf: TypeAlias = Callable[[MemoryKind], RetentionPolicy | None]
"""Returns how a kind of memory fades in a tenant; None: it never does."""

POLICY_COLUMNS = (
    "decay_rate", "threshold", "min_age_days", "archive_threshold", "archive_after_days",
    "erase_threshold", "erase_after_days", "with_history",
)  # fmt: skip
RULES = Select("retention_policies", ("tenant_id", "kind", "fades", *POLICY_COLUMNS), above=True)
"""Reads the policies that a tenant's memories may fade by; rules_of() takes its rows."""

_APPLICATION = re.compile(r"/[^/]+/")
TIMED = (
    "memory_id", "kind", "importance", "value", "updated_at", "created_at", "superseded_at",
    "a.stage", "a.staged_at", "a.pinned_at", "a.strength", "a.access_count",
    "a.last_accessed_at", "a.forget_at",
)  # fmt: skip
"""The columns of memories and their COUNTERS that timed_of() takes."""
AROUSAL = Member("value", ("metadata", "emotion", "arousal"))
COUNTERS = Join("memory_access", "a", (("memory_id", "memory_id"),), is_left=True)


def policy_of(row: Sequence[Any]) -> RetentionPolicy | None:
    """Return the policy in the columns fades and POLICY_COLUMNS; None if a kind never fades."""
    return _policy_of(tuple(row))


@lru_cache(maxsize=256)  # many users fade by the same few policies
def _policy_of(row: Row) -> RetentionPolicy | None:
    fades, *values = row
    if not fades:
        return None
    return RetentionPolicy(**dict(zip(POLICY_COLUMNS, values, strict=True)))


def paths_above(path: str) -> list[str]:
    """Return a path, its application's and the root, the nearest first."""
    application = _APPLICATION.match(path)
    return list(dict.fromkeys([path, *([application[0]] if application else []), ROOT]))


def rules_of(rows: Iterable[Row], tenant: str) -> RuleOf:
    """Return how each kind fades in a tenant, from the rows of RULES: the nearest path counts."""
    stored = {(row[0], row[1]): policy_of(row[2:]) for row in rows}
    paths = paths_above(tenant)

    def rule(kind: MemoryKind) -> RetentionPolicy | None:
        for path in paths:
            if (path, kind) in stored:
                return stored[path, kind]
        return POLICIES["default"] if kind in FADING else None

    return rule


_strength = lru_cache(maxsize=256)(initial_strength)


def strength_of(importance: float, strength: float | None) -> float:
    """Return the initial strength of a memory, 0 to 1; strength: the stored one, if any."""
    return _strength(importance) if strength is None else strength


def last_use(updated_at: datetime, last_accessed_at: datetime | None) -> datetime:
    """Return when a memory was last read or written."""
    return updated_at if last_accessed_at is None else max(updated_at, last_accessed_at)


def arousal_of(value: JsonValue) -> float:
    """Return the arousal in the value of a memory: 0 to 1, 0 without one."""
    return arousal_in(AROUSAL.of(value))


def arousal_in(part: Any) -> float:
    """Return the arousal of a memory, from what AROUSAL reads."""
    if isinstance(part, bool) or not isinstance(part, int | float):
        return 0.0
    return float(min(max(part, 0), 1))


@dataclass(slots=True, kw_only=True)
class TimedMemory:
    """A memory and its counters: everything its next stage depends on.

    A policy changes its fields along with the row, so that it is timed as it will be.
    stage: an index into STAGES. strength: from the caller's function; None: from the importance.
    is_counted: whether it has a row of counters.
    """

    memory_id: UUID
    kind: MemoryKind
    importance: float
    value: JsonValue
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
        return strength_of(self.importance, self.strength)

    @property
    def used_at(self) -> datetime:
        """When it was last read or written."""
        return last_use(self.updated_at, self.last_accessed_at)

    def leaves_at(self, rule: RetentionPolicy | None) -> datetime | None:
        """Return when it leaves its stage as things stand; None: never."""
        if self.superseded_at is not None or self.pinned_at is not None or rule is None:
            return None
        since = self.created_at
        if self.staged_at is not None:
            since = max(since, self.staged_at) if self.stage == 0 else self.staged_at
        return stage_end(
            STAGES[self.stage],
            self.initial,
            self.access_count,
            arousal_of(self.value),
            last_used_at=self.used_at,
            since=since,
            policy=rule,
        )

    def score(self, decay_rate: float, at: datetime) -> float:
        """Return its retention score at a moment, 0 to 1."""
        days = (at - self.used_at).total_seconds() / 86_400
        arousal = arousal_of(self.value)
        return score_after(days, self.initial, self.access_count, arousal, decay_rate)


def select_timed(memory_ids: Sequence[UUID], also: Sequence[str] = ()) -> Select:
    """Return the operation that reads memories with their counters, for timed_of().

    also: further columns, after those that timed_of() takes.
    """
    return Select("memories", (*TIMED, *also), (one_of("memory_id", memory_ids),), (COUNTERS,))


def hold(memory_ids: Sequence[UUID], lock: Literal["update", "skip"] = "update") -> Select:
    """Return the operation that locks memories, so that later reads see them as they stay.

    Counting a read passes over held memories. It returns the ids of those that are held.
    """
    return Select("memories", ("memory_id",), (one_of("memory_id", sorted(memory_ids)),), lock=lock)


def select_timed_turns(thread_id: str, event_ids: Sequence[str]) -> Select:
    """Return the operation that reads the memories of turns: the turn's id, then as select_timed().

    Turns without a memory have no row.
    """
    of_turns = (equal("thread_id", thread_id), one_of("event_id", event_ids))
    columns = tuple(one if "." in one else f"m.{one}" for one in TIMED)
    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    where = (*of_turns, equal("m.kind", "episodic"))
    return Select("memory_sources", ("event_id", *columns), where, (memories, COUNTERS))


def timed_of(row: Row) -> TimedMemory:
    """Return the memory in the columns TIMED of a row."""
    return TimedMemory(
        memory_id=row[0],
        kind=row[1],
        importance=row[2],
        value=row[3],
        updated_at=row[4],
        created_at=row[5],
        superseded_at=row[6],
        is_counted=row[7] is not None,
        stage=row[7] or 0,
        staged_at=row[8],
        pinned_at=row[9],
        strength=row[10],
        access_count=row[11] or 0,
        last_accessed_at=row[12],
        forget_at=row[13],
    )


def retimed(memories: Iterable[TimedMemory], rule: RuleOf) -> list[Operation]:
    """Return the operation that notes when memories leave their stage, if any changes.

    A memory that never fades gets no counters for that.
    """
    rows = []
    for one in memories:
        policy = rule(one.kind)
        if not one.is_counted and policy is None:
            continue
        leaves_at = one.leaves_at(policy)
        if leaves_at != one.forget_at or not one.is_counted:
            rows.append((one.memory_id, leaves_at))
    if not rows:
        return []
    names = ("memory_id", "forget_at")
    return [Insert("memory_access", names, sorted(rows), "update", ("forget_at",))]
