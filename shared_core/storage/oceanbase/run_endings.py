"""What a run ends: facts, edges, and what goes out of recall with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.errors import Conflict
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.fact_reopening import moment
from shared_core.storage.oceanbase.run_reads import shown
from shared_core.storage.oceanbase.run_records import note, rows_in, set_each

_ENDS = ("valid_until", "superseded_at")


def close_facts(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    close: Sequence[tuple[UUID, datetime]],
    now: datetime,
) -> None:
    """End facts; an end that is known and did not come yet comes earlier.

    Raises Conflict if one of them was ended or forgotten since the run read it.
    """
    until = dict(close)
    rows = rows_in(
        tx,
        "SELECT memory_id, valid_from, valid_until, superseded_at FROM facts"
        " WHERE tenant_id = %s AND memory_id IN %s",
        tenant,
        list(until),
    )
    ending = [row for row in rows if _may_end(row, until[row[0]], now)]
    if len(ending) != len(close):
        raise Conflict("a fact was changed by another run")
    _end(tx, "facts", "memory_id", tenant, run_id, "closed", ending, until, now)


def close_edges(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    close: Sequence[tuple[UUID, datetime]],
    with_facts: Sequence[tuple[UUID, datetime]],
    now: datetime,
) -> None:
    """End edges, and those that say again a fact that ends, of which no end has come."""
    until = dict(close)
    of_facts = dict(with_facts)
    columns = "edge_id, valid_from, valid_until, superseded_at, fact_id"
    where = "FROM edges WHERE tenant_id = %s AND"
    rows = {
        row[0]: row
        for ids, column in ((until, "edge_id"), (of_facts, "fact_id"))
        for row in rows_in(tx, f"SELECT {columns} {where} {column} IN %s", tenant, list(ids))
    }
    ending, ends = [], {}
    for edge_id, row in rows.items():
        given = (until.get(edge_id), of_facts.get(row[4]))
        possible = [at for at in given if at is not None and _may_end(row, at, now)]
        if possible:
            ending.append(row)
            ends[edge_id] = min(possible)
    _end(tx, "edges", "edge_id", tenant, run_id, "edge", ending, ends, now)


def move_edge_ends(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    moves: Sequence[tuple[UUID, datetime]],
    now: datetime,
) -> None:
    """Let ends that are known, but did not come yet, come earlier."""
    until = dict(moves)
    rows = rows_in(
        tx,
        "SELECT edge_id, valid_from, valid_until, superseded_at FROM edges"
        " WHERE tenant_id = %s AND edge_id IN %s",
        tenant,
        list(until),
    )
    moved = [row for row in rows if row[2] and row[2] > max(until[row[0]], row[1])]
    _end(tx, "edges", "edge_id", tenant, run_id, "edge", moved, until, now)


def _may_end(row: Row, until: datetime, now: datetime) -> bool:
    _, valid_from, valid_until, superseded_at, *_ = row
    if valid_until is None:
        return superseded_at is None
    return bool(valid_until > max(until, valid_from, now))


def _end(
    tx: Transaction,
    table: str,
    id_column: str,
    tenant: str,
    run_id: UUID,
    change: str,
    ending: Sequence[Row],
    until: Mapping[UUID, datetime],
    now: datetime,
) -> None:
    """End rows (id, valid_from, valid_until, superseded_at, ...), and note how they were."""
    ends = {row[0]: (max(until[row[0]], row[1]), now) for row in ending}
    set_each(tx, table, id_column, tenant, _ENDS, ends)
    note(tx, tenant, run_id, change, ((row[0], {}) for row in ending if row[2] is None))
    moved = (
        (row[0], {"valid_until": moment(row[2]), "superseded_at": moment(row[3])})
        for row in ending
        if row[2] is not None
    )
    note(tx, tenant, run_id, "moved", moved)


def retire_memories(
    tx: Transaction, tenant: str, run_id: UUID, ended: Sequence[UUID], now: datetime
) -> None:
    """Take ended facts out of recall, and statements of their turns that hold what has ended.

    Not those that another turn has told since the end.
    """
    going = {*ended, *_told_with(tx, tenant, ended)}
    _retire(tx, tenant, run_id, going, now)


def retire_drawn(tx: Transaction, tenant: str, run_id: UUID, now: datetime) -> None:
    """Take out of recall what was drawn from a memory that is out of recall."""
    drawn = tx.rows(
        "SELECT DISTINCT d.memory_id FROM memory_bases d"
        " JOIN memories b ON b.tenant_id = d.tenant_id AND b.memory_id = d.basis_id"
        " JOIN memories m ON m.tenant_id = d.tenant_id AND m.memory_id = d.memory_id"
        " WHERE d.tenant_id = %s AND b.superseded_at IS NOT NULL AND m.superseded_at IS NULL",
        tenant,
    )
    _retire(tx, tenant, run_id, [row[0] for row in drawn], now, own_too=True)


def _retire(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    memory_ids: Iterable[UUID],
    now: datetime,
    *,
    own_too: bool = False,
) -> None:
    """Take memories out of recall, and note which; own_too: also those that the run wrote."""
    living = "FROM memories WHERE tenant_id = %s AND memory_id IN %s AND superseded_at IS NULL"
    rows = list(rows_in(tx, f"SELECT memory_id, run_id {living}", tenant, sorted(memory_ids)))
    set_each(
        tx, "memories", "memory_id", tenant, ("superseded_at",), {row[0]: (now,) for row in rows}
    )
    noted = [row[0] for row in rows if own_too or row[1] != run_id]
    note(tx, tenant, run_id, "retired", ((one, {}) for one in noted), again=own_too)


def _told_with(tx: Transaction, tenant: str, ended: Sequence[UUID]) -> set[UUID]:
    """Return the statements that are no facts, of turns of facts that ended, and hold their value.

    But for those that a turn has told since the end that did not tell the fact.
    """
    pairs = {
        (fact, statement, valid_until)
        for fact, value, valid_until, statement, text in rows_in(
            tx,
            "SELECT f.memory_id, f.value, f.valid_until, m.memory_id, m.text"
            " FROM memory_sources s"
            " JOIN facts f ON f.tenant_id = s.tenant_id AND f.memory_id = s.memory_id"
            " JOIN memory_sources o ON o.tenant_id = s.tenant_id AND o.thread_id = s.thread_id"
            " AND o.event_id = s.event_id"
            " JOIN memories m ON m.tenant_id = o.tenant_id AND m.memory_id = o.memory_id"
            " LEFT JOIN facts x ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id"
            " WHERE s.tenant_id = %s AND s.memory_id IN %s AND m.kind = 'semantic'"
            " AND x.memory_id IS NULL",
            tenant,
            list(ended),
        )
        if shown(value).lower() in text.lower()
    }
    if not pairs:
        return set()
    turns_of_facts = _turns_of(tx, tenant, {fact for fact, _, _ in pairs})
    turns_of_statements = _turns_of(tx, tenant, {statement for _, statement, _ in pairs})

    def is_told_since(fact: UUID, statement: UUID, valid_until: datetime | None) -> bool:
        told_by = turns_of_statements[statement]
        return valid_until is not None and any(
            at >= valid_until and turn not in turns_of_facts[fact] for turn, at in told_by.items()
        )

    return {
        statement for fact, statement, until in pairs if not is_told_since(fact, statement, until)
    }


def _turns_of(
    tx: Transaction, tenant: str, memory_ids: Iterable[UUID]
) -> Mapping[UUID, Mapping[tuple[str, str], datetime]]:
    """Return the turns of memories, and when each was said."""
    turns: dict[UUID, dict[tuple[str, str], datetime]] = defaultdict(dict)
    for memory_id, thread_id, event_id, at in rows_in(
        tx,
        "SELECT s.memory_id, s.thread_id, s.event_id, e.occurred_at FROM memory_sources s"
        " JOIN events e ON e.tenant_id = s.tenant_id AND e.thread_id = s.thread_id"
        " AND e.event_id = s.event_id WHERE s.tenant_id = %s AND s.memory_id IN %s",
        tenant,
        sorted(memory_ids),
    ):
        turns[memory_id][thread_id, event_id] = at
    return turns
