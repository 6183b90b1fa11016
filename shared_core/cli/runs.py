"""The command that lists and undoes runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.cli.layout import Grid
from shared_core.core.domain import JsonValue, Scope
from shared_core.core.ids import chosen_id, whole_id
from shared_core.core.locale import t
from shared_core.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared_core.engine import MemoryEngine
    from shared_core.ports.runs import RunRecord

MAX_RUNS = 100_000
"""Maximum number of runs that are searched for the beginning or the end of an id."""
PART_OF_ID = re.compile(r"[0-9a-fA-F-]+")


@cli.app.command()
@cli.chinese(
    """列出用户的整理与反思运行，新的在前；可撤销其中一次。

    若后来的运行建立在它之上，请先撤销后来的：错误信息会按顺序列出。
    """
)
def runs(
    app_name: cli.App,
    user: cli.User,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    thread: Annotated[
        str | None, typer.Option(help=both("Only runs of this thread.", "只列这个会话线程的运行。"))
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help=both("Maximum number of runs.", "最多列出几次运行。"))
    ] = 20,
    undo: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help=both(
                "Undo this run: its id, or the beginning or the end of the id.",
                "撤销这次运行：它的编号，或编号的开头或结尾。",
            ),
        ),
    ] = None,
    read_all: Annotated[
        bool,
        typer.Option(
            "--all",
            help=both(
                "Have the model read the turns that runs skipped because they tell nothing.",
                "让模型阅读各次运行因内容无关紧要而跳过的对话。",
            ),
        ),
    ] = False,
    llm: cli.Llm = None,
    as_json: cli.AsJson = False,
) -> None:
    """List the consolidation and reflection runs of a user; undo one.

    Undo later runs first if they build on the run: the error names them in order.
    """
    if undo is not None and whole_id(undo) is None and not PART_OF_ID.fullmatch(undo.strip()):
        raise cli.Malformed(
            t(
                f"run_id must be a UUID, or its beginning or end, got {undo!r}",
                f"运行的编号必须是 UUID，或它的开头或结尾，收到的是 {undo!r}",
            )
        )
    scope = Scope(app_name, user)
    if read_all:
        _read_all(scope, uri, schema, llm, as_json)
        return
    memory = cli.open_memory(uri, schema=schema, worker=False)
    if undo is not None:
        name = undo
        run_id = cli.with_memory(memory, lambda memory: _undo(memory, scope, name))
        text = t(f"Run {run_id} is undone.", f"运行 {run_id} 已撤销。")
        cli.report(text, {"undone": str(run_id)}, as_json)
        return
    found = cli.with_memory(
        memory, lambda memory: memory.runs(scope, thread_id=thread, limit=limit)
    )
    if as_json:
        cli.print_json([_run_json(run) for run in found], indent=2)
    elif found:
        cli.print_all([_runs_table(found)])
    else:
        cli.say(t("There are no runs yet.", "还没有运行。"))


async def _undo(memory: MemoryEngine, scope: Scope, name: str) -> UUID:
    """Undo the run that a name means, and return its id. Raises NotFound for an unknown id."""
    command = f"hippocampus runs {scope.app} {scope.user}"
    run_id = whole_id(name)
    if run_id is None:
        known = await memory.runs(scope, limit=MAX_RUNS)
        ids = [run.run_id for run in known if run.undone_at is None]
        run_id = chosen_id(name, ids, what="run", shown_by=command)
    try:
        await memory.undo_run(scope, run_id)
    except NotFound as error:
        raise NotFound(
            t(
                f"there is no run {run_id} of {scope}: {command} lists the runs",
                f"{scope} 没有运行 {run_id}：{command} 列出全部运行",
            )
        ) from error
    return run_id


def _read_all(
    scope: Scope, uri: str | None, schema: str | None, llm: str | None, as_json: bool
) -> None:
    """Have the model read what runs skipped, and say what it made of it."""
    memory = cli.open_memory(uri, schema=schema, llm=cli.ready_model(llm), worker=False)
    report, left = cli.with_memory(memory, lambda memory: memory.runs.read_skipped(scope))
    done = {"turns": report.events, "facts": report.facts_opened, "left": len(left)}
    text = t(
        f"{report.events} turns were read, {report.facts_opened} facts found;"
        f" {len(left)} runs are left because later ones build on them.",
        f"读取了 {report.events} 条对话，得到 {report.facts_opened} 个事实；"
        f"{len(left)} 次运行因后来的运行建立在其上而保留。",
    )
    cli.report(text, done, as_json)


def _run_json(run: RunRecord) -> dict[str, JsonValue]:
    return {
        "run_id": str(run.run_id),
        "kind": run.kind,
        "thread_id": run.thread_id,
        "extractor": run.extractor,
        "counts": run.counts,
        "started_at": run.started_at.isoformat(),
        "finished_at": run.finished_at.isoformat(),
        "undone_at": cli.iso(run.undone_at),
    }


def _runs_table(found: Sequence[RunRecord]) -> Grid:
    rows = []
    for run in found:
        changes = _changes(run.counts)
        if run.undone_at:
            changes = t(f"undone: {changes}", f"已撤销：{changes}")
        when = f"{run.finished_at:%Y-%m-%d %H:%M:%S}"
        row = (str(run.run_id), when, run.kind, run.thread_id or "", run.extractor, changes)
        rows.append(row)
    names = (
        t("run", "运行"), t("when", "时间"), t("kind", "种类"), t("thread", "会话线程"),
        t("by", "执行者"), t("what it changed", "改动"),
    )  # fmt: skip
    return Grid(names=names, rows=rows)


def _changes(counts: Mapping[str, JsonValue]) -> str:
    changes = [f"{count} {name.replace('_', ' ')}" for name, count in counts.items()
               if isinstance(count, int) and count]  # fmt: skip
    if "instead_of" in counts:
        before = counts["instead_of"]
        changes.append(t(f"in place of {before}", f"取代 {before}"))
    return ", ".join(changes) or t("nothing", "无")
