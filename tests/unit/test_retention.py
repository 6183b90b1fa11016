"""The documented values, what changes them, and when a memory has faded."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from every_case import every_case

from shared_core.core.decay import (
    UNWEIGHTED_INITIAL,
    days_between,
    forget_at,
    initial_strength,
    retention_score,
)
from shared_core.core.retention_policy import POLICIES, RetentionPolicy
from shared_core.errors import InvalidInput

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@every_case((0.4, 1), (0.55, 3), (0.7, 5), (0.82, 7), (1.0, 10))
def test_importance_gives_the_initial_strength(strength: float, importance: float) -> None:
    assert pytest.approx(strength) == initial_strength(importance)


@every_case((0, 0.0), (5, 3.0), (40, 12.5), (10**9, 100.0))
def test_the_documented_function_is_the_one_of_initial_strength_a_fifth(
    accesses: int, days: float
) -> None:
    documented = min(1.0, math.exp(-0.1 * days) * (1 + math.log(1 + accesses)) / 5)
    score = retention_score(initial=UNWEIGHTED_INITIAL, days=days, accesses=accesses)
    assert pytest.approx(documented, abs=1e-12) == score


def test_full_arousal_halves_the_decay() -> None:
    calm = retention_score(initial=0.7, days=10)
    assert pytest.approx(calm) == retention_score(initial=0.7, days=20, arousal=1.0)


def test_an_access_in_the_future_counts_as_one_just_now() -> None:
    assert 0.7 == retention_score(initial=0.7, days=-0.001)


def test_no_score_is_above_one() -> None:
    assert 1.0 == retention_score(initial=1.0, days=0, accesses=10**9)


def test_without_decay_nothing_fades() -> None:
    assert 0.7 == retention_score(initial=0.7, days=1e9, decay_rate=0.0)


@every_case((13.8629, 1), (19.4591, 5), (23.0259, 10))
def test_a_memory_nobody_reads_fades_by_its_importance(days: float, importance: float) -> None:
    faded = forget_at(initial=initial_strength(importance), last_used_at=NOON)
    assert faded is not None
    assert pytest.approx(days, abs=1e-4) == days_between(NOON, faded)


def test_a_young_memory_is_kept_however_weak() -> None:
    assert NOON + timedelta(days=7) == forget_at(initial=0.05, last_used_at=NOON)


def test_the_minimum_age_counts_from_when_it_was_made() -> None:
    made_at = NOON - timedelta(days=30)
    assert NOON == forget_at(initial=0.05, last_used_at=NOON, created_at=made_at)


@every_case(RetentionPolicy(threshold=0), RetentionPolicy(decay_rate=0))
def test_some_policies_never_forget(policy: RetentionPolicy) -> None:
    assert forget_at(initial=0.7, last_used_at=NOON, policy=policy) is None


def test_what_lies_past_the_calendar_is_never() -> None:
    slow = RetentionPolicy(decay_rate=1e-9)
    assert forget_at(initial=0.7, last_used_at=NOON, policy=slow) is None


def test_a_threshold_of_one_forgets_at_the_minimum_age() -> None:
    strict = RetentionPolicy(threshold=1)
    assert NOON + timedelta(days=7) == forget_at(initial=1.0, last_used_at=NOON, policy=strict)


def test_a_huge_decay_forgets_at_the_minimum_age() -> None:
    fast = RetentionPolicy(decay_rate=1e300)
    assert NOON + timedelta(days=7) == forget_at(initial=1.0, last_used_at=NOON, policy=fast)


def test_the_documented_settings_have_names() -> None:
    assert {
        "default": (0.1, 0.1, 7),
        "high-interaction": (0.15, 0.15, 7),
        "low-interaction": (0.05, 0.05, 7),
        "sensitive": (0.3, 0.2, 7),
        "knowledge": (0.02, 0.02, 7),
    } == {
        name: (policy.decay_rate, policy.threshold, policy.min_age_days)
        for name, policy in POLICIES.items()
    }


@every_case(
    lambda: initial_strength(0),
    lambda: initial_strength(math.nan),
    lambda: retention_score(initial=1.1, days=0),
    lambda: retention_score(initial=0.5, days=math.nan),
    lambda: retention_score(initial=0.5, days=math.inf),
    lambda: retention_score(initial=0.5, days=0, accesses=-1),
    lambda: retention_score(initial=0.5, days=0, accesses=True),
    lambda: retention_score(initial=0.5, days=0, arousal=1.5),
    lambda: retention_score(initial=0.5, days=0, decay_rate=-0.1),
    lambda: retention_score(initial=0.5, days=0, decay_rate=math.inf),
    lambda: RetentionPolicy(threshold=1.5),
    lambda: RetentionPolicy(decay_rate=math.nan),
    lambda: RetentionPolicy(min_age_days=-1),
    lambda: forget_at(initial=0.5, last_used_at=NOON.replace(tzinfo=None)),
    lambda: days_between(NOON, NOON.replace(tzinfo=None)),
)
def test_values_that_mean_nothing_are_refused(attempt: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput):
        attempt()
