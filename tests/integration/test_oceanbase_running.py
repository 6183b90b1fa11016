"""How SeekDB is run: its settings, its tables, a first start by several at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
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
from shared_core.storage._server_account import find_account, give_to
from shared_core.storage.oceanbase.connection import embedded, embedded_server
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.storage import OceanBaseStorage

ANA = Scope("app", "ana")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root's server is another user's")


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
    modes: dict[Path, int] = {}
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # the running server deletes files meanwhile
            modes[path] = path.lstat().st_mode
    return [path for path, mode in modes.items() if not stat.S_ISLNK(mode) and mode & 0o077]


def test_the_server_starts_apart_and_sends_nothing_home(tmp_path: Path) -> None:
    program, folder = tmp_path / "program", tmp_path / "seekdb"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    account = embedded_server.make_private(folder)
    with (
        pytest.raises(ChildProcessError, match="ended while it started"),
        embedded_server.running(folder, program, account),
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
    if account := find_account(tmp_path):
        give_to(account, tmp_path / "shared" / "store")
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


@needs_root
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
    async with open_memory(f"seekdb://{tmp_path / 'seekdb'}", worker=False) as memory:
        await memory.remember(ANA, "我喜欢喝茶。")
        server = psutil.Process(server_of(tmp_path / "seekdb"))
        assert server.username() == "pgserver"
        assert Path(server.exe()).is_relative_to(tmp_path / "seekdb")
        assert {path.owner() for path in (tmp_path / "seekdb" / "store").rglob("*")} == {"pgserver"}
    server.wait(120)
    async with open_memory(f"seekdb://{tmp_path / 'seekdb'}", worker=False) as memory:
        assert ["我喜欢喝茶。"] == [one.text for one in await memory.list_memories(ANA)]


@needs_root
def test_root_takes_nothing_that_is_not_seekdbs(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "seekdb"
    secret.mkdir(mode=0o700)
    (secret / "key").touch(mode=0o600)
    folder.mkdir(mode=0o711)
    (folder / "store").symlink_to(secret)
    with pytest.raises(StorageUnavailable, match="store belongs to root: .* chown -R pgserver"):
        embedded_server.make_private(folder)
    (folder / "store").unlink()
    (folder / "log").mkdir()
    with pytest.raises(StorageUnavailable, match="log belongs to root"):
        embedded_server.make_private(folder)
    (folder / "log").rmdir()
    account = embedded_server.make_private(folder)
    (folder / "run" / "seekdb.clients").symlink_to(secret / "key")
    with pytest.raises(OSError), embedded_server.running(folder, tmp_path / "none", account):
        pass
    assert {secret.owner(), (secret / "key").owner()} == {"root"}


@needs_root
@pytest.mark.parametrize(("owner", "mode", "why"), [(65534, 0o755, "nobody"), (0, 0o777, "go-w")])
def test_root_uses_no_folder_that_another_user_may_write_to(
    tmp_path: Path, owner: int, mode: int, why: str
) -> None:
    folder = tmp_path / "seekdb"
    folder.mkdir()
    folder.chmod(mode)
    os.chown(folder, owner, owner)
    with pytest.raises(StorageUnavailable, match=why):
        embedded_server.make_private(folder)
    assert list(folder.iterdir()) == []


def test_a_full_disk_leaves_no_folder_that_looks_like_a_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(StorageUnavailable, match="is full"):
        embedded.EmbeddedSeekdb(tmp_path / "seekdb").acquire()
    assert not (tmp_path / "seekdb").exists()
    embedded_server.make_private(tmp_path / "seekdb")
    assert not embedded.is_initialised(tmp_path / "seekdb")
