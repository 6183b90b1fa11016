"""Importing rows of an export: what is here stays, and what was forgotten here is refused.

The rows of a batch are of one table and one tenant.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from shared_core.errors import Conflict, InvalidInput
from shared_core.policies.batches import Found, Reads, read
from shared_core.ports.operations import (
    Condition,
    Delete,
    Insert,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    UpdateEach,
    equal,
    is_null,
    one_of,
    one_of_rows,
)
from shared_core.ports.tables import TableShape, Unique, tables
from shared_core.ports.transfer import Written

Values: TypeAlias = Mapping[str, Any]
"""A row by column, as it is written."""
ERASURES = Select("erasures", ("erasure_id", "target"))
"""Reads the erasures of a tenant, for erased_here()."""
_COUNTERS = ("last_seq", "last_memory_seq")
_RAISED = (*_COUNTERS, "unread_bytes", "updated_at")
_THREAD = ("thread_id",)
_TURN = ("thread_id", "event_id")
_TAKEN = (
    "something else has its place here: export and forget that first, or import into another schema"
)
_BACK = "import it with restore (--restore) to bring such {} back"


def import_rows(
    table: str, rows: Sequence[Values], receipts: Collection[str], *, restore: bool
) -> Policy[Written]:
    """Write the rows that are not here, and count those that are here with other values.

    The threads of the rows, and of the turns in them, number their turns after them. Their read
    marks stay, so that no unread turn is skipped. An active conversation has ended if another one
    is active here.

    Args:
        table: the name of the table.
        rows: with all columns of the table.
        receipts: the ids of the erasures that the export holds.
        restore: whether to write rows that were forgotten or erased here.

    Raises:
        InvalidInput: a row that a row refers to is not here.
        Conflict: another row has the place of a row, or it was forgotten or erased here.
    """
    shape = tables()[table]
    given: dict[Row, Values] = {}
    for row in rows:
        given.setdefault(_at(row, shape.key), row)
    guards = {} if restore else _guards(table, rows)
    found = yield from read({**guards, **_reads(table, shape, given)})
    _require_unforgotten(table, rows, receipts, found)
    here = {_at(row, shape.key): row for row in _records(_compared(shape), found["here"])}
    if table == "events":
        _require_same_turns(given, here)
    new = [{**row} for key, row in given.items() if key not in here]
    if table == "conversations":
        _end_active(new, bool(found["unique 0"]))
    _require_places(shape, new, found)
    _require_parents(table, shape, new, found)
    writes: list[Operation] = []
    if table == "events" and restore and (turns := _turns(rows)):
        writes.append(Delete("tombstones", _among(_TURN, turns)))
    if new:
        writes.append(Insert(table, shape.names, [_at(row, shape.names) for row in new]))
    writes += _raising(table, rows, here, found)
    differ = sum(
        _differs(shape, here[key], row) for row in rows if (key := _at(row, shape.key)) in here
    )
    if writes:
        yield Last(writes)
    return Written(written=len(new), differ=differ)


def forget_tombstones(thread_id: str, event_ids: Sequence[str]) -> Policy[None]:
    """Let forgotten turns of a thread be remembered again, if they are appended again."""
    yield Last([
        Delete("tombstones", (equal("thread_id", thread_id), one_of("event_id", event_ids)))
    ])  # fmt: skip


def require_unforgotten(
    table: str, rows: Sequence[Values], receipts: Collection[str]
) -> Policy[None]:
    """Raise Conflict if a row was forgotten or erased here; it only reads."""
    found = yield from read(_guards(table, rows))
    _require_unforgotten(table, rows, receipts, found)


def erased_here(
    table: str, row: Values, erasures: Sequence[Row], receipts: Collection[str]
) -> str | None:
    """Return the id of an erasure that the export does not know, and that reached a row.

    An export that was made after an erasure holds its receipt, so one without it is older, or of
    another database. The receipts themselves are not erased.
    """
    for erasure_id, target in erasures:
        thread_id = target.get("thread_id")
        is_reached = thread_id is None or row.get("thread_id") == thread_id
        if is_reached and table != "erasures" and str(erasure_id) not in receipts:
            return str(erasure_id)
    return None


def erased(erasure_id: str) -> Conflict:
    """Return the error of a row that an erasure reached."""
    return Conflict(
        f"it was erased here, and this export does not hold the receipt, {erasure_id}: "
        + _BACK.format("rows")
    )


def _guards(table: str, rows: Sequence[Values]) -> Reads:
    """Return what tells which rows were forgotten or erased here."""
    reads = {"erasures": ERASURES}
    if table == "events" and (turns := _turns(rows)):
        reads["tombstones"] = Select("tombstones", _TURN, _among(_TURN, turns), limit=1)
    if table == "conversations":
        threads = _among(_THREAD, _named(rows, _THREAD))
        reads["tombstones"] = Select("tombstones", _THREAD, threads, is_distinct=True)
        reads["sessions"] = Select("conversations", _THREAD, threads)
    return reads


def _require_unforgotten(
    table: str, rows: Sequence[Values], receipts: Collection[str], found: Found
) -> None:
    for row in rows:
        if erasure_id := erased_here(table, row, found["erasures"], receipts):
            raise erased(erasure_id)
    if table == "events" and found["tombstones"]:
        raise Conflict("this turn was forgotten here: " + _BACK.format("turns"))
    if {*found["tombstones"]} - {*found["sessions"]}:
        raise Conflict("this session was erased here: " + _BACK.format("sessions"))


def _reads(table: str, shape: TableShape, given: Mapping[Row, Values]) -> Reads:
    """Return what tells which rows are here, whose places are taken, and which parents exist."""
    rows = list(given.values())
    columns, keys = shape.key, list(given)
    if len(columns) > 1 and shape.columns[columns[0]].type == "uuid":  # names few rows by itself
        columns, keys = columns[:1], _named(rows, columns[:1])
    here = Select(table, _compared(shape), _among(columns, keys))
    if table == "threads":
        here = replace(here, order=shape.key, lock="update")
    reads = {"here": here}
    for place, unique in enumerate(shape.unique):
        wanted = [_at(row, unique.columns) for row in rows if unique.holds(row)]
        if wanted:
            where = (*_holding(unique), *_among(unique.columns, wanted))
            reads[f"unique {place}"] = Select(table, (*unique.columns, *shape.key), where)
    for place, parent in enumerate(shape.parents):
        if named := _named(rows, parent.columns):
            where = _among(parent.theirs, named)
            reads[f"parent {place}"] = Select(parent.table, parent.theirs, where)
    if table == "events":
        where = _among(_THREAD, _named(rows, _THREAD))
        columns = (*_THREAD, *_RAISED)
        reads["threads"] = Select("threads", columns, where, order=_THREAD, lock="update")
    return reads


def _among(columns: tuple[str, ...], wanted: Sequence[Row]) -> tuple[Condition, ...]:
    """Return the condition that columns have one of several values; none if one holds a null."""
    if not columns or any(None in one for one in wanted):
        return ()
    if len(columns) == 1:
        return (one_of(columns[0], [one[0] for one in wanted]),)
    return (one_of_rows(columns, wanted),)


def _holding(unique: Unique) -> tuple[Condition, ...]:
    return tuple(
        is_null(name) if value is None else equal(name, value)
        for name, value in unique.among.items()
    )


def _end_active(new: Sequence[dict[str, Any]], is_busy: bool) -> None:
    """End active conversations besides the first, which stays if none is active here."""
    for row in new:
        if row["status"] == "active":
            if is_busy:
                row["ended_at"] = row["last_active_at"]
                row["status"] = "ending" if row["event_count"] > 0 else "ended"
            is_busy = True


def _require_same_turns(given: Mapping[Row, Values], here: Mapping[Row, Values]) -> None:
    """Raise Conflict if another turn has the number of a turn: its thread went on here."""
    for key, row in given.items():
        if key in here and here[key]["event_id"] != row["event_id"]:
            raise Conflict(_TAKEN)


def _require_places(shape: TableShape, new: Sequence[Values], found: Found) -> None:
    for place, unique in enumerate(shape.unique):
        width = len(unique.columns)
        taken = {row[:width] for row in found[f"unique {place}"]}
        for row in filter(unique.holds, new):
            if _at(row, unique.columns) in taken:
                raise Conflict(_TAKEN)
            taken.add(_at(row, unique.columns))


def _require_parents(table: str, shape: TableShape, new: Sequence[Values], found: Found) -> None:
    for place, parent in enumerate(shape.parents):
        there = {*found[f"parent {place}"]}
        for one in _named(new, parent.columns):
            if one not in there:
                named = ", ".join(map(str, one))
                raise InvalidInput(
                    f"it does not fit its table: {table} refers to {named!r:.80}, and"
                    f" {parent.table} has no such row here"
                )


def _raising(
    table: str, rows: Sequence[Values], here: Mapping[Row, dict[str, Any]], found: Found
) -> list[Operation]:
    """Return what lets threads number their turns after the rows; it raises those in here too."""
    if table not in ("threads", "events"):
        return []
    counted = _records(_THREAD + _RAISED, found["threads"]) if table == "events" else here.values()
    asked, threads = rows, {row["thread_id"]: row for row in counted}
    if table == "events":
        unchanged = {"unread_bytes": 0, "updated_at": None}
        asked = [
            {"thread_id": row["thread_id"], **unchanged, "last_seq": row["seq"],
             "last_memory_seq": row["memory_seq"] or 0}
            for row in rows
        ]  # fmt: skip
    changed = {}
    for row in asked:
        thread = threads.get(row["thread_id"])
        if thread is None or all(row[name] <= thread[name] for name in _COUNTERS):
            continue
        if row["last_memory_seq"] > thread["last_memory_seq"]:
            thread["unread_bytes"] = max(thread["unread_bytes"], row["unread_bytes"])
        thread["updated_at"] = max(thread["updated_at"], row["updated_at"] or thread["updated_at"])
        for name in _COUNTERS:
            thread[name] = max(thread[name], row[name])
        changed[row["thread_id"]] = _at(thread, _THREAD + _RAISED)
    return [UpdateEach("threads", _THREAD, _RAISED, list(changed.values()))] if changed else []


def _differs(shape: TableShape, here: Values, given: Values) -> bool:
    """Return whether a row that is here has other values; words follow from a row's text."""
    return any(
        not _is_same(shape.columns[name].type, value, given[name]) for name, value in here.items()
    )


def _is_same(kind: str, here: Any, given: Any) -> bool:
    if here is None or given is None:
        return here is given
    if kind in ("jsonb", "json"):
        return json.dumps(here, sort_keys=True) == json.dumps(json.loads(given), sort_keys=True)
    if kind == "real":
        return struct.pack("f", here) == struct.pack("f", given)
    return bool(here == given)


def _compared(shape: TableShape) -> tuple[str, ...]:
    return tuple(name for name in shape.names if shape.columns[name].type != "tsvector")


def _turns(rows: Sequence[Values]) -> list[Row]:
    """Return the remembered turns among events."""
    return [_at(row, _TURN) for row in rows if row["memory_seq"] is not None]


def _named(rows: Sequence[Values], columns: Sequence[str]) -> list[Row]:
    """Return what rows hold in columns, once each, save where one is null."""
    return [one for one in dict.fromkeys(_at(row, columns) for row in rows) if None not in one]


def _at(row: Values, columns: Sequence[str]) -> Row:
    return tuple(row[name] for name in columns)


def _records(columns: Sequence[str], rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]
