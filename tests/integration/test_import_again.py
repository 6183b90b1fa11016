"""A second import leaves out what was deleted or forgotten here since the first one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.store.postgres import PostgresStore
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

from langgraph_store import PgHippocampusStore
from shared_core import Scope
from shared_core.cli import StoreImport, import_store
from shared_core.cli.main import app
from shared_core.policies import items
from shared_core.ports.operations import Update
from shared_core.storage.postgres.connection.embedded import embedded_behind
from shared_core.storage.postgres.connection.embedded_server import (
    CLUSTER,
    conninfo,
    socket_directories,
)

ANA = ("gdpr", "ana", "memories")
BOB = ("gdpr", "bob", "memories")


def ones(texts: list[str]) -> list[list[float]]:
    return [[1.0] * 4 for _ in texts]


@pytest.fixture
def source(empty_dsn: str) -> Iterator[PostgresStore]:
    with PostgresStore.from_conn_string(empty_dsn) as store:
        store.setup()
        for number in range(3):
            store.put(ANA, f"m{number}", {"text": f"secret {number}"})
        store.put(BOB, "m0", {"text": "tea"})
        yield store


@pytest.fixture
def task(source: PostgresStore, empty_dsn: str, dsn: str) -> StoreImport:
    return StoreImport(dsn=empty_dsn, uri=dsn, embedder=ones)


@pytest.fixture
async def ours(dsn: str) -> AsyncIterator[PgHippocampusStore]:
    index: Any = {"embed": ones, "dims": 4}
    async with PgHippocampusStore(dsn, index=index, ttl={"omit_expired": True}) as store:
        yield store


async def keys(store: PgHippocampusStore, namespace: tuple[str, ...] = ANA) -> set[str]:
    return {item.key for item in await store.asearch(namespace, limit=100)}


def rows(dsn: str, query: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query.encode()).fetchall()


async def test_what_was_deleted_here_stays_deleted(
    task: StoreImport, ours: PgHippocampusStore
) -> None:
    assert 4 == (await import_store(task)).copied
    await ours.adelete(ANA, "m0")
    assert 1 == await ours.engine.forget(Scope("gdpr", "ana"), "m1")
    for again in (task, replace(task, reembed=True)):
        report = await import_store(again)
        assert (2, 0, True) == (report.deleted, report.failed, report.complete)
        assert {"m2"} == await keys(ours)
    assert {"m0"} == await keys(ours, BOB)


async def test_what_was_deleted_comes_back_on_request_and_can_be_deleted_again(
    task: StoreImport, ours: PgHippocampusStore
) -> None:
    await import_store(task)
    await ours.adelete(ANA, "m0")
    report = await import_store(replace(task, restore=True))
    assert (1, 0, True) == (report.copied, report.deleted, report.complete)
    assert {"m0", "m1", "m2"} == await keys(ours)
    await ours.adelete(ANA, "m0")
    assert 1 == (await import_store(task)).deleted
    assert {"m1", "m2"} == await keys(ours)


async def test_a_user_who_was_erased_stays_erased_and_leaves_no_address(
    task: StoreImport, ours: PgHippocampusStore, dsn: str
) -> None:
    await import_store(task)
    await ours.engine.forget_scope(Scope("gdpr", "ana"))
    report = await import_store(task)
    assert (3, 1, True) == (report.deleted, report.here, report.complete)
    assert set() == await keys(ours)
    assert [("/gdpr/ana/", b"")] == rows(
        dsn,
        "SELECT tenant_id, address_hash FROM hippocampus.import_marks"
        " WHERE tenant_id = '/gdpr/ana/'",
    )
    assert 3 == (await import_store(replace(task, restore=True))).copied


async def test_what_was_new_there_before_a_user_was_erased_does_not_come(
    task: StoreImport, source: PostgresStore, ours: PgHippocampusStore
) -> None:
    await import_store(task)
    await asyncio.to_thread(source.put, ANA, "m3", {"text": "never imported"})
    await ours.engine.forget_scope(Scope("gdpr", "ana"))
    await asyncio.to_thread(source.put, ANA, "m4", {"text": "written since"})
    report = await import_store(task)
    assert (4, 1) == (report.deleted, report.copied)
    assert {"m4"} == await keys(ours)


async def test_what_came_both_ways_after_a_user_was_erased_can_be_deleted(
    task: StoreImport, source: PostgresStore, ours: PgHippocampusStore
) -> None:
    await import_store(task)
    await ours.engine.forget_scope(Scope("gdpr", "ana"))
    await asyncio.to_thread(source.put, ANA, "m0", {"text": "both"})
    await ours.aput(ANA, "m0", {"text": "both"})
    assert (2, 2) == ((report := await import_store(task)).here, report.deleted)
    await ours.adelete(ANA, "m0")
    assert 3 == (await import_store(task)).deleted
    assert set() == await keys(ours)


async def test_a_deletion_outlasts_what_was_put_in_its_place(
    task: StoreImport, source: PostgresStore, ours: PgHippocampusStore, empty_dsn: str, dsn: str
) -> None:
    await asyncio.to_thread(source.put, ANA, "k", {"text": "k"}, ttl=60)
    await import_store(task)
    await ours.adelete(ANA, "k")
    await ours.aput(ANA, "k", {"text": "another"}, ttl=60)
    assert 1 == (await import_store(task)).newer
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE hippocampus.memories SET expires_at = now() - '1 s'::interval WHERE key = 'k'"
        )
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("UPDATE store SET expires_at = now() + '2 h'::interval WHERE key = 'k'")
    assert 1 == (await import_store(task)).deleted
    assert await ours.aget(ANA, "k") is None


async def test_what_was_written_there_after_it_was_deleted_here_comes(
    task: StoreImport, source: PostgresStore, ours: PgHippocampusStore
) -> None:
    await import_store(task)
    await ours.adelete(ANA, "m0")
    await asyncio.to_thread(source.put, ANA, "m0", {"text": "new"})
    assert 1 == (await import_store(task)).copied
    found = await ours.aget(ANA, "m0")
    assert found is not None
    assert {"text": "new"} == found.value


async def test_what_was_here_before_an_import_counts_as_well(
    task: StoreImport, ours: PgHippocampusStore
) -> None:
    await ours.aput(ANA, "m0", {"text": "secret 0"})
    await ours.aput(ANA, "m1", {"text": "another"})
    first = await import_store(task)
    assert (1, 1, 2) == (first.here, first.newer, first.copied)
    await ours.adelete(ANA, "m0")
    await ours.adelete(ANA, "m1")
    assert 2 == (await import_store(task)).deleted
    assert {"m2"} == await keys(ours)


async def test_what_was_replaced_here_and_has_expired_does_not_come_back(
    task: StoreImport, ours: PgHippocampusStore, dsn: str
) -> None:
    await import_store(task)
    await ours.aput(ANA, "m0", {"text": "for a moment"}, ttl=60)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE hippocampus.memories SET expires_at = now() - '1 s'::interval"
            " WHERE expires_at IS NOT NULL"
        )
    for swept in (0, 1):
        assert 1 == (await import_store(task)).deleted
        assert (1 - swept) == await ours._sweep()
    assert {"m1", "m2"} == await keys(ours)


async def test_what_expired_here_and_was_read_there_comes_again(
    task: StoreImport, source: PostgresStore, ours: PgHippocampusStore, empty_dsn: str, dsn: str
) -> None:
    for key in ("kept", "gone"):
        await asyncio.to_thread(source.put, ANA, key, {"text": key}, ttl=60)
    await import_store(task)
    await ours.adelete(ANA, "gone")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE hippocampus.memories SET expires_at = now() - '1 s'::interval"
            " WHERE key = 'kept'"
        )
    await ours._sweep()
    soon = datetime.now(UTC) + timedelta(hours=2)
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("UPDATE store SET expires_at = %s WHERE ttl_minutes > 0", [soon])
    report = await import_store(task)
    assert (1, 1) == (report.copied, report.deleted)
    assert {"m0", "m1", "m2", "kept"} == await keys(ours)


async def test_items_and_marks_come_together_or_not_at_all(
    task: StoreImport, ours: PgHippocampusStore, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(
            items, "_stamped", lambda *_, **__: [Update("memories", {"importance": None}, ())]
        )
        with pytest.raises(psycopg.errors.NotNullViolation):
            await import_store(task)
    assert [(0,)] == rows(dsn, "SELECT count(*) FROM hippocampus.memories")
    assert 4 == (await import_store(task)).copied
    assert [(4,)] == rows(dsn, "SELECT count(*) FROM hippocampus.import_marks")


def test_the_command_says_what_it_left_out(source: PostgresStore, empty_dsn: str, dsn: str) -> None:
    at = ["import", "--from", "postgres-store", empty_dsn, "--uri", dsn]
    assert 0 == CliRunner().invoke(app, at).exit_code
    gone = CliRunner().invoke(app, ["forget", "gdpr", "ana", "m1", "--uri", dsn])
    assert 0 == gone.exit_code, gone.output
    ran = CliRunner().invoke(app, at)
    assert 0 == ran.exit_code
    assert "0 copied, 3 were here already, 1 were deleted here since" in ran.stdout
    assert "1 copied" in CliRunner().invoke(app, [*at, "--restore"]).stdout


def test_the_command_reads_an_embedded_database_that_nobody_else_runs(tmp_path: Path) -> None:
    home = f"embedded://{tmp_path}/home"
    with PgHippocampusStore(home, index={"embed": ones, "dims": 4}) as ours:
        origin = asyncio.run(ours.engine.dsn())
        with PostgresStore.from_conn_string(origin) as theirs:
            theirs.setup()
            theirs.put(ANA, "m0", {"text": "tea"})
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(make_conninfo(origin, connect_timeout=2))
    at = ["import", "--from", "postgres-store", origin, "--uri", home]
    counted = CliRunner().invoke(app, [*at, "--dry-run"])
    assert "1 items" in counted.stdout, counted.output
    ran = CliRunner().invoke(app, at)
    assert 0 == ran.exit_code, ran.output
    assert "Of 1 items 1 copied" in ran.stdout
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(make_conninfo(origin, connect_timeout=2))


def test_an_embedded_database_is_known_by_its_sockets(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    in_folder, *elsewhere = socket_directories(home / CLUSTER)
    in_folder.mkdir()
    assert embedded_behind(conninfo(in_folder, "any"), None) is None  # never initialised
    (in_folder / "PG_VERSION").write_text("18")
    assert embedded_behind(conninfo(in_folder, "any"), None) is not None
    for sockets in elsewhere:
        assert embedded_behind(conninfo(sockets, "any"), home) is not None
        assert embedded_behind(conninfo(sockets, "any"), home.parent) is None
    for other in ("postgresql://localhost/any", "host=/var/run/postgresql", "no DSN"):
        assert embedded_behind(other, home) is None


def test_a_prefix_that_names_nothing_is_told(
    source: PostgresStore, empty_dsn: str, dsn: str
) -> None:
    at = ["import", "--from", "postgres-store", empty_dsn, "--uri", dsn, "--prefix"]
    for prefix, message in (
        ("gdpr..ana", "a label of the prefix 'gdpr..ana' is empty"),
        (".gdpr", "is empty"),
        ("gdpr.", "is empty"),
        ("gdpr.nope", "there are no items below the prefix 'gdpr.nope'"),
        ("gdp", "there are no items below the prefix 'gdp'"),
    ):
        for options in ([], ["--dry-run"]):
            ran = CliRunner().invoke(app, [*at, prefix, *options])
            assert 1 == ran.exit_code, prefix
            assert message in ran.stderr
            assert 1 == len(ran.stderr.splitlines())
