"""Copies the items of a LangGraph PostgresStore, those of langmem included, into this memory."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.cli.layout import print_on
from shared_core.core.domain import Namespace, Scope
from shared_core.core.event_loops import until_done
from shared_core.core.locale import t
from shared_core.core.namespaces import check_label, memories_namespace
from shared_core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from shared_core.models.embedders import PrecomputedVectors
    from shared_core.ports.transfer import SourceItem, SourceTally
    from shared_core.storage.postgres.langgraph_tables import PostgresStoreSource
    from shared_core.transfer.importing import ImportReport, TextOfField

MAX_BATCH = 10_000
"""Maximum number of items in one read."""

USER_LABEL = "{user}"
"""Stands for the label of a namespace that names the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreImport:
    """The import of a LangGraph PostgresStore.

    Attributes:
        dsn: Where the PostgresStore is. It may be in the same database.
        uri, schema, embedder: The memory to write, as in open_memory().
        prefix: Only namespaces below these labels, joined by dots.
        batch: Number of items in one read.
        vectors_from: The model that made the store's vectors. They are kept; the embedder must be
            of the same model.
        reembed: Embed every item again, existing ones included.
        restore: Also write items that were imported before and deleted here since.
        app: Items become memories of this application's users, beside what its agents remember.
        namespace: With app, the labels of the items: "memories.{user}". Deeper labels stay; items
            elsewhere are counted and not copied.
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
    app: str | None = None
    namespace: str = f"memories.{USER_LABEL}"

    def __post_init__(self) -> None:
        if self.app is not None:
            check_label(self.app, "app")
        if self.namespace.split(".").count(USER_LABEL) != 1 or not all(self.namespace.split(".")):
            raise InvalidInput(
                t(
                    f"namespace must name one label {USER_LABEL}, e.g. 'memories.{USER_LABEL}' or"
                    f" '{USER_LABEL}.memories', got {self.namespace!r}",
                    f"namespace 里要有且只有一段 {USER_LABEL}，如 'memories.{USER_LABEL}' 或"
                    f" '{USER_LABEL}.memories'，收到的是 {self.namespace!r}",
                )
            )
        if not 1 <= self.batch <= MAX_BATCH:
            raise InvalidInput(
                t(
                    f"batch must be between 1 and {MAX_BATCH:,}, got {self.batch}",
                    f"batch 必须在 1 和 {MAX_BATCH:,} 之间，收到的是 {self.batch}",
                )
            )
        if self.reembed and self.vectors_from:
            raise InvalidInput(
                t(
                    "give either --vectors-from (keep the vectors) or --reembed (make them again)",
                    "--vectors-from（保留向量）和 --reembed（重新计算）只能选一个",
                )
            )


def run_store_import(task: StoreImport, *, dry_run: bool, as_json: bool) -> None:
    screen = None if as_json else cli.console()
    if dry_run:
        tally = asyncio.run(count_items(task, screen))
        if as_json:
            cli.print_json(dataclasses.asdict(tally))
        return
    done = asyncio.run(import_store(task, screen, cli.console(stderr=True)))
    if as_json:
        cli.print_json(dataclasses.asdict(done) | {"complete": done.complete})
    raise typer.Exit(0 if done.complete else 1)


async def count_items(task: StoreImport, console: Console | None = None) -> SourceTally:
    """Print and return the number of items to import. Writes nothing, here or there."""
    async with _source(task) as source:
        return await _tallied(source, task, console or Console(quiet=True))


async def import_store(
    task: StoreImport, console: Console | None = None, errors: Console | None = None
) -> ImportReport:
    """Copy a PostgresStore into this memory and return what became of its items.

    console: receives the progress, if it is a terminal, and the result. errors: receives one line
    per item that failed.
    """
    from shared_core.open import open_memory
    from shared_core.transfer.importing import ImportOptions, import_items

    console = console or Console(quiet=True)
    errors = errors or Console(quiet=True)
    started = time.monotonic()
    async with _source(task) as source:
        tally = await _tallied(source, task, console)
        known = await _known_vectors(task, tally)
        from_labels, text_of_field = _langgraph()
        options = ImportOptions(
            to_namespace=_user_namespace(task, from_labels) if task.app else from_labels,
            text_of_field=text_of_field,
            batch=task.batch,
            known=known,
            embedded_only=bool(tally.embedded) and not task.reembed,
            reembed=task.reembed,
            restore=task.restore,
            mask=task.app is not None,
        )

        def failed(item: SourceItem, reason: str) -> None:
            line = " ".join(f"{item.prefix!r} / {item.key!r}: {reason}".split())
            print_on(errors, [Text(f"✗ {line}", style="red")])

        async with open_memory(
            task.uri, schema=task.schema, embedder=known or task.embedder, worker=False
        ) as memory:
            with cli.progress_bar(console) as progress:
                bar = progress.add_task(t("items", "条目"), total=tally.items)
                report = await import_items(
                    memory.imported_items,
                    source,
                    options,
                    failed=failed,
                    advanced=lambda count: progress.advance(bar, count),
                )
    _print_result(console, report, time.monotonic() - started)
    return report


@asynccontextmanager
async def _source(task: StoreImport) -> AsyncIterator[PostgresStoreSource]:
    """Open the source, and start the embedded PostgreSQL that it is in, if any."""
    from shared_core.storage.postgres.langgraph_tables import PostgresStoreSource

    source = PostgresStoreSource(task.dsn, below=task.prefix)
    async with serving(task.dsn, task.uri, task.schema), source:
        yield source


@asynccontextmanager
async def serving(dsn: str, uri: str | Path | None, schema: str | None) -> AsyncIterator[None]:
    """Run the embedded PostgreSQL that a DSN names, if it names one."""
    from shared_core.settings import load_settings
    from shared_core.storage.postgres.connection.embedded import embedded_behind

    server = embedded_behind(dsn, load_settings(uri, schema=schema).embedded_home)
    async with AsyncExitStack() as stack:
        if server:
            stack.push_async_callback(asyncio.to_thread, server.release)
            await until_done(asyncio.to_thread(server.acquire))
        yield


async def _tallied(source: PostgresStoreSource, task: StoreImport, console: Console) -> SourceTally:
    """Count, print and return the items of a source. Raises NotFound for an empty prefix."""
    tally = await source.tally()
    if task.prefix and not tally.items:
        raise NotFound(
            t(
                f"there are no items below the prefix {task.prefix!r} at {source.location!r}",
                f"{source.location!r} 中前缀 {task.prefix!r} 之下没有条目",
            )
        )
    wide = f" of {tally.dimensions} dimensions" if tally.dimensions is not None else ""
    dimensions = f"（{tally.dimensions} 维）" if tally.dimensions is not None else ""
    line = t(
        f"PostgresStore at {source.location}: {tally.items:,} items, {tally.expired:,} expired,"
        f" {tally.embedded:,} with vectors{wide}",
        f"PostgresStore 位于 {source.location}：{tally.items:,} 条，{tally.expired:,} 条已过期，"
        f"{tally.embedded:,} 条有向量{dimensions}",
    )
    print_on(console, [line])
    return tally


async def _known_vectors(task: StoreImport, tally: SourceTally) -> PrecomputedVectors | None:
    """Return an embedder that keeps the vectors of the store, or None without --vectors-from."""
    from shared_core.models.embedders import PrecomputedVectors, embedder_of, resolve_embedder

    if task.vectors_from is None:
        return None
    way_out = t(
        "leave out --vectors-from to embed the texts again", "去掉 --vectors-from 就会重新计算向量"
    )
    chosen = task.embedder
    embedder = resolve_embedder(chosen) if chosen else embedder_of(task.vectors_from)
    if embedder is None:
        raise InvalidInput(
            t(
                f"no bundled embedder makes vectors of {task.vectors_from!r}: name the one that"
                f" made them with --embedder, or {way_out}",
                f"自带的嵌入模型都不生成 {task.vectors_from!r} 的向量：请用 --embedder 指明生成它们"
                f"的模型；{way_out}",
            )
        )
    if task.vectors_from != embedder.model:
        raise InvalidInput(
            t(
                f"the embedder {embedder.model!r} cannot use vectors of {task.vectors_from!r}:"
                f" import with the embedder that made them, or {way_out}",
                f"嵌入模型 {embedder.model!r} 用不了 {task.vectors_from!r} 的向量：请用生成它们的"
                f"模型导入；{way_out}",
            )
        )
    if tally.dimensions is None:
        raise InvalidInput(
            t(
                "this PostgresStore has no vectors to keep: leave out --vectors-from",
                "这个 PostgresStore 里没有向量可保留：请去掉 --vectors-from",
            )
        )
    dimensions = (await embedder.embed_query("dimensions")).shape[1]
    if tally.dimensions != dimensions:
        raise InvalidInput(
            t(
                f"the vectors in the store have {tally.dimensions} dimensions, those of"
                f" {embedder.model!r} have {dimensions}: they are not from one model; {way_out}",
                f"其中的向量是 {tally.dimensions} 维，{embedder.model!r} 的是 {dimensions} 维，不是"
                f"同一个模型；{way_out}",
            )
        )
    return PrecomputedVectors(embedder)


def _user_namespace(
    task: StoreImport, from_labels: Callable[[Sequence[str]], Namespace]
) -> Callable[[Sequence[str]], Namespace | None]:
    """Return the function that maps labels to the memories of the user they name, or to None."""
    pattern = task.namespace.split(".")
    place = pattern.index(USER_LABEL)

    def mapped(labels: Sequence[str]) -> Namespace | None:
        below = labels[: len(pattern)]
        same = [one for at, one in enumerate(below) if at != place]
        if len(below) < len(pattern) or same != [*pattern[:place], *pattern[place + 1 :]]:
            return None
        [user] = from_labels([below[place]])
        rest = from_labels(labels[len(pattern) :])
        return (*memories_namespace(Scope(str(task.app), user)), *rest)

    return mapped


def _langgraph() -> tuple[Callable[[Sequence[str]], Namespace], TextOfField]:
    """Return the functions that read LangGraph's labels and fields."""
    try:
        from langgraph_store.labels import from_labels
        from langgraph_store.operations import text_of_field
    except ModuleNotFoundError as error:
        raise InvalidInput(
            t(
                "importing a PostgresStore needs LangGraph:"
                " pip install 'pg-hippocampus[langgraph]'",
                "导入 PostgresStore 需要 LangGraph：pip install 'pg-hippocampus[langgraph]'",
            )
        ) from error
    return from_labels, text_of_field


