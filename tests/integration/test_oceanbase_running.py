"""How SeekDB is run: its settings, its tables, a first start by several at once."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pylibseekdb
import pymysql
import pytest
from http_processes import command as hippocampus

from shared_core import Scope, StorageUnavailable, open_memory
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.storage import OceanBaseStorage

ANA = Scope("app", "ana")


@pytest.mark.timeout(180)
async def test_the_server_sends_nothing_home_and_writes_no_log_of_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, start = [], pylibseekdb.open

    def starting(**options: Any) -> Any:
        given.append(os.environ.get("TELEMETRY_ENABLED"))  # it hides its own from /proc
        return start(**options)

    monkeypatch.delenv("TELEMETRY_ENABLED", raising=False)
    monkeypatch.setattr(pylibseekdb, "open", starting)
    async with open_memory(f"seekdb://{tmp_path / 'seekdb'}", worker=False) as memory:
        await memory.remember(ANA, "I like tea.")
        assert given == ["false"]
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
