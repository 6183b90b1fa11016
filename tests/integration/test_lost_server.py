"""A server that dies while it is used: calls say so, and go on when it, or its standby, is back."""

import time
from pathlib import Path

import psutil
import pytest
from embedded_users import copied_clusters, pid_of
from postgres_admin import column
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from resident_users import by_index, by_statement, drawn, make_resident

from shared_core import MemoryEngine, Scope, StorageUnavailable
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres
from tests.integration.test_rights import standby, until_replayed

pytestmark = pytest.mark.tail
__all__ = ["copied_clusters", "standby"]
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


async def found(memory: MemoryEngine) -> set[str]:
    """Return what the index of Ann finds, after a comparison with the statement."""
    answer = await by_index(memory, ANN, "What does Ann do?")
    assert answer == await by_statement(memory, ANN, "What does Ann do?")
    return {text for _, text, *_ in answer[0].values()}


@pytest.mark.usefixtures("copied_clusters")
async def test_calls_and_an_index_go_on_after_the_server_was_killed_and_started_again(empty_home):
    server = EmbeddedPostgres(empty_home)
    dsn = server.acquire()
    async with drawn(dsn) as memory, drawn(dsn) as other:
        await memory.remember(ANN, "Ann sails.")
        await make_resident(memory, ANN)
        await other.remember(ANN, "Ann paints.")
        kill(empty_home)
        with pytest.raises(StorageUnavailable, match="cannot be used"):
            await memory.recall(ANN, "What does Ann do?")
        for _ in range(2):
            with pytest.raises(StorageUnavailable, match="cannot be used"):
                await other.remember(ANN, "Ann keeps bees.")
        server.acquire()  # what the service manager of a server does
        assert {"Ann sails.", "Ann paints."} == await found(memory)
        await other.remember(ANN, "Ann keeps bees.")
        assert {"Ann sails.", "Ann paints.", "Ann keeps bees."} == await found(memory)
    server.release()
    server.release()


async def test_a_memory_of_two_hosts_and_an_index_follow_a_standby_and_its_promotion(standby):
    primary, replica = standby
    hosts = ",".join(str(conninfo_to_dict(one)["host"]) for one in standby)
    both = make_conninfo(primary, host=hosts, target_session_attrs="read-write")
    async with drawn(both) as writer, drawn(replica) as reader:
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
        assert [True] == column(replica, "SELECT pg_promote()")
        await writer.remember(ANN, "Ann swims.")
        assert {*told, "Ann swims."} == await found(reader)
