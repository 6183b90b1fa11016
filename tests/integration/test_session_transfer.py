"""Sessions that are exported, and imported where the user was erased or goes on talking."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import psycopg
import pytest

from shared_core import Conflict, MemoryEngine
from tests.integration.talking import ANN, SCOPE, Watch, jobs, opened, rows, statements


async def exported(memory: MemoryEngine) -> list[str]:
    return [line async for line in memory.export(SCOPE)]


def threads(dsn: str) -> int:
    with psycopg.connect(dsn) as superuser:
        found = superuser.execute("SELECT count(*) FROM hippocampus.threads").fetchone()
    assert found is not None
    return int(found[0])


def a_file(lines: list[str], folder: Path) -> Path:
    path = folder / "export.jsonl"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("as_source", [lambda lines, _: lines, a_file])
async def test_an_old_export_brings_nothing_back_of_who_was_erased(
    dsn: str, tmp_path: Path, as_source: Callable[[list[str], Path], list[str] | Path]
) -> None:
    async with opened(dsn, Watch()) as memory:
        await memory.process_memory("I live in Rome", ANN)
        source = as_source(await exported(memory), tmp_path)
        await memory.forget_scope(SCOPE)
        with pytest.raises(Conflict, match=r"line \d+, a row of events: .*Nothing was imported"):
            await memory.import_lines(source)
        assert ([], 0) == (rows(dsn), threads(dsn))
        await memory.import_lines(source, restore=True)
        assert [("active", 1)] == rows(dsn)


async def test_lines_that_come_one_by_one_bring_no_erased_session_back(dsn: str) -> None:
    async with opened(dsn, Watch()) as memory:
        await memory.process_memory("I live in Rome", ANN)
        lines: Iterable[str] = iter(await exported(memory))
        await memory.forget_scope(SCOPE)
        with pytest.raises(Conflict, match="a row of conversations: this session was erased here"):
            await memory.import_lines(lines)
        assert [] == rows(dsn)


async def test_an_active_session_has_ended_where_another_one_is_active(
    dsn: str, other_dsn: str
) -> None:
    async with opened(dsn, Watch()) as memory, opened(other_dsn, Watch()) as other:
        await memory.process_memory("I live in Oslo", ANN)
        lines = await exported(memory)
        await other.process_memory("My cat is called Tom", ANN)
        await other.process_memory("Good morning", ANN)
        report = await other.import_lines(lines)
        assert (0, 0) == (report.here, report.differ)
        assert [("active", 2), ("ending", 1)] == sorted(rows(other_dsn))
        assert 1 == (await other.import_lines(lines)).differ
        assert ["pending"] == jobs(other_dsn)
    async with opened(other_dsn) as worker:
        assert await worker.flush(60)
        assert [("active", 2), ("ended", 1)] == sorted(rows(other_dsn))
        assert ["I live in Oslo."] == await statements(worker)


async def test_an_empty_session_of_an_export_leaves_nothing_to_wait_for(
    dsn: str, other_dsn: str
) -> None:
    async with opened(dsn, Watch()) as memory, opened(other_dsn, Watch()) as other:
        await memory.conversations.open(SCOPE)
        lines = await exported(memory)
        await other.process_memory("My cat is called Tom", ANN)
        await other.import_lines(lines)
        assert ([("active", 1), ("ended", 0)], []) == (sorted(rows(other_dsn)), jobs(other_dsn))
