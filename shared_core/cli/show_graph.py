"""What `hippocampus graph` shows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from shared_core.cli.app import word_table
from shared_core.core.domain import JsonValue
from shared_core.core.ids import short_id
from shared_core.ports.graph import Edge


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
    """Return edges as a table; of a history with what no longer holds, dimmed, and ends of ids."""
    names = (
        "edge" if history else "hops",
        "subject",
        "relation",
        "object",
        "since",
        "until",
        "from",
    )
    rows = [
        (
            short_id(edge.edge_id) if history else str(edge.hops),
            edge.subject,
            edge.relation,
            edge.object,
            f"{edge.valid_from:%Y-%m-%d}",
            f"{edge.valid_until:%Y-%m-%d}" if edge.valid_until else "",
            ", ".join(map(short_id, edge.source_event_ids)),
        )
        for edge in edges
    ]
    return word_table(names, rows, dim=[not edge.current for edge in edges])
