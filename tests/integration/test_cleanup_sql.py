"""cleanup_low_value_memories, as pg_cron or a hand at psql calls it: without a search path."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from shared_core import Event, NewMemory, Scope, open_memory

ANN, BOB = Scope("app", "ann"), Scope("app", "b/ob")
NOW = datetime.now(UTC)


@pytest.fixture
async def old(dsn: str) -> str:
    """Two users; each said something 21 days ago, and something today."""
    for days, said in ((21, "I sail."), (0, "I ski.")):
        then = NOW - timedelta(days=days)
        async with open_memory(dsn, clock=lambda: then, worker=False) as memory:  # noqa: B023
            for scope in (ANN, BOB):
                await memory.append_events(
                    scope, "t",
                    [Event(event_id=said, author="user", role="user", text=said, occurred_at=then)],
                )  # fmt: skip
                await memory.remember(scope, NewMemory(text=f"Fact: {said}"))
    return dsn


def called(dsn: str, arguments: str = "", before: str = "SELECT 1") -> int:
    with psycopg.connect(dsn) as connection:
        connection.execute(before.encode())
        query = f"SELECT hippocampus.cleanup_low_value_memories({arguments})"
        row = connection.execute(query.encode()).fetchone()
        connection.execute("RESET role")
    assert row
    return int(row[0])


def left(dsn: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "SELECT tenant_id, text, demoted_at IS NULL FROM hippocampus.memories"
            " WHERE kind = 'episodic' ORDER BY 1, 2"
        ).fetchall()


@pytest.mark.parametrize("role", ["SELECT 1", "SET role TO hippocampus_app"])
async def test_without_arguments_it_goes_by_the_policies(old: str, role: str) -> None:
    assert 2 == called(old, before=role)
    assert 0 == called(old, before=role)
    kept = [("I sail.", False), ("I ski.", True)]
    assert [(path, *one) for path in ("/app/ann/", "/app/b%2Fob/") for one in kept] == left(old)


async def test_the_documented_call_erases_at_once(old: str) -> None:
    assert 2 == called(old, "0.1, 7")
    assert [("/app/ann/", "I ski.", True), ("/app/b%2Fob/", "I ski.", True)] == left(old)


async def test_it_can_be_bounded_in_number_and_to_a_path(old: str) -> None:
    assert 1 == called(old, "p_limit => 1")
    assert 0 == called(old, "p_scope => '/other/'")
    assert 1 == called(old, "0.99, 0, p_scope => '/app/b%2Fob/', p_limit => 1")
    assert 0 == called(old, "0, 0")
    assert 0 == called(old, "p_min_age_days => 1000")


async def test_a_bound_transaction_cleans_up_its_own_alone(old: str) -> None:
    bound = "SET role TO hippocampus_app; SET hippocampus.scope TO '/app/ann/'"
    assert 1 == called(old, before=bound)
    assert 1 == called(old)


@pytest.mark.parametrize(
    "arguments", ["2", "-1", "'NaN'", "0.1, -1", "p_limit => -1", "p_scope => 'app'"]
)
def test_what_means_nothing_is_refused(dsn: str, arguments: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="nothing can be cleaned up so"):
        called(dsn, arguments)
