"""The command that builds vector indexes for large tenants."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.core.domain import JsonValue
from shared_core.core.namespaces import from_path

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.jobs.index_maintenance import IndexStep

ACTIONS = {
    "build": "gets an index",
    "rebuild": "gets a new index",
    "drop": "loses its index",
    "keep": "has an index",
    "exact": "stays exact",
}


@cli.app.command()
def index(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the large tenants and build nothing.")
    ] = False,
    as_json: cli.AsJson = False,
) -> None:
    """Build approximate vector indexes for large tenants, and drop those of small ones.

    Reads and writes go on meanwhile. Run it as the owner of the tables. A worker does the same once
    an hour. HIPPOCAMPUS_ANN_THRESHOLD is the number of vectors that makes a tenant large. Exit code
    1 if another process is building indexes.
    """
    screen = cli.console(stderr=as_json)
    steps = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: _plan(memory, screen) if dry_run else _build(memory, screen),
    )
    if as_json:
        cli.print_json(None if steps is None else [_step_json(step) for step in steps])
    raise typer.Exit(0 if steps is not None else 1)


async def _plan(memory: MemoryEngine, screen: Console) -> Sequence[IndexStep] | None:
    """Print and return what would be done for the largest tenants. Writes nothing."""
    steps = await memory.indexes.plan()
    if not steps:
        screen.print("No tenant is large enough for an index, and none has one.")
    else:
        screen.print(_steps_table(steps))
    return steps


async def _build(memory: MemoryEngine, screen: Console) -> Sequence[IndexStep] | None:
    """Build and drop indexes, print each step, and return the steps.

    The result is None if another process is building indexes.
    """
    started = time.monotonic()

    def begins(step: IndexStep) -> None:
        nonlocal started
        started = time.monotonic()
        screen.print(Text(f"… {_step_line(step)}"), soft_wrap=True)

    def done(step: IndexStep) -> None:
        seconds = time.monotonic() - started
        screen.print(Text(f"✓ {_step_line(step)}: {seconds:.1f} s", style="green"), soft_wrap=True)

    steps = await memory.indexes.refresh(begins=begins, done=done)
    if steps is None:
        screen.print("Another process is building indexes: nothing was done here.")
    elif not steps:
        screen.print("Nothing to do: every large tenant has its index.")
    return steps


def _step_json(step: IndexStep) -> dict[str, JsonValue]:
    vectors = step.tenant.vectors if step.tenant else 0
    return {"of": list(_owner(step)), "action": step.action, "vectors": vectors}


def _steps_table(steps: Sequence[IndexStep]) -> Table:
    table = cli.plain_table("app", "user", "vectors", "not in the index", "")
    for step in steps:
        vectors, tail = (step.tenant.vectors, step.tenant.tail) if step.tenant else (0, 0)
        not_indexed = f"{tail:,}" if step.old is not None else "–"
        table.add_row(*_owner(step), f"{vectors:,}", not_indexed, ACTIONS[step.action])
    return table


def _step_line(step: IndexStep) -> str:
    vectors = f" ({step.tenant.vectors:,} vectors)" if step.tenant else ""
    return f"{' / '.join(_owner(step))}{vectors} {ACTIONS[step.action]}"


def _owner(step: IndexStep) -> tuple[str, ...]:
    if step.tenant is not None:
        return tuple(step.tenant.namespace)
    assert step.old is not None
    return from_path(step.old.tenant)
