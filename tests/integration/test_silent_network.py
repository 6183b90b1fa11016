"""Calls over a network that falls silent end by their deadline, and cancelled ones at once."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from shared_core import JobType, StorageUnavailable, open_memory
from shared_core.cli.doctor import examine
from shared_core.core.domain import JsonValue
from shared_core.jobs import queue, runner, worker
from shared_core.ports.jobs import Job
from shared_core.settings import Settings
from shared_core.storage.postgres.connection import connecting, pipeline
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.statements import Step
from tests.integration.test_queue import ANN, told

SLEEP = Step("sleep", b"SELECT pg_sleep(60)", {})
ONE = Step("one", b"SELECT 1", {})


class Proxy:
    """Passes TCP on to a unix socket until it is told to stop; connections then stay open."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._forwards = asyncio.Event()
        self._forwards.set()
        self._streams: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.stalled = asyncio.Event()

    async def listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def stop(self) -> None:
        self._forwards.clear()

    async def close(self) -> None:
        self._server.close()
        for stream in self._streams:
            stream.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._target)
        self._streams += [writer, back]
        for begin, end in ((reader, back), (there, writer)):
            self._tasks.append(asyncio.create_task(self._pass(begin, end)))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                if not self._forwards.is_set():
                    self.stalled.set()
                await self._forwards.wait()
                writer.write(data)
            writer.close()
        except ConnectionError:
            writer.close()


@pytest.fixture
async def proxy(postgres_dsn):
    """A proxy before a database, and the DSN of the database through it."""
    given = conninfo_to_dict(postgres_dsn)
    between = Proxy(f"{given['host']}/.s.PGSQL.{given['port']}")
    yield between, make_conninfo(postgres_dsn, host="127.0.0.1", port=await between.listen())
    await between.close()


def database_at(dsn: str, **settings: Any) -> PostgresDatabase:
    return PostgresDatabase(Settings(uri=dsn, home=Path(), **settings))


async def test_a_call_ends_when_the_network_falls_silent(proxy, monkeypatch):
    between, dsn = proxy
    database = database_at(dsn, statement_timeout_s=0.2)
    await database.open()
    await database.run("/", ONE)
    monkeypatch.setattr(connecting, "ANSWER_GRACE_S", 0.2)
    between.stop()
    with pytest.raises(StorageUnavailable, match=r"no answer came for 0\.4 s"):
        await database.run("/", ONE)
    await database.close()


async def test_opening_ends_when_the_network_falls_silent(proxy, monkeypatch):
    between, dsn = proxy
    monkeypatch.setattr(connecting, "ANSWER_GRACE_S", 0.2)
    database = database_at(dsn, statement_timeout_s=0.2)
    real = database._connect

    async def connect() -> pipeline.Connection:
        connection = await real()
        between.stop()
        return connection

    monkeypatch.setattr(database, "_connect", connect)
    with pytest.raises(StorageUnavailable, match="no answer came"):
        await database.open()


async def test_a_cancelled_call_does_not_wait_for_a_dead_network(proxy, monkeypatch):
    between, dsn = proxy
    monkeypatch.setattr(pipeline, "CANCEL_S", 0.1)
    patience, cancel = [], pipeline.Connection.cancel_safe

    async def noting(connection: pipeline.Connection, **options: float) -> None:
        patience.append(options["timeout"])
        await cancel(connection, **options)

    monkeypatch.setattr(pipeline.Connection, "cancel_safe", noting)
    async with await pipeline.Connection.connect(dsn, autocommit=True) as connection:
        between.stop()
        call = asyncio.create_task(connection.exchange([SLEEP.statement]))
        await between.stalled.wait()
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled() and connection.closed
    assert [0.1] == patience  # psycopg itself waits for 10 s


async def test_a_cancelled_call_ends_its_statement_where_the_network_lives(proxy):
    _, dsn = proxy
    async with await pipeline.Connection.connect(dsn, autocommit=True) as connection:
        call = asyncio.create_task(connection.exchange([SLEEP.statement]))
        pid = connection.info.backend_pid
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
            sleeps = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
            while ("PgSleep",) != await (await other.execute(sleeps, [pid])).fetchone():
                await other.execute("SELECT pg_sleep(0.01)")
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled() and not connection.closed
        assert [[(1,)]] == await connection.exchange([ONE.statement])


