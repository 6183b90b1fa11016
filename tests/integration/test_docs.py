"""The pages about forgetting and context: their code runs, block after block, as it is printed."""

from __future__ import annotations

import ast
import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from inspect import isawaitable
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.cli.main import app

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.M)
ANA = Scope("my_app", "ana")


def said(text: str, days_ago: int) -> Event:
    moment = datetime.now(UTC) - timedelta(days=days_ago)
    return Event(event_id=text, author="ana", role="user", text=text, occurred_at=moment)


async def fill(dsn: str, days_ago: int, *texts: str) -> None:
    then = datetime.now(UTC) - timedelta(days=days_ago)
    async with open_memory(dsn, clock=lambda: then, worker=False) as memory:
        await memory.append_events(ANA, "monday", [said(text, days_ago) for text in texts])


async def run_python(code: str, names: dict[str, Any]) -> None:
    """Run a block, which may await, and the program in it."""
    compiled = compile(code, "docs", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    ran = FunctionType(compiled, names)()
    if isawaitable(ran):
        await ran
    if main := names.pop("main", None):
        await main()


def words(shown: str) -> list[str]:
    """Return what a table says, however wide it is."""
    return shown.replace("─", " ").split()


async def run_console(block: str) -> None:
    """Run the commands of a block; what it shows them to print, they print."""
    commands = COMMAND.findall(block)
    assert commands
    for line, shown in commands:
        name, *arguments = shlex.split(line)
        assert "hippocampus" == name
        done = await asyncio.to_thread(CliRunner().invoke, app, arguments)
        assert 0 == done.exit_code, done.output
        assert done.stdout.strip()
        assert not shown or words(shown) == words(done.stdout)


def run_sql(block: str, dsn: str) -> list[tuple[Any, ...]]:
    """Run statements as one who asks in SQL does; return the rows of the last that has any."""
    rows: list[tuple[Any, ...]] = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        for one in block.split(";"):
            ran = connection.execute(one.encode()) if one.strip() else None
            rows = ran.fetchall() if ran and ran.description else rows
    return rows


async def run_page(name: str, names: dict[str, Any], dsn: str) -> list[tuple[Any, ...]]:
    """Run all blocks of a page in order; return what the last one in SQL found."""
    rows: list[tuple[Any, ...]] = []
    kinds = []
    for kind, block in BLOCK.findall((DOCS / name).read_text("utf-8")):
        kinds.append(kind)
        if kind == "python":
            await run_python(block, names)
        elif kind == "console":
            await run_console(block)
        elif "cron." not in block:  # an extension that is not here
            rows = run_sql(block, dsn)
    assert {"python", "console", "sql"} == set(kinds)
    return rows


@pytest.fixture
async def opened(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[dict[str, Any]]:
    """The names of a page, whose memories are all on a fresh database and are closed."""
    monkeypatch.setenv("HIPPOCAMPUS_URI", dsn)
    names: dict[str, Any] = {"__name__": "docs"}
    yield names
    memory: MemoryEngine | None = names.get("memory")
    if memory is not None:
        await memory.close()


async def test_the_page_about_forgetting(
    dsn: str, opened: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    await fill(dsn, 21, "I sail.")
    await run_page("explanation/forgetting.md", opened, dsn)
    printed = capsys.readouterr().out
    assert "demoted | I sail. | score 0.0857 is below 0.1" in printed
    assert "'demoted': {'episodic': 1}" in printed
    memory: MemoryEngine = opened["memory"]
    assert ["I sail."] == [one.text for one in await memory.list_memories(ANA)]
    assert 1 == (await memory.retention.stats(ANA)).total.pinned


async def test_the_page_about_context(dsn: str, opened: dict[str, Any]) -> None:
    await fill(dsn, 2, "I keep my bees on the roof.", "我的蜜蜂在屋顶上。")
    async with open_memory(dsn, worker=False) as memory:
        hits = await memory.recall(ANA, "bees")
        facts = await memory.facts(ANA)
    opened |= {"count": len, "facts": facts, "hits": hits}  # what somebody has already
    opened |= {"events": [said("Hi.", 0)], "event_ids": ["Hi."]}
    rows = await run_page("reference/context.md", opened, dsn)
    assert any("roof" in str(row) for row in rows)


async def test_the_search_of_the_page_about_profiles_finds_what_its_first_block_stored(
    opened: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    page = (DOCS / "reference" / "profiles.md").read_text("utf-8")
    blocks = re.findall(r"^```(?:python)?\n(.*?)^```", page, re.M | re.S)
    await run_python(blocks[0].replace("asyncio.run(main())", ""), opened)
    [(search, shown)] = [
        pair for pair in pairwise(blocks) if pair[0].startswith("from") and "searcher" in pair[0]
    ]
    capsys.readouterr()
    await run_python(search, opened)
    await opened["search"]()
    assert shown == capsys.readouterr().out
