"""How `hippocampus timeline` shows a stretch of time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shared_core.recall.time_slices import TimeSlice

BAR = 40
"""Columns of the longest bar."""


def lines(found: TimeSlice, zone: tzinfo | None = None) -> Iterator[RenderableType]:
    """Yield the time that was meant, bars for the parts if they were counted, and each memory.

    zone: in which times are told; None for this machine's.
    """
    begin = _moment(found.begin, zone, "the beginning")
    end = _moment(found.end, zone, "now and after")
    yield Text(f"{begin} to {end} ({_name(found, zone)})")
    if found.buckets:
        yield _bars(found, zone)
    scores = {hit.memory.memory_id: hit.score for hit in found.hits}
    for memory in found.memories:
        about = [
            f"{memory.occurred_at.astimezone(zone):%Y-%m-%d %H:%M}",
            memory.kind,
            memory.author,
        ]
        if memory.thread_id:
            about.append(f"session {memory.thread_id}")
        if memory.memory_id in scores:
            about.append(f"score {scores[memory.memory_id]:.2f}")
        yield Text(" · ".join(part for part in about if part), style="dim").append(
            f"\n  {memory.text}", style="not dim"
        )
    if not found.memories:
        yield Text("Nothing is remembered of that time.")


def _bars(found: TimeSlice, zone: tzinfo | None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("from", "memories", ""):
        table.add_column(name, justify="right" if name == "memories" else "left")
    most = max(one.count for one in found.buckets) or 1
    for one in found.buckets:
        bar = "█" * -(-BAR * one.count // most)
        table.add_row(_moment(one.begin, zone, ""), f"{one.count:,}", bar)
    return table


def _moment(moment: datetime | None, zone: tzinfo | None, otherwise: str) -> str:
    return otherwise if moment is None else f"{moment.astimezone(zone):%Y-%m-%d %H:%M}"


def _name(found: TimeSlice, zone: tzinfo | None) -> str:
    if zone is not None:
        return str(zone)
    then = (found.begin or found.end or datetime.now().astimezone()).astimezone()
    return f"{then.tzname()}, this machine's time"
