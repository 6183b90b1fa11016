"""What `hippocampus index` does: builds what large tenants have earned, and says so."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shared_core.core.domain import JsonValue
from shared_core.core.namespaces import from_path
from shared_core.engine import MemoryEngine
from shared_core.jobs.index_maintenance import IndexStep

WORDS = {
    "build": "gets an index",
    "rebuild": "gets a new index",
    "drop": "loses its index",
    "keep": "has an index",
    "exact": "stays exact",
}


async def show_plan(memory: MemoryEngine, console: Console) -> Sequence[IndexStep]:
    """List and return the largest tenants and what would be done. Writes nothing."""
    async with memory:
        steps = await memory.indexes.plan()
    if not steps:
        console.print("No tenant is large enough for an index, and none has one.")
    else:
        console.print(_table(steps))
    return steps


async def build_indexes(memory: MemoryEngine, console: Console) -> Sequence[IndexStep] | None:
    """Do what the plan says, tell each step and return them; None if another process is at it."""
    started = time.monotonic()

    def begins(step: IndexStep) -> None:
        nonlocal started
        started = time.monotonic()
        console.print(Text(f"… {_told(step)}"), soft_wrap=True)

    def done(step: IndexStep) -> None:
        seconds = time.monotonic() - started
        console.print(Text(f"✓ {_told(step)}: {seconds:.1f} s", style="green"), soft_wrap=True)

    async with memory:
        steps = await memory.indexes.refresh(begins=begins, done=done)
    if steps is None:
        console.print("Another process is building indexes: nothing was done here.")
    elif not steps:
        console.print("Nothing to do: every tenant has what it has earned.")
    return steps


def steps_json(steps: Sequence[IndexStep] | None) -> JsonValue:
    """Return steps as JSON values; null for none because another process is at it."""
    if steps is None:
        return None
    return [
        {
            "of": list(_who(step)),
            "action": step.action,
            "vectors": step.tenant.vectors if step.tenant else 0,
        }
        for step in steps
    ]


def _table(steps: Sequence[IndexStep]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("app", "user", "vectors", "not in the index", ""):
        table.add_column(name, overflow="fold")
    for step in steps:
        vectors, tail = (step.tenant.vectors, step.tenant.tail) if step.tenant else (0, 0)
        shown_tail = f"{tail:,}" if step.old is not None else "–"
        table.add_row(*_who(step), f"{vectors:,}", shown_tail, WORDS[step.action])
    return table


def _told(step: IndexStep) -> str:
    vectors = f" ({step.tenant.vectors:,} vectors)" if step.tenant else ""
    return f"{' / '.join(_who(step))}{vectors} {WORDS[step.action]}"


def _who(step: IndexStep) -> tuple[str, ...]:
    if step.tenant is not None:
        return tuple(step.tenant.namespace)
    assert step.old is not None
    return from_path(step.old.tenant)
