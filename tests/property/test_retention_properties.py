"""What holds for every memory: it only fades, reading only helps, and the instant is right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from shared_core.core.decay import (
    days_between,
    forget_at,
    initial_strength,
    next_stage_at,
    retention_score,
)
from shared_core.core.retention_policy import STAGES, RetentionPolicy, Stage

USED_AT = datetime(2026, 3, 1, tzinfo=UTC)
IMPORTANCE = st.floats(1, 10)
INITIAL = st.floats(0, 1)
DAYS = st.floats(0, 1e5)
ACCESSES = st.integers(0, 10**9)
AROUSAL = st.floats(0, 1)
DECAY = st.floats(1e-3, 10)
THRESHOLD = st.floats(1e-6, 1)


@given(INITIAL, DAYS, DAYS, ACCESSES, AROUSAL, st.floats(0, 1e9))
def test_a_score_is_a_share_and_never_rises_with_time(
    initial: float, days: float, more: float, accesses: int, arousal: float, decay: float
) -> None:
    now, later = (
        retention_score(
            initial=initial, days=at, accesses=accesses, arousal=arousal, decay_rate=decay
        )
        for at in (days, days + more)
    )
    assert 0 <= later <= now <= 1


@given(IMPORTANCE, IMPORTANCE, DAYS, ACCESSES, ACCESSES, AROUSAL, AROUSAL)
def test_importance_accesses_and_arousal_never_lower_a_score(
    one: float, other: float, days: float, few: int, more: int, calm: float, moved: float
) -> None:
    low, high = sorted((one, other))
    (few, more), (calm, moved) = sorted((few, more)), sorted((calm, moved))
    assert retention_score(
        initial=initial_strength(low), days=days, accesses=few, arousal=calm
    ) <= retention_score(initial=initial_strength(high), days=days, accesses=more, arousal=moved)


@given(INITIAL, ACCESSES, AROUSAL, DECAY, THRESHOLD)
def test_the_instant_of_forgetting_is_where_the_score_crosses_the_threshold(
    initial: float, accesses: int, arousal: float, decay: float, threshold: float
) -> None:
    def score(days: float) -> float:
        return retention_score(
            initial=initial, days=days, accesses=accesses, arousal=arousal, decay_rate=decay
        )

    policy = RetentionPolicy(decay_rate=decay, threshold=threshold, min_age_days=0)
    faded_at = forget_at(
        initial=initial, last_used_at=USED_AT, accesses=accesses, arousal=arousal, policy=policy
    )
    assert faded_at is not None
    faded = days_between(USED_AT, faded_at)
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if score(middle) >= threshold else (low, middle)
    assert abs(faded - high) < 1e-6 if score(0) >= threshold else faded == 0
    assert score(faded + 1e-6) <= threshold
    assert faded < 1e-6 or score(faded - 1e-6) >= threshold


@given(INITIAL, ACCESSES, st.floats(0, 100), st.integers(0, 1000))
def test_nothing_is_forgotten_before_its_minimum_age_or_its_last_use(
    initial: float, accesses: int, min_age_days: float, older: int
) -> None:
    created_at = USED_AT - timedelta(days=older)
    faded_at = forget_at(
        initial=initial,
        last_used_at=USED_AT,
        created_at=created_at,
        accesses=accesses,
        policy=RetentionPolicy(min_age_days=min_age_days),
    )
    assert faded_at is not None
    assert faded_at >= max(USED_AT, created_at + timedelta(days=min_age_days))


@given(
    st.sampled_from(STAGES), INITIAL, ACCESSES, st.integers(1, 1000), AROUSAL,
    st.integers(-(10**12), 10**12), st.integers(0, 10**12), DECAY, THRESHOLD,
)  # fmt: skip
def test_reading_never_brings_the_next_stage_nearer(
    stage: Stage, initial: float, accesses: int, more: int, arousal: float, since: int, later: int,
    decay: float, threshold: float,
) -> None:  # fmt: skip
    policy = RetentionPolicy(
        decay_rate=decay, threshold=threshold, archive_threshold=threshold / 2,
        erase_threshold=threshold / 3,
    )  # fmt: skip
    unread, read = (
        next_stage_at(
            stage, initial=initial, last_used_at=USED_AT + timedelta(microseconds=moved),
            since=USED_AT + timedelta(microseconds=since), accesses=count, arousal=arousal,
            policy=policy,
        )
        for moved, count in ((0, accesses), (later, accesses + more))
    )  # fmt: skip
    assert unread is not None
    assert read is None or read >= unread
