"""An export that does not know of an erasure brings nothing back, and a later one is imported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared_core import Conflict, Event, MemoryEngine, Scope, open_memory
from tests.integration.talking import Watch

pytestmark = pytest.mark.both_engines
ANA = Scope("app", "ana")
REFUSED = r"line \d+, a row of \w+: it was erased here.*--restore.*Nothing was imported"


async def lines_of(memory: MemoryEngine) -> list[str]:
    return [line async for line in memory.export(ANA)]


async def texts_of(memory: MemoryEngine) -> list[str]:
    return sorted(one.text for one in await memory.list_memories(ANA, limit=100))


def said(text: str) -> list[Event]:
    return [Event(event_id=text, author="user", role="user", text=text, occurred_at=Watch().now)]


@pytest.mark.parametrize("source", ["list", "file", "iterator"])
async def test_an_older_export_of_an_erased_user_is_refused(
    dsn: str, tmp_path: Path, source: str
) -> None:
    async with open_memory(dsn, clock=Watch(), worker=False) as memory:
        await memory.remember(ANA, "Ana skis.")  # leaves no tombstone
        lines = await lines_of(memory)
        await memory.erase(ANA)
        file = tmp_path / "ana.jsonl"
        file.write_text("\n".join(lines))
        given = {"list": lines, "file": file, "iterator": iter(lines)}[source]
        refused = REFUSED if source != "iterator" else "it was erased here"
        with pytest.raises(Conflict, match=refused):
            await memory.import_lines(given)
        assert [] == await texts_of(memory)
        await memory.import_lines(lines, restore=True)
        assert ["Ana skis."] == await texts_of(memory)


async def test_an_export_that_was_made_after_the_erasure_is_imported(
    dsn: str, other_dsn: str
) -> None:
    async with open_memory(dsn, clock=Watch(), worker=False) as memory:
        await memory.remember(ANA, "Ana skis.")
        older = await lines_of(memory)
        await memory.erase(ANA)
        await memory.remember(ANA, "Ana swims.")
        later = await lines_of(memory)
        for lines in (later, iter(later)):
            assert 0 == (await memory.import_lines(lines)).written
        async with open_memory(other_dsn, clock=Watch(), worker=False) as other:
            await other.import_lines(later)
            assert (later, ["Ana swims."]) == (await lines_of(other), await texts_of(other))
            with pytest.raises(Conflict, match=REFUSED):  # the receipt came along
                await other.import_lines(older)


async def test_an_older_export_of_an_erased_thread_is_refused(dsn: str) -> None:
    async with open_memory(dsn, clock=Watch(), worker=False) as memory:
        await memory.append_events(ANA, "t1", said("I live in Rome."))
        await memory.append_events(ANA, "t2", said("I like tea."))
        lines = await lines_of(memory)
        await memory.forget_turns(ANA, "t2", ["I like tea."])
        await memory.erase(ANA, "t1")
        with pytest.raises(Conflict, match=REFUSED):
            await memory.import_lines(lines, restore=False)
        assert [] == await texts_of(memory)
        await memory.append_events(ANA, "t3", said("I play chess."))
        later = await lines_of(memory)
        assert 0 == (await memory.import_lines(later)).written
        await memory.import_lines(lines, restore=True)
        assert ["I like tea.", "I live in Rome.", "I play chess."] == await texts_of(memory)


async def test_an_export_of_an_older_version_has_its_receipts_late(
    dsn: str, tmp_path: Path
) -> None:
    async with open_memory(dsn, clock=Watch(), worker=False) as memory:
        await memory.erase(ANA)
        await memory.remember(ANA, "Ana swims.")
        head, *rows, end = await lines_of(memory)
        rows.sort(key=lambda line: json.loads(line)["table"] == "erasures")
        assert '"table": "erasures"' in rows[-1]
        file = tmp_path / "ana.jsonl"
        file.write_text("\n".join([head, *rows, end]))
        assert len(rows) == (await memory.import_lines(file)).here
