"""Every memory only fades, reading only helps, and the database reckons as Python does."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from every_case import every_case
from hypothesis import example, given, settings, strategies as st
from long_forms import LONG

from shared_core.core.decay import (
    days_between,
    forget_at,
    initial_strength,
    next_stage_at,
    retention_score,
)
from shared_core.core.retention_policy import POLICIES, STAGES, RetentionPolicy
from shared_core.errors import InvalidInput

USED_AT = datetime(2026, 3, 1, tzinfo=UTC)
IMPORTANCE = st.floats(1, 10)
INITIAL = st.floats(0, 1)
DAYS = st.floats(0, 1e5)
ACCESSES = st.integers(0, 10**9)
AROUSAL = st.floats(0, 1)
DECAY = st.floats(1e-3, 10)
THRESHOLD = st.floats(1e-6, 1)


@given(INITIAL, DAYS, DAYS, ACCESSES, AROUSAL, st.floats(0, 1e9))
def test_a_score_is_a_share_that_only_falls_in_time(initial, days, more, accesses, arousal, decay):
    used = {"initial": initial, "accesses": accesses, "arousal": arousal, "decay_rate": decay}
    now, later = (retention_score(days=at, **used) for at in (days, days + more))
    assert 0 <= later <= now <= 1


@given(IMPORTANCE, IMPORTANCE, DAYS, ACCESSES, ACCESSES, AROUSAL, AROUSAL)
def test_importance_reads_and_arousal_never_lower_a_score(one, other, days, few, more, calm, moved):
    low, high = sorted((one, other))
    (few, more), (calm, moved) = sorted((few, more)), sorted((calm, moved))
    assert retention_score(
        initial=initial_strength(low), days=days, accesses=few, arousal=calm
    ) <= retention_score(initial=initial_strength(high), days=days, accesses=more, arousal=moved)


@given(INITIAL, ACCESSES, AROUSAL, DECAY, THRESHOLD)
def test_it_is_forgotten_at_the_threshold(initial, accesses, arousal, decay, threshold):
    used = {"initial": initial, "accesses": accesses, "arousal": arousal}

    def score(days: float) -> float:
        return retention_score(days=days, decay_rate=decay, **used)

    policy = RetentionPolicy(decay_rate=decay, threshold=threshold, min_age_days=0)
    faded = days_between(USED_AT, forget_at(last_used_at=USED_AT, policy=policy, **used))
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if score(middle) >= threshold else (low, middle)
    assert abs(faded - high) < 1e-6 if score(0) >= threshold else faded == 0
    assert score(faded + 1e-6) <= threshold
    assert faded < 1e-6 or score(faded - 1e-6) >= threshold


@given(INITIAL, ACCESSES, st.floats(0, 100), st.integers(0, 1000))
def test_nothing_is_forgotten_before_its_minimum_age_or_use(initial, accesses, min_age_days, older):
    created_at = USED_AT - timedelta(days=older)
    faded_at = forget_at(
        initial=initial, last_used_at=USED_AT, created_at=created_at, accesses=accesses,
        policy=RetentionPolicy(min_age_days=min_age_days),
    )  # fmt: skip
    assert faded_at >= max(USED_AT, created_at + timedelta(days=min_age_days))


@given(
    st.sampled_from(STAGES), INITIAL, ACCESSES, st.integers(1, 1000), AROUSAL,
    st.integers(-(10**12), 10**12), st.integers(0, 10**12), DECAY, THRESHOLD,
)  # fmt: skip
def test_reading_never_brings_the_next_stage_nearer(
    stage, initial, accesses, more, arousal, since, later, decay, threshold
):
    lower = {"archive_threshold": threshold / 2, "erase_threshold": threshold / 3}
    known = {
        "initial": initial, "since": USED_AT + timedelta(microseconds=since), "arousal": arousal,
        "policy": RetentionPolicy(decay_rate=decay, threshold=threshold, **lower),
    }  # fmt: skip
    unread, read = (
        next_stage_at(stage, last_used_at=used_at, accesses=count, **known)
        for used_at, count in ((USED_AT, accesses),
                               (USED_AT + timedelta(microseconds=later), accesses + more))
    )  # fmt: skip
    assert unread is not None
    assert read is None or read >= unread


# --- in SQL: scores to 1e-9, moments to the microsecond


READ_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANY_DECAY = st.one_of(st.floats(0, 10), st.floats(0, 1e308), st.sampled_from([0.0, 1e-300, 1e300]))
ASIDE = st.integers(-(10**14), 10**17)
"""Microseconds from the last access: three years before it to 3,000 years after."""


@pytest.fixture(scope="module")
def sql(postgres):
    """A database with the schema, spoken to in Paris: no score depends on where one is."""
    for dsn in postgres.lend():
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SET search_path TO hippocampus, public")
            connection.execute("SET timezone TO 'Europe/Paris'")
            yield connection


def asked(sql: psycopg.Connection[Any], expression: str, values: dict[str, object]) -> Any:
    return sql.execute(f"SELECT {expression}".encode(), values).fetchone()[0]


SCORE = (
    "calculate_retention_score(%(accesses)s::bigint, %(read_at)s, %(decay)s::float8, %(as_of)s,"
    " %(initial)s::float8, %(arousal)s::float8)"
)


@settings(max_examples=300 if LONG else 100)
@given(INITIAL, ACCESSES, INITIAL, ANY_DECAY, ASIDE)
@example(1.0, 10**9, 0.0, 1e300, 1)
@example(1.0, 0, 1.0, 1e-308, 10**17)
@example(5e-324, 0, 0.0, 10.0, 10**17)
def test_a_score_is_the_same_in_sql_as_here(sql, initial, accesses, arousal, decay, microseconds):
    as_of = READ_AT + timedelta(microseconds=microseconds)
    used = {"initial": initial, "accesses": accesses, "arousal": arousal}
    days = (as_of - READ_AT).total_seconds() / 86_400
    expected = retention_score(days=days, decay_rate=decay, **used)
    values = {**used, "decay": decay, "read_at": READ_AT, "as_of": as_of}
    assert abs(expected - asked(sql, SCORE, values)) < 1e-9


@given(importance=st.floats(1, 10))
def test_importance_means_the_same(sql, importance):
    found = asked(sql, "initial_strength(%(importance)s::float8)", {"importance": importance})
    assert abs(initial_strength(importance) - found) < 1e-9


RULE = """next_stage_at(
    (NULL, 'episodic', true, %(decay_rate)s, %(threshold)s, %(min_age_days)s,
     %(archive_threshold)s, %(archive_after_days)s, %(erase_threshold)s, %(erase_after_days)s,
     true, NULL)::retention_policies,
    %(stage)s, %(since)s, NULL, %(initial)s, 5, %(arousal)s, %(accesses)s, %(read_at)s, %(since)s)
