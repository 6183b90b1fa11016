"""What `hippocampus runs` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

from shared_core.domain import JsonValue
from shared_core.run_ports import RunRecord


def runs_json(found: Sequence[RunRecord]) -> list[JsonValue]:
    """Return runs as JSON values."""
    return [
        {
            "run_id": str(run.run_id),
            "kind": run.kind,
            "thread_id": run.thread_id,
            "extractor": run.extractor,
            "counts": run.counts,
            "started_at": run.started_at.isoformat(),
            "finished_at": run.finished_at.isoformat(),
            "undone_at": run.undone_at.isoformat() if run.undone_at else None,
        }
        for run in found
    ]


def runs_table(found: Sequence[RunRecord]) -> Table:
    """Return runs as a table."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("run", "when", "kind", "thread", "by", "what it changed"):
        table.add_column(name, overflow="fold", no_wrap=name == "run")
    for run in found:
        done = _told(run.counts)
        table.add_row(
            str(run.run_id),
            f"{run.finished_at:%Y-%m-%d %H:%M:%S}",
            run.kind,
            run.thread_id or "",
            run.extractor,
            f"undone: {done}" if run.undone_at else done,
        )
    return table


def _told(counts: Mapping[str, JsonValue]) -> str:
    told = [f"{count} {name.replace('_', ' ')}" for name, count in counts.items()
            if isinstance(count, int) and count]  # fmt: skip
    if "instead_of" in counts:
        told.append(f"in place of {counts['instead_of']}")
    return ", ".join(told) or "nothing"
