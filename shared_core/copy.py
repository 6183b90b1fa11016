"""Copies memories from one database to another, across engines, and compares both sides."""

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
from shared_core.transfer.reembedding import TextOfField

Progress = Callable[[str, str, int], None]
"""Called with the application, the step ("read", "written", "compared") and the lines so far."""

BUFFERED_LINES = 500
"""Maximum number of exported lines in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportDigest:
    """The number of rows of an export, and the SHA-256 of their lines."""

    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedApplication:
    """The result for one application, with a digest of both sides.

    written: new rows in the target. here: rows that the target had already. differ: those among
    them with other values, which the target keeps.
    """

    app: str
    written: int
    here: int
    differ: int
    source: ExportDigest
    target: ExportDigest

    @property
    def agrees(self) -> bool:
        """Whether both sides have the same lines."""
        return self.source == self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPolicies:
    """The retention policies for all applications, as lists of memory kinds.

    written: set in the target by this copy. here: equal in both. differ: different in the target,
    which keeps its own. only_there: missing in the source. left: not copied, because the call
    named single applications.
    """

    written: Sequence[MemoryKind]
    here: Sequence[MemoryKind]
    differ: Sequence[MemoryKind]
    only_there: Sequence[MemoryKind]
    left: Sequence[MemoryKind]

    @property
    def agrees(self) -> bool:
        """Whether both sides have the same policies."""
        return not (self.differ or self.only_there or self.left)

    @property
    def in_source(self) -> bool:
        """Whether the source has a policy."""
        return bool(self.written or self.here or self.differ or self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The result of copy_memory. is_of_all: the call named no single applications."""

    applications: Sequence[CopiedApplication]
    policies: CopiedPolicies
    is_of_all: bool

    @property
    def complete(self) -> bool:
        """Whether both sides agree on everything that the call covers."""
        policies_agree = self.policies.agrees or not self.is_of_all
        return policies_agree and all(app.agrees for app in self.applications)

    @property
    def found_nothing(self) -> bool:
        """Whether the source is empty."""
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
    """Copy all applications, or some, into another memory, and compare both sides.

    Each application is read as of one moment into a temporary file, and written in batches.
    The target keeps its rows, so a second call finishes an interrupted copy. A thread that grew
    since an earlier copy gets its new turns. Other rows that the source changed or deleted since
    then stay unchanged in the target, and the sides differ. Writes to the source during the copy
    also make them differ: stop writers first, or copy again if they only append.

    Args:
        source: the memory to read. Open it with create=False if it must exist.
        target: the memory to write. It keeps vectors of its own embedder, and makes others anew.
        apps: the applications to copy. By default all, with the policies for all applications.
        restore: whether turns that the target forgot come back; otherwise they raise Conflict.
        text_of_field: as in import_lines().
        progress: called while lines are read, written and compared.

    Raises:
        InvalidInput: source and target are the same memory.
        NotFound: the source has no such application. import_lines() may raise others.
    """
    if await target.transfer.is_same(source.transfer):
        raise InvalidInput("source and target are the same memory: give two different ones")
    available = await source.transfer.applications()
    if missing := [app for app in apps if app not in available]:
        raise NotFound(f"the source has no application {missing[0]!r}, it has {list(available)}")
    report_progress = progress or _silent
    policies = await _copy_policies(source, target, write=not apps)
    copied = []
    for app in dict.fromkeys(apps) or available:
        with tempfile.TemporaryDirectory(prefix="hippocampus-copy-") as folder:
            file = Path(folder) / "lines.jsonl"
            await _export(source, app, file, report_progress)
            report = await target.import_lines(
                file,
                restore=restore,
                text_of_field=text_of_field,
                progress=lambda line, app=app: report_progress(app, "written", line),  # type: ignore[misc]
            )
        vectors = await _model(source) == await _model(target)
        copied.append(
            CopiedApplication(
                app=app,
                written=report.written,
                here=report.here,
                differ=report.differ,
                source=await _digest(source, app, report_progress, vectors=vectors),
                target=await _digest(target, app, report_progress, vectors=vectors),
            )
        )
    return Copied(applications=copied, policies=policies, is_of_all=not apps)


async def _copy_policies(
    source: MemoryEngine, target: MemoryEngine, *, write: bool
) -> CopiedPolicies:
    """Set in the target the policies for all applications that it lacks.

    This precedes the import, so that imported memories are due when they were in the source.
    """
    there, here = await source.retention.own_policy(), await target.retention.own_policy()
    new = {kind: rule for kind, rule in there.items() if kind not in here}
    if new and write:
        await target.retention.set_policy(new)
    return CopiedPolicies(
        written=sorted(new) if write else [],
        here=sorted(kind for kind in there if kind in here and there[kind] == here[kind]),
        differ=sorted(kind for kind in there if kind in here and there[kind] != here[kind]),
        only_there=sorted(kind for kind in here if kind not in there),
        left=[] if write else sorted(new),
    )


async def _model(memory: MemoryEngine) -> tuple[str | None, int | None]:
    report = await memory.report()
    return report.model, report.dimensions


async def _export(memory: MemoryEngine, app: str, path: Path, report_progress: Progress) -> None:
    count, buffer = 0, list[str]()
    with await asyncio.to_thread(path.open, "w", encoding="utf-8") as file:
        async with aclosing(memory.export(app=app, vectors=True)) as lines:
            async for line in lines:
                buffer.append(line + "\n")
                count += 1
                if len(buffer) == BUFFERED_LINES:
                    await asyncio.to_thread(file.writelines, buffer)
                    buffer.clear()
                    report_progress(app, "read", count)
        await asyncio.to_thread(file.writelines, buffer)


async def _digest(
    memory: MemoryEngine, app: str, report_progress: Progress, *, vectors: bool
) -> ExportDigest:
    """Return the digest of an application.

    vectors: whether it covers the values of vectors, or only which rows have one.
    """
    digest, rows, last = hashlib.sha256(), 0, ""
    async with aclosing(memory.export(app=app, vectors=vectors)) as lines:
        async for line in lines:
            if last:  # skips the first line (it names the engine's version) and the last
                digest.update(last.encode() + b"\n")
            last = line if rows else ""
            rows += 1
            if rows % BUFFERED_LINES == 0:
                report_progress(app, "compared", rows)
    return ExportDigest(rows=max(rows - 2, 0), sha256=digest.hexdigest())


def _silent(app: str, what: str, lines: int) -> None:
    """Report nothing."""
