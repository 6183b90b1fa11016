"""The record of a run, and of the state before each of its changes, so that it can be undone.

The log (run_changes) holds ids, moments and numbers, never the text of a user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from shared_core.ports.operations import Aggregate, Insert, Operation, Row, Select, equal

LAST_NUMBER = Select("runs", (Aggregate("max", "number"),))
"""Reads the number of a tenant's last run; last_number() takes its rows."""
_CHANGE = ("change", "target", "event_id", "before")


class RunChange(NamedTuple):
    """A row of run_changes: the change, its row, the turn that caused it, the values before."""

    change: str
    target: UUID
    event_id: str
    before: Mapping[str, Any]

    def moment(self, name: str) -> datetime | None:
        """Return a moment among the values before."""
        text = self.before.get(name)
        return datetime.fromisoformat(text) if text else None


def last_number(rows: Sequence[Row]) -> int:
    """Return the number of the last run from the rows of LAST_NUMBER, 0 before the first."""
    return int(rows[0][0] or 0)


def added_run(last: Sequence[Row], values: Mapping[str, object]) -> Insert:
    """Return what records a run as the next one.

    last: the rows of LAST_NUMBER, read under the tenant's lock. values: the other columns.
    """
    row = {**values, "number": last_number(last) + 1}
    return Insert("runs", tuple(row), [tuple(row.values())])


def caller_run(
    run_id: UUID,
    kind: str,
    counts: Mapping[str, object],
    now: datetime,
    last: Sequence[Row],
    extractor: str = "caller",
) -> Insert:
    """Return what records a run of one moment that reads no thread; last: as in added_run()."""
    values = {"run_id": run_id, "kind": kind, "extractor": extractor, "counts": counts}
    return added_run(last, {**values, "started_at": now, "finished_at": now})


def select_changes(run_id: UUID) -> Select:
    """Return what reads the changes of a run; changes_of() takes its rows."""
    return Select("run_changes", _CHANGE, (equal("run_id", run_id),))


def changes_of(rows: Iterable[Row]) -> list[RunChange]:
    """Return the changes of a run from the rows of select_changes()."""
    return [RunChange(*row) for row in rows]


def noted(
    run_id: UUID, change: str, targets: Iterable[tuple[UUID, Mapping[str, Any]]]
) -> list[Operation]:
    """Return what notes rows that a run changed, each with its values before."""
    return logged(run_id, (RunChange(change, target, "", before) for target, before in targets))


def logged(run_id: UUID, changes: Iterable[RunChange]) -> list[Operation]:
    """Return what writes the log of a run."""
    rows = [(run_id, *one) for one in changes]
    return [Insert("run_changes", ("run_id", *_CHANGE), rows)] if rows else []


def ends_before(
    valid_until: datetime | None, superseded_at: datetime | None
) -> dict[str, str | None]:
    """Return the end of a fact or an edge as run_changes keeps it."""
    return {"valid_until": iso(valid_until), "superseded_at": iso(superseded_at)}


def iso(moment: datetime | None) -> str | None:
    """Return a moment as run_changes keeps it."""
    return moment.isoformat() if moment is not None else None
