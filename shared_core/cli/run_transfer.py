"""What `hippocampus export`, `hippocampus import FILE` and `hippocampus reembed` do."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from shared_core.copy import Copied, CopiedPolicies, copy_memory
from shared_core.core.domain import JsonValue, Scope
from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput, NotFound
from shared_core.models.embedders import resolve_embedder
from shared_core.open import open_memory
from shared_core.storage._migrations import SCHEMA_VERSION
from shared_core.transfer.lines import LineReader
from shared_core.transfer.reembedding import ReembedReport
from shared_core.transfer.verbs import ImportedLines, TextOfField, opened

FRAME = 2
"""Lines of an export that are no rows: the first and the last."""

SHOWN_EVERY = 500


async def export(
    memory: MemoryEngine,
    app: str,
    user: str | None,
    out: Path | None,
    *,
    vectors: bool,
    screen: Console,
) -> int:
    """Write an export to a file, or to standard output; return how many rows it has.

    A file is there when it is whole, or not at all. Raises NotFound if there is nothing to export.
    """
    scope = None if user is None else Scope(app, user)
    with _written(out) as file, _progress(screen) as progress:
        bar = progress.add_task("Exporting", total=None)
        count = 0
        of_app = app if scope is None else None
        async with aclosing(memory.export(scope, app=of_app, vectors=vectors)) as lines:
            held: list[str] = []
            async for line in lines:
                held.append(line)
                count += 1
                if count > FRAME and len(held) >= SHOWN_EVERY:
                    _write(file, held)
                    progress.update(bar, completed=count)
        if count == FRAME:
            who = f"user {user!r} in application {app!r}" if user else f"application {app!r}"
            raise NotFound(f"there is nothing of {who} to export: check the names, --uri, --schema")
        _write(file, held)
    return count - FRAME


async def import_file(
    file: Path,
    *,
    uri: str | None,
    schema: str | None,
    embedder: str | None,
    restore: bool,
    screen: Console,
) -> ImportedLines:
    """Import an export, with the embedder that is named, and show how far it is."""
    total = _lines_of(file)
    async with open_memory(
        uri, schema=schema, embedder=resolve_embedder(embedder), worker=False
    ) as memory:
        with _progress(screen) as progress:
            bar = progress.add_task("Importing", total=total)
            return await memory.import_lines(
                file,
                restore=restore,
                text_of_field=_langgraph_fields(),
                progress=lambda line: progress.update(bar, completed=line),
            )


async def copy(
    source: MemoryEngine,
    target: MemoryEngine,
    *,
    apps: Sequence[str],
    restore: bool,
    screen: Console,
) -> Copied:
    """Copy one memory into another, and show how far it is."""
    async with source, target:
        with _progress(screen) as progress:
            bar = progress.add_task("Copying", total=None)
            return await copy_memory(
                source,
                target,
                apps=apps,
                restore=restore,
                text_of_field=_langgraph_fields(),
                progress=lambda app, what, lines: progress.update(
                    bar, description=f"{app}: {what}", completed=lines
                ),
            )


def copied(report: Copied) -> str:
    """Return what became of a copy, a line for each application, and one for common policies."""
    lines = [
        f"{one.app}: {one.written:,} rows written, {one.here:,} were there already"
        + (f", {one.differ:,} of them with other values, which stay" if one.differ else "")
        + f". {one.source.rows:,} rows in the source, {one.target.rows:,} in the target: "
        + ("they agree." if one.agrees else "they differ.")
        for one in report.applications
    ]
    if said := _policies_told(report.policies):
        lines.append(f"Policies of forgetting for all applications: {said}.")
    return "\n".join(lines) or "There is nothing in the source."


def _policies_told(policies: CopiedPolicies) -> str:
    parts = [
        (policies.written, "written"),
        (policies.here, "were there already"),
        (policies.differ, "set otherwise in the target, which stays: they differ"),
        (policies.only_there, "set in the target alone: they differ"),
        (policies.left, "not copied with --app"),
    ]
    return "; ".join(f"{', '.join(kinds)} {what}" for kinds, what in parts if kinds)


async def reembed(
    memory: MemoryEngine, embedder: str, *, drop_old: bool, screen: Console
) -> ReembedReport:
    """Change the model of a memory, and show how far it is."""
    async with memory:
        with _progress(screen) as progress:
            bar = progress.add_task("Embedding", total=None)
            return await memory.reembed(
                resolve_embedder(embedder),
                drop_old=drop_old,
                text_of_field=_langgraph_fields(),
                progress=lambda count: progress.update(bar, completed=count),
            )


def reembedded(report: ReembedReport) -> str:
    """Return in one line what changing the model did."""
    parts = [f"{report.embedded:,} vectors made"]
    if report.left:
        parts.append(f"{report.left:,} fields left without one")
    if report.dropped:
        parts.append(f"{report.dropped:,} old vectors dropped")
    return f"{', '.join(parts)}. The model in use is {report.model!r} now."


def look_at(file: Path) -> dict[str, JsonValue]:
    """Check a file to its end, and return whose it is and what it holds."""
    reader = LineReader(file.name, SCHEMA_VERSION)
    tables: Counter[str] = Counter()
    with opened(file) as lines:
        for batch in reader.batches(lines):
            tables[batch.table] += len(batch.lines)
    assert reader.header is not None
    whose = reader.header.whose
    return {
        "app": whose.app,
        "user": whose.user,
        "vectors": reader.header.model,
        "rows": tables.total(),
        "tables": dict(tables),
    }


def look_told(found: dict[str, JsonValue]) -> str:
    """Return in one line what look_at() found."""
    who = f"user {found['user']!r} of " if found["user"] else ""
    model = found["vectors"]
    vectors = f"with vectors of {model!r}" if model else "without vectors"
    return f"{who}application {found['app']!r}: {found['rows']:,} rows, {vectors}; all is well."


def told(report: ImportedLines) -> str:
    """Return in one line what became of an import."""
    parts = [f"{report.written:,} rows written", f"{report.here:,} were here already"]
    if report.differ:
        parts.append(f"{report.differ:,} of them with other values, which stay")
    if report.embedded:
        parts.append(f"{report.embedded:,} vectors made")
    if report.unembedded:
        parts.append(f"{report.unembedded:,} fields without their vectors")
    return ", ".join(parts) + "."


def _lines_of(file: Path) -> int | None:
    """Return how many lines a file has; None where that cannot be told, which the import says."""
    try:
        with file.open("rb") as lines:
            return sum(1 for _ in lines)
    except OSError:
        return None


def _langgraph_fields() -> TextOfField | None:
    """Return what finds the texts of an item's own fields, where LangGraph is installed."""
    try:
        from langgraph_store.operations import text_of_field
    except ModuleNotFoundError:
        return None
    return text_of_field


def _write(file: BinaryIO, lines: list[str]) -> None:
    file.writelines(f"{line}\n".encode() for line in lines)
    lines.clear()


@contextmanager
def _written(out: Path | None) -> Iterator[BinaryIO]:
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = out.with_name(out.name + ".part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(out)
    except OSError as error:
        raise InvalidInput(f"{str(out)!r} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def _progress(screen: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} lines"),
        TimeElapsedColumn(),
        console=screen,
        disable=not screen.is_terminal,
        transient=True,
    )