def _print_result(console: Console, report: ImportReport, took_s: float) -> None:
    counted = [
        (report.copied, "copied", "已复制", True),
        (report.here, "were here already", "原已存在", True),
        (report.newer, "are newer here and stay", "在这里更新，保持不变", False),
        (
            report.deleted,
            "were deleted here since (--restore brings them back)",
            "后来在这里删除（--restore 可恢复）",
            False,
        ),
        (
            report.elsewhere,
            "are of no user (see --namespace)",
            "不属于任何用户（见 --namespace）",
            False,
        ),
        (report.expired, "had expired", "已过期", False),
        (report.failed, "failed", "失败", True),
    ]
    counts = [(f"{n:,} {en}", f"{n:,} 条{zh}") for n, en, zh, always in counted if n or always]
    took, rate = f"{took_s:.1f}", f"{report.seen / max(took_s, 0.001):,.0f}"
    source = f"{report.in_source:,}"
    lines: list[str | Text] = [
        t(
            f"Of {source} items {', '.join(en for en, _ in counts)} ({took} s, {rate} items/s).",
            f"共 {source} 条：{'，'.join(zh for _, zh in counts)}（{took} 秒，每秒 {rate} 条）。",
        )
    ]
    if report.complete:
        lines.append(t("The counts agree.", "数目一致。"))
    elif report.seen != report.in_source:
        text = t(
            f"The counts do not agree: {report.seen:,} items were read, and the source has"
            f" {source} now. It has changed: import again for the rest.",
            f"数目不一致：读取了 {report.seen:,} 条，而来源现在有 {source} 条。来源已变化："
            "请再导入一次。",
        )
        lines.append(Text(text, style="red"))
    print_on(console, lines)
