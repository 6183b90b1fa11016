"""OceanBaseStorage: turns of threads: append, read, forget."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import Final, NamedTuple
from uuid import UUID

from shared_core.core.domain import AsOf, Event, JsonValue, Memory, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import memories_namespace, path_end, rest_of, scope_path
from shared_core.core.retention_policy import Strength
from shared_core.core.time_zones import zone_name
from shared_core.ports.events import EventRow, Holdings, KnownTurn, MemoryQuery, SliceOrder
from shared_core.ports.items import VectorRows
from shared_core.ports.jobs import NewJob
from shared_core.storage._rows import event_from_row, initial_of
from shared_core.storage.oceanbase.base import OceanBasePart, reading, writing
from shared_core.storage.oceanbase.connection.columns import stored_terms
from shared_core.storage.oceanbase.connection.errors import check_thread_id
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.item_writes import put_vectors
from shared_core.storage.oceanbase.job_steps import enqueue
from shared_core.storage.oceanbase.retention_timing import timed
from shared_core.storage.oceanbase.rows import newest_memories
from shared_core.storage.oceanbase.visibility import (
    WhereClause,
    all_of,
    below,
    between,
    current_at,
    if_set,
    of_kinds,
    of_thread,
)

DIRECTIONS: Final[Mapping[SliceOrder, str]] = {"newest": "DESC", "oldest": "ASC"}
QUARTER: Final = "timestampdiff(MINUTE, '2000-01-01', m.occurred_at) DIV 15"
"""The quarter of an hour of a memory: in every time zone, buckets begin with a quarter."""
EVENT_COLUMNS = (
    "event_id, author, role, text, occurred_at, time_zone, metadata, importance, expires_at"
)
_STORED = (
    "tenant_id", "thread_id", "seq", "event_id", "author", "role", "text", "metadata",
    "occurred_at", "time_zone", "recorded_at", "memory_seq", "importance", "expires_at",
)  # fmt: skip
_REMEMBERED = ("memory_seq", "text", "role", "metadata", "time_zone", "importance", "expires_at")
"""The columns that change when a logged event becomes a remembered turn."""
_MEMORIES = (
    "tenant_id", "memory_id", "namespace", "`key`", "kind", "text", "value", "terms", "term_count",
    "author", "role", "importance", "thread_id", "occurred_at", "created_at", "updated_at",
    "expires_at",
)  # fmt: skip


class OceanBaseEvents(OceanBasePart):
    """Turns of threads and their memories."""

    @reading
    def known_turns(
        self, tx: Transaction, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> Mapping[str, KnownTurn]:
        tenant = scope_path(scope)
        buried = forgotten(tx, tenant, thread_id, event_ids)
        known = dict.fromkeys(buried, KnownTurn(None, is_remembered=False))
        for event_id, digest, is_remembered in tx.rows_in(
            "SELECT event_id, SHA2(text, 256), memory_seq IS NOT NULL FROM events"
            " WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s",
            [tenant, thread_id, event_ids],
        ):
            known.setdefault(event_id, KnownTurn(bytes.fromhex(digest), bool(is_remembered)))
        return known

    @writing
    def append_events(
        self,
        tx: Transaction,
        scope: Scope,
        thread_id: ThreadId,
        rows: Sequence[EventRow],
        vectors: VectorRows | None,
        job: NewJob | None = None,
    ) -> set[str]:
        tenant, now = scope_path(scope), self._clock()
        tx.lock(tenant)
        new = append_turns(tx, scope, thread_id, rows, vectors, now, self._strength)
        if job:
            enqueue(tx, scope, thread_id, job, now, changed_at=now)
        return new

    async def thread_events(self, scope: Scope, thread_id: ThreadId, limit: int) -> Sequence[Event]:
        tenant, now = scope_path(scope), self._clock()
        return await self._database.read(lambda tx: last_turns(tx, tenant, thread_id, limit, now))

    async def thread_history(
        self, scope: Scope, thread_id: ThreadId, limit: int, as_of: AsOf | None = None
    ) -> Sequence[Event]:
        tenant, now = scope_path(scope), self._clock()
        valid, known = (as_of.valid, as_of.known) if as_of else (None, None)

        def work(tx: Transaction) -> list[Row]:
            # LENGTH, because the server takes a text of spaces for equal to an empty one.
            return tx.rows(
                f"SELECT {EVENT_COLUMNS} FROM events e"
                " WHERE tenant_id = %s AND thread_id = %s AND LENGTH(text) > 0"
                " AND (expires_at IS NULL OR expires_at > %s)"
                " AND (memory_seq IS NOT NULL OR NOT EXISTS (SELECT 1 FROM tombstones t"
                " WHERE t.tenant_id = e.tenant_id AND t.thread_id = e.thread_id"
                " AND t.event_id = e.event_id))"
                " AND NOT EXISTS (SELECT 1 FROM memory_sources s JOIN memories m"
                " ON m.tenant_id = s.tenant_id AND m.memory_id = s.memory_id"
                " WHERE s.tenant_id = e.tenant_id AND s.thread_id = e.thread_id"
                " AND s.event_id = e.event_id AND m.kind = 'episodic' AND m.superseded_at <= %s)"
                " AND (%s IS NULL OR recorded_at <= %s) AND (%s IS NULL OR occurred_at <= %s)"
                " ORDER BY seq DESC LIMIT %s",
                [tenant, thread_id, now, known or now, known, known, valid, valid, limit],
            )

        return [event_of(row) for row in reversed(await self._database.read(work))]

    @reading
    def list_memories(
        self, tx: Transaction, query: MemoryQuery, order: SliceOrder, limit: int, offset: int
    ) -> Sequence[Memory]:
        tenant, there = scope_path(query.scope), self._there(tx, query)
        return newest_memories(tx, tenant, there, query.as_of, limit, offset, DIRECTIONS[order])

    async def count_memories(self, query: MemoryQuery, bounds: Sequence[datetime]) -> Sequence[int]:
        def work(tx: Transaction) -> list[int]:
            if len(bounds) == 1:  # without groups, which cost more than the rows
                return [
                    self._count(tx, replace(query, begin=max(query.begin or bounds[0], *bounds)))
                ]
            there = self._there(tx, query)
            counts = [0] * len(bounds)
            parted = []
            for first, last, number in tx.rows(
                "SELECT min(m.occurred_at), max(m.occurred_at), count(*) FROM memories m"
                f" WHERE {there.sql} GROUP BY {QUARTER}",
                there.values,
            ):
                place = bisect_right(bounds, first)
                if place != bisect_right(bounds, last):
                    parted.append((first, last))
                elif place:
                    counts[place - 1] += number
            for first, last in parted:  # quarters that a bound cuts in two
                for (moment,) in tx.rows(
                    f"SELECT m.occurred_at FROM memories m WHERE {there.sql}"
                    " AND m.occurred_at BETWEEN %s AND %s",
                    [*there.values, first, last],
                ):
                    if place := bisect_right(bounds, moment):
                        counts[place - 1] += 1
            return counts

        return await self._database.read(work)

    @reading
    def tenants(self, tx: Transaction, path: str, after: str, limit: int) -> Sequence[str]:
        # Every tenant that was ever written to has a row here.
        return tx.column(
            "SELECT tenant_id FROM tenants WHERE tenant_id > %s AND tenant_id < %s"
            " ORDER BY tenant_id LIMIT %s",
            [max(path, after), path_end(path), limit],
        )

    @reading
    def holdings(
        self, tx: Transaction, path: str, queries: Sequence[MemoryQuery]
    ) -> Sequence[Holdings]:
        return [Holdings(self._count(tx, one), _newest(tx, one)) for one in queries]

    def _count(self, tx: Transaction, query: MemoryQuery) -> int:
        there = self._there(tx, query)
        [(number,)] = tx.rows(f"SELECT count(*) FROM memories m WHERE {there.sql}", there.values)
        return int(number)

    def _there(self, tx: Transaction, query: MemoryQuery) -> WhereClause:
        tenant = scope_path(query.scope)
        return all_of(
            WhereClause("m.tenant_id = %s", (tenant,)),
            between(query.begin, query.end),
            below(rest_of(query.namespace)),
            current_at(tx, tenant, self._clock(), query.as_of),
            of_kinds(query.kinds),
            of_thread(tenant, query.thread_id),
            if_set("LOCATE(LOWER(%s), LOWER(m.text)) > 0", query.contains or None),
        )


def _newest(tx: Transaction, query: MemoryQuery) -> datetime | None:
    of_scope = WhereClause("m.tenant_id = %s", (scope_path(query.scope),))
    there = all_of(of_scope, below(rest_of(query.namespace)))
    found = tx.one(
        f"SELECT m.occurred_at FROM memories m WHERE {there.sql}"
        " ORDER BY m.occurred_at DESC, m.memory_id DESC LIMIT 1",
        there.values,
    )
    return found[0] if found else None


class _Logged(NamedTuple):
    """A stored event. is_due: a session log holds it, and it is not remembered yet."""

    seq: int
    author: str
    text: str
    occurred_at: datetime
    recorded_at: datetime
    is_due: int


class _NewTurn(NamedTuple):
    """A turn to remember; logged: its event in the session log, if there is one."""

    row: EventRow
    logged: _Logged | None

    @property
    def is_due(self) -> bool:
        return not self.row.logged if self.logged is None else bool(self.logged.is_due)

    @property
    def source(self) -> _Logged | Event:
        return self.logged or self.row.event

    @property
    def text(self) -> str:
        return self.source.text if self.row.logged else self.row.event.text


def event_of(row: Row) -> Event:
    """Return the event in EVENT_COLUMNS."""
    *first, metadata, importance, expires_at = row
    return event_from_row([*first, json.loads(metadata), importance, expires_at])


def last_turns(
    tx: Transaction, tenant: str, thread_id: ThreadId, limit: int, now: datetime
) -> list[Event]:
    """Return the last remembered turns of a thread, oldest first."""
    newest = tx.rows(
        f"SELECT {EVENT_COLUMNS} FROM events"
        " WHERE tenant_id = %s AND thread_id = %s AND memory_seq IS NOT NULL"
        " AND (expires_at IS NULL OR expires_at > %s) ORDER BY seq DESC LIMIT %s",
        [tenant, thread_id, now, limit],
    )
    return [event_of(row) for row in reversed(newest)]


def forgotten(
    tx: Transaction, tenant: str, thread_id: ThreadId, event_ids: Iterable[str]
) -> set[str]:
    """Return the forgotten ones of some turns of a thread."""
    return set(
        tx.column_in(
            "SELECT event_id FROM tombstones"
            " WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s",
            [tenant, thread_id, event_ids],
        )
    )


def append_turns(
    tx: Transaction,
    scope: Scope,
    thread_id: ThreadId,
    rows: Sequence[EventRow],
    vectors: VectorRows | None,
    now: datetime,
    strength: Strength | None = None,
) -> set[str]:
    """Remember turns in order, and return the ids of the new ones; the tenant is locked.

    New turns are appended to the thread. Logged turns keep their place, and if given without a
    text, their logged text. Known and forgotten turns are skipped.
    """
    tenant = scope_path(scope)
    first: dict[str, EventRow] = {}
    for row in rows:
        first.setdefault(row.event.event_id, row)
    logged = _logged(tx, tenant, thread_id, first)
    buried = forgotten(tx, tenant, thread_id, first)
    known = (_NewTurn(first[one], logged.get(one)) for one in first)
    fresh = [one for one in known if one.is_due and one.row.event.event_id not in buried]
    events = sum(one.logged is None for one in fresh)
    size = sum(len(one.text.encode()) for one in fresh)
    last_seqs = grow_thread(tx, tenant, thread_id, now, events, len(fresh), size)
    _write_events(tx, tenant, thread_id, fresh, last_seqs, now)
    _write_memories(tx, scope, thread_id, fresh, now, strength)
    put_vectors(tx, vectors)
    return {one.row.event.event_id for one in fresh}


def _logged(
    tx: Transaction, tenant: str, thread_id: ThreadId, event_ids: Iterable[str]
) -> dict[str, _Logged]:
    rows = tx.rows_in(
        "SELECT event_id, seq, author, text, occurred_at, recorded_at,"
        " memory_seq IS NULL AND payload IS NOT NULL FROM events"
        " WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s",
        [tenant, thread_id, event_ids],
    )
    return {event_id: _Logged(*columns) for event_id, *columns in rows}


def grow_thread(
    tx: Transaction,
    tenant: str,
    thread_id: str,
    now: datetime,
    events: int,
    remembered: int,
    size: int,
) -> tuple[int, int]:
    """Reserve numbers for events and remembered turns of a thread; return the last ones before.

    A missing thread is created. size: bytes of the remembered turns.
    """
    found = tx.select_one("threads", "last_seq, last_memory_seq", tenant, thread_id=thread_id)
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
            [events, remembered, size, now, tenant, thread_id],
        )
    return found[0], found[1]


def _write_events(
    tx: Transaction,
    tenant: str,
    thread_id: ThreadId,
    fresh: Sequence[_NewTurn],
    last_seqs: tuple[int, int],
    now: datetime,
) -> None:
    """Insert new turns, and update logged ones at their own places."""
    logged, new = list[Row](), list[Row]()
    numbers = count(last_seqs[0] + 1)
    for memory_seq, one in enumerate(fresh, start=last_seqs[1] + 1):
        event, source = one.row.event, one.source
        seq, recorded_at = (
            (one.logged.seq, one.logged.recorded_at) if one.logged else (next(numbers), now)
        )
        row = (
            tenant, thread_id, seq, event.event_id, source.author, event.role, one.text,
            to_json(event.metadata, "event metadata"), source.occurred_at,
            zone_name(event.occurred_at), recorded_at, memory_seq, float(event.importance),
            event.expires_at,
        )  # fmt: skip
        (logged if one.logged else new).append(row)
    tx.insert("events", _STORED, new)
    tx.insert("events", _STORED, logged, update=_REMEMBERED)


def _write_memories(
    tx: Transaction,
    scope: Scope,
    thread_id: ThreadId,
    fresh: Sequence[_NewTurn],
    now: datetime,
    strength: Strength | None,
) -> None:
    tenant, namespace = scope_path(scope), rest_of(memories_namespace(scope))
    kept = [(one, one.row.memory_id) for one in fresh if one.row.memory_id]
    if not kept:
        return
    tx.insert(
        "memories",
        _MEMORIES,
        [
            (tenant, memory_id, namespace, str(memory_id), "episodic", one.text,
             to_json({**one.row.value, "content": one.text}), stored_terms(one.row.terms),
             len(one.row.terms), one.source.author, one.row.event.role,
             float(one.row.event.importance), thread_id, one.source.occurred_at, now, now,
             one.row.event.expires_at)
            for one, memory_id in kept
        ],
    )  # fmt: skip
    tx.insert(
        "memory_sources",
        ("tenant_id", "memory_id", "thread_id", "event_id"),
        [(tenant, memory_id, thread_id, one.row.event.event_id) for one, memory_id in kept],
    )
    strengths: dict[UUID, float | None] = {}
    if strength is not None:
        strengths = {memory_id: _initial(strength, one.row) for one, memory_id in kept}
    timed(tx, tenant, [memory_id for _, memory_id in kept], strengths)


def _initial(strength: Strength, row: EventRow) -> float | None:
    value: Mapping[str, JsonValue] = row.value
    return initial_of(strength, "episodic", row.event.text, row.event.importance, value)
