"""What was before a run, put back exactly."""

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
from shared_core.storage.oceanbase.connection.transactions import Transaction, pages
from shared_core.storage.oceanbase.forgetting import delete_memories
from shared_core.storage.oceanbase.retention_fading import fade_again
from shared_core.storage.oceanbase.retention_timing import retime
from shared_core.storage.oceanbase.run_changes import require_places, restore_summary, retire_drawn
from shared_core.storage.oceanbase.run_records import Change, changes_of, rows_in, set_each

ALIASES_CHANGED = "another call changed the aliases: try again"


class _UndoneRun(NamedTuple):
    """A run that is to be undone."""

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

    Raises NotFound; Conflict if it was undone already, a later run builds on it, or something that
    no run names has taken the place of what it ended.
    """
    tenant = scope_path(scope)
    run = _find(tx, tenant, run_id)
    if run is None:
        raise NotFound(f"there is no run {run_id} of {scope}: engine.runs() lists them")
    if run.undone_at is not None:
        raise Conflict(f"run {run_id} was undone already, at {run.undone_at.isoformat()}")
    changes = changes_of(tx, tenant, run_id)
    _require_last(tx, tenant, run, changes)
    tx.run(
        "UPDATE runs SET undone_at = %s WHERE tenant_id = %s AND run_id = %s", now, tenant, run_id
    )
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
    _require_entities(tx, tenant)
    retime(tx, tenant, [change.target for change in changes_of(tx, tenant, run_id)])


def _find(tx: Transaction, tenant: str, run_id: UUID) -> _UndoneRun | None:
    row = tx.one(
        "SELECT run_id, thread_id, from_seq, to_seq, summed_from_seq, summed_to_seq, number,"
        " undone_at FROM runs WHERE tenant_id = %s AND run_id = %s",
        tenant,
        run_id,
    )
    return _UndoneRun(*row) if row else None


def _require_last(tx: Transaction, tenant: str, run: _UndoneRun, changes: Sequence[Change]) -> None:
    later = _later_runs(tx, tenant, run, changes)
    if later:
        named = ", ".join(str(one) for one in later[:5])
        raise Conflict(
            f"{len(later)} later runs build on run {run.run_id}: undo them first, in this order:"
            f" {named}{', ...' if len(later) > 5 else ''}"
        )


def _later_runs(
    tx: Transaction, tenant: str, run: _UndoneRun, changes: Sequence[Change]
) -> list[UUID]:
    """Return live runs that came after a run and build on it, the last one first.

    Those of its thread, and on what it wrote or changed. Who took a place that it freed builds on
    that.
    """
    rows = tx.rows(
        "SELECT run_id, thread_id, to_seq, summed_to_seq FROM runs"
        " WHERE tenant_id = %s AND undone_at IS NULL AND number > %s ORDER BY number DESC",
        tenant,
        run.number,
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
    tx: Transaction, tenant: str, run: _UndoneRun, changes: Sequence[Change]
) -> set[UUID | None]:
    """Return which runs changed what a run wrote or changed, or took a place that it freed."""
    touched = {one.target for one in changes if one.change not in ("rated", "bounded")}
    for table, column in (("memories", "memory_id"), ("edges", "edge_id"),
                          ("retractions", "retraction_id")):  # fmt: skip
        written = f"SELECT {column} FROM {table} WHERE tenant_id = %s AND run_id = %s"
        touched |= {row[0] for row in tx.rows(written, tenant, run.run_id)}
    changed = (
        "SELECT DISTINCT run_id FROM run_changes"
        " WHERE tenant_id = %s AND target IN %s AND `change` <> 'rated'"
    )
    found = {row[0] for row in rows_in(tx, changed, tenant, list(touched))}
    freed = _places(tx, tenant, "facts", "memory_id, fact_type, `key`", "closed", changes)
    for page in pages(freed):
        taken = (
            "SELECT DISTINCT m.run_id FROM facts f"
            " JOIN memories m ON m.tenant_id = f.tenant_id AND m.memory_id = f.memory_id"
            " WHERE f.tenant_id = %s AND (f.fact_type, f.`key`) IN %s"
        )
        found |= {row[0] for row in tx.rows(taken, tenant, page)}
    freed = _places(tx, tenant, "edges", "edge_id, subject_key, relation", "edge", changes)
    for page in pages(freed):
        taken = (
            "SELECT DISTINCT run_id FROM edges"
            " WHERE tenant_id = %s AND (subject_key, relation) IN %s"
        )
        found |= {row[0] for row in tx.rows(taken, tenant, page)}
    return found


def _places(
    tx: Transaction, tenant: str, table: str, columns: str, change: str, changes: Sequence[Change]
) -> list[tuple[str, str]]:
    """Return the places of facts, or edges, that a run ended; columns: the id, and the place."""
    id_column = columns.partition(",")[0]
    ended = [one.target for one in changes if one.change == change]
    sql = f"SELECT {columns} FROM {table} WHERE tenant_id = %s AND {id_column} IN %s"
    return sorted({(row[1], row[2]) for row in rows_in(tx, sql, tenant, ended)})


def _unwrite(tx: Transaction, tenant: str, run_id: UUID) -> None:
    """Delete what a run wrote, with all that hangs on it, and what was drawn from that."""
    for table in ("edges", "retractions", "memories"):
        tx.run(f"DELETE FROM {table} WHERE tenant_id = %s AND run_id = %s", tenant, run_id)
    baseless = tx.rows(
        "SELECT d.memory_id FROM memory_bases d"
        " LEFT JOIN memories b ON b.tenant_id = d.tenant_id AND b.memory_id = d.basis_id"
        " WHERE d.tenant_id = %s AND b.memory_id IS NULL",
        tenant,
    )
    delete_memories(tx, tenant, {row[0] for row in baseless})


def _reopen(tx: Transaction, tenant: str, run: _UndoneRun, changes: Sequence[Change]) -> None:
    """What a run had ended holds again, and what it had changed is as it was."""
    for table, column, kind in (("facts", "memory_id", "closed"), ("edges", "edge_id", "edge")):
        for page in pages([one.target for one in changes if one.change == kind]):
            tx.run(
                f"UPDATE {table} SET valid_until = NULL, superseded_at = NULL"
                f" WHERE tenant_id = %s AND {column} IN %s",
                tenant,
                page,
            )
    _unsource(tx, tenant, run, [one for one in changes if one.change == "sourced"])
    _restore_memories(tx, tenant, changes)


def _unsource(tx: Transaction, tenant: str, run: _UndoneRun, added: Sequence[Change]) -> None:
    """Take back turns that memories and edges were drawn from."""
    bases = {(one.target, basis) for one in added for basis in one.before.get("bases", ())}
    for page in pages(sorted(bases)):
        for what in ("memory", "edge"):
            tx.run(
                f"DELETE FROM {what}_sources WHERE tenant_id = %s AND ({what}_id, basis) IN %s",
                tenant,
                page,
            )
    # Runs of an older library noted no bases: theirs were of one turn each.
    alone = sorted((one.target, one.event_id) for one in added if "bases" not in one.before)
    for page in pages(alone):
        tx.run(
            "DELETE FROM memory_sources WHERE tenant_id = %s AND thread_id = %s"
            " AND (memory_id, event_id) IN %s",
            tenant,
            run.thread_id,
            page,
        )


def _restore_memories(tx: Transaction, tenant: str, changes: Sequence[Change]) -> None:
    """Put back when memories were retired and expired, and how they were rated."""
    by_target: dict[str, dict[UUID, Change]] = defaultdict(dict)
    for one in changes:
        by_target[one.change][one.target] = one
    retired: dict[UUID, tuple[object, ...]] = dict.fromkeys(by_target["retired"], (None,))
    set_each(tx, "memories", "memory_id", tenant, ("superseded_at",), retired)
    renewed = {target: (one.moment("expires_at"),) for target, one in by_target["renewed"].items()}
    set_each(tx, "memories", "memory_id", tenant, ("expires_at",), renewed)
    rated = by_target["rated"]
    held = rows_in(
        tx,
        "SELECT memory_id, value FROM memories WHERE tenant_id = %s AND memory_id IN %s",
        tenant,
        list(rated),
    )
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


def _move_back(tx: Transaction, tenant: str, run_id: UUID, changes: Sequence[Change]) -> None:
    """What a run moved is as it was: ends of facts and edges, and what was retired."""
    moved = [one for one in changes if one.change == "moved"]
    ends = {one.target: (one.moment("valid_until"), one.moment("superseded_at")) for one in moved}
    for table, column in (("facts", "memory_id"), ("edges", "edge_id")):
        set_each(tx, table, column, tenant, ("valid_until", "superseded_at"), ends)
    tx.run("DELETE FROM fact_closures WHERE tenant_id = %s AND run_id = %s", tenant, run_id)
    retired = {
        one.target: (one.moment("retired_at"),) for one in moved if "retired_at" in one.before
    }
    set_each(tx, "memories", "memory_id", tenant, ("superseded_at",), retired)


def _move_marks_back(tx: Transaction, tenant: str, run: _UndoneRun) -> None:
    """What is unread again counts again, by its bytes."""
    row = tx.one(
        "SELECT consolidated_seq, summarised_seq, unread_bytes FROM threads"
        " WHERE tenant_id = %s AND thread_id = %s",
        tenant,
        run.thread_id,
    )
    if row is None:
        return
    read_to, summed_to, unread = row
    if read_to == run.to_seq:
        read_to = run.from_seq
        [(size,)] = tx.rows(
            "SELECT sum(LENGTH(text)) FROM events"
            " WHERE tenant_id = %s AND thread_id = %s AND memory_seq > %s",
            tenant,
            run.thread_id,
            run.from_seq,
        )
        unread = int(size or 0)
    if summed_to == run.summed_to:
        summed_to = run.summed_from
    tx.run(
        "UPDATE threads SET consolidated_seq = %s, summarised_seq = %s, unread_bytes = %s"
        " WHERE tenant_id = %s AND thread_id = %s",
        read_to,
        summed_to,
        unread,
        tenant,
        run.thread_id,
    )


def _restore_aliases(tx: Transaction, tenant: str, changes: Sequence[Change]) -> None:
    """Names that a run merged stand for themselves again; those it parted are merged."""
    moved = [one for one in changes if one.change == "moved"]
    for how, verb in (
        ("added", "DELETE FROM entity_aliases"),
        ("ended", "UPDATE entity_aliases SET unmerged_at = NULL"),
    ):
        for page in pages([one.target for one in moved if one.before.get("alias") == how]):
            tx.run(f"{verb} WHERE tenant_id = %s AND alias_id IN %s", tenant, page)


def _require_free(tx: Transaction, tenant: str, run_id: UUID, changes: Sequence[Change]) -> None:
    """Raise Conflict if something else has taken the place of what a run ended."""
    back = [one.target for one in changes if one.change in ("closed", "edge", "moved")]
    merged = tx.rows(
        "SELECT alias_key FROM entity_aliases WHERE tenant_id = %s AND unmerged_at IS NULL"
        " GROUP BY alias_key HAVING count(*) > 1 LIMIT 1",
        tenant,
    )
    try:
        require_places(tx, tenant, back, back)
    except Conflict as error:
        raise _taken(run_id) from error
    if merged:
        raise _taken(run_id)


def _taken(run_id: UUID) -> Conflict:
    return Conflict(
        f"run {run_id} cannot be undone: what it ended cannot hold again, because something"
        " that no run wrote has taken its place"
    )


def _require_entities(tx: Transaction, tenant: str) -> None:
    """Raise Conflict if an entity has become an alias of another one, or an alias an entity."""
    if tx.rows(
        "SELECT 1 FROM entity_aliases a JOIN entity_aliases b ON b.tenant_id = a.tenant_id"
        " AND b.alias_key = a.entity_key WHERE a.tenant_id = %s"
        " AND a.unmerged_at IS NULL AND b.unmerged_at IS NULL LIMIT 1",
        tenant,
    ):
        raise Conflict(ALIASES_CHANGED)
