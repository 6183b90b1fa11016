"""Reading where nothing can be written: a real hot standby, and sessions that may only read."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from embedded_users import copy_cluster
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from langgraph_store import BatchError, PgHippocampusStore, memories_namespace
from shared_core import StorageReadOnly
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres
from shared_core.storage.postgres.connection.embedded_server import CLUSTER

HERE = ("read", "alice")
LIVING: Any = {"omit_expired": True}
SHARED = memories_namespace("app", "alice")


def until_replayed(primary: str, replica: str) -> None:
    """Return when a standby shows all that its primary has committed."""
    with psycopg.connect(primary) as here, psycopg.connect(replica, autocommit=True) as there:
        position = here.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        reached = b"SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        while there.execute(reached, position).fetchone() != (True,):
            time.sleep(0.05)


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
def test_reads_work_where_a_session_may_only_read(dsn, by):
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


def test_a_read_only_memory_without_vectors_finds_nothing(dsn):
    read_only = make_conninfo(dsn, options="-c default_transaction_read_only=on")
    with PgHippocampusStore(read_only, ttl=LIVING) as reader:
        assert reader.search(HERE, query="tea") == reader.search(SHARED, query="tea") == []


@pytest.fixture
def standby():
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


def test_reads_work_on_a_hot_standby_and_show_what_it_was_sent(standby):
    primary, replica = standby
    with PgHippocampusStore(primary) as writer, PgHippocampusStore(replica, ttl=LIVING) as reader:
        with psycopg.connect(replica) as asked:
            assert (True,) == asked.execute("SELECT pg_is_in_recovery()").fetchone()
        fill(writer)
        until_replayed(primary, replica)
        check(reader)
