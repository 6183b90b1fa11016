"""What runs leave behind: their record, and what was before each of their changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from shared_core.core.json_text import to_json
from shared_core.ports.runs import RunPlan
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, pages

SET_AT_ONCE = 200
"""Rows that one UPDATE gives a value each."""

_RUNS = (
    "tenant_id", "run_id", "kind", "thread_id", "extractor", "from_seq", "to_seq",
    "summed_from_seq", "summed_to_seq", "counts", "started_at", "finished_at", "number",
)  # fmt: skip


class Change(NamedTuple):
    """A row of run_changes: what was done to which row, by which turn, and what was before."""

    change: str
    target: UUID
    event_id: str
    before: dict[str, Any]

    def moment(self, name: str) -> datetime | None:
        """Return a moment of before."""
        text = self.before.get(name)
        return datetime.fromisoformat(text) if text else None


def last_number(tx: Transaction, tenant: str) -> int:
    """Return the number of the last run of a tenant, 0 before the first."""
    [(number,)] = tx.rows("SELECT max(number) FROM runs WHERE tenant_id = %s", tenant)
    return int(number or 0)


def add_run(tx: Transaction, tenant: str, plan: RunPlan, now: datetime) -> None:
    """Add the record of a run, under the next number; the tenant is locked."""
    read, summed = plan.read, plan.summed
    values = (
        tenant, plan.run_id, str(plan.kind), plan.thread_id, plan.extractor,
        read.mark if read else None, read.to if read else None,
        summed.mark if summed else None, summed.to if summed else None,
        to_json(plan.counts), plan.started_at, now, last_number(tx, tenant) + 1,
    )  # fmt: skip
    tx.insert("runs", _RUNS, [values])


def note(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    change: str,
    targets: Iterable[tuple[UUID, Mapping[str, object]]],
    *,
    again: bool = False,
) -> None:
    """Note what a run changed, and what was before. again: what is noted already is passed over."""
    note_of_turns(
        tx, tenant, run_id, change, ((one, "", before) for one, before in targets), again=again
    )


def note_of_turns(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    change: str,
    targets: Iterable[tuple[UUID, str, Mapping[str, object]]],
    *,
    again: bool = False,
) -> None:
    """Note what a run changed by a turn each."""
    tx.insert(
        "run_changes",
        ("tenant_id", "run_id", "`change`", "target", "event_id", "`before`"),
        (
            (tenant, run_id, change, target, event_id, to_json(before))
            for target, event_id, before in targets
        ),
        ignore=again,
    )


def changes_of(tx: Transaction, tenant: str, run_id: UUID) -> list[Change]:
    """Return what a run changed."""
    rows = tx.rows(
        "SELECT `change`, target, event_id, `before` FROM run_changes"
        " WHERE tenant_id = %s AND run_id = %s",
        tenant,
        run_id,
    )
    return [Change(row[0], row[1], row[2], json.loads(row[3])) for row in rows]


def rows_in(
    tx: Transaction, sql: str, tenant: str, listed: Sequence[object], *values: object
) -> Iterator[Row]:
    """Yield the rows of a query whose %s are a tenant, a list that may be long, and values."""
    for page in pages(listed):
        yield from tx.rows(sql, tenant, page, *values)


def set_each(
    tx: Transaction,
    table: str,
    id_column: str,
    tenant: str,
    columns: Sequence[str],
    values: Mapping[UUID, Sequence[object]],
) -> None:
    """Give rows, named by their ids, values of their own, many with one statement."""
    for page in pages(list(values), SET_AT_ONCE):
        cases, bound = [], []
        for place, column in enumerate(columns):
            whens = " WHEN %s THEN %s" * len(page)
            cases.append(f"{column} = CASE {id_column}{whens} ELSE {column} END")
            bound += [part for one in page for part in (one, values[one][place])]
        tx.run(
            f"UPDATE {table} SET {', '.join(cases)} WHERE tenant_id = %s AND {id_column} IN %s",
            *bound,
            tenant,
            page,
        )
