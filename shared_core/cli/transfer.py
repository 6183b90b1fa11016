"""Commands that move memories: export, copy, reembed."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from rich.console import Console
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.core.domain import Scope
from shared_core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from rich.progress import Progress

    from shared_core.copy import Copied, CopiedPolicies
    from shared_core.engine import MemoryEngine
    from shared_core.transfer.reembedding import ReembedReport, TextOfField

FRAME = 2
"""Number of lines of an export that are not rows: the first and the last."""
CHUNK = 500
"""Number of lines of an export in one write."""


@cli.app.command()
def export(
    app_name: cli.App,
    user: Annotated[
        str | None, typer.Argument(help="Only this user.", show_default="all users")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="File to write.", show_default="standard output"),
    ] = None,
    with_vectors: Annotated[
        bool,
        typer.Option("--with-vectors", help="Include vectors, so that an import need not embed."),
    ] = False,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; needs --out.")] = False,
) -> None:
    """Write all data of a user or an application as lines of JSON.

    The export is a snapshot of one moment in a fixed order: two exports of the same data are equal.
    Without --out the lines go to standard output. Exit code 1 if there is nothing to export.
    """
    memory = cli.open_memory(uri, schema=schema, worker=False, track_access=False, create=False)
    rows = cli.with_memory(
        memory, lambda memory: _export(memory, app_name, user, out, vectors=with_vectors)
    )
    if out is None:
        return
    if as_json:
        cli.print_json({"rows": rows, "file": str(out)})
    else:
        cli.console().print(Text(f"{rows:,} rows written to {out}."), soft_wrap=True)


@cli.app.command()
def copy(
    source: Annotated[str, typer.Option("--from", help="URI of the database to read.")],
    target: Annotated[str, typer.Option("--to", help="URI of the database to write.")],
    app_name: Annotated[
        list[str] | None,
        typer.Option("--app", help="Only this application; repeatable.", show_default="all"),
    ] = None,
    embedder: cli.Embedder = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="Also write what was forgotten in the target.")
    ] = False,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Copy all data from one database to another, of any engine, and compare the two.

    Retention policies for all applications are copied too, unless --app is given. Existing rows in
    the target stay. Run it again after an interruption to copy the rest. Exit code 1 if a row
    differs in the end, or the source is empty.
    """
    there = cli.open_memory(source, schema=schema, worker=False, track_access=False, create=False)
    here = cli.open_memory(
        target, schema=schema, embedder=embedder, worker=False, track_access=False
    )

    async def run(there: MemoryEngine) -> Copied:
        from shared_core.copy import copy_memory

        async with here:
            with progress_lines(cli.console(stderr=True)) as progress:
                bar = progress.add_task("Copying", total=None)
                return await copy_memory(
                    there,
                    here,
                    apps=app_name or (),
                    restore=restore,
                    text_of_field=langgraph_fields(),
                    progress=lambda app, what, lines: progress.update(
                        bar, description=f"{app}: {what}", completed=lines
                    ),
                )

    done = cli.with_memory(there, run)  # first the source: a wrong one must not make the target
    if as_json:
        cli.print_json(dataclasses.asdict(done) | {"complete": done.complete})
    else:
        cli.print_all(map(Text, _copied_lines(done)))
    raise typer.Exit(0 if done.complete and not done.found_nothing else 1)


@cli.app.command()
def reembed(
    embedder: Annotated[str, typer.Option(help="The new model: use, e5 or google:MODEL.")],
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Delete the vectors of other models at the end.")
    ] = False,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Change the embedding model: make all vectors with the new model, then switch to it.

    The old model stays in use meanwhile. Afterwards open the memory with --embedder or embedder= if
    the model is not bundled. Run it again after an interruption to embed the rest, and run
    `hippocampus index` at the end if there are large users.
    """

    async def run(memory: MemoryEngine) -> ReembedReport:
        from shared_core.models.embedders import resolve_embedder

        with progress_lines(cli.console(stderr=True)) as progress:
            bar = progress.add_task("Embedding", total=None)
            return await memory.reembed(
                resolve_embedder(embedder),
                drop_old=drop_old,
                text_of_field=langgraph_fields(),
                progress=lambda count: progress.update(bar, completed=count),
            )

    done = cli.with_memory(cli.open_memory(uri, schema=schema, worker=False), run)
    if as_json:
        cli.print_json(dataclasses.asdict(done))
        return
    counts = [f"{done.embedded:,} vectors made"]
    if done.left:
        counts.append(f"{done.left:,} fields left without one")
    if done.dropped:
        counts.append(f"{done.dropped:,} old vectors dropped")
    cli.print_all([Text(f"{', '.join(counts)}. The model in use is now {done.model!r}.")])


async def _export(
    memory: MemoryEngine, app: str, user: str | None, out: Path | None, *, vectors: bool
) -> int:
    """Write an export to a file or to standard output, and return its number of rows.

    The file appears only when it is complete. Raises NotFound if there is nothing to export.
    """
    scope = None if user is None else Scope(app, user)
    of_app = app if scope is None else None
    with _written(out) as file, progress_lines(cli.console(stderr=True)) as progress:
        bar = progress.add_task("Exporting", total=None)
        count = 0
        async with aclosing(memory.export(scope, app=of_app, vectors=vectors)) as lines:
            chunk: list[str] = []
            async for line in lines:
                chunk.append(line)
                count += 1
                if count > FRAME and len(chunk) >= CHUNK:
                    _write(file, chunk)
                    progress.update(bar, completed=count)
        if count == FRAME:
            owner = f"user {user!r} in application {app!r}" if user else f"application {app!r}"
            raise NotFound(f"{owner} has nothing to export: check the names, --uri and --schema")
        _write(file, chunk)
    return count - FRAME


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


def _copied_lines(done: Copied) -> Sequence[str]:
    """Return the result of a copy: one line per application, and one for common policies."""
    lines = [
        f"{one.app}: {one.written:,} rows written, {one.here:,} were there already"
        + (f", {one.differ:,} of them with other values, which stay" if one.differ else "")
        + f". {one.source.rows:,} rows in the source, {one.target.rows:,} in the target: "
        + ("they agree." if one.agrees else "they differ.")
        for one in done.applications
    ]
    if policies := _policies_line(done.policies):
        lines.append(f"Retention policies for all applications: {policies}.")
    return lines or ["There is nothing in the source."]


def _policies_line(policies: CopiedPolicies) -> str:
    results = [
        (policies.written, "written"),
        (policies.here, "were there already"),
        (policies.differ, "set otherwise in the target, which stays: they differ"),
        (policies.only_there, "set in the target alone: they differ"),
        (policies.left, "not copied with --app"),
    ]
    return "; ".join(f"{', '.join(kinds)} {result}" for kinds, result in results if kinds)


def langgraph_fields() -> TextOfField | None:
    """Return the function that finds the texts in an item's fields, or None without LangGraph."""
    try:
        from langgraph_store.operations import text_of_field
    except ModuleNotFoundError:
        return None
    return text_of_field


def progress_lines(screen: Console) -> Progress:
    """Return a progress bar that counts lines and disappears at the end; none off a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} lines"),
        TimeElapsedColumn(),
        console=screen,
        disable=not screen.is_terminal,
        transient=True,
    )
