"""Who builds the indexes of large tenants: a command, the worker, the background; one at a time."""

from __future__ import annotations

import asyncio
import subprocess
import uuid

import psycopg
import pytest
from postgres_admin import column, execute, new_user
from psycopg.conninfo import make_conninfo
from waiting import until
from warm_python import warm_python

from shared_core import Scope, StorageReadOnly, StorageUnavailable
from shared_core.jobs import index_maintenance as indexes
from shared_core.jobs.index_maintenance import plan_indexes
from shared_core.ports.indexes import TenantIndex, TenantVectors
from shared_core.storage.postgres.connection.migrations import APP_ROLE
from shared_core.storage.postgres.connection.statements import statement
from shared_core.storage.postgres.indexes import sorted_out
from tests.integration.large_tenants import (
    BIG,
    THRESHOLD,
    build,
    fill,
    index_names,
    memory_at,
    store_at,
    threshold,
)

__all__ = ["threshold"]


def command(dsn: str, *options: str) -> subprocess.CompletedProcess[str]:
    line = [*warm_python(), "-m", "shared_core.cli.main", "index", "--uri", dsn, *options]
    return subprocess.run(line, capture_output=True, text=True)


def filled(dsn: str, count: int = 400) -> None:
    """Store so many items of one tenant, who earns an index."""
    with store_at(dsn) as store:
        fill(store, count=count)


def usable_indexes(dsn: str) -> int:
    with psycopg.connect(dsn, options="-c search_path=hippocampus") as connection:
        return len(sorted_out(connection.execute(statement("tenant_indexes")).fetchall())[0])


def test_the_command_lists_and_builds_what_is_earned(dsn: str) -> None:
    assert "No tenant is large enough" in command(dsn, "--dry-run").stdout
    with store_at(dsn) as store:
        fill(store, count=600)
        fill(store, ("shop", "small"), count=100)
    listed = command(dsn, "--dry-run").stdout
    assert "big" in listed and "600" in listed and "gets an index" in listed
    assert [] == index_names(dsn)
    built = command(dsn)
    assert 0 == built.returncode, built.stderr
    assert "shop / big (600 vectors) gets an index" in built.stdout
    assert 1 == len(index_names(dsn))
    assert "Nothing to do" in command(dsn).stdout
    assert "has an index" in command(dsn, "--dry-run").stdout


def test_the_command_says_that_indexes_are_off(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "off")
    done = command(dsn)
    assert 1 == done.returncode and "HIPPOCAMPUS_ANN_THRESHOLD" in done.stderr


async def test_a_long_tail_makes_a_new_index_and_erasure_takes_it_away(dsn: str) -> None:
    with store_at(dsn) as store:
        fill(store, count=400)
        assert ["build"] == build(dsn)
        [first] = index_names(dsn)
        fill(store, count=THRESHOLD, start=1_000)
        assert [] == build(dsn)
        store.put(BIG, "one more", {"text": "one more"})
        assert ["rebuild"] == build(dsn)
        [second] = index_names(dsn)
        assert first != second
    async with memory_at(dsn) as memory:
        assert 400 + THRESHOLD + 1 == await memory.forget_scope(Scope(*BIG))
    assert ["drop"] == build(dsn)
    assert [] == index_names(dsn)


async def test_of_two_builders_one_builds(dsn: str) -> None:
    filled(dsn)
    async with memory_at(dsn) as one, memory_at(dsn) as other:
        done = await asyncio.gather(one.indexes.refresh(), other.indexes.refresh())
        actions = [[step.action for step in steps] for steps in done if steps is not None]
        assert ["build"] in actions and 1 == len(index_names(dsn))
        assert actions in ([["build"]], [["build"], []], [[], ["build"]])
        held: list[object] = []
        async with one._storage.indexes.index_builder() as builder:
            assert builder is not None
            held.append(await other.indexes.refresh())
        assert [None] == held
        assert [] == await other.indexes.refresh()


async def test_what_an_interrupted_build_left_goes_with_the_next(dsn: str) -> None:
    filled(dsn)
    on = "ON hippocampus.embeddings USING hnsw ((embedding::halfvec(24)) halfvec_cosine_ops)"
    names = ("embeddings_near_uncommented", "embeddings_near_invalid", "mine")
    invalid = "UPDATE pg_index SET indisvalid = false WHERE indexrelid"
    execute(
        dsn, *(f"CREATE INDEX {name} {on}" for name in names),
        f"{invalid} = 'hippocampus.embeddings_near_invalid'::regclass",
    )  # fmt: skip
    assert ["build"] == build(dsn)
    assert 1 == len(index_names(dsn))
    assert [None] != column(dsn, "SELECT to_regclass('hippocampus.mine')")