async def test_the_system_watches_each_connection(proxy):
    async with await database_at(proxy[1]).connect() as connection:
        assert (1, 10, 5, 3) == keepalive(connection)
        assert 20_000 == option(connection, "TCP_USER_TIMEOUT")


async def test_the_system_watches_the_connections_of_the_doctor(proxy, monkeypatch):
    watched: list[tuple[int, ...]] = []
    real, real_async = psycopg.connect, pipeline.Connection.connect

    def connect(*arguments: Any, **parameters: Any) -> Any:
        watched.append(keepalive(connection := real(*arguments, **parameters)))
        return connection

    async def connect_async(*arguments: Any, **parameters: Any) -> Any:
        watched.append(keepalive(connection := await real_async(*arguments, **parameters)))
        return connection

    with monkeypatch.context() as patched:  # the fixture connects as well
        patched.setattr(psycopg, "connect", connect)
        patched.setattr(pipeline.Connection, "connect", connect_async)
        findings = await asyncio.to_thread(examine, proxy[1])
    assert "ok" == next(one.status for one in findings if one.check == "server")
    assert [(1, 10, 5, 3)] * 3 == watched


async def test_the_parameters_of_the_dsn_win(proxy):
    dsn = make_conninfo(proxy[1], keepalives_idle=77, tcp_user_timeout=5000,
        application_name="mine", options="-c statement_timeout=150")  # fmt: skip
    database = database_at(dsn)
    async with await database.connect() as connection:
        assert (1, 77, 5, 3) == keepalive(connection)
        assert 5000 == option(connection, "TCP_USER_TIMEOUT")
        assert "mine" == connection.info.parameter_status("application_name")
    await database.open()
    with pytest.raises(StorageUnavailable, match=r"took longer than 0\.15 s"):
        await database.run("/", SLEEP)
    await database.close()


def keepalive(connection: pipeline.Connection | psycopg.Connection) -> tuple[int, ...]:
    is_on = option(connection, "SO_KEEPALIVE", socket.SOL_SOCKET)
    return is_on, *(option(connection, f"TCP_KEEP{name}") for name in ("IDLE", "INTVL", "CNT"))


def option(
    connection: pipeline.Connection | psycopg.Connection, name: str, level: int = socket.IPPROTO_TCP
) -> int:
    if not hasattr(socket, name):
        pytest.skip(f"this system has no {name}")
    with socket.socket(fileno=connection.fileno()) as opened:
        value = opened.getsockopt(level, getattr(socket, name))
        opened.detach()
    return value


def patient(dsn: str) -> str:
    """A DSN whose statements may take an hour."""
    return make_conninfo(dsn, options="-c statement_timeout=3600000")


@pytest.fixture
def short_waits(monkeypatch):
    """Let cancelled calls give up soon, and all others never."""
    monkeypatch.setattr(pipeline, "CANCEL_S", 0.1)
    for module in (queue, runner, worker):
        monkeypatch.setattr(module, "RETURN_S", 0.1)


@pytest.mark.parametrize("doing", ["claims", "runs", "serves"])
async def test_cancelled_work_does_not_wait_for_a_dead_network(proxy, short_waits, doing):
    """Neither while it claims its job, nor while the job runs, nor a worker that looks for one."""
    between, dsn = proxy
    works = asyncio.Event()

    async def perform(job: Job) -> dict[str, JsonValue]:
        between.stop()
        works.set()
        return await asyncio.Future()

    async with open_memory(patient(dsn), worker=False) as memory:
        await memory.append_events(ANN, "t", [told("e1", "tea")])
        memory.jobs.learn(perform, JobType.FULL_CONSOLIDATION)
        if doing != "runs":
            between.stop()
        work = memory.jobs.serve() if doing == "serves" else memory.jobs.run(ANN, "t")
        call = asyncio.create_task(work)
        await (works if doing == "runs" else between.stalled).wait()
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        await between.close()


async def test_jobs_that_cannot_be_given_back_are_told_in_the_log(short_waits, caplog):
    await runner.give_back(asyncio.Event().wait(), "running jobs")
    assert "running jobs: in the queue only after the end of the lease" in caplog.text