"""
LIMIT = st.one_of(st.floats(1e-6, 1), st.sampled_from([0.0, 1.0]))
POLICY = st.builds(
    RetentionPolicy,
    decay_rate=st.one_of(st.floats(1e-3, 10), st.sampled_from([0.0, 1e-12, 1e300])),
    threshold=LIMIT, min_age_days=st.floats(0, 1e4), archive_threshold=st.none() | LIMIT,
    archive_after_days=st.floats(0, 1e4), erase_threshold=st.none() | LIMIT,
    erase_after_days=st.floats(0, 1e4),
)  # fmt: skip


@settings(max_examples=300 if LONG else 100)
@given(POLICY, st.sampled_from(STAGES), INITIAL, ACCESSES, INITIAL, st.integers(-(10**14), 10**14))
@example(RetentionPolicy(min_age_days=1e300), "kept", 0.7, 0, 0.0, 0)
@example(POLICIES["sensitive"], "demoted", 0.7, 10**9, 0.0, 0)
def test_the_next_stage_comes_as_in_sql(sql, policy, stage, initial, accesses, arousal, earlier):
    since = READ_AT - timedelta(microseconds=earlier)
    used = {"since": since, "initial": initial, "accesses": accesses, "arousal": arousal}
    expected = next_stage_at(stage, last_used_at=READ_AT, policy=policy, **used)
    values = {name: getattr(policy, name) for name in RetentionPolicy.__slots__} | used
    found = asked(sql, RULE, values | {"stage": STAGES.index(stage), "read_at": READ_AT})
    if expected is None or found is None:
        assert expected is found
    else:
        # A logarithm differs in its last digit: of 300 years that is a few microseconds.
        far = (expected - READ_AT) / timedelta(days=1)
        assert abs(expected - found) <= timedelta(microseconds=1 + far / 100)


@every_case(
    {"accesses": -1}, {"decay": -0.1}, {"decay": float("inf")}, {"decay": float("nan")},
    {"initial": 1.1}, {"initial": float("nan")}, {"arousal": -0.1}
)  # fmt: skip
def test_both_refuse_what_means_nothing(wrong, sql):
    values: dict[str, Any] = {"initial": 0.7, "accesses": 0, "arousal": 0.0, "decay": 0.1} | wrong
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="no retention can be told"):
        asked(sql, SCORE, {**values, "read_at": READ_AT, "as_of": READ_AT})
    with pytest.raises(InvalidInput):
        retention_score(
            initial=values["initial"], days=0, accesses=values["accesses"],
            arousal=values["arousal"], decay_rate=values["decay"],
        )  # fmt: skip


def test_the_documented_call_works(sql):
    found = asked(sql, "calculate_retention_score(5, now() - interval '3 days')", {})
    assert abs(retention_score(initial=0.2, days=3, accesses=5) - found) < 1e-6


@every_case(
    (0.7, '{"metadata": {"emotion": {"arousal": 0.7}}}'),
    (1.0, '{"metadata": {"emotion": {"arousal": 1e400}}}'),
    (0.0, '{"metadata": {"emotion": {"arousal": -3}}}'),
    (0.0, '{"metadata": {"emotion": {"arousal": "high"}}}'),
    (0.0, '{"metadata": {"emotion": "calm"}}'), (0.0, '{"metadata": null}'), (0.0, "[]"),
)  # fmt: skip
def test_arousal_is_read_out_of_whatever_metadata_hold(expected, value, sql):
    assert expected == asked(sql, "memory_arousal(%(value)s::jsonb)", {"value": value})
