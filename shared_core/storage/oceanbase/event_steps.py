"""Turns within one transaction: how they are appended to a thread, and read back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from uuid import UUID

from shared_core.core.domain import Event, JsonValue, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path, tenant_of
from shared_core.core.retention_policy import Strength
from shared_core.ports.events import EventRow
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.storage._retention_columns import initial_of
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.length_limits import check_thread_id
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.items import stored_terms
from shared_core.storage.oceanbase.retention_timing import timed
from shared_core.storage.oceanbase.vectors import add_vectors

EVENT_COLUMNS = "event_id, author, role, text, occurred_at, metadata, importance, expires_at"

_STORED = (
    "tenant_id", "thread_id", "seq", "event_id", "author", "role", "text", "metadata",
    "occurred_at", "recorded_at", "memory_seq", "importance", "expires_at",
)  # fmt: skip
_REMEMBERED = ("memory_seq", "text", "role", "metadata", "importance", "expires_at")
"""What becomes of an event of a session log when memory takes it in."""

_MEMORIES = (
    "tenant_id", "memory_id", "namespace", "`key`", "kind", "text", "value", "terms", "term_count",
    "author", "role", "importance", "thread_id", "occurred_at", "created_at", "updated_at",
    "expires_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Logged:
    """An event that is here. is_due: of a session log, and memory does not know it yet."""

    seq: int
    author: str
    text: str
    occurred_at: datetime
    recorded_at: datetime
    is_due: bool


@dataclass(frozen=True, slots=True)
class _Fresh:
    """A turn that memory takes in, as it will stand; seq: its place among the events.

    is_logged: the session log has it there already.
    """

    given: EventRow
    is_logged: bool
    seq: int
    author: str
    text: str
    occurred_at: datetime
    recorded_at: datetime


def event_of(row: Row) -> Event:
    """Return the event in the columns EVENT_COLUMNS."""
    event_id, author, role, text, occurred_at, metadata, importance, expires_at = row
    return Event(
        event_id=event_id,
        author=author,
        role=role,
        text=text,
        occurred_at=occurred_at,
        metadata=json.loads(metadata),
        importance=importance,
        expires_at=expires_at,
    )


def last_turns(
    tx: Transaction, tenant: str, thread_id: ThreadId, limit: int, now: datetime
) -> list[Event]:
    """Return the last of what is remembered of a thread, oldest first."""
    newest = tx.rows(
        f"SELECT {EVENT_COLUMNS} FROM events"
        " WHERE tenant_id = %s AND thread_id = %s AND memory_seq IS NOT NULL"
        " AND (expires_at IS NULL OR expires_at > %s) ORDER BY seq DESC LIMIT %s",
        tenant,
        thread_id,
        now,
        limit,
    )
    return [event_of(row) for row in reversed(newest)]


def forgotten(
    tx: Transaction, tenant: str, thread_id: ThreadId, event_ids: Iterable[str]
) -> set[str]:
    """Return those of some turns of a thread that were forgotten."""
    return {
        event_id
        for page in pages(list(event_ids))
        for (event_id,) in tx.rows(
            "SELECT event_id FROM tombstones"
            " WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s",
            tenant,
            thread_id,
            page,
        )
    }


def append_turns(
    tx: Transaction,
    scope: Scope,
    thread_id: ThreadId,
    rows: Sequence[EventRow],
    vectors: VectorRows | None,
    now: datetime,
    strength: Strength | None = None,
) -> set[str]:
    """Remember turns in order, and return the ids of those that were new; the tenant is locked.

    Those that are new are appended to the thread, those of its session log are there already; given
    without a text, they are remembered as they were logged. Known and forgotten ones are passed
    over.
    """
    tenant = scope_path(scope)
    given = {row.event.event_id: row for row in reversed(rows)}
    ordered = [given[event_id] for event_id in dict.fromkeys(row.event.event_id for row in rows)]
    logged = _logged(tx, tenant, thread_id, given)
    buried = forgotten(tx, tenant, thread_id, given)
    taken = [
        row
        for row in ordered
        if row.event.event_id not in buried and _is_due(row, logged.get(row.event.event_id))
    ]
    last_seq, last_memory_seq = _grown(tx, tenant, thread_id, taken, logged, now)
    numbers = count(last_seq + 1)
    fresh = [_fresh(row, logged.get(row.event.event_id), numbers, now) for row in taken]
    _write_events(tx, tenant, thread_id, fresh, last_memory_seq + 1)
    _write_memories(tx, scope, thread_id, fresh, now, strength)
    if vectors is not None:
        write_vectors(tx, vectors)
    return {one.given.event.event_id for one in fresh}


def write_vectors(tx: Transaction, vectors: VectorRows) -> None:
    """Write vectors of memories named by address; of an address that is not there, nothing."""
    ids = ids_at(tx, vectors.addresses)
    named = zip(vectors.addresses, vectors.fields, vectors.vectors, strict=True)
    rows = [
        (tenant_of(address[0]), ids[address], field, vector)
        for address, field, vector in named
        if address in ids
    ]
    if rows:
        add_vectors(tx, vectors.model, rows)


def ids_at(tx: Transaction, addresses: Iterable[ItemAddress]) -> Mapping[ItemAddress, UUID]:
    """Return the ids of those memories that are there."""
    found: dict[ItemAddress, UUID] = {}
    keys: dict[tuple[str, ...], dict[str, None]] = {}
    for namespace, key in addresses:
        keys.setdefault(tuple(namespace), {})[key] = None
    for namespace, named in keys.items():
        for page in pages(list(named)):
            for memory_id, key in tx.rows(
                "SELECT memory_id, `key` FROM memories"
                " WHERE tenant_id = %s AND namespace = %s AND `key` IN %s",
                tenant_of(namespace),
                rest_of(namespace),
                page,
            ):
                found[namespace, key] = memory_id
    return found


def _logged(
    tx: Transaction, tenant: str, thread_id: ThreadId, event_ids: Iterable[str]
) -> dict[str, _Logged]:
    return {
        event_id: _Logged(seq, author, text, occurred_at, recorded_at, bool(is_due))
        for page in pages(list(event_ids))
        for event_id, seq, author, text, occurred_at, recorded_at, is_due in tx.rows(
            "SELECT event_id, seq, author, text, occurred_at, recorded_at,"
            " memory_seq IS NULL AND payload IS NOT NULL FROM events"
            " WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s",
            tenant,
            thread_id,
            page,
        )
    }


def _is_due(row: EventRow, there: _Logged | None) -> bool:
    return not row.logged if there is None else there.is_due


def _text(row: EventRow, there: _Logged | None) -> str:
    return there.text if there is not None and row.logged else row.event.text


def _grown(
    tx: Transaction,
    tenant: str,
    thread_id: ThreadId,
    taken: Sequence[EventRow],
    logged: Mapping[str, _Logged],
    now: datetime,
) -> tuple[int, int]:
    """Make the thread, or count in what it takes; return its last numbers before."""
    there = [logged.get(row.event.event_id) for row in taken]
    sizes = (len(_text(row, one).encode()) for row, one in zip(taken, there, strict=True))
    return grow_thread(tx, tenant, thread_id, now, there.count(None), len(taken), sum(sizes))


def grow_thread(
    tx: Transaction,
    tenant: str,
    thread_id: str,
    now: datetime,
    events: int,
    remembered: int,
    size: int,
) -> tuple[int, int]:
    """Reserve numbers for events of a thread, and of what is remembered; return the last before.

    The thread is made if it is missing. size: in bytes, of what is to be read.
    """
    found = tx.one(
        "SELECT last_seq, last_memory_seq FROM threads WHERE tenant_id = %s AND thread_id = %s",
        tenant,
        thread_id,
    )
    if found is None:
        check_thread_id(thread_id)
        tx.insert(
            "threads",
            ("tenant_id", "thread_id", "state", "last_seq", "last_memory_seq", "unread_bytes",
             "created_at", "updated_at"),
            [(tenant, thread_id, "{}", events, remembered, size, now, now)],
        )  # fmt: skip
        return 0, 0
    if remembered:
        tx.run(
            "UPDATE threads SET last_seq = last_seq + %s, last_memory_seq = last_memory_seq + %s,"
            " unread_bytes = unread_bytes + %s, updated_at = %s"
            " WHERE tenant_id = %s AND thread_id = %s",
            events,
            remembered,
            size,
            now,
            tenant,
            thread_id,
        )
    return found[0], found[1]


def _fresh(row: EventRow, there: _Logged | None, numbers: count[int], now: datetime) -> _Fresh:
    if there is None:
        said = row.event
        return _Fresh(row, False, next(numbers), said.author, said.text, said.occurred_at, now)
    text = _text(row, there)
    return _Fresh(row, True, there.seq, there.author, text, there.occurred_at, there.recorded_at)


def _write_events(
    tx: Transaction, tenant: str, thread_id: ThreadId, fresh: Sequence[_Fresh], first: int
) -> None:
    """Write turns; only those of the session log, at their own places, may be there already."""
    logged, new = list[Row](), list[Row]()
    for memory_seq, one in enumerate(fresh, start=first):
        said = one.given.event
        row = (
            tenant, thread_id, one.seq, said.event_id, one.author, said.role, one.text,
            to_json(said.metadata, "event metadata"), one.occurred_at, one.recorded_at,
            memory_seq, float(said.importance), said.expires_at,
        )  # fmt: skip
        (logged if one.is_logged else new).append(row)
    tx.insert("events", _STORED, new)
    tx.insert("events", _STORED, logged, update=_REMEMBERED)


def _write_memories(
    tx: Transaction,
    scope: Scope,
    thread_id: ThreadId,
    fresh: Sequence[_Fresh],
    now: datetime,
    strength: Strength | None,
) -> None:
    tenant, namespace = scope_path(scope), rest_of(memories_namespace(scope))
    kept = [(one, one.given.memory_id) for one in fresh if one.given.memory_id]
    if not kept:
        return
    tx.insert(
        "memories",
        _MEMORIES,
        [
            (tenant, memory_id, namespace, str(memory_id), "episodic", one.text,
             to_json({**one.given.value, "content": one.text}), stored_terms(one.given.terms),
             len(one.given.terms), one.author, one.given.event.role,
             float(one.given.event.importance), thread_id, one.occurred_at, now, now,
             one.given.event.expires_at)
            for one, memory_id in kept
        ],
    )  # fmt: skip
    tx.insert(
        "memory_sources",
        ("tenant_id", "memory_id", "thread_id", "event_id"),
        [(tenant, memory_id, thread_id, one.given.event.event_id) for one, memory_id in kept],
    )
    strengths: dict[UUID, float | None] = {}
    if strength is not None:
        strengths = {memory_id: _initial(strength, one.given) for one, memory_id in kept}
    timed(tx, tenant, [memory_id for _, memory_id in kept], now, strengths)


def _initial(strength: Strength, row: EventRow) -> float | None:
    value: Mapping[str, JsonValue] = row.value
    return initial_of(strength, "episodic", row.event.text, row.event.importance, value)
