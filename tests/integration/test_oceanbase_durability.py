"""What SeekDB acknowledged is there after kill -9 of its server, and readers see whole states."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from http_processes import command as hippocampus

from shared_core import Event, Scope, open_memory
from shared_core.errors import StorageUnavailable

ANA = Scope("app", "ana")


def said(number: int, text: str) -> Event:
    return Event(
        event_id=f"e{number}",
        author="user",
        role="user",
        text=text,
        occurred_at=datetime(2026, 3, 1, 9, number % 60, tzinfo=UTC),
    )


def server_of(folder: Path) -> int:
    """Return the pid of the server that has a folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if Path(os.fsdecode(words[0])).name == "seekdb" and any(
                os.fsencode(folder) in word for word in words
            ):
                return int(entry.name)
    raise AssertionError("no server runs there")


async def until_reachable(memory: object) -> None:
    for _ in range(20):
        try:
            await memory.list_memories(ANA, limit=1)  # type: ignore[attr-defined]
        except StorageUnavailable:
            await asyncio.sleep(0.5)
        else:
            return
    raise AssertionError("the memory did not come back")


@pytest.mark.timeout(300)
async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    folder = tmp_path / "seekdb"
    acknowledged: list[str] = []
    async with open_memory(f"seekdb://{folder}", worker=False) as memory:
        await memory.append_events(ANA, "t1", [said(0, "The first turn.")])

        enough = asyncio.Event()

        async def write() -> None:
            for number in range(1, 400):
                event = said(number, f"Turn number {number}.")
                try:
                    await memory.append_events(ANA, "t1", [event])
                except StorageUnavailable:
                    return
                acknowledged.append(event.event_id)
                if len(acknowledged) == 20:
                    enough.set()

        writing = asyncio.create_task(write())
        await asyncio.wait_for(enough.wait(), 60)
        os.kill(server_of(folder), signal.SIGKILL)
        await asyncio.wait([writing], timeout=60)
        writing.cancel()
        await until_reachable(memory)
        held = {
            event_id
            for found in await memory.list_memories(ANA, limit=1000)
            for event_id in found.source_event_ids
        }
        assert len(acknowledged) >= 20
        assert set(acknowledged) <= held
        hits = await memory.recall(ANA, "The first turn.", limit=3)
        assert hits[0].memory.text == "The first turn."


@pytest.mark.timeout(300)
async def test_any_number_of_connections_may_be_lost(tmp_path: Path) -> None:
    """Ten that were idle when the server died, and a call that is never sent twice."""
    uri = f"seekdb://{tmp_path / 'seekdb'}"
    async with open_memory(uri, worker=False, track_access=False) as memory:
        [key] = await memory.remember(ANA, "I like tea.")
        await asyncio.gather(*(memory.list_memories(ANA) for _ in range(10)))
        os.kill(server_of(tmp_path / "seekdb"), signal.SIGKILL)
        await asyncio.sleep(0.5)
        async with open_memory(uri, worker=False) as other:  # before the first has noticed
            assert len(await other.list_memories(ANA)) == 1
        os.kill(server_of(tmp_path / "seekdb"), signal.SIGKILL)
        await asyncio.sleep(0.5)
        assert [found.key for found in await memory.list_memories(ANA)] == [key]


@pytest.mark.timeout(300)
async def test_readers_see_a_fact_or_its_successor_and_never_both_or_none(seekdb_dsn: str) -> None:
    async with open_memory(seekdb_dsn, worker=False, track_access=False) as memory:
        await memory.append_events(ANA, "t0", [said(0, "I live in Oslo.")])
        await memory.consolidate(ANA, "t0")
        states: set[tuple[str, ...]] = set()
        done = asyncio.Event()

        async def read() -> None:
            while not done.is_set():
                facts = await memory.facts(ANA)
                states.add(tuple(sorted(f.value for f in facts if f.slot == "residence")))

        readers = [asyncio.create_task(read()) for _ in range(2)]
        cities = ["Bergen", "Rome", "Lima", "Kyoto", "Quito", "Leeds", "Turin", "Porto"]
        for number, city in enumerate(cities, start=1):
            await memory.append_events(ANA, f"t{number}", [said(number, f"I moved to {city}.")])
            await memory.consolidate(ANA, f"t{number}")
        done.set()
        await asyncio.gather(*readers)
        assert len(states) > 1
        assert {len(state) for state in states} == {1}, states


@pytest.mark.timeout(300)
def test_the_server_ends_with_its_last_user(tmp_path: Path) -> None:
    folder = tmp_path / "seekdb"
    where = ["--uri", f"seekdb://{folder}", "--json"]
    for command in (
        ["remember", "app", "ana", "我住在深圳。"],
        ["recall", "app", "ana", "住在哪里"],
    ):
        found = subprocess.run(
            [*hippocampus(), *command, *where], check=True, capture_output=True, timeout=120
        )
    assert "深圳" in found.stdout.decode()
    for _ in range(100):
        try:
            server_of(folder)
        except AssertionError:
            return
        time.sleep(0.1)
    raise AssertionError("the server is still there")


async def test_a_full_disk_is_told_before_the_server_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=5 * 1024**2)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(StorageUnavailable, match=r"is full: 5 MB are free.* make room"):
        await open_memory(f"seekdb://{tmp_path}/data").open()
