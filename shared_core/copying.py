"""Moves everything from one memory to another, whatever engines the two are on."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput, NotFound
from shared_core.transfer_verbs import TextOfField

Progress = Callable[[str, str, int], None]
"""Told the application, what is done with it ("read", "written", "compared"), and its lines."""

HELD = 500
"""Lines in memory at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """What an export came to: its rows, and the SHA-256 of their lines."""

    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedApplication:
    """One application: rows written and rows that were there, and what both sides hold now.

    differ: of those that were there, how many have other values; they keep them.
    """

    app: str
    written: int
    here: int
    differ: int
    source: Sum
    target: Sum

    @property
    def agrees(self) -> bool:
        """Tell whether both sides hold the same, line by line."""
        return self.source == self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What copy_memory did."""

    applications: Sequence[CopiedApplication]

    @property
    def complete(self) -> bool:
        """Tell whether all applications hold the same on both sides."""
        return all(app.agrees for app in self.applications)


async def copy_memory(
    source: MemoryEngine,
    target: MemoryEngine,
    *,
    apps: Sequence[str] = (),
    restore: bool = False,
    text_of_field: TextOfField | None = None,
    progress: Progress | None = None,
) -> Copied:
    """Copy all applications, or some, into another memory, and compare the two sides.

    Each application is read as of one moment, into a file that is deleted afterwards, and written
    in batches: what is in the target stays, so after an interruption call it again and it does the
    rest. Vectors are taken over where the embedder of the target made them, else made anew. What
    the source writes meanwhile is not copied, and the sides then differ: stop writers first, or
    copy again. restore: turns that were forgotten in the target come back; else they are refused.

    Raises InvalidInput where both are the same, NotFound for an application that is not there, and
    what import_lines() raises.
    """
    if await _place(source) == await _place(target):
        raise InvalidInput("source and target are the same memory: name two different ones")
    there = await source.applications()
    if missing := [app for app in apps if app not in there]:
        raise NotFound(f"there is no application {missing[0]!r} in the source: {list(there)}")
    told = progress or _silent
    copied = []
    for app in apps or there:
        with tempfile.TemporaryDirectory(prefix="hippocampus-copy-") as folder:
            file = Path(folder) / "lines.jsonl"
            await _export(source, app, file, told)
            report = await target.import_lines(
                file,
                restore=restore,
                text_of_field=text_of_field,
                progress=lambda line, app=app: told(app, "written", line),  # type: ignore[misc]
            )
        copied.append(
            CopiedApplication(
                app=app,
                written=report.written,
                here=report.here,
                differ=report.differ,
                source=await _sum(source, app, told),
                target=await _sum(target, app, told),
            )
        )
    return Copied(applications=copied)


async def _place(memory: MemoryEngine) -> tuple[str, str]:
    return await memory.dsn(), (await memory.report()).schema


async def _export(memory: MemoryEngine, app: str, path: Path, told: Progress) -> None:
    count, held = 0, list[str]()
    with await asyncio.to_thread(path.open, "w", encoding="utf-8") as file:
        async with aclosing(memory.export(app=app, vectors=True)) as lines:
            async for line in lines:
                held.append(line + "\n")
                count += 1
                if len(held) == HELD:
                    await asyncio.to_thread(file.writelines, held)
                    held.clear()
                    told(app, "read", count)
        await asyncio.to_thread(file.writelines, held)


async def _sum(memory: MemoryEngine, app: str, told: Progress) -> Sum:
    """Return what an application comes to without its vectors, whose digits engines round."""
    digest, rows, last = hashlib.sha256(), 0, ""
    async with aclosing(memory.export(app=app)) as lines:
        async for line in lines:
            if last:  # neither the first line, which names the engine's version, nor the last
                digest.update(last.encode() + b"\n")
            last = line if rows else ""
            rows += 1
            if rows % HELD == 0:
                told(app, "compared", rows)
    return Sum(rows=max(rows - 2, 0), sha256=digest.hexdigest())


def _silent(app: str, what: str, lines: int) -> None:
    """Tell nobody."""
