"""Records runs, and the state before each of their changes, so that they can be undone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.json_text import to_json
from shared_core.policies.run_records import RunChange
from shared_core.storage.oceanbase.connection.transactions import Transaction, pages

SET_AT_ONCE = 200
"""Maximum number of rows in one UPDATE that gives each its own value."""


def last_number(tx: Transaction, tenant: str) -> int:
    """Return the number of the last run of a tenant, 0 before the first."""
    [(number,)] = tx.rows("SELECT max(number) FROM runs WHERE tenant_id = %s", [tenant])
    return int(number or 0)


def insert_run(tx: Transaction, tenant: str, columns: Mapping[str, object]) -> None:
    """Insert a run under the next number; the caller has locked the tenant."""
    row = {"tenant_id": tenant, "number": last_number(tx, tenant) + 1, **columns}
    tx.insert("runs", tuple(row), [tuple(row.values())])


def insert_caller_run(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    now: datetime,
    kind: str,
    counts: Mapping[str, object],
    extractor: str = "caller",
) -> None:
    """Insert a run of one moment that reads no thread; the caller has locked the tenant."""
    columns = {"run_id": run_id, "kind": kind, "extractor": extractor, "counts": to_json(counts)}
    insert_run(tx, tenant, {**columns, "started_at": now, "finished_at": now})


def note(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    change: str,
    targets: Iterable[tuple[UUID, Mapping[str, object]]],
    *,
    again: bool = False,
) -> None:
    """Note the rows a run changed and their values before; again: skip rows that are noted."""
    with_turns = ((one, "", before) for one, before in targets)
    note_of_turns(tx, tenant, run_id, change, with_turns, again=again)


def note_of_turns(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    change: str,
    targets: Iterable[tuple[UUID, str, Mapping[str, object]]],
    *,
    again: bool = False,
) -> None:
    """Note rows as note() does, each with the turn that changed it."""
    tx.insert(
        "run_changes",
        ("tenant_id", "run_id", "`change`", "target", "event_id", "`before`"),
        ((tenant, run_id, change, one, event_id, to_json(old)) for one, event_id, old in targets),
        ignore=again,
    )


def ends_before(valid_until: datetime | None, superseded_at: datetime | None) -> dict[str, object]:
    """Return the end of a fact or an edge as run_changes keeps it."""
    return {"valid_until": iso(valid_until), "superseded_at": iso(superseded_at)}


def iso(moment: datetime | None) -> str | None:
    """Return a timestamp as run_changes keeps it."""
    return moment.isoformat() if moment is not None else None


def changes_of(tx: Transaction, tenant: str, run_id: UUID) -> list[RunChange]:
    """Return the changes of a run."""
    rows = tx.select("run_changes", "`change`, target, event_id, `before`", tenant, run_id=run_id)
    return [RunChange(row[0], row[1], row[2], json.loads(row[3])) for row in rows]


def set_each(
    tx: Transaction,
    table: str,
    id_column: str,
    tenant: str,
    columns: Sequence[str],
    values: Mapping[UUID, Sequence[object]],
) -> None:
    """Update rows by id, each with its own values, many with one statement."""
    for page in pages(list(values), SET_AT_ONCE):
        cases, bound = [], []
        for place, column in enumerate(columns):
            branches = " WHEN %s THEN %s" * len(page)
            cases.append(f"{column} = CASE {id_column}{branches} ELSE {column} END")
            bound += [part for one in page for part in (one, values[one][place])]
        tx.run(
            f"UPDATE {table} SET {', '.join(cases)} WHERE tenant_id = %s AND {id_column} IN %s",
            [*bound, tenant, page],
        )
