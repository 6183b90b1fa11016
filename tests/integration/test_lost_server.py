"""A server that dies while it is used; its standby; and reading where nothing can be written."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from embedded_users import copied_clusters, copy_cluster, pid_of
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from resident_users import DrawnVectors, by_index, by_statement, make_resident

from langgraph_store import BatchError, PgHippocampusStore, memories_namespace
from shared_core import MemoryEngine, Scope, StorageReadOnly, StorageUnavailable, open_memory
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres
from shared_core.storage.postgres.connection.embedded_server import CLUSTER

__all__ = ["copied_clusters"]
ANN = Scope("app", "ann")


def kill(home: Path) -> None:
    """Kill the server of a folder, and wait for its end and that of its sessions.

    A session answers one more call if that comes before it hears that its server has died.
    """
    server = psutil.Process(pid_of(home))
    processes = [server, *server.children(recursive=True)]
    server.kill()
    while any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes):
        time.sleep(0.01)


def until_replayed(primary: str, replica: str) -> None:
    """Return when a standby shows all that its primary has committed."""
    with psycopg.connect(primary) as here, psycopg.connect(replica, autocommit=True) as there:
        position = here.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        reached = b"SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        while there.execute(reached, position).fetchone() != (True,):
            time.sleep(0.05)


async def texts(memory: MemoryEngine) -> set[str]:
    return {one.text for one in await memory.list_memories(ANN)}


@pytest.mark.usefixtures("copied_clusters")
async def test_calls_go_on_after_the_server_was_killed_and_started_again(empty_home: Path) -> None:
    server = EmbeddedPostgres(empty_home)
    dsn = server.acquire()
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ANN, "Ann sails.")
        kill(empty_home)
        for _ in range(2):
            with pytest.raises(StorageUnavailable, match="cannot be used"):
                await memory.remember(ANN, "Ann keeps bees.")
        server.acquire()  # what the service manager of a server does
        await memory.remember(ANN, "Ann keeps bees.")
        assert {"Ann sails.", "Ann keeps bees."} == await texts(memory)
    server.release()
    server.release()


async def test_a_memory_with_two_hosts_goes_on_with_the_promoted_standby(
    standby: tuple[str, str],
) -> None:
    primary, replica = map(conninfo_to_dict, standby)
    hosts = f"{primary['host']},{replica['host']}"
    both = make_conninfo(standby[0], host=hosts, target_session_attrs="read-write")
    async with open_memory(both, worker=False) as memory:
        await memory.remember(ANN, "Ann sails.")
        until_replayed(*standby)
        kill(Path(str(primary["host"])).parent)
        with psycopg.connect(standby[1], autocommit=True) as admin:
            assert (True,) == admin.execute("SELECT pg_promote()").fetchone()
        await memory.remember(ANN, "Ann keeps bees.")
        assert {"Ann sails.", "Ann keeps bees."} == await texts(memory)


async def found(memory: MemoryEngine) -> set[str]:
    """Return what the index of Ann finds, after a comparison with the statement."""
    answer = await by_index(memory, ANN, "What does Ann do?")
    assert answer == await by_statement(memory, ANN, "What does Ann do?")
    return {text for _, text, *_ in answer[0].values()}


@pytest.mark.usefixtures("copied_clusters")
async def test_an_index_answers_nothing_without_its_server_and_goes_on_with_it(
    empty_home: Path,
) -> None:
    server = EmbeddedPostgres(empty_home)
    dsn = server.acquire()
    async with (
        open_memory(dsn, embedder=DrawnVectors(), worker=False) as memory,
        open_memory(dsn, embedder=DrawnVectors(), worker=False) as other,
    ):
        await memory.remember(ANN, "Ann sails.")
        await make_resident(memory, ANN)
        kill(empty_home)
        with pytest.raises(StorageUnavailable, match="cannot be used"):
            await memory.recall(ANN, "What does Ann do?")
        server.acquire()
        assert {"Ann sails."} == await found(memory)
        await other.remember(ANN, "Ann keeps bees.")
        assert {"Ann sails.", "Ann keeps bees."} == await found(memory)
    server.release()
    server.release()


async def test_an_index_follows_a_standby_and_its_promotion(standby: tuple[str, str]) -> None:
    primary, replica = standby
    async with (
        open_memory(primary, embedder=DrawnVectors(), worker=False) as writer,
        open_memory(replica, embedder=DrawnVectors(), worker=False) as reader,
    ):
        told = [f"Ann has seen {number} ships." for number in range(12)]
        await writer.remember(ANN, told)
        until_replayed(*standby)
        await make_resident(reader, ANN)
        for text in ("Ann keeps bees.", "Ann paints.", "Ann skis."):
            [key] = await writer.remember(ANN, [text])
            until_replayed(*standby)
            assert {*told, text} == await found(reader)
            await writer.forget(ANN, key)
            until_replayed(*standby)
            assert {*told} == await found(reader)
        kill(Path(str(conninfo_to_dict(primary)["host"])).parent)
        with psycopg.connect(replica, autocommit=True) as admin:
            assert (True,) == admin.execute("SELECT pg_promote()").fetchone()
        async with open_memory(replica, embedder=DrawnVectors(), worker=False) as promoted:
            await promoted.remember(ANN, "Ann swims.")
        assert {*told, "Ann swims."} == await found(reader)


HERE = ("read", "alice")
LIVING: Any = {"omit_expired": True}
SHARED = memories_namespace("app", "alice")


def fill(store: PgHippocampusStore) -> None:
    store.put(HERE, "plain", {"text": "green tea"})
    store.put(HERE, "ttl", {"text": "black tea"}, ttl=60)
    store.put(SHARED, "shared", {"content": "Alice drinks tea."})
    store.put(HERE, "expired", {"text": "red tea"}, ttl=0.0005)
    time.sleep(0.1)  # its 30 ms are over: a sweep has something to write


def check(store: PgHippocampusStore) -> None:
    """Everything that reads works, everything that writes says why it does not."""
    assert {item.key for item in store.search(HERE)} == {"plain", "ttl"}
    assert [item.key for item in store.search(HERE, query="green tea")] == ["plain", "ttl"]
    assert [item.key for item in store.search(SHARED, query="What does Alice drink?")] == ["shared"]
    assert store.get(HERE, "ttl") is not None and store.get(HERE, "nothing") is None
    assert store.list_namespaces(prefix=("read",)) == [HERE]
    reads: list[Any] = [GetOp(HERE, "ttl"), SearchOp(HERE), ListNamespacesOp()]
    with pytest.raises(BatchError) as failed:
        store.batch([*reads, PutOp(HERE, "new", {})])
    assert [3] == list(failed.value.errors) and all(failed.value.results[:3])
    for write in (lambda: store.put(HERE, "new", {}), lambda: store.delete(HERE, "plain"),
                  store.sweep_ttl):  # fmt: skip
        with pytest.raises(StorageReadOnly, match="read.only"):
            write()


@pytest.mark.parametrize("by", ["session", "database"])
def test_reads_work_where_a_session_may_only_read(dsn: str, by: str) -> None:
    with PgHippocampusStore(dsn) as writer:
        fill(writer)
        read_only = make_conninfo(dsn, options="-c default_transaction_read_only=on")
        if by == "database":
            with psycopg.connect(dsn, autocommit=True) as admin:
                name = conninfo_to_dict(dsn)["dbname"]
                admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            read_only = dsn
        with PgHippocampusStore(read_only, ttl=LIVING) as reader:
            check(reader)
            assert None is reader.get(HERE, "new")


def test_a_read_only_memory_without_vectors_finds_nothing(dsn: str) -> None:
    read_only = make_conninfo(dsn, options="-c default_transaction_read_only=on")
    with PgHippocampusStore(read_only, ttl=LIVING) as reader:
        assert reader.search(HERE, query="tea") == reader.search(SHARED, query="tea") == []


@pytest.fixture
def standby() -> Iterator[tuple[str, str]]:
    """The DSNs of a primary and of a standby that streams from it, on this machine."""
    with tempfile.TemporaryDirectory(prefix="hippocampus-standby-") as folder:
        Path(folder).chmod(0o711)  # the servers of root run as another user
        homes = [Path(folder) / name for name in ("primary", "standby")]
        homes[0].mkdir(mode=0o711)
        copy_cluster(homes[0])
        cluster = homes[1] / CLUSTER
        homes[1].mkdir(mode=0o711)
        copy_cluster(homes[1])
        primary = EmbeddedPostgres(homes[0])
        dsn = primary.acquire()
        source = make_conninfo(**{**conninfo_to_dict(dsn), "dbname": None})
        with (cluster / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{source}'\n")
        (cluster / "standby.signal").touch()
        owner = cluster.stat()
        os.chown(cluster / "standby.signal", owner.st_uid, owner.st_gid)
        replica = EmbeddedPostgres(homes[1])
        try:
            yield dsn, replica.acquire()
        finally:
            replica.release()
            primary.release()


def test_reads_work_on_a_hot_standby_and_show_what_it_was_sent(standby: tuple[str, str]) -> None:
    primary, replica = standby
    with PgHippocampusStore(primary) as writer, PgHippocampusStore(replica, ttl=LIVING) as reader:
        with psycopg.connect(replica) as asked:
            assert (True,) == asked.execute("SELECT pg_is_in_recovery()").fetchone()
        fill(writer)
        until_replayed(primary, replica)
        check(reader)
