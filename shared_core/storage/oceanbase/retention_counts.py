"""How memories are kept, in numbers, and what will become of them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from shared_core.core.decay import stage_end
from shared_core.core.domain import MemoryKind
from shared_core.core.retention_policy import STAGES, RetentionPolicy
from shared_core.ports.retention import FATES, Fate, RetentionRow
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.retention_rows import fate_of, living, score_of
from shared_core.storage.oceanbase.retention_timing import Timed

_SOON = timedelta(microseconds=1)
_Group = tuple[MemoryKind, bool, int, int]


def counted(
    tx: Transaction, path: str, now: datetime, days: Sequence[float]
) -> tuple[list[RetentionRow], Mapping[float, Mapping[Fate, int]]]:
    """Return how memories below a path are kept, and how many meet which fate within so many days.

    What never fades scores as if it were new. What is due by now goes a little later.
    """
    horizons = sorted({float(one) for one in days})
    ends = [now + timedelta(days=one) + _SOON for one in horizons]
    leaving: dict[float, dict[Fate, int]] = {one: dict.fromkeys(FATES, 0) for one in days}
    groups: dict[_Group, list[float]] = {}
    for one, rule in living(tx, path, now):
        score = score_of(one, 0 if rule is None else rule.decay_rate, now)
        group = (one.kind, rule is not None, one.stage, min(math.floor(score * 10), 9))
        sums = groups.setdefault(group, [0, 0.0, 0])
        sums[0] += 1
        sums[1] += score
        sums[2] += one.pinned_at is not None
        if ends:
            for moment, fate in _fates(one, rule, now, ends[-1]):
                for within in horizons[bisect_right(ends, moment) :]:
                    leaving[within][fate] += 1
    rows = [
        RetentionRow(kind, fades, STAGES[stage], bucket, int(count), score_sum, int(pinned))
        for (kind, fades, stage, bucket), (count, score_sum, pinned) in sorted(groups.items())
    ]
    return rows, leaving


def _fates(
    one: Timed, rule: RetentionPolicy | None, now: datetime, latest: datetime
) -> Iterator[tuple[datetime, Fate]]:
    """Yield when a memory leaves its stage and those after it, and what becomes of it then."""
    stage, moment = one.stage, one.forget_at
    while moment is not None:
        fate = fate_of(stage, rule)
        yield moment, fate
        if fate == "erased" or moment >= latest or rule is None:
            return
        since = max(moment, now + _SOON) if stage == one.stage else moment
        stage += 1
        moment = stage_end(
            STAGES[stage],
            initial=one.initial,
            last_used_at=one.used_at,
            since=since,
            accesses=one.access_count,
            arousal=one.arousal,
            policy=rule,
        )
