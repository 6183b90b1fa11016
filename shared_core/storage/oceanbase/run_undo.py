"""Undoes runs: restores exactly what was before."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from shared_core.core.domain import Scope
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import scope_path
from shared_core.errors import Conflict, NotFound
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.edge_rows import require_entities
from shared_core.storage.oceanbase.facts import FACTS
from shared_core.storage.oceanbase.forgetting import delete_memories, drop_bases
from shared_core.storage.oceanbase.retention_fading import fade_again
from shared_core.storage.oceanbase.retention_timing import retime
from shared_core.storage.oceanbase.run_changes import require_places, restore_summary, retire_drawn
from shared_core.storage.oceanbase.run_records import RunChange, changes_of, set_each


class _UndoneRun(NamedTuple):
    """A run that is being undone."""

    run_id: UUID
    thread_id: str | None
    from_seq: int | None
    to_seq: int | None
    summed_from: int | None
    summed_to: int | None
    number: int
    undone_at: datetime | None


def undo_run(tx: Transaction, scope: Scope, run_id: UUID, now: datetime) -> None:
    """Restore what was before a run; the tenant is locked.

    Raises NotFound. Raises Conflict if it was undone already, a later run builds on it, or
    something else has taken the place of a fact or edge that it ended.
    """
    tenant = scope_path(scope)
    run = _find(tx, tenant, run_id)
    if run is None:
        raise NotFound(f"there is no run {run_id} of {scope}: engine.runs() lists them")
    if run.undone_at is not None:
        raise Conflict(f"run {run_id} was undone already, at {run.undone_at.isoformat()}")
    changes = changes_of(tx, tenant, run_id)
    _require_last(tx, tenant, run, changes)
    tx.update("runs", {"undone_at": now}, tenant, run_id=run_id)
    for change in changes:
        if change.change == "summary":
            restore_summary(tx, tenant, change, run.summed_from)
    _unwrite(tx, tenant, run_id)
    _reopen(tx, tenant, run, changes)
    _move_back(tx, tenant, run_id, changes)
    fade_again(tx, tenant, changes)
    retire_drawn(tx, tenant, run_id, now)
    _move_marks_back(tx, tenant, run)
    _restore_aliases(tx, tenant, changes)
    _require_free(tx, tenant, run_id, changes)
    require_entities(tx, tenant)
    retime(tx, tenant, [change.target for change in changes_of(tx, tenant, run_id)])


def _find(tx: Transaction, tenant: str, run_id: UUID) -> _UndoneRun | None:
    row = tx.one(
        "SELECT run_id, thread_id, from_seq, to_seq, summed_from_seq, summed_to_seq, number,"
        " undone_at FROM runs WHERE tenant_id = %s AND run_id = %s",
        [tenant, run_id],
    )
    return _UndoneRun(*row) if row else None


def _require_last(
    tx: Transaction, tenant: str, run: _UndoneRun, changes: Sequence[RunChange]
) -> None:
    later = _later_runs(tx, tenant, run, changes)
    if later:
        named = ", ".join(str(one) for one in later[:5])
        raise Conflict(
            f"{len(later)} later runs build on run {run.run_id}: undo them first, in this order:"
            f" {named}{', ...' if len(later) > 5 else ''}"
        )


def _later_runs(
    tx: Transaction, tenant: str, run: _UndoneRun, changes: Sequence[RunChange]
) -> list[UUID]:
    """Return later live runs that build on a run, the last one first.

    They read its thread further, change what it wrote or changed, or take a place that it freed.
    """
    rows = tx.rows(
        "SELECT run_id, thread_id, to_seq, summed_to_seq FROM runs"
        " WHERE tenant_id = %s AND undone_at IS NULL AND number > %s ORDER BY number DESC",
        [tenant, run.number],
    )
    if not rows:
        return []
    building = _building_on(tx, tenant, run, changes)

    def is_of_thread(thread_id: str | None, to_seq: int | None, summed_to: int | None) -> bool:
        if thread_id is None or thread_id != run.thread_id:
            return False
        reads_on = to_seq is not None and run.from_seq is not None and to_seq > run.from_seq
        return reads_on or (summed_to is not None and run.summed_to is not None)

    return [row[0] for row in rows if row[0] in building or is_of_thread(*row[1:])]


def _building_on(
    tx: Transaction, tenant: str, run: _UndoneRun, changes: Sequence[RunChange]
) -> set[UUID | None]:
    """Return the runs that changed rows of a run, or took a place that it freed."""
    touched = {one.target for one in changes if one.change not in ("rated", "bounded")}
    for table, column in (("memories", "memory_id"), ("edges", "edge_id"),
                          ("retractions", "retraction_id")):  # fmt: skip
        written = f"SELECT {column} FROM {table} WHERE tenant_id = %s AND run_id = %s"
        touched |= set(tx.column(written, [tenant, run.run_id]))
    changed = (
        "SELECT DISTINCT run_id FROM run_changes"
        " WHERE tenant_id = %s AND target IN %s AND `change` <> 'rated'"
    )
    found = set(tx.column_in(changed, [tenant, touched]))
    for table, source, writer, columns, kind in (
        ("facts", FACTS, "m.run_id", "memory_id, fact_type, `key`", "closed"),
        ("edges", "edges f", "f.run_id", "edge_id, subject_key, relation", "edge"),
    ):
        _, *place = columns.split(", ")
        taken = (
            f"SELECT DISTINCT {writer} FROM {source}"
            f" WHERE f.tenant_id = %s AND (f.{place[0]}, f.{place[1]}) IN %s"
        )
        freed = _places(tx, tenant, table, columns, kind, changes)
        found |= set(tx.column_in(taken, [tenant, freed]))
    return found


def _places(
    tx: Transaction,
    tenant: str,
    table: str,
    columns: str,
    change: str,
    changes: Sequence[RunChange],
) -> list[tuple[str, str]]:
    """Return the places of facts or edges that a run ended; columns: the id, then the place."""
    id_column = columns.partition(",")[0]
    ended = [one.target for one in changes if one.change == change]
    sql = f"SELECT {columns} FROM {table} WHERE tenant_id = %s AND {id_column} IN %s"
    return sorted({(row[1], row[2]) for row in tx.rows_in(sql, [tenant, ended])})


def _unwrite(tx: Transaction, tenant: str, run_id: UUID) -> None:
    """Delete the rows a run wrote, and memories derived from them."""
    for table in ("edges", "retractions", "memories"):
        tx.run(f"DELETE FROM {table} WHERE tenant_id = %s AND run_id = %s", [tenant, run_id])
    baseless = tx.rows(
        "SELECT d.memory_id FROM memory_bases d"
        " LEFT JOIN memories b ON b.tenant_id = d.tenant_id AND b.memory_id = d.basis_id"
        " WHERE d.tenant_id = %s AND b.memory_id IS NULL",
        [tenant],
    )
    delete_memories(tx, tenant, {row[0] for row in baseless})


def _reopen(tx: Transaction, tenant: str, run: _UndoneRun, changes: Sequence[RunChange]) -> None:
    """Let facts and edges that a run ended hold again, and restore changed memories."""
    for table, column, kind in (("facts", "memory_id", "closed"), ("edges", "edge_id", "edge")):
        tx.run_in(
            f"UPDATE {table} SET valid_until = NULL, superseded_at = NULL"
            f" WHERE tenant_id = %s AND {column} IN %s",
            [tenant, [one.target for one in changes if one.change == kind]],
        )
    _unsource(tx, tenant, run, [one for one in changes if one.change == "sourced"])
    _restore_memories(tx, tenant, changes)


def _unsource(tx: Transaction, tenant: str, run: _UndoneRun, added: Sequence[RunChange]) -> None:
    """Remove the sources that a run added to existing memories and edges."""
    bases = {(one.target, basis) for one in added for basis in one.before.get("bases", ())}
    for what in ("memory", "edge"):
        drop_bases(tx, what, tenant, bases)
    # Runs of an older version noted no bases; each of theirs was one turn.
    alone = sorted((one.target, one.event_id) for one in added if "bases" not in one.before)
    tx.run_in(
        "DELETE FROM memory_sources WHERE tenant_id = %s AND thread_id = %s"
        " AND (memory_id, event_id) IN %s",
        [tenant, run.thread_id, alone],
    )


def _restore_memories(tx: Transaction, tenant: str, changes: Sequence[RunChange]) -> None:
    """Restore the retirement, expiry and rating of memories."""
    by_target: dict[str, dict[UUID, RunChange]] = defaultdict(dict)
    for one in changes:
        by_target[one.change][one.target] = one
    retired: dict[UUID, tuple[object, ...]] = dict.fromkeys(by_target["retired"], (None,))
    set_each(tx, "memories", "memory_id", tenant, ("superseded_at",), retired)
    renewed = {target: (one.moment("expires_at"),) for target, one in by_target["renewed"].items()}
    set_each(tx, "memories", "memory_id", tenant, ("expires_at",), renewed)
    rated = by_target["rated"]
    held = tx.select("memories", "memory_id, value", tenant, memory_id=rated)
    before = {}
    for memory_id, value in held:
        was = rated[memory_id].before
        before[memory_id] = (was["importance"], _unfelt(value) if was.get("emotion") else value)
    set_each(tx, "memories", "memory_id", tenant, ("importance", "value"), before)


def _unfelt(text: str) -> str:
    """Return the value of a turn without the emotion in its metadata."""
    value: dict[str, Any] = json.loads(text)
    metadata = value.get("metadata")
    if isinstance(metadata, Mapping):
        others = {name: held for name, held in metadata.items() if name != "emotion"}
        value["metadata"] = others
        if not others and "emotion" in metadata:
            del value["metadata"]
    return to_json(value)


def _move_back(tx: Transaction, tenant: str, run_id: UUID, changes: Sequence[RunChange]) -> None:
    """Restore the ends of facts and edges, and the retirements, that a run moved."""
    moved = [one for one in changes if one.change == "moved"]
    ends = {one.target: (one.moment("valid_until"), one.moment("superseded_at")) for one in moved}
    for table, column in (("facts", "memory_id"), ("edges", "edge_id")):
        set_each(tx, table, column, tenant, ("valid_until", "superseded_at"), ends)
    tx.run("DELETE FROM fact_closures WHERE tenant_id = %s AND run_id = %s", [tenant, run_id])
    retired = {
        one.target: (one.moment("retired_at"),) for one in moved if "retired_at" in one.before
    }
    set_each(tx, "memories", "memory_id", tenant, ("superseded_at",), retired)


def _move_marks_back(tx: Transaction, tenant: str, run: _UndoneRun) -> None:
    """Move the marks of the thread back, and count its unread bytes again."""
    row = tx.select_one(
        "threads", "consolidated_seq, summarised_seq, unread_bytes", tenant, thread_id=run.thread_id
    )
    if row is None:
        return
    read_to, summed_to, unread = row
    if read_to == run.to_seq:
        read_to = run.from_seq
        [(size,)] = tx.rows(
            "SELECT sum(LENGTH(text)) FROM events"
            " WHERE tenant_id = %s AND thread_id = %s AND memory_seq > %s",
            [tenant, run.thread_id, run.from_seq],
        )
        unread = int(size or 0)
    if summed_to == run.summed_to:
        summed_to = run.summed_from
    tx.run(
        "UPDATE threads SET consolidated_seq = %s, summarised_seq = %s, unread_bytes = %s"
        " WHERE tenant_id = %s AND thread_id = %s",
        [read_to, summed_to, unread, tenant, run.thread_id],
    )


def _restore_aliases(tx: Transaction, tenant: str, changes: Sequence[RunChange]) -> None:
    """Separate the names that a run merged, and merge those it separated."""
    moved = [one for one in changes if one.change == "moved"]
    for how, verb in (
        ("added", "DELETE FROM entity_aliases"),
        ("ended", "UPDATE entity_aliases SET unmerged_at = NULL"),
    ):
        tx.run_in(
            f"{verb} WHERE tenant_id = %s AND alias_id IN %s",
            [tenant, [one.target for one in moved if one.before.get("alias") == how]],
        )


def _require_free(tx: Transaction, tenant: str, run_id: UUID, changes: Sequence[RunChange]) -> None:
    """Raise Conflict if something else has taken the place of a fact, edge or alias."""
    back = [one.target for one in changes if one.change in ("closed", "edge", "moved")]
    if tx.has(
        "SELECT alias_key FROM entity_aliases WHERE tenant_id = %s AND unmerged_at IS NULL"
        " GROUP BY alias_key HAVING count(*) > 1 LIMIT 1",
        [tenant],
    ):
        raise _taken(run_id)
    try:
        require_places(tx, tenant, back, back)
    except Conflict as error:
        raise _taken(run_id) from error


def _taken(run_id: UUID) -> Conflict:
    return Conflict(
        f"run {run_id} cannot be undone: what it ended cannot hold again, because something"
        " that no run wrote has taken its place"
    )
