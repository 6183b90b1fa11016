"""How many memories fade: by score, kind and stage, and how many leave their stage when."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import UUID

from shared_core.core.domain import MemoryKind
from shared_core.core.retention_policy import FATES, STAGES, Fate, RetentionPolicy
from shared_core.policies.fading import fate_of, is_living
from shared_core.policies.timing import RULES, TIMED, TimedMemory, rules_of, select_timed, timed_of
from shared_core.ports.operations import Policy
from shared_core.ports.retention import RetentionRow

_SOON = timedelta(microseconds=1)
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
    rules, rows = yield [RULES, select_timed(memory_ids, ("expires_at",))]
    rule_of = rules_of(rules, tenant)
    horizons = sorted({float(one) for one in days})
    ends = [now + timedelta(days=one) + _SOON for one in horizons]
    counted = Counted(leaving={one: dict.fromkeys(FATES, 0) for one in days})
    for row in rows:
        one = timed_of(row)
        if not is_living(one.superseded_at, row[len(TIMED)], now):
            continue
        rule = rule_of(one.kind)
        score = one.score(0 if rule is None else rule.decay_rate, now)
        group = (one.kind, rule is not None, one.stage, min(math.floor(score * 10), 9))
        before = counted.groups.get(group, (0, 0.0, 0))
        pinned = before[2] + (one.pinned_at is not None)
        counted.groups[group] = (before[0] + 1, before[1] + score, pinned)
        for moment, fate in _fates(one, rule, now, ends[-1]) if ends else ():
            for within in horizons[bisect_right(ends, moment) :]:
                counted.leaving[within][fate] += 1
    return counted


def _fates(
    one: TimedMemory, rule: RetentionPolicy | None, now: datetime, latest: datetime
) -> Iterator[tuple[datetime, Fate]]:
    """Yield when a memory leaves this and later stages, and its fate at each end.

    The memory is moved on with it: copies of a hundred thousand cost more than what is counted.
    """
    moment, first = one.forget_at, one.stage
    while moment is not None:
        fate = fate_of(one.stage, rule)
        yield moment, fate
        if fate == "erased" or moment >= latest or rule is None:
            return
        since = max(moment, now + _SOON) if one.stage == first else moment
        one.stage, one.staged_at = one.stage + 1, since
        moment = one.leaves_at(rule)
