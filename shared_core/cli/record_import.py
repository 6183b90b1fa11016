"""Imports exports and stores of other products, with progress and counts."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
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
STEPS = {"Reading": "读取", "Importing": "导入", "Consolidating": "整理"}
ENTRIES = {
    "conversations": "会话", "messages": "消息", "episodes": "episode ", "edges": "边",
    "memories": "记忆", "passages": "归档记忆",
}  # fmt: skip
LACKS = {
    "without text": "没有文字", "without an id": "没有 ID",
    "without a readable time": "时间无法识别",
}  # fmt: skip
REASONS = {
    **{
        f"{entry} {lack}": f"{of_entry}{of_lack}"
        for entry, of_entry in ENTRIES.items()
        for lack, of_lack in LACKS.items()
    },
    "entries of an unknown form": "格式无法识别",
    "of other users": "属于其他用户",
    "of no user (give --user)": "没有注明用户（请用 --user 指定）",
    "tool, system and reasoning messages": "工具、系统和推理消息",
    "messages of an unknown sender": "发送者未知的消息",
    "messages on other branches": "其他分支上的消息",
    "attached files": "附件",
    "memories of Claude itself": "Claude 自己的记忆",
    "projects": "项目",
    "expired memories": "已到期的记忆",
    "deleted passages": "已删除的归档记忆",
    "blocks 'persona', which describe the agent": "描述智能体的 persona 块",
    "events of the agent": "智能体的事件",
    "summaries of entities": "实体摘要",
    "episodes of kind 'json', whose facts are edges": "json 类 episode，内容已在边里",
    "episodes of kind 'fact_triple', whose facts are edges": "fact_triple 类 episode，内容已在边里",
    "ended edges whose entities are not in the file": "已失效、且文件里没有实体名称的边",
    "ended facts that tell a secret": "已失效、且含有敏感信息的事实",
}
"""Why entries are skipped, in Chinese."""


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
                    bars[step] = progress.add_task(t(step, STEPS[step]), total=total or None)
                progress.update(bars[step], completed=done)

            if dry_run:
                return await memory.imports.check(task.source, task.options, progress=advanced)
            return await memory.imports.run(
                task.source, task.options, progress=advanced, failed=_print_failure,
                checked=begun.append,
            )  # fmt: skip

    begun: list[RecordReport] = []
    with telling_interruption(lambda: _interrupted(begun)):
        report = asyncio.run(run())
    if as_json:
        cli.print_json(report.to_dict())
    else:
        _print_report(task, report, dry_run=dry_run)
    raise typer.Exit(0 if report.complete else 1)


@contextmanager
def telling_interruption(line: Callable[[], str]) -> Iterator[None]:
    """After Ctrl-C print a line on standard error, and exit with 130 as shells do."""
    try:
        yield
    except KeyboardInterrupt as error:
        cli.print_all([line()], err=True)
        raise typer.Exit(130) from error


def _interrupted(begun: Sequence[RecordReport]) -> str:
    """Return what is here after an interruption. begun: the report, once anything was written."""
    if not begun:
        return t("Interrupted: nothing was written.", "已中断：没有写入任何内容。")
    found = [(kind, outcome) for kind in KINDS if (outcome := getattr(begun[0], kind)).read]
    numbers = [
        (kind, f"{outcome.written + outcome.here:,}", f"{outcome.read:,}")
        for kind, outcome in found
    ]
    here = ", ".join(f"{number} of {total} {kind}" for kind, number, total in numbers)
    here_zh = "，".join(
        f"{KIND_NAMES[kind]} {number}/{total} 条" for kind, number, total in numbers
    )
    return t(
        f"Interrupted: {here} are here; the same command goes on from there.",
        f"已中断：{here_zh}已导入；再次运行同一命令即可继续。",
    )


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
        t(f"Skipped: {number:,} {reason}.", f"跳过 {number:,} 条：{REASONS.get(reason, reason)}。")
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
