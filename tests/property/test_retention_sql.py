"""The database reckons as Python does: scores to 1e-9, moments to the microsecond."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from shared_core.core.decay import initial_strength, next_stage_at, retention_score
from shared_core.core.retention_policy import POLICIES, STAGES, RetentionPolicy, Stage
from shared_core.errors import InvalidInput

READ_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
SHARE = st.floats(0, 1)
COUNTS = st.integers(0, 10**9)
DECAY = st.one_of(st.floats(0, 10), st.floats(0, 1e308), st.sampled_from([0.0, 1e-300, 1e300]))
ASIDE = st.integers(-(10**14), 10**17)
"""Microseconds from the last access: three years before it to 3,000 years after."""


@pytest.fixture(scope="module")
def sql(server: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """A database with the schema, spoken to in Paris: no score depends on where one is."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE retention_sql TEMPLATE {template}")
    with psycopg.connect(server, dbname="retention_sql", autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        connection.execute("SET timezone TO 'Europe/Paris'")
        yield connection
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("DROP DATABASE retention_sql WITH (FORCE)")


def asked(sql: psycopg.Connection[Any], expression: str, values: dict[str, object]) -> Any:
    row = sql.execute(f"SELECT {expression}".encode(), values).fetchone()
    assert row is not None
    return row[0]


SCORE = (
    "calculate_retention_score(%(accesses)s::bigint, %(read_at)s, %(decay)s::float8, %(as_of)s,"
    " %(initial)s::float8, %(arousal)s::float8)"
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(SHARE, COUNTS, SHARE, DECAY, ASIDE)
@example(1.0, 10**9, 0.0, 1e300, 1)
@example(1.0, 0, 1.0, 1e-308, 10**17)
@example(5e-324, 0, 0.0, 10.0, 10**17)
def test_a_score_is_the_same_in_sql_and_in_python(
    sql: psycopg.Connection[Any], initial: float, accesses: int, arousal: float, decay: float,
    microseconds: int,
) -> None:  # fmt: skip
    as_of = READ_AT + timedelta(microseconds=microseconds)
    expected = retention_score(
        initial=initial,
        days=(as_of - READ_AT).total_seconds() / 86_400,
        accesses=accesses,
        arousal=arousal,
        decay_rate=decay,
    )
    values = {"initial": initial, "accesses": accesses, "arousal": arousal, "decay": decay,
              "read_at": READ_AT, "as_of": as_of}  # fmt: skip
    assert abs(expected - asked(sql, SCORE, values)) < 1e-9


@given(importance=st.floats(1, 10))
def test_importance_means_the_same(sql: psycopg.Connection[Any], importance: float) -> None:
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
    threshold=LIMIT,
    min_age_days=st.floats(0, 1e4),
    archive_threshold=st.none() | LIMIT,
    archive_after_days=st.floats(0, 1e4),
    erase_threshold=st.none() | LIMIT,
    erase_after_days=st.floats(0, 1e4),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(POLICY, st.sampled_from(STAGES), SHARE, COUNTS, SHARE, st.integers(-(10**14), 10**14))
@example(RetentionPolicy(min_age_days=1e300), "kept", 0.7, 0, 0.0, 0)
@example(POLICIES["sensitive"], "demoted", 0.7, 10**9, 0.0, 0)
def test_the_next_stage_comes_at_the_same_moment(
    sql: psycopg.Connection[Any], policy: RetentionPolicy, stage: Stage, initial: float,
    accesses: int, arousal: float, earlier: int,
) -> None:  # fmt: skip
    since = READ_AT - timedelta(microseconds=earlier)
    expected = next_stage_at(
        stage, initial=initial, last_used_at=READ_AT, since=since, accesses=accesses,
        arousal=arousal, policy=policy,
    )  # fmt: skip
    values = {name: getattr(policy, name) for name in RetentionPolicy.__slots__}
    found = asked(sql, RULE, values | {
        "stage": STAGES.index(stage), "since": since, "initial": initial, "arousal": arousal,
        "accesses": accesses, "read_at": READ_AT})  # fmt: skip
    if expected is None or found is None:
        assert expected is found
    else:
        # A logarithm differs in its last digit: of 300 years that is a few microseconds.
        far = (expected - READ_AT) / timedelta(days=1)
        assert abs(expected - found) <= timedelta(microseconds=1 + far / 100)


@pytest.mark.parametrize(
    "wrong",
    [
        {"accesses": -1},
        {"decay": -0.1},
        {"decay": float("inf")},
        {"decay": float("nan")},
        {"initial": 1.1},
        {"initial": float("nan")},
        {"arousal": -0.1},
    ],
)
def test_both_refuse_what_means_nothing(
    sql: psycopg.Connection[Any], wrong: dict[str, float]
) -> None:
    values: dict[str, Any] = {"initial": 0.7, "accesses": 0, "arousal": 0.0, "decay": 0.1} | wrong
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="no retention can be told"):
        asked(sql, SCORE, {**values, "read_at": READ_AT, "as_of": READ_AT})
    with pytest.raises(InvalidInput):
        retention_score(
            initial=values["initial"], days=0, accesses=values["accesses"],
            arousal=values["arousal"], decay_rate=values["decay"],
        )  # fmt: skip


def test_the_documented_call_works(sql: psycopg.Connection[Any]) -> None:
    found = asked(sql, "calculate_retention_score(5, now() - interval '3 days')", {})
    assert abs(retention_score(initial=0.2, days=3, accesses=5) - found) < 1e-6


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (0.7, '{"metadata": {"emotion": {"arousal": 0.7}}}'),
        (1.0, '{"metadata": {"emotion": {"arousal": 1e400}}}'),
        (0.0, '{"metadata": {"emotion": {"arousal": -3}}}'),
        (0.0, '{"metadata": {"emotion": {"arousal": "high"}}}'),
        (0.0, '{"metadata": {"emotion": "calm"}}'),
        (0.0, '{"metadata": null}'),
        (0.0, "[]"),
    ],
)
def test_arousal_is_read_out_of_whatever_metadata_hold(
    sql: psycopg.Connection[Any], expected: float, value: str
) -> None:
    assert expected == asked(sql, "memory_arousal(%(value)s::jsonb)", {"value": value})
