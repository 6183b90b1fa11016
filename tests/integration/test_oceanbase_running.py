"""How SeekDB is run: its settings, its tables, a first start by several at once."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pylibseekdb
import pymysql
import pytest
from http_processes import command as hippocampus
from test_oceanbase_durability import server_of
from warm_python import warm_python

from shared_core import Scope, StorageUnavailable, open_memory
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection import embedded_server
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.storage import OceanBaseStorage

ANA = Scope("app", "ana")


STAND_IN = """#!/bin/sh
echo "$TELEMETRY_ENABLED $(umask) $(ps -o sid= -p $$)" > "${1#--base-dir=}/log/found"
"""
"""A program in place of SeekDB, which hides its environment from others."""

USER = """
import sys, time
from pathlib import Path
from shared_core.storage.oceanbase.connection.embedded import EmbeddedSeekdb

EmbeddedSeekdb(Path(sys.argv[1])).acquire()
print("joined", flush=True)
time.sleep(600)
"""


@pytest.mark.timeout(180)
async def test_the_folder_is_private_and_no_log_of_everything_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "seekdb"
    folder.mkdir(mode=0o755)
    async with open_memory(f"seekdb://{folder}", worker=False) as memory:
        await memory.remember(ANA, "I like tea.")
        storage: Any = memory._storage
        found = await storage._database.read(
            lambda tx: [
                tx.rows("SHOW PARAMETERS LIKE 'syslog_level'"),
                tx.rows("SHOW PARAMETERS LIKE '_private_buffer_size'"),
                tx.rows("SELECT @@session.time_zone, @@session.sql_mode"),
            ]
        )
        assert "ERROR" in found[0][0]
        assert "0B" in found[1][0]
        assert found[2] == [("+00:00", "STRICT_ALL_TABLES")]
        assert any((folder / "store" / "redo").rglob("*"))
        assert set(open_to_others(folder)) <= {folder}  # root's server passes through it
        assert stat.S_IMODE(folder.stat().st_mode) == (0o711 if os.geteuid() == 0 else 0o700)


def open_to_others(folder: Path) -> list[Path]:
    """Return what another OS user may read, write or pass through, the folder included."""
    modes = {path: path.lstat().st_mode for path in (folder, *folder.rglob("*"))}
    return [path for path, mode in modes.items() if not stat.S_ISLNK(mode) and mode & 0o077]


def test_the_server_starts_apart_and_sends_nothing_home(tmp_path: Path) -> None:
    program, folder = tmp_path / "program", tmp_path / "seekdb"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    embedded_server.make_private(folder)
    with (
        pytest.raises(ChildProcessError, match="ended while it started"),
        embedded_server.running(folder, program),
    ):
        pass
    telemetry, umask, session = (folder / "log" / "found").read_text().split()
    assert (telemetry, umask) == ("false", "0077")
    assert int(session) != os.getsid(0)


@pytest.mark.timeout(180)
def test_the_server_ends_with_a_user_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*warm_python(), "-c", USER, str(tmp_path / "seekdb")], stdout=subprocess.PIPE
    ) as user:
        assert user.stdout and user.stdout.readline() == b"joined\n"
        server = psutil.Process(server_of(tmp_path / "seekdb"))
        user.kill()
    server.wait(120)


def test_a_folder_with_files_of_somebody_else_stays_open_but_for_seekdbs_own(
    tmp_path: Path,
) -> None:
    for name in ("store", "photos"):
        (tmp_path / "shared" / name).mkdir(parents=True)
        (tmp_path / "shared" / name).chmod(0o755)
    (tmp_path / "shared").chmod(0o755)
    embedded_server.make_private(tmp_path / "shared")
    assert open_to_others(tmp_path / "shared") == [
        tmp_path / "shared",
        tmp_path / "shared" / "photos",
    ]


async def test_every_table_is_found_at_once_and_tells_bytes_apart(seekdb_dsn: str) -> None:
    async with open_memory(seekdb_dsn, worker=False) as memory:
        await memory.remember(ANA, "I like tea.")
        storage: Any = memory._storage
        tables = await storage._database.read(
            lambda tx: [
                tx.rows(f"SHOW CREATE TABLE `{name}`")[0][1] for (name,) in tx.rows("SHOW TABLES")
            ]
        )
    vectors = [table for table in tables if "CREATE TABLE `embeddings_" in table]
    assert vectors
    assert all("hnsw_sq" in table.lower() for table in vectors)
    for table in tables:
        assert "ORGANIZATION INDEX" in table.upper().replace("=", "").replace("  ", " "), table
        assert "tenant_id` varchar" not in table.lower(), table


@pytest.mark.timeout(300)
async def test_several_processes_may_be_the_first(tmp_path: Path) -> None:
    where = ["--uri", f"seekdb://{tmp_path / 'seekdb'}"]
    texts = ["I like tea.", "我喜欢喝茶。", "I sail on Sundays."]
    first = [
        subprocess.Popen(
            [*hippocampus(), "remember", "app", "ana", text, *where],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for text in texts
    ]  # fmt: skip
    for process in first:
        said, _ = await asyncio.to_thread(process.communicate, timeout=240)
        assert process.returncode == 0, said.decode()
    async with open_memory(where[1], worker=False) as memory:
        held = {found.text for found in await memory.list_memories(ANA, limit=10)}
    assert held == set(texts), json.dumps(sorted(held), ensure_ascii=False)


@pytest.mark.parametrize(
    ("said", "is_advised"),
    [("No memory for vector index", True), ("Table is being changed", False)],
)
async def test_a_cluster_without_memory_for_vectors_is_told_how_to_give_it(
    seekdb_dsn: str, monkeypatch: pytest.MonkeyPatch, said: str, is_advised: bool
) -> None:
    storage = OceanBaseStorage(Settings(uri=seekdb_dsn, home=Path("/memory")), _never)
    await storage.open()
    try:

        async def define(self: OceanBaseDatabase, *statements: str) -> None:
            raise StorageUnavailable("'seekdb:///my/memory' cannot be used") from (
                pymysql.OperationalError(4013, said)
            )

        monkeypatch.setattr(OceanBaseDatabase, "define", define)
        with pytest.raises(StorageUnavailable) as refused:
            await storage.use_model("new", 17)
        assert ("ob_vector_memory_limit_percentage" in str(refused.value)) == is_advised
    finally:
        await storage.close()


def _never() -> Any:
    raise AssertionError("the clock is not asked")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
@pytest.mark.timeout(180)
async def test_roots_server_runs_as_another_user_from_programs_it_may_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = Path(pylibseekdb.__file__).parent
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for name in (installed.name, f"{installed.name}.libs"):
        shutil.copytree(installed.parent / name, closed / name)
    monkeypatch.setattr(pylibseekdb, "__file__", str(closed / installed.name / "__init__.py"))
    (tmp_path / "seekdb" / "store").mkdir(parents=True)  # of root, before
    async with open_memory(f"seekdb://{tmp_path / 'seekdb'}", worker=False) as memory:
        await memory.remember(ANA, "我喜欢喝茶。")
        server = psutil.Process(server_of(tmp_path / "seekdb"))
        assert server.username() == "pgserver"
        assert Path(server.exe()).is_relative_to(tmp_path / "seekdb")
        assert {path.owner() for path in (tmp_path / "seekdb" / "store").rglob("*")} == {"pgserver"}
    server.wait(120)
    async with open_memory(f"seekdb://{tmp_path / 'seekdb'}", worker=False) as memory:
        assert ["我喜欢喝茶。"] == [one.text for one in await memory.list_memories(ANA)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root meets folders of others")
def test_root_leaves_the_memory_of_another_user_alone(tmp_path: Path) -> None:
    store = tmp_path / "seekdb" / "store"
    store.mkdir(parents=True)
    os.chown(store, 65534, 65534)
    with pytest.raises(StorageUnavailable, match="belongs to the OS user nobody"):
        embedded_server.make_private(tmp_path / "seekdb")
    assert store.owner() == "nobody"
