"""How many memories fade: by score, kind and stage, and how many leave their stage when."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import UUID

from shared_core.core.decay import SECONDS_A_DAY, score_after, stage_end
from shared_core.core.domain import MemoryKind
from shared_core.core.retention_policy import FATES, STAGES, Fate, RetentionPolicy
from shared_core.policies.fading import fate_of
from shared_core.policies.timing import (
    AROUSAL,
    COUNTERS,
    RULES,
    arousal_in,
    last_use,
    rules_of,
    strength_of,
)
from shared_core.ports.operations import Policy, Select, is_null, one_of, open_after
from shared_core.ports.retention import RetentionRow

_SOON = timedelta(microseconds=1)
_COLUMNS = (
    "kind", "importance", AROUSAL, "updated_at", "a.stage", "a.strength", "a.access_count",
    "a.last_accessed_at", "a.forget_at", "a.pinned_at",
)  # fmt: skip
_Group: TypeAlias = tuple[MemoryKind, bool, int, int]


@dataclass(slots=True)
class Counted:
    """Numbers of memories, which can be added up.

    groups: by kind, whether it fades, stage and tenth of the score: number of memories, sum of
    their scores, number of pinned ones. leaving: by number of days and fate.
    """

    groups: dict[_Group, tuple[int, float, int]] = field(default_factory=dict)
    leaving: dict[float, dict[Fate, int]] = field(default_factory=dict)

    def add(self, other: Counted) -> None:
        """Add the numbers of other memories."""
        for group, (count, score_sum, pinned) in other.groups.items():
            old = self.groups.get(group, (0, 0.0, 0))
            self.groups[group] = (old[0] + count, old[1] + score_sum, old[2] + pinned)
        for days, fates in other.leaving.items():
            for fate, count in fates.items():
                self.leaving[days][fate] += count

    def rows(self) -> list[RetentionRow]:
        """Return the groups in order."""
        return [
            RetentionRow(kind, fades, STAGES[stage], bucket, count, score_sum, pinned)
            for (kind, fades, stage, bucket), (count, score_sum, pinned) in sorted(
                self.groups.items()
            )
        ]


def count(
    tenant: str, memory_ids: Sequence[UUID], now: datetime, days: Sequence[float]
) -> Policy[Counted]:
    """Count living memories, and how many meet which fate within some days.

    Memories that never fade score as if new. Memories that are due already leave a bit later.
    """
    where = (one_of("memory_id", memory_ids), is_null("superseded_at"))
    living = (*where, open_after("expires_at", now))
    rules, rows = yield [RULES, Select("memories", _COLUMNS, living, (COUNTERS,))]
    rule_of = rules_of(rules, tenant)
    horizons = sorted({float(one) for one in days})
    ends = [now + timedelta(days=one) + _SOON for one in horizons]
    counted = Counted(leaving={one: dict.fromkeys(FATES, 0) for one in days})
    groups = counted.groups
    for kind, importance, felt, written_at, stored, strength, accesses, read_at, *rest in rows:
        stage, forget_at, is_pinned = stored or 0, rest[0], rest[1] is not None
        rule, used_at = rule_of(kind), last_use(written_at, read_at)
        curve = (strength_of(importance, strength), accesses or 0, arousal_in(felt))
        decay_rate = 0 if rule is None else rule.decay_rate
        score = score_after((now - used_at).total_seconds() / SECONDS_A_DAY, *curve, decay_rate)
        group = (kind, rule is not None, stage, min(math.floor(score * 10), 9))
        count, score_sum, pinned = groups.get(group, (0, 0.0, 0))
        groups[group] = (count + 1, score_sum + score, pinned + is_pinned)
        if forget_at is not None and ends:
            for moment, fate in _fates(stage, forget_at, used_at, curve, rule, now, ends[-1]):
                for within in horizons[bisect_right(ends, moment) :]:
                    counted.leaving[within][fate] += 1
    return counted


def _fates(
    stage: int,
    moment: datetime | None,
    used_at: datetime,
    curve: tuple[float, int, float],
    rule: RetentionPolicy | None,
    now: datetime,
    latest: datetime,
) -> Iterator[tuple[datetime, Fate]]:
    """Yield when a memory leaves this and later stages, and its fate at each end.

    moment: when it leaves this one. curve: its initial strength, accesses and arousal.
    """
    since = now + _SOON
    while moment is not None:
        fate = fate_of(stage, rule)
        yield moment, fate
        if fate == "erased" or moment >= latest or rule is None:
            return
        since, stage = max(moment, since), stage + 1
        moment = stage_end(STAGES[stage], *curve, last_used_at=used_at, since=since, policy=rule)
