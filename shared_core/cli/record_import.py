"""Imports exports and stores of other products, with progress and counts."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.cli.layout import Grid
from shared_core.cli.store_import import serving
from shared_core.core.locale import t

if TYPE_CHECKING:
    from shared_core.transfer.record_import import RecordCounts, RecordOptions, RecordReport
    from shared_core.transfer.sources import RecordSource

KINDS = ("turns", "statements", "facts")
KIND_NAMES = {"turns": "对话", "statements": "陈述", "facts": "事实"}
COLUMNS = {
    "read": ("read", "读取"), "written": ("written", "写入"), "here": ("here already", "原已存在"),
    "deleted": ("forgotten here", "在此遗忘"), "failed": ("failed", "失败"),
}  # fmt: skip
ALWAYS = ("read", "written", "here")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecordImport:
    """The import of another product. dsn: where the source is a database, else None."""

    source: RecordSource
    options: RecordOptions
    dsn: str | None = None
    uri: str | None = None
    schema: str | None = None
    embedder: str | None = None


def run_record_import(task: RecordImport, *, dry_run: bool, as_json: bool) -> None:
    """Import, print the report, and exit with 1 if a record failed."""
    memory = cli.open_memory(task.uri, schema=task.schema, embedder=task.embedder, worker=False)

    async def run() -> RecordReport:
        async with AsyncExitStack() as stack:
            if task.dsn is not None:
                await stack.enter_async_context(serving(task.dsn, task.uri, task.schema))
            # Not entered: a source that cannot be read must not make a database.
            stack.push_async_callback(memory.close)
            progress = stack.enter_context(cli.progress_bar(silent=as_json))
            bars = {}

            def advanced(step: str, done: int, total: int) -> None:
                if step not in bars:
                    bars[step] = progress.add_task(step, total=total or None)
                progress.update(bars[step], completed=done)

            if dry_run:
                return await memory.imports.check(task.source, task.options, progress=advanced)
            return await memory.imports.run(
                task.source, task.options, progress=advanced, failed=_print_failure
            )

    report = asyncio.run(run())
    if as_json:
        cli.print_json(report.to_dict())
    else:
        _print_report(task, report, dry_run=dry_run)
    raise typer.Exit(0 if report.complete else 1)


def _print_failure(name: str, reason: str) -> None:
    line = " ".join(f"{name!r}: {reason}".split())
    cli.print_all([Text(f"✗ {line}", style="red")], err=True)


def _print_report(task: RecordImport, report: RecordReport, *, dry_run: bool) -> None:
    found: list[tuple[str, RecordCounts]] = [
        (kind, outcome) for kind in KINDS if (outcome := getattr(report, kind)).read
    ]
    source, app = f"{task.source.name} ({report.product})", task.options.app
    count = f"{len(report.users):,}"
    users, who = f"{count} users", f"{count} 个用户"
    if len(report.users) == 1:
        users = who = repr(report.users[0])
    many = "thread" if report.threads == 1 else "threads"
    threads = f", in {report.threads:,} {many}" if report.threads else ""
    of_threads = f"，共 {report.threads:,} 个会话线程" if report.threads else ""
    head = t(
        f"{source}, for {users} of {app!r}{threads}", f"{source}，用于 {app!r} 的 {who}{of_threads}"
    )
    names = [
        name
        for name in COLUMNS
        if name in ALWAYS or any(getattr(outcome, name) for _, outcome in found)
    ]
    names = names[:1] if dry_run else names
    rows = [
        (t(kind, KIND_NAMES[kind]), *(f"{getattr(outcome, name):,}" for name in names))
        for kind, outcome in found
    ]
    heads = ("", *(t(*COLUMNS[name]) for name in names))
    table = Grid(names=heads, rows=rows, right=frozenset(range(1, len(heads))))
    after = [
        t(f"Skipped: {number:,} {reason}.", f"跳过 {number:,}：{reason}。")
        for reason, number in report.skipped.most_common()
    ]
    if report.turns.deleted or report.statements.deleted or report.facts.deleted:
        after.append(
            t(
                "--restore brings back what was forgotten here.",
                "--restore 可以恢复在这里遗忘的内容。",
            )
        )
    if dry_run:
        after.append(t("Nothing was written.", "没有写入任何内容。"))
    cli.print_all([head, *([table] if found else []), *after])