async def test_a_build_that_is_interrupted_leaves_everything_usable(dsn: str) -> None:
    with store_at(dsn) as store:
        fill(store, count=600)
        with psycopg.connect(dsn) as writer:  # the build waits for this transaction
            writer.execute("UPDATE hippocampus.memories SET author = 'a' WHERE key = '1'")
            writer.execute("UPDATE hippocampus.embeddings SET field = field")
            async with memory_at(dsn) as memory:
                building = asyncio.create_task(memory.indexes.refresh())
                await until(lambda: bool(index_names(dsn)))
                building.cancel()
                await asyncio.wait([building])
                assert [] == await memory._storage.indexes.tenant_indexes()
            writer.rollback()
        assert "3" == store.search(BIG, query="note 3", limit=1)[0].key
        assert ["build"] == build(dsn)
        assert 1 == len(index_names(dsn))


async def test_only_the_owner_builds_and_others_hear_why_not(dsn: str) -> None:
    filled(dsn)
    with new_user(dsn, f"IN ROLE {APP_ROLE}") as guest:
        async with memory_at(make_conninfo(dsn, user=guest)) as memory:
            assert ["build"] == [step.action for step in await memory.indexes.plan()]
            with pytest.raises(StorageUnavailable, match=r"owner.*hippocampus index --uri"):
                await memory.indexes.refresh()
    assert [] == index_names(dsn)


async def test_where_nothing_can_be_written_nothing_is_built(dsn: str) -> None:
    filled(dsn)
    read_only = make_conninfo(dsn, options="-c default_transaction_read_only=on")
    async with memory_at(read_only) as memory:
        with pytest.raises(StorageReadOnly, match="primary"):
            await memory.indexes.refresh()


async def test_the_background_builds_when_it_is_time_and_not_before(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_at(dsn) as store:
        fill(store, count=400)
        store.search(BIG, query="note 3")
        monkeypatch.setattr(indexes, "FIRST_LOOK_S", 0.0)
        async with memory_at(dsn) as memory:  # worker=False
            memory.indexes.nudge()
            await asyncio.sleep(0.3)  # an index would take as long
        assert [] == index_names(dsn)
    with store_at(dsn) as store:
        store.get(BIG, "3")
        await until(lambda: bool(index_names(dsn)))


async def test_the_worker_builds_too(dsn: str) -> None:
    filled(dsn)
    worker = subprocess.Popen(
        [*warm_python(), "-m", "shared_core.cli.main", "worker", "--uri", dsn, "--poll", "0.05"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        await until(lambda: usable_indexes(dsn) == 1)
    finally:
        worker.terminate()
        _, log = worker.communicate()
    assert 0 == worker.returncode, log
    assert 1 == len(index_names(dsn))


async def test_a_failing_look_is_told_and_ends_no_worker(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    stop = asyncio.Event()
    read_only = make_conninfo(dsn, options="-c default_transaction_read_only=on")
    filled(dsn)
    async with memory_at(read_only) as memory:
        keeping = asyncio.create_task(memory.indexes.keep(stop, every_s=0.01))
        await until(lambda: caplog.text.count("not maintained") >= 2)
        stop.set()
        await keeping


async def test_large_tenants_are_found_in_a_sample(dsn: str) -> None:
    filled(dsn, 1_500)
    execute(dsn, "ANALYZE hippocampus.embeddings")
    async with memory_at(dsn) as memory:
        found = await memory._storage.indexes.large_tenants(1_200, [])
    assert [(BIG, 1_500)] == [(one.namespace, one.vectors) for one in found]


def index_of(model: str, dimensions: int) -> TenantIndex:
    cutoff = uuid.UUID(int=0)
    return TenantIndex(name="i", tenant="/a/u/", model=model, dimensions=dimensions, cutoff=cutoff)


def tenant(vectors: int, *, tail: int | None = None, dimensions: int = 384) -> TenantVectors:
    index = None if tail is None else index_of("m", dimensions)
    return TenantVectors(
        namespace=("a", "u"), model="m", dimensions=dimensions, vectors=vectors,
        tail=vectors if tail is None else tail, index=index,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "action"),
    [
        (tenant(20_000), "exact"),
        (tenant(20_001), "build"),
        (tenant(90_000, dimensions=4_001), "exact"),
        (tenant(10_000, tail=0), "keep"),
        (tenant(9_999, tail=0), "drop"),
        (tenant(100_000, tail=20_000), "keep"),
        (tenant(100_000, tail=20_001), "rebuild"),
        (tenant(900_000, tail=90_000), "keep"),
        (tenant(900_000, tail=90_001), "rebuild"),
    ],
)
def test_what_is_earned(one: TenantVectors, action: str) -> None:
    [step] = plan_indexes([one], [one.index] if one.index else [], 20_000)
    assert action == step.action


def test_an_index_of_a_model_that_is_no_longer_used_goes() -> None:
    old = index_of("old", 8)
    gone, built = plan_indexes([tenant(30_000)], [old], 20_000)
    assert ("drop", old, "build") == (gone.action, gone.old, built.action)
