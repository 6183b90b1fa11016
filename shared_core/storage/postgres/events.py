"""Turns of threads on PostgreSQL, and the receipts of erasures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared_core.core.domain import AsOf, Event, Memory, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import (
    ROOT,
    memories_namespace,
    path_end,
    rest_of,
    scope_path,
    to_path,
)
from shared_core.core.time_zones import zone_name
from shared_core.policies.erasing import receipt_of
from shared_core.ports.erasures import ErasureReceipt
from shared_core.ports.events import EventRow, Holdings, KnownTurn, MemoryQuery, SliceOrder
from shared_core.ports.items import VectorRows
from shared_core.ports.jobs import NewJob
from shared_core.ports.operations import Select, equal, one_of
from shared_core.ports.storage import Clock
from shared_core.storage._rows import (
    as_known,
    event_from_row,
    memory_from_row,
    moments,
    to_tsvector,
)
from shared_core.storage.postgres.connection.changes import note_step
from shared_core.storage.postgres.connection.database import PostgresDatabase, by_column
from shared_core.storage.postgres.connection.marks import AnswerLost, Mark
from shared_core.storage.postgres.connection.operations import compiled
from shared_core.storage.postgres.connection.statements import Step, step, steps
from shared_core.storage.postgres.items import PostgresItems, below, vector_steps
from shared_core.storage.postgres.jobs import enqueue_step

DIRECTIONS: Final[Mapping[SliceOrder, str]] = {"newest": "DESC", "oldest": "ASC"}
_CONTAINS = "strpos(lower(m.text), lower(%(contains)s)) > 0"
_EVENT_COLUMNS = (
    "event_ids", "authors", "roles", "texts", "metadata", "occurred_at", "time_zones",
    "importances", "expires_at", "memory_ids", "values", "terms", "term_counts", "strengths",
)  # fmt: skip


@dataclass
class PostgresEvents:
    """Turns of threads, and the memories of a scope."""

    _database: PostgresDatabase
    _clock: Clock
    _items: PostgresItems

    async def known_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> Mapping[str, KnownTurn]:
        rows = await self._database.rows(
            scope_path(scope), "known_turns", thread_id=thread_id, event_ids=list(event_ids)
        )
        return {event_id: KnownTurn(*known) for event_id, *known in rows}

    async def append_events(
        self,
        scope: Scope,
        thread_id: ThreadId,
        rows: Sequence[EventRow],
        vectors: VectorRows | None,
        job: NewJob | None = None,
    ) -> set[str]:
        now = self._clock()
        sent = [*self.append_steps(scope, thread_id, rows, now), *vector_steps(vectors)]
        if job:
            sent.append(enqueue_step(scope, thread_id, job, now, changed_at=now))
        tenant = scope_path(scope)
        ids = [row.memory_id for row in rows if row.memory_id]
        sent += self._database.noted(note_step(tenant, ids))
        try:
            answers = await self._database.run(tenant, *sent, mark=Mark(tenant))
        except AnswerLost:
            return await self._remembered(tenant, thread_id, rows, now)
        return {row[0] for row in answers.named("append_turns")}

    async def _remembered(
        self, tenant: str, thread_id: str, rows: Sequence[EventRow], now: datetime
    ) -> set[str]:
        """Return the ids of the turns that an append stored whose answer was lost."""
        ids = [row.memory_id for row in rows if row.memory_id]
        wordless = [row.event.event_id for row in rows if not row.memory_id]
        memories = Select("memories", ("memory_id",), (one_of("memory_id", ids),))
        of_thread = (equal("thread_id", thread_id), one_of("event_id", wordless))
        events = Select("events", ("event_id",), (*of_thread, equal("recorded_at", now)))
        stored, recorded = await self._database.run(
            tenant, *(Step("select", *compiled(one, tenant)) for one in (memories, events))
        )
        found = {memory_id for (memory_id,) in stored}
        return {event_id for (event_id,) in recorded} | {
            row.event.event_id for row in rows if row.memory_id in found
        }

    def append_steps(
        self, scope: Scope, thread_id: ThreadId, rows: Sequence[EventRow], now: datetime
    ) -> list[Step]:
        """Return the steps that append turns; append_turns returns the ids of the new ones."""
        first = {row.event.event_id: row for row in reversed(rows)}
        values = by_column(
            _EVENT_COLUMNS,
            [
                (row.event.event_id, row.event.author, row.event.role,
                 None if row.logged else row.event.text,
                 to_json(row.event.metadata, "event metadata"), row.event.occurred_at,
                 zone_name(row.event.occurred_at), float(row.event.importance),
                 row.event.expires_at, row.memory_id,
                 to_json(row.value), to_tsvector(row.terms), len(row.terms),
                 self._items.initial_strength(
                     "episodic", row.event.text, row.event.importance, row.value))
                for row in reversed(first.values())
            ],
        )  # fmt: skip
        values |= {
            "tenant": scope_path(scope),
            "thread_id": thread_id,
            "namespace": rest_of(memories_namespace(scope)),
            "now": now,
        }
        names = ["begin_append", "hold_thread", "append_turns"]
        if any(row.memory_id for row in rows):
            names += ["keep_turns", "source_turns", "time_turns"]
        return steps(values, *names, "count_turns")

    async def thread_events(self, scope: Scope, thread_id: ThreadId, limit: int) -> Sequence[Event]:
        rows = await self._database.rows(
            scope_path(scope), "thread_events", thread_id=thread_id, limit=limit, now=self._clock()
        )
        return [event_from_row(row[1:]) for row in reversed(rows)]

    async def thread_history(
        self, scope: Scope, thread_id: ThreadId, limit: int, as_of: AsOf | None = None
    ) -> Sequence[Event]:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "thread_id": thread_id, "limit": limit, "now": self._clock()}
        [rows] = await self._database.run(tenant, step("thread_history", values | moments(as_of)))
        return [event_from_row(row[1:]) for row in reversed(rows)]

    async def list_memories(
        self, query: MemoryQuery, order: SliceOrder, limit: int, offset: int
    ) -> Sequence[Memory]:
        page = {"limit": limit, "offset": offset}
        literals = (("direction", DIRECTIONS[order]),)
        listing = self._step("list_memories", query, page, literals)
        # A thread is found by its turns, so the index of its user would be walked in vain.
        walking = [] if query.thread_id is not None else [step("walk_index")]
        *_, rows = await self._database.run(scope_path(query.scope), *walking, listing)
        return [as_known(memory_from_row(row), query.as_of) for row in rows]

    async def count_memories(self, query: MemoryQuery, bounds: Sequence[datetime]) -> Sequence[int]:
        counting = self._step("count_memories", query, {"bounds": list(bounds)})
        [rows] = await self._database.run(scope_path(query.scope), counting)
        counts: dict[int, int] = dict(rows)
        return [counts.get(number, 0) for number in range(1, len(bounds) + 1)]

    async def tenants(self, path: str, after: str, limit: int) -> Sequence[str]:
        name = "tenants_of_cluster" if self._database.is_spread else "tenants"
        values = {"after": max(path, after), "tenant_end": path_end(path), "limit": limit}
        _, rows = await self._database.run(path, step("by_index"), step(name, values))
        return [tenant for (tenant,) in rows]

    async def holdings(self, path: str, queries: Sequence[MemoryQuery]) -> Sequence[Holdings]:
        steps = [self._step("count_memories", query, {"bounds": []}) for query in queries]
        newest_steps = [self._step("newest_memory", query, {}) for query in queries]
        rows = await self._database.run(path, *steps, step("walk_index"), *newest_steps)
        counted, newest = rows[: len(queries)], rows[len(queries) + 1 :]
        return [
            Holdings(sum(count for _, count in counts), moment[0][0] if moment else None)
            for counts, moment in zip(counted, newest, strict=True)
        ]

    def _step(
        self,
        name: str,
        query: MemoryQuery,
        values: Mapping[str, object],
        literals: tuple[tuple[str, str], ...] = (),
    ) -> Step:
        common = below(query.namespace) | {
            "tenant": scope_path(query.scope),
            "kinds": None if query.kinds is None else list(query.kinds),
            "begin": query.begin or "-infinity",
            "end": query.end or "infinity",
            "now": self._clock(),
            **moments(query.as_of),
        }
        if query.thread_id is not None:
            common["thread_id"] = query.thread_id
        if query.contains:
            common["contains"] = query.contains
        return step(
            name,
            {**common, **values},
            as_of=query.as_of is not None,
            of_thread=query.thread_id is not None,
            filter_sql=_CONTAINS if query.contains else "true",
            literals=literals,
        )


@dataclass
class PostgresErasures:
    """The receipts of erasures."""

    _database: PostgresDatabase

    async def receipts(self, app: str | None) -> Sequence[ErasureReceipt]:
        above = ROOT if app is None else to_path((app,))
        rows = await self._database.rows(above, "erasures", above=above)
        return [receipt_of(row[0], row[1:]) for row in rows]
