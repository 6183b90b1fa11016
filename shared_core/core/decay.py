"""Computes the retention score of a memory and when it falls below a threshold. Pure.

    score = min(1, initial · e^(-λ' · d) · (1 + ln(1 + n)))        λ' = λ · (1 - 0.5 · arousal)

d: days since the last access, or else since it happened; n: number of accesses.

- The exponential stands for the forgetting curve of H. Ebbinghaus, Über das Gedächtnis (1885),
  whose own fit falls with a power of log t: fast at first, then slower. Each access starts a new
  curve at d = 0, with diminishing returns.
- λ = 0.1 a day, threshold 0.1 and a minimum age of 7 days are the documented defaults of the
  function that this one generalises, min(1, e^(-λd) · (1 + ln(1 + n)) / 5). That is initial = 0.2
  for every memory, so an unread memory fades after 7 days, whatever its importance.
- Here the initial strength follows importance: with the defaults and no access, a memory of
  importance 1, 5 or 10 fades below the threshold after 13.9, 19.5 or 23.0 days. Arousal slows
  decay (arousal 1 halves λ), after J. L. McGaugh, Science 287 (2000) 248; the factor 0.5 is a
  choice, not a measurement.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from functools import lru_cache
from numbers import Real
from typing import Final

from shared_core.core.retention_policy import (
    DECAY_RATE,
    POLICIES,
    RetentionPolicy,
    Stage,
    at_least_zero,
    share,
)
from shared_core.core.shown import shown
from shared_core.core.timestamps import check_moment
from shared_core.core.validation import number
from shared_core.errors import InvalidInput

AROUSAL_SLOWDOWN: Final = 0.5
UNWEIGHTED_INITIAL: Final = 0.2
"""The initial strength that reproduces the documented function."""

STRENGTHS: Final = ((1.0, 0.4), (5.0, 0.7), (10.0, 1.0))
"""Pairs of importance and initial strength: low, medium (the default) and high."""

SECONDS_A_DAY: Final = 86_400.0


def initial_strength(importance: float) -> float:
    """Return the score of a new, unread memory, 0.4 to 1.

    importance: 1 (trivial) gives 0.4, 5 gives 0.7, 10 (vital) gives 1.0; linear in between.
    """
    number(importance, "importance", 1, 10)
    low, medium, high = STRENGTHS
    (start, weak), (end, strong) = (low, medium) if importance <= medium[0] else (medium, high)
    return weak + (strong - weak) * (importance - start) / (end - start)


def retention_score(
    *,
    initial: float,
    days: float,
    accesses: int = 0,
    arousal: float = 0.0,
    decay_rate: float = DECAY_RATE,
) -> float:
    """Return the retention score, 0 to 1.

    initial: 0 to 1, see initial_strength(). days: since the last access, or since it happened;
    negative days come from clock skew and count as 0. The score never rises with days, and never
    falls with accesses, importance or arousal.
    """
    if isinstance(days, bool) or not isinstance(days, Real) or not math.isfinite(days):
        raise InvalidInput(f"days must be a finite number, got {shown(days)}")
    _check(initial, accesses, arousal, decay_rate)
    return score_after(days, initial, accesses, arousal, decay_rate)


def score_after(
    days: float, initial: float, accesses: int, arousal: float, decay_rate: float
) -> float:
    """Return the same as retention_score(), without checking its arguments."""
    strength, slowed = _curve(initial, accesses, arousal, decay_rate)
    return min(1.0, strength * math.exp(-slowed * max(days, 0.0)))


@lru_cache(maxsize=4096)  # many memories share a curve
def _curve(initial: float, accesses: int, arousal: float, decay_rate: float) -> tuple[float, float]:
    """Return the strength of a memory just after its last access, and its decay rate."""
    reinforced = initial * (1.0 + math.log(1 + accesses))
    return reinforced, decay_rate * (1.0 - AROUSAL_SLOWDOWN * arousal)


def days_between(earlier: datetime, later: datetime) -> float:
    """Return the days between two aware moments; negative if later is before earlier."""
    check_moment(earlier, "earlier")
    check_moment(later, "later")
    return (later - earlier).total_seconds() / SECONDS_A_DAY


def forget_at(
    *,
    initial: float,
    last_used_at: datetime,
    created_at: datetime | None = None,
    accesses: int = 0,
    arousal: float = 0.0,
    policy: RetentionPolicy = POLICIES["default"],
) -> datetime | None:
    """Return when an unread memory may be forgotten, or None for never.

    From then on its score is below the threshold and its age, counted from created_at (default:
    last_used_at), is at least the minimum. Rounded up to a microsecond, and never before
    last_used_at. None also stands for moments that a datetime cannot represent.
    """
    return next_stage_at(
        "kept",
        initial=initial,
        last_used_at=last_used_at,
        since=last_used_at if created_at is None else created_at,
        accesses=accesses,
        arousal=arousal,
        policy=policy,
    )


def next_stage_at(
    stage: Stage,
    *,
    initial: float,
    last_used_at: datetime,
    since: datetime,
    accesses: int = 0,
    arousal: float = 0.0,
    policy: RetentionPolicy = POLICIES["default"],
) -> datetime | None:
    """Return when an unread memory leaves its stage, or None for never.

    since: when it entered its stage; for stage "kept", when it was created.
    """
    check_moment(last_used_at, "last_used_at")
    check_moment(since, "created_at" if stage == "kept" else "since")
    _check(initial, accesses, arousal, policy.decay_rate)
    return stage_end(
        stage, initial, accesses, arousal, last_used_at=last_used_at, since=since, policy=policy
    )


def stage_end(
    stage: Stage,
    initial: float,
    accesses: int,
    arousal: float,
    *,
    last_used_at: datetime,
    since: datetime,
    policy: RetentionPolicy,
) -> datetime | None:
    """Return the same as next_stage_at(), without checking its arguments."""
    spans = _spans(stage, initial, accesses, arousal, policy)
    if spans is None:
        return None
    try:
        return max(last_used_at + spans[0], since + spans[1])
    except OverflowError:  # past the year 9999
        return None


@lru_cache(maxsize=4096)  # many memories share a curve
def _spans(
    stage: Stage, initial: float, accesses: int, arousal: float, policy: RetentionPolicy
) -> tuple[timedelta, timedelta] | None:
    """Return how long after the last use a memory has faded, and how long a stage lasts at least.

    Both are rounded up to a microsecond. None: never.
    """
    threshold: float | None
    if stage == "kept":
        threshold, grace_days = policy.threshold, policy.min_age_days
    elif stage == "demoted" and policy.archive_threshold is not None:
        threshold, grace_days = policy.archive_threshold, policy.archive_after_days
    else:
        threshold, grace_days = policy.erase_threshold, policy.erase_after_days
    if threshold is None:
        return None
    days = _days_above(threshold, *_curve(initial, accesses, arousal, policy.decay_rate))
    try:
        return _rounded_up(days), _rounded_up(grace_days)
    except OverflowError:
        return None


def _days_above(threshold: float, strength: float, decay_rate: float) -> float:
    """Return for how many days the score is at least the threshold; may be infinity.

    Uses logarithms, because strength / threshold overflows for a tiny threshold. The cap of the
    score at 1 does not matter, because no threshold is above 1.
    """
    if threshold == 0:
        return math.inf
    if strength < threshold:
        return 0.0
    surplus = math.log(strength) - math.log(threshold)
    return surplus / decay_rate if decay_rate else math.inf


def _rounded_up(days: float) -> timedelta:
    return timedelta(microseconds=math.ceil(days * SECONDS_A_DAY * 1e6))


def _check(initial: float, accesses: int, arousal: float, decay_rate: float) -> None:
    share(initial, "initial")
    if isinstance(accesses, bool) or not isinstance(accesses, int) or accesses < 0:
        raise InvalidInput(f"accesses must be a whole number from 0, got {shown(accesses)}")
    share(arousal, "arousal")
    at_least_zero(decay_rate, "decay_rate")
