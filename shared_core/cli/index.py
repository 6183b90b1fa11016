"""The command that builds vector indexes for large tenants."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.cli.layout import Grid
from shared_core.core.domain import JsonValue
from shared_core.core.locale import t
from shared_core.core.namespaces import from_path

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.jobs.index_maintenance import IndexStep

ACTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "build": ("gets an index", "建立索引"),
    "rebuild": ("gets a new index", "重建索引"),
    "drop": ("loses its index", "删除索引"),
    "keep": ("has an index", "已有索引"),
    "exact": ("stays exact", "保持精确检索"),
}


@cli.app.command()
@cli.chinese(
    """为大用户建立近似向量索引，并删除小用户的索引。

    期间仍可读写。请以数据表的所有者身份运行。worker 每小时也会做同样的事。
    HIPPOCAMPUS_ANN_THRESHOLD 是算作大用户的向量数。若另一个进程正在建索引，退出码为 1。
    """
)
def index(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help=both(
                "List the large tenants and build nothing.", "只列出大用户，不建立任何索引。"
            ),
        ),
    ] = False,
    as_json: cli.AsJson = False,
) -> None:
    """Build vector indexes for large tenants; drop those of small ones.

    Reads and writes go on meanwhile. Run it as the owner of the tables. A worker does the same once
    an hour. HIPPOCAMPUS_ANN_THRESHOLD is the number of vectors that makes a tenant large. Exit code
    1 if another process is building indexes.
    """

    def tell(piece: str | Text | Grid) -> None:
        cli.print_all([piece], err=as_json)

    steps = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: _plan(memory, tell) if dry_run else _build(memory, tell, silent=as_json),
    )
    if as_json:
        cli.print_json(None if steps is None else [_step_json(step) for step in steps])
    raise typer.Exit(0 if steps is not None else 1)


Tell: TypeAlias = Callable[[str | Text | Grid], None]


async def _plan(memory: MemoryEngine, tell: Tell) -> Sequence[IndexStep] | None:
    """Tell and return what would be done for the largest tenants. Writes nothing."""
    steps = await memory.indexes.plan()
    if not steps:
        tell(
            t(
                "No tenant is large enough for an index, and none has one.",
                "没有大到需要索引的用户，也没有已建的索引。",
            )
        )
    else:
        tell(_steps_table(steps))
    return steps


async def _build(memory: MemoryEngine, tell: Tell, *, silent: bool) -> Sequence[IndexStep] | None:
    """Build and drop indexes, tell each step, and return the steps.

    The result is None if another process is building indexes.
    """
    started = time.monotonic()
    with cli.progress_bar(silent=silent) as progress:
        bar = progress.add_task(t("Looking for large tenants", "正在查找大用户"), total=None)

        def begins(step: IndexStep) -> None:
            nonlocal started
            started = time.monotonic()
            progress.update(bar, description=_step_line(step))
            tell(f"… {_step_line(step)}")

        def done(step: IndexStep) -> None:
            seconds = time.monotonic() - started
            took = t(f"{seconds:.1f} s", f"{seconds:.1f} 秒")
            tell(Text(f"✓ {_step_line(step)}: {took}", style="green"))
            progress.advance(bar)

        steps = await memory.indexes.refresh(begins=begins, done=done)
    if steps is None:
        tell(
            t(
                "Another process is building indexes: nothing was done here.",
                "另一个进程正在建索引：这里没有做任何事。",
            )
        )
    elif not steps:
        tell(
            t(
                "Nothing to do: every large tenant has its index.",
                "无需处理：每个大用户都已有索引。",
            )
        )
    return steps


def _step_json(step: IndexStep) -> dict[str, JsonValue]:
    vectors = step.tenant.vectors if step.tenant else 0
    return {"of": list(_owner(step)), "action": step.action, "vectors": vectors}


def _steps_table(steps: Sequence[IndexStep]) -> Grid:
    rows = []
    for step in steps:
        vectors, tail = (step.tenant.vectors, step.tenant.tail) if step.tenant else (0, 0)
        not_indexed = f"{tail:,}" if step.old is not None else "–"
        rows.append((" / ".join(_owner(step)), f"{vectors:,}", not_indexed, _action(step)))
    names = (
        t("app / user", "应用 / 用户"), t("vectors", "向量数"), t("not in the index", "未入索引"),
        "",
    )  # fmt: skip
    return Grid(names=names, rows=rows, right=frozenset({1, 2}))


def _action(step: IndexStep) -> str:
    return t(*ACTIONS[step.action])


def _step_line(step: IndexStep) -> str:
    owner = " / ".join(_owner(step))
    if step.tenant is None:
        return f"{owner} {_action(step)}"
    count = f"{step.tenant.vectors:,}"
    return t(
        f"{owner} ({count} vectors) {_action(step)}", f"{owner}（{count} 个向量）{_action(step)}"
    )


def _owner(step: IndexStep) -> tuple[str, ...]:
    if step.tenant is not None:
        return tuple(step.tenant.namespace)
    assert step.old is not None
    return from_path(step.old.tenant)
