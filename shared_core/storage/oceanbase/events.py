"""OceanBaseStorage: turns of threads: append, read, forget."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from uuid import UUID

from shared_core.core.domain import AsOf, Event, JsonValue, Memory, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path, storable
from shared_core.core.retention_policy import Strength
from shared_core.ports.events import EventRow, MemoryQuery
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.jobs import NewJob
from shared_core.storage._rows import as_known, initial_of
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.errors import check_thread_id
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, pages
from shared_core.storage.oceanbase.erasures import erase
from shared_core.storage.oceanbase.forgetting import forget_turns
from shared_core.storage.oceanbase.item_writes import put_vectors, stored_terms
from shared_core.storage.oceanbase.job_steps import enqueue
from shared_core.storage.oceanbase.retention_timing import timed
from shared_core.storage.oceanbase.rows import memory_columns, memory_of, sources_of
from shared_core.storage.oceanbase.vectors import models, table_of
from shared_core.storage.oceanbase.visibility import (
    Condition,
    all_of,
    below,
    current_at,
    living,
    of_kinds,
)

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


class OceanBaseEvents(OceanBasePart):
    """Turns of threads and the memories made of them."""

    async def known_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> Mapping[str, bytes | None]:
        tenant = scope_path(scope)

        def work(tx: Transaction) -> dict[str, bytes | None]:
            buried = forgotten(tx, tenant, thread_id, event_ids)
            known: dict[str, bytes | None] = dict.fromkeys(buried)
            for page in pages(event_ids):
                for event_id, digest in tx.rows(
                    "SELECT event_id, CASE WHEN memory_seq IS NULL AND payload IS NOT NULL"
                    " THEN SHA2(text, 256) END FROM events"
                    " WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s",
                    tenant,
                    thread_id,
                    page,
                ):
                    known.setdefault(event_id, bytes.fromhex(digest) if digest else None)
            return known

        return await self._database.read(work)

    async def append_events(
        self,
        scope: Scope,
        thread_id: ThreadId,
        rows: Sequence[EventRow],
        vectors: VectorRows | None,
        job: NewJob | None = None,
    ) -> set[str]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> set[str]:
            tx.lock(tenant)
            new = append_turns(tx, scope, thread_id, rows, vectors, now, self._strength)
            if job:
                enqueue(tx, scope, thread_id, job, now, changed_at=now)
            return new

        return await self._database.write(work)

    async def thread_events(self, scope: Scope, thread_id: ThreadId, limit: int) -> Sequence[Event]:
        tenant, now = scope_path(scope), self._clock()

        return await self._database.read(lambda tx: last_turns(tx, tenant, thread_id, limit, now))

    async def thread_history(
        self, scope: Scope, thread_id: ThreadId, limit: int, as_of: AsOf | None = None
    ) -> Sequence[Event]:
        tenant, now = scope_path(scope), self._clock()
        valid, known = (as_of.valid, as_of.known) if as_of else (None, None)

        def work(tx: Transaction) -> list[Row]:
            # By its length: two texts of spaces are equal, and to none.
            return tx.rows(
                f"SELECT {EVENT_COLUMNS} FROM events e"
                " WHERE tenant_id = %s AND thread_id = %s AND LENGTH(text) > 0"
                " AND (expires_at IS NULL OR expires_at > %s)"
                " AND (memory_seq IS NOT NULL OR NOT EXISTS (SELECT 1 FROM tombstones t"
                " WHERE t.tenant_id = e.tenant_id AND t.thread_id = e.thread_id"
                " AND t.event_id = e.event_id))"
                " AND (%s IS NULL OR recorded_at <= %s) AND (%s IS NULL OR occurred_at <= %s)"
                " ORDER BY seq DESC LIMIT %s",
                tenant,
                thread_id,
                now,
                known,
                known,
                valid,
                valid,
                limit,
            )

        return [event_of(row) for row in reversed(await self._database.read(work))]

    async def forget_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> int:
        tenant, now = scope_path(scope), self._clock()
        named = [event_id for event_id in event_ids if storable(event_id)]

        def work(tx: Transaction) -> int:
            tx.lock(tenant)
            return len(forget_turns(tx, tenant, thread_id, named, now))

        return await self._database.write(work)

    async def forget_scope(self, scope: Scope, thread_id: ThreadId | None) -> int:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> int:
            tx.lock(tenant)
            return erase(tx, tenant, thread_id, now)

        return await self._database.write(work)

    async def list_memories(self, query: MemoryQuery) -> Sequence[Memory]:
        tenant, now = scope_path(query.scope), self._clock()
        asked = [
            Condition("m.tenant_id = %s", (tenant,)),
            below(rest_of(query.namespace)),
            of_kinds(query.kinds),
        ]
        if query.thread_id is not None:
            asked.append(Condition("m.thread_id = %s", (query.thread_id,)))

        def work(tx: Transaction) -> list[Memory]:
            wanted = all_of(*asked, current_at(tx, tenant, now, query.as_of))
            rows = tx.rows(
                f"SELECT {memory_columns('m')} FROM memories m WHERE {wanted.sql}"
                " ORDER BY m.occurred_at DESC, m.memory_id DESC LIMIT %s OFFSET %s",
                *wanted.values,
                query.limit,
                query.offset,
            )
            sources = sources_of(tx, tenant, [row[0] for row in rows])
            return [as_known(memory_of(row, sources.get(row[0], ())), query.as_of) for row in rows]

        return await self._database.read(work)

    async def memories_without_vectors(
        self, scope: Scope, thread_id: ThreadId, model: str, limit: int
    ) -> Sequence[tuple[ItemAddress, str]]:
        tenant, namespace = scope_path(scope), memories_namespace(scope)
        now = self._clock()

        def work(tx: Transaction) -> list[Row]:
            wanted = all_of(
                Condition("s.tenant_id = %s AND s.thread_id = %s", (tenant, thread_id)),
                Condition("m.kind = 'episodic' AND m.term_count > 0"),
                below(rest_of(namespace)),
                living(now),
                _without_vector(tx, model),
            )
            return tx.rows(
                "SELECT m.`key`, m.text FROM memory_sources s"
                " JOIN memories m ON m.tenant_id = s.tenant_id AND m.memory_id = s.memory_id"
                f" WHERE {wanted.sql} ORDER BY m.memory_id LIMIT %s",
                *wanted.values,
                limit,
            )

        return [((namespace, key), text) for key, text in await self._database.read(work)]

    async def add_vectors(self, scope: Scope, vectors: VectorRows) -> None:
        tenant = scope_path(scope)

        def work(tx: Transaction) -> None:
            tx.lock(tenant)
            put_vectors(tx, vectors)

        await self._database.write(work)


def _without_vector(tx: Transaction, model: str) -> Condition:
    """Return what holds of memories m that a model did not embed."""
    dimensions = models(tx).get(model)
    if dimensions is None:
        return Condition("TRUE")
    return Condition(
        f"NOT EXISTS (SELECT 1 FROM {table_of(dimensions)} v"
        " WHERE v.tenant_id = m.tenant_id AND v.model = %s AND v.memory_id = m.memory_id)",
        (model,),
    )


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
    put_vectors(tx, vectors)
    return {one.given.event.event_id for one in fresh}


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
