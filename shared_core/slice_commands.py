"""How `hippocampus timeline` shows a stretch of time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shared_core.slices import TimeSlice

BAR = 40
"""Columns of the longest bar."""


def lines(found: TimeSlice) -> Iterator[RenderableType]:
    """Yield the time that was meant, bars for the parts if they were counted, and each memory."""
    yield Text(f"{_moment(found.begin, 'the beginning')} to {_moment(found.end, 'now and after')}")
    if found.buckets:
        yield _bars(found)
    scores = {hit.memory.memory_id: hit.score for hit in found.hits}
    for memory in found.memories:
        about = [f"{memory.occurred_at.astimezone():%Y-%m-%d %H:%M}", memory.kind, memory.author]
        if memory.thread_id:
            about.append(f"session {memory.thread_id}")
        if memory.memory_id in scores:
            about.append(f"score {scores[memory.memory_id]:.2f}")
        yield Text(" · ".join(part for part in about if part), style="dim").append(
            f"\n  {memory.text}", style="not dim"
        )
    if not found.memories:
        yield Text("Nothing is remembered of that time.")


def _bars(found: TimeSlice) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("from", "memories", ""):
        table.add_column(name, justify="right" if name == "memories" else "left")
    most = max(one.count for one in found.buckets) or 1
    for one in found.buckets:
        bar = "█" * -(-BAR * one.count // most)
        table.add_row(f"{one.begin:%Y-%m-%d %H:%M}", f"{one.count:,}", bar)
    return table


def _moment(moment: datetime | None, otherwise: str) -> str:
    return otherwise if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M}"
