"""Records runs, and the state before each of their changes, so that they can be undone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from shared_core.core.json_text import to_json
from shared_core.policies.run_records import RunChange
from shared_core.storage.oceanbase.connection.transactions import Transaction


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
) -> None:
    """Note the rows a run changed and their values before."""
    tx.insert(
        "run_changes",
        ("tenant_id", "run_id", "`change`", "target", "event_id", "`before`"),
        ((tenant, run_id, change, one, "", to_json(before)) for one, before in targets),
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
