"""Moves everything from one memory to another, whatever engines the two are on."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from shared_core.core.domain import MemoryKind
from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput, NotFound
from shared_core.transfer.service import TextOfField

Progress = Callable[[str, str, int], None]
"""Told the application, what is done with it ("read", "written", "compared"), and its lines."""

HELD = 500
"""Lines in memory at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportDigest:
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
    source: ExportDigest
    target: ExportDigest

    @property
    def agrees(self) -> bool:
        """Tell whether both sides hold the same, line by line."""
        return self.source == self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPolicies:
    """The policies of forgetting that hold for all applications, by the kinds of memory.

    written: set in the target now. here: are the same there. differ: are others there, which stay.
    only_there: the source has none. left: not set, for only some applications were asked for.
    """

    written: Sequence[MemoryKind]
    here: Sequence[MemoryKind]
    differ: Sequence[MemoryKind]
    only_there: Sequence[MemoryKind]
    left: Sequence[MemoryKind]

    @property
    def agrees(self) -> bool:
        """Tell whether the same holds for all applications on both sides."""
        return not (self.differ or self.only_there or self.left)

    @property
    def in_source(self) -> bool:
        """Tell whether the source has any."""
        return bool(self.written or self.here or self.differ or self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What copy_memory did. is_of_all: all applications were asked for."""

    applications: Sequence[CopiedApplication]
    policies: CopiedPolicies
    is_of_all: bool

    @property
    def complete(self) -> bool:
        """Tell whether both sides hold the same of what was asked for."""
        policies_agree = self.policies.agrees or not self.is_of_all
        return policies_agree and all(app.agrees for app in self.applications)

    @property
    def found_nothing(self) -> bool:
        """Tell whether the source is empty."""
        return not self.applications and not self.policies.in_source


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
    rest. Threads that grew since an earlier copy get their new turns and count on behind them;
    other rows that changed or were deleted in the source since then stay as they are in the target,
    e.g. marks of what was consolidated, and the sides then differ. Vectors are taken over where the
    embedder of the target made them, else made anew. Policies that hold for all applications are
    copied unless only some are asked for. What the source writes meanwhile is not copied, and the
    sides then differ: stop writers first, or copy again if they only append. restore: turns that
    were forgotten in the target come back; else they are refused. Open the source with create=False
    where it must be there.

    Raises InvalidInput where both are the same memory, by whatever names, NotFound for an
    application that is not there, and what import_lines() raises.
    """
    if await target.transfer.is_same(source.transfer):
        raise InvalidInput("source and target are the same memory: name two different ones")
    there = await source.transfer.applications()
    if missing := [app for app in apps if app not in there]:
        raise NotFound(f"there is no application {missing[0]!r} in the source: {list(there)}")
    told = progress or _silent
    policies = await _copy_policies(source, target, write=not apps)
    copied = []
    for app in dict.fromkeys(apps) or there:
        with tempfile.TemporaryDirectory(prefix="hippocampus-copy-") as folder:
            file = Path(folder) / "lines.jsonl"
            await _export(source, app, file, told)
            report = await target.import_lines(
                file,
                restore=restore,
                text_of_field=text_of_field,
                progress=lambda line, app=app: told(app, "written", line),  # type: ignore[misc]
            )
        vectors = await _model(source) == await _model(target)
        copied.append(
            CopiedApplication(
                app=app,
                written=report.written,
                here=report.here,
                differ=report.differ,
                source=await _sum(source, app, told, vectors=vectors),
                target=await _sum(target, app, told, vectors=vectors),
            )
        )
    return Copied(applications=copied, policies=policies, is_of_all=not apps)


async def _copy_policies(
    source: MemoryEngine, target: MemoryEngine, *, write: bool
) -> CopiedPolicies:
    """Set in the target what holds for all applications and is not set there.

    It comes first: what is imported afterwards is due when it was due in the source.
    """
    given, here = await source.retention.own_policy(), await target.retention.own_policy()
    new = {kind: rule for kind, rule in given.items() if kind not in here}
    if new and write:
        await target.retention.set_policy(new)
    return CopiedPolicies(
        written=sorted(new) if write else [],
        here=sorted(kind for kind in given if kind in here and given[kind] == here[kind]),
        differ=sorted(kind for kind in given if kind in here and given[kind] != here[kind]),
        only_there=sorted(kind for kind in here if kind not in given),
        left=[] if write else sorted(new),
    )


async def _model(memory: MemoryEngine) -> tuple[str | None, int | None]:
    report = await memory.report()
    return report.model, report.dimensions


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


async def _sum(memory: MemoryEngine, app: str, told: Progress, *, vectors: bool) -> ExportDigest:
    """Return what an application comes to. vectors: with their values, else with what has some."""
    digest, rows, last = hashlib.sha256(), 0, ""
    async with aclosing(memory.export(app=app, vectors=vectors)) as lines:
        async for line in lines:
            if last:  # neither the first line, which names the engine's version, nor the last
                digest.update(last.encode() + b"\n")
            last = line if rows else ""
            rows += 1
            if rows % HELD == 0:
                told(app, "compared", rows)
    return ExportDigest(rows=max(rows - 2, 0), sha256=digest.hexdigest())


def _silent(app: str, what: str, lines: int) -> None:
    """Tell nobody."""
