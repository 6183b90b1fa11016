"""How `hippocampus context --explain` shows a window: what each line costs and why it is there."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shared_core.context.window import ContextItem, ContextWindow
from shared_core.core.domain import SCORE_PARTS

TABLE_WIDTH = 120
"""Columns that a table needs; a narrower terminal folds it."""
MOST_CHARACTERS = 160
"""So much of a text is shown."""


def explained(window: ContextWindow) -> Iterator[RenderableType]:
    """Yield a table of what is shown, one of what was left out, and the sum."""
    yield _table([(item, "") for item in window.items])
    if window.dropped:
        yield Text("left out", style="bold")
        yield _table([(one.item, one.reason) for one in window.dropped])
    sections = dict.fromkeys(item.section for item in window.items)
    told = ", ".join(
        f"{name} {sum(item.tokens for item in window.section(name)):,}" for name in sections
    )
    used = f"{window.total_tokens:,} of {window.max_tokens:,} tokens ({window.budget_used:.0%})"
    yield Text(f"{used}: {told}")


def _table(rows: list[tuple[ContextItem, str]]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), expand=True
    )
    table.add_column("line", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("text", overflow="fold", ratio=3)
    table.add_column("score", overflow="fold", ratio=1)
    table.add_column("why", overflow="fold", ratio=1)
    for item, reason in rows:
        about = Text(item.text[:MOST_CHARACTERS] + "…" * (len(item.text) > MOST_CHARACTERS))
        if source := _source(item):
            about.append(f"\n{source}", style="dim")
        cost = f"{item.tokens:,}" if item.tokens else ""
        table.add_row(item.ref, cost, about, _score(item), reason or ("cut" if item.cut else ""))
    return table


def _score(item: ContextItem) -> str:
    if item.score is None:
        return ""
    parts = [f"{item.score_parts[name]:+.2f} {name}" for name in SCORE_PARTS
             if item.score_parts.get(name)]  # fmt: skip
    return " ".join([f"{item.score:.2f}", *(["=", *parts] if parts else [])])


def _source(item: ContextItem) -> str:
    told = [item.kind, item.author]
    if item.valid_from:
        told.append(f"since {item.valid_from:%Y-%m-%d}")
    elif item.occurred_at:
        told.append(f"{item.occurred_at:%Y-%m-%d %H:%M} UTC")
    if item.valid_until:
        told.append(f"until {item.valid_until:%Y-%m-%d}")
    if item.thread_id:
        told.append(f"session {item.thread_id}")
    if item.source_event_ids:
        first, *others = item.source_event_ids
        told.append(f"event {first}" + (f" and {len(others)} more" if others else ""))
    return " · ".join(part for part in told if part)
