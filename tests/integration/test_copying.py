"""Everything of one memory in another, counted and compared; on both engines, both ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner
from whole_user import WholeClock, populate, said

from shared_core import Conflict, InvalidInput, MemoryEngine, NotFound, Scope, open_memory, run_sync
from shared_core.cli import app
from shared_core.copying import copy_memory

pytestmark = pytest.mark.both_engines


def opened(dsn: str, clock: WholeClock) -> MemoryEngine:
    return open_memory(dsn, clock=clock, worker=False)


ANA, ZHU = Scope("helper", "ana"), Scope("商店", "朱")


async def fill(memory: MemoryEngine, clock: WholeClock) -> None:
    await memory.append_events(ZHU, "t1", [said(1, "我叫朱莉。"), said(2, "我住在深圳。")])
    await memory.consolidate(ZHU, "t1")
    await populate(memory, ANA, clock)
    await memory.remember(ANA, 'It\'s 100 % \\ "quoted" 中文 \U0001f600')


async def test_both_sides_hold_the_same(dsn: str, other_dsn: str) -> None:
    clock = WholeClock()
    async with opened(dsn, clock) as source, opened(other_dsn, clock) as target:
        await fill(source, clock)
        steps: list[str] = []
        copied = await copy_memory(
            source, target, progress=lambda app, what, lines: steps.append(f"{app} {what}")
        )
        assert [one.app for one in copied.applications] == ["helper", "商店"]
        assert copied.complete
        assert all(one.written > 10 and one.source.rows > 10 for one in copied.applications)
        assert set(steps) == {"helper written", "商店 written"}  # what is told line by line

        again = await copy_memory(source, target, apps=["helper"])
        assert [(one.written, one.agrees) for one in again.applications] == [(0, True)]
        assert [hit.memory.text for hit in await target.recall(ANA, "Lisbon")] == (
            [hit.memory.text for hit in await source.recall(ANA, "Lisbon")]
        )


async def test_what_differs_is_seen(dsn: str, other_dsn: str) -> None:
    clock = WholeClock()
    async with opened(dsn, clock) as source, opened(other_dsn, clock) as target:
        await fill(source, clock)
        await copy_memory(source, target)
        await target.remember(ANA, "Only over there.")
        copied = await copy_memory(source, target)
        assert {one.app: one.agrees for one in copied.applications} == {
            "helper": False,
            "商店": True,
        }
        assert not copied.complete


async def test_what_was_forgotten_there_does_not_come_back_by_itself(
    dsn: str, other_dsn: str
) -> None:
    clock = WholeClock()
    async with opened(dsn, clock) as source, opened(other_dsn, clock) as target:
        await fill(source, clock)
        await copy_memory(source, target)
        assert await target.forget_turns(ANA, "t2", ["e6"])
        with pytest.raises(Conflict, match="forgotten"):
            await copy_memory(source, target, apps=["helper"])
        assert (await copy_memory(source, target, apps=["helper"], restore=True)).complete


async def test_nothing_is_copied_into_itself(dsn: str) -> None:
    async with open_memory(dsn) as source, open_memory(dsn) as target:
        with pytest.raises(InvalidInput, match="the same memory"):
            await copy_memory(source, target)


async def test_an_application_that_is_not_there(dsn: str, other_dsn: str) -> None:
    async with open_memory(dsn) as source, open_memory(other_dsn) as target:
        assert await source.applications() == []
        assert (await copy_memory(source, target)).applications == []
        with pytest.raises(NotFound, match="no application 'x'"):
            await copy_memory(source, target, apps=["x"])


def test_the_command_counts_and_compares(dsn: str, other_dsn: str, tmp_path: Path) -> None:
    async def filled() -> None:
        clock = WholeClock()
        async with opened(dsn, clock) as memory:
            await fill(memory, clock)

    run_sync(filled())
    runner = CliRunner()
    done = runner.invoke(app, ["copy", "--from", dsn, "--to", other_dsn, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["complete"]
    assert {one["app"] for one in found["applications"]} == {"helper", "商店"}
    assert all(one["source"] == one["target"] for one in found["applications"])
    plain = runner.invoke(app, ["copy", "--from", dsn, "--to", other_dsn, "--app", "helper"])
    assert plain.exit_code == 0
    assert "agree" in plain.stdout
    same = runner.invoke(app, ["copy", "--from", dsn, "--to", dsn])
    assert same.exit_code == 1
    assert "same memory" in same.stderr


@pytest.mark.parametrize("to_seekdb", [True, False])
async def test_from_one_engine_to_the_other(
    postgres_dsn: str, seekdb_dsn: str, to_seekdb: bool
) -> None:
    places = (postgres_dsn, seekdb_dsn) if to_seekdb else (seekdb_dsn, postgres_dsn)
    clock = WholeClock()
    async with opened(places[0], clock) as source, opened(places[1], clock) as target:
        await fill(source, clock)
        copied = await copy_memory(source, target)
        assert [(one.app, one.differ) for one in copied.applications] == [
            ("helper", 0),
            ("商店", 0),
        ]
        assert copied.complete
        assert [hit.memory.text for hit in await target.recall(ANA, "Where does she live?")] == (
            [hit.memory.text for hit in await source.recall(ANA, "Where does she live?")]
        )
