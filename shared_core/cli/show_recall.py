"""How `hippocampus recall` shows what it found: in lines, as a table, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shared_core.core.domain import SCORE_PARTS, Hit
from shared_core.ports.recall import RecallResult

TABLE_WIDTH = 120
"""Columns that a table of every part needs; a narrower terminal folds it."""


def lines(hits: Sequence[Hit]) -> Iterator[Text]:
    """Yield each hit as lines: the text, its score and parts, where it comes from, its key."""
    for position, hit in enumerate(hits, start=1):
        parts = hit.parts
        text = Text(f"{position}. {hit.memory.text}\n", style="bold")
        summed = " ".join(f"{parts[name]:+.2f} {name}" for name in SCORE_PARTS if parts.get(name))
        raw = f"BM25 {parts['bm25']:.2f}"
        if "similarity" in parts:
            raw = f"cosine {parts['similarity']:.2f}, {raw}"
        text.append(f"   score {hit.score:.2f} = {summed} ({raw})\n", style="not bold")
        text.append(f"   {_source(hit)}\n", style="not bold")
        text.append(f"   key {hit.memory.key}", style="not bold dim")
        yield text


def explained(found: RecallResult) -> Iterator[RenderableType]:
    """Yield a table with a row for each hit and a column for each part of a score."""
    names = [name for name in SCORE_PARTS if any(hit.parts.get(name) for hit in found)]
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), expand=True
    )
    table.add_column("")
    table.add_column("memory", overflow="fold", ratio=3, min_width=12)
    for name in ("score", *names, "cosine"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("words", overflow="fold", ratio=1, min_width=6)
    for position, hit in enumerate(found, start=1):
        about = Text(hit.memory.text).append(f"\n{_source(hit)}", style="dim")
        cosine = hit.parts.get("similarity")
        table.add_row(
            f"{position}",
            about,
            f"{hit.score:.2f}",
            *(f"{hit.parts.get(name, 0):+.2f}" for name in names),
            "" if cosine is None else f"{cosine:.2f}",
            Text(", ".join(hit.matched)),
        )
    yield table
    if found.degraded:
        yield Text("The embedder is down: words alone found this.", style="yellow")


def json_lines(hits: Sequence[Hit]) -> Iterator[str]:
    """Yield each hit as a JSON object in one line."""
    for hit in hits:
        yield json.dumps(hit.to_dict(), ensure_ascii=False)


def _source(hit: Hit) -> str:
    memory = hit.memory
    told = [memory.kind, memory.author, f"{memory.occurred_at:%Y-%m-%d %H:%M} UTC"]
    if memory.thread_id:
        told.append(f"session {memory.thread_id}")
    if memory.source_event_ids and memory.kind != "summary":
        told.append(f"event {', '.join(memory.source_event_ids)}")
    return " · ".join(part for part in told if part)
