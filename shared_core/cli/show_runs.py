"""What `hippocampus runs` shows, and which run it means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from uuid import UUID

from rich import box
from rich.table import Table

from shared_core.core.domain import JsonValue, Scope
from shared_core.core.ids import chosen_id, whole_id
from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput, NotFound
from shared_core.ports.runs import RunRecord

MOST_RUNS = 100_000
PART_OF_ID = re.compile(r"[0-9a-fA-F-]+")


async def named_run(memory: MemoryEngine, scope: Scope, name: str) -> UUID:
    """Return the id of a run by that id, or by how the id of one that holds begins or ends.

    Raises InvalidInput for a name that is no part of an id, or means no run, or more than one.
    """
    run_id = whole_id(name)
    if run_id is not None:
        return run_id
    check_run_name(name)
    runs = await memory.runs(scope, limit=MOST_RUNS)
    ids = [run.run_id for run in runs if run.undone_at is None]
    command = f"hippocampus runs {scope.app} {scope.user}"
    return chosen_id(name, ids, what="run", shown_by=command)


def check_run_name(name: str) -> None:
    """Raise InvalidInput for what can be no part of an id."""
    if not PART_OF_ID.fullmatch(name.strip()):
        raise InvalidInput(f"run_id must be a UUID, or how one begins or ends, not {name!r}")


async def undo(memory: MemoryEngine, scope: Scope, name: str) -> UUID:
    """Undo the run that name means, as named_run() finds it, and return its id.

    Raises NotFound, with the command that shows runs, for an id of none.
    """
    run_id = await named_run(memory, scope, name)
    try:
        await memory.undo_run(scope, run_id)
    except NotFound as error:
        raise NotFound(
            f"there is no run {run_id} of {scope}: hippocampus runs {scope.app} {scope.user}"
            " shows them"
        ) from error
    return run_id


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
