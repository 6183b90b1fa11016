"""What `hippocampus import` does: a PostgresStore of LangGraph into this memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from shared_core.core.domain import Namespace
from shared_core.errors import InvalidInput, NotFound
from shared_core.models.embedders import PrecomputedVectors, resolve_embedder
from shared_core.open import open_memory
from shared_core.ports.storage import Embedder
from shared_core.ports.transfer import SourceItem, SourceTally
from shared_core.settings import load_settings
from shared_core.storage.postgres.connection.embedded import embedded_behind
from shared_core.storage.postgres.langgraph_tables import PostgresStoreSource
from shared_core.transfer.importing import ImportOptions, ImportReport, TextOfField, import_items

MAX_BATCH = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreImport:
    """An import to do.

    dsn: of the PostgresStore, which may be in the same database. uri, schema, embedder: as in
    open_memory(). prefix: only namespaces below these labels, joined by dots. vectors_from: the
    model that made the vectors there; they are kept when it is the embedder's. reembed: embed
    every item anew, also those that are here, and those that had no vectors there. restore: bring
    back what was imported before and deleted here since.
    """

    dsn: str
    uri: str | Path | None = None
    schema: str | None = None
    embedder: object = None
    prefix: str = ""
    batch: int = 500
    vectors_from: str | None = None
    reembed: bool = False
    restore: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= MAX_BATCH:
            raise InvalidInput(f"batch must be from 1 to {MAX_BATCH:,}, not {self.batch}")
        if self.reembed and self.vectors_from:
            raise InvalidInput(
                "vectors are kept (--vectors-from) or made anew (--reembed), not both"
            )


async def count_items(task: StoreImport, console: Console | None = None) -> SourceTally:
    """Say and return what is there to import. Writes nothing, here as little as there."""
    async with _source(task) as source:
        return await _tallied(source, task, console or Console(quiet=True))


async def import_store(
    task: StoreImport, console: Console | None = None, errors: Console | None = None
) -> ImportReport:
    """Copy a PostgresStore into this memory and return what became of its items.

    console: shows the progress, if it is a terminal, and the result. errors: lists what failed.
    """
    console = console or Console(quiet=True)
    errors = errors or Console(quiet=True)
    started = time.monotonic()
    async with _source(task) as source:
        tally = await _tallied(source, task, console)
        embedder = resolve_embedder(task.embedder)
        known = await _known_vectors(task, embedder, tally)
        from_labels, text_of_field = _langgraph()
        options = ImportOptions(
            to_namespace=from_labels,
            text_of_field=text_of_field,
            batch=task.batch,
            known=known,
            embedded_only=bool(tally.embedded) and not task.reembed,
            reembed=task.reembed,
            restore=task.restore,
        )

        def failed(item: SourceItem, reason: str) -> None:
            line = " ".join(f"{item.prefix!r} / {item.key!r}: {reason}".split())
            errors.print(Text(f"✗ {line}", style="red"), soft_wrap=True)

        async with open_memory(
            task.uri, schema=task.schema, embedder=known or embedder, worker=False
        ) as memory:
            with _progress(console) as progress:
                bar = progress.add_task("items", total=tally.items)
                report = await import_items(
                    memory.imported,
                    source,
                    options,
                    failed=failed,
                    advanced=lambda count: progress.advance(bar, count),
                )
    _tell_result(console, report, time.monotonic() - started)
    return report


@asynccontextmanager
async def _source(task: StoreImport) -> AsyncIterator[PostgresStoreSource]:
    """Open the source; if it is in an embedded PostgreSQL, that runs as long."""
    source = PostgresStoreSource(task.dsn, below=task.prefix)
    server = embedded_behind(task.dsn, load_settings(task.uri, schema=task.schema).embedded_home)
    async with AsyncExitStack() as stack:
        if server:
            await asyncio.to_thread(server.acquire)
            stack.push_async_callback(asyncio.to_thread, server.release)
        yield await stack.enter_async_context(source)


async def _tallied(source: PostgresStoreSource, task: StoreImport, console: Console) -> SourceTally:
    tally = await source.tally()
    if task.prefix and not tally.items:
        raise NotFound(f"nothing is there below the prefix {task.prefix!r} at {source.location!r}")
    _tell(console, source.location, tally)
    return tally


async def _known_vectors(
    task: StoreImport, embedder: Embedder, tally: SourceTally
) -> PrecomputedVectors | None:
    if task.vectors_from is None:
        return None
    if task.vectors_from != embedder.model:
        raise InvalidInput(
            f"the vectors of {task.vectors_from!r} are of no use to the embedder"
            f" {embedder.model!r}: import with the embedder that made them, or leave out"
            " --vectors-from, and the texts are embedded anew"
        )
    if tally.dimensions is None:
        raise InvalidInput("this PostgresStore has no vectors to keep: leave out --vectors-from")
    dimensions = (await embedder.embed_query("dimensions")).shape[1]
    if tally.dimensions != dimensions:
        raise InvalidInput(
            f"the vectors there have {tally.dimensions} dimensions, those of"
            f" {embedder.model!r} {dimensions}: they are not from one model; leave out"
            " --vectors-from, and the texts are embedded anew"
        )
    return PrecomputedVectors(embedder)


def _langgraph() -> tuple[Callable[[Sequence[str]], Namespace], TextOfField]:
    """Return what knows how LangGraph writes labels and fields."""
    try:
        from langgraph_store.labels import from_labels
        from langgraph_store.operations import text_of_field
    except ModuleNotFoundError as error:
        raise InvalidInput(
            "importing a PostgresStore needs LangGraph: pip install 'pg-hippocampus[langgraph]'"
        ) from error
    return from_labels, text_of_field


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def _tell(console: Console, location: str, tally: SourceTally) -> None:
    vectors = f"{tally.embedded:,} with vectors"
    if tally.dimensions is not None:
        vectors += f" of {tally.dimensions} dimensions"
    line = (
        f"PostgresStore at {location}: {tally.items:,} items, {tally.expired:,} expired, {vectors}"
    )
    console.print(Text(line), soft_wrap=True)


def _tell_result(console: Console, report: ImportReport, took_s: float) -> None:
    parts = [f"{report.copied:,} copied", f"{report.here:,} were here already"]
    if report.newer:
        parts.append(f"{report.newer:,} are newer here and stay")
    if report.deleted:
        parts.append(f"{report.deleted:,} were deleted here since (--restore brings them back)")
    if report.expired:
        parts.append(f"{report.expired:,} had expired")
    parts.append(f"{report.failed:,} failed")
    rate = report.seen / max(took_s, 0.001)
    line = (
        f"Of {report.in_source:,} items {', '.join(parts)} ({took_s:.1f} s, {rate:,.0f} items/s)."
    )
    console.print(Text(line), soft_wrap=True)
    if report.complete:
        console.print(Text("The counts agree."))
    elif report.seen != report.in_source:
        console.print(
            Text(
                f"The counts do not agree: {report.seen:,} items were read, {report.in_source:,}"
                " are there now. The source has changed: import again for the rest.",
                style="red",
            ),
            soft_wrap=True,
        )
