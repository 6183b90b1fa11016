"""What `hippocampus graph` shows."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from shared_core.domain import JsonValue
from shared_core.graph_ports import Edge


def edges_json(edges: Sequence[Edge]) -> list[JsonValue]:
    """Return edges as JSON values."""
    return [
        {
            "edge_id": str(edge.edge_id),
            "subject": edge.subject,
            "relation": edge.relation,
            "object": edge.object,
            "hops": edge.hops,
            "current": edge.current,
            "functional": edge.functional,
            "confidence": round(edge.confidence, 4),
            "valid_from": edge.valid_from.isoformat(),
            "valid_until": edge.valid_until.isoformat() if edge.valid_until else None,
            "recorded_at": edge.recorded_at.isoformat(),
            "superseded_at": edge.superseded_at.isoformat() if edge.superseded_at else None,
            "source_event_ids": list(edge.source_event_ids),
        }
        for edge in edges
    ]


def edges_table(edges: Sequence[Edge], *, history: bool) -> Table:
    """Return edges as a table; of a history with what no longer holds, dimmed, and ids."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("edge" if history else "hops", "subject", "relation", "object", "since", "until"):
        table.add_column(name, overflow="fold", no_wrap=name in ("edge", "since", "until"))
    table.add_column("from", overflow="fold")
    for edge in edges:
        table.add_row(
            str(edge.edge_id) if history else str(edge.hops),
            edge.subject,
            edge.relation,
            edge.object,
            f"{edge.valid_from:%Y-%m-%d}",
            f"{edge.valid_until:%Y-%m-%d}" if edge.valid_until else "",
            ", ".join(edge.source_event_ids),
            style="" if edge.current else "dim",
        )
    return table
