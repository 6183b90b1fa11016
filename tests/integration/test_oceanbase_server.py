"""A SeekDB server, reached over TCP, its tables partitioned by the user as on a cluster."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pylibseekdb
import pymysql
import pytest
from test_oceanbase_durability import said

from shared_core import MemoryEngine, Scope, StorageUnavailable, open_memory

ANA, ZHU = Scope("app", "ana"), Scope("app", "朱莉")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that listens; it ends with the tests."""
    package = Path(pylibseekdb.__file__).parent
    libraries = f"{package}:{package.parent / 'pylibseekdb.libs'}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        chosen = free.getsockname()[1]
    with subprocess.Popen(
        [package / "seekdb", f"--base-dir={tmp_path_factory.mktemp('seekdb')}", "--nodaemon",
         "--port", str(chosen), "--parameter", "memory_budget=1G",
         "--parameter", "log_disk_size=2G"],
        env=os.environ | {"LD_LIBRARY_PATH": libraries, "TELEMETRY_ENABLED": "false"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        _wait_for(chosen)
        yield chosen
        server.kill()


def _wait_for(port: int) -> None:
    for _ in range(240):
        with socket.socket() as reached:
            if reached.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.25)
    for _ in range(240):
        try:
            pymysql.connect(host="127.0.0.1", port=port, user="root").close()
        except pymysql.MySQLError:
            time.sleep(0.25)
        else:
            return
    raise AssertionError("the server does not answer")


async def _size_of(memory: MemoryEngine) -> int:
    """Return what the tables take, once the server tells it: not in its first seconds."""
    for _ in range(120):
        size = (await memory.report()).size_bytes
        if size is not None:
            return size
        await asyncio.sleep(0.5)
    raise AssertionError("the server never tells what its tables take")


@pytest.mark.timeout(300)
async def test_the_whole_loop_runs_on_a_server(port: int) -> None:
    async with open_memory(f"seekdb://root@127.0.0.1:{port}/app", worker=False) as memory:
        report = await memory.report()
        assert (report.engine, report.schema) == ("SeekDB server", "app")
        assert await _size_of(memory) > 100_000
        turns = ["My name is Ana.", "I live in Oslo.", "I moved to Bergen."]
        await memory.append_events(ANA, "t1", [said(n, text) for n, text in enumerate(turns)])
        await memory.append_events(ZHU, "t1", [said(0, "我叫朱莉。"), said(1, "我住在深圳。")])
        for scope in (ANA, ZHU):
            await memory.consolidate(scope, "t1")
        assert "深圳" in (await memory.recall(ZHU, "我住在哪里？"))[0].memory.text
        assert {fact.value for fact in await memory.facts(ANA)} == {"Ana", "Bergen"}
        [run, *_] = await memory.runs(ANA)
        await memory.undo_run(ANA, run.run_id)
        assert await memory.facts(ANA) == []
        assert (await memory.erase(ZHU)).is_intact
        assert await memory.list_memories(ZHU) == []
    server = pymysql.connect(host="127.0.0.1", port=port, user="root", database="app")
    with server, server.cursor() as cursor:
        cursor.execute("SHOW CREATE TABLE memories")
        [(_, definition)] = cursor.fetchall()
    assert "partition `p7`" in definition.lower()


async def test_who_may_not_log_in_is_told_so_without_the_password(port: int) -> None:
    uri = f"oceanbase://nobody@shop#east:s3cret@127.0.0.1:{port}/app"
    with pytest.raises(StorageUnavailable) as refused:
        async with open_memory(uri):
            pass
    assert "nobody@shop#east:***@127.0.0.1" in str(refused.value)
    assert "s3cret" not in str(refused.value)


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(StorageUnavailable, match="cannot be used"):
        async with open_memory("seekdb://root@127.0.0.1:1/app"):
            pass


def _run(port: int, *statements: str) -> None:
    server = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True)
    with server, server.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


async def test_who_may_only_read_can_recall(port: int) -> None:
    async with open_memory(f"seekdb://root@127.0.0.1:{port}/readers", worker=False) as memory:
        await memory.append_events(ANA, "t1", [said(0, "I live in Oslo.")])
    _run(port, "CREATE USER reader IDENTIFIED BY 'r'", "GRANT SELECT ON readers.* TO reader")
    reader = f"seekdb://reader:r@127.0.0.1:{port}/readers"
    async with open_memory(reader, worker=False, track_access=False) as memory:
        assert "Oslo" in (await memory.recall(ANA, "Where do I live?"))[0].memory.text
        with pytest.raises(StorageUnavailable, match="reader"):
            await memory.append_events(ANA, "t1", [said(1, "I moved to Bergen.")])
