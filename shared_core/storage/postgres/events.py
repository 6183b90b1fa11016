"""The threads of PostgresStorage: turns that are remembered, read again, and forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from shared_core.core.domain import AsOf, Event, Memory, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import memories_namespace, path_end, rest_of, scope_path, storable
from shared_core.ports.events import EventRow, MemoryQuery
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.jobs import NewJob
from shared_core.storage._rows import (
    as_known,
    event_from_row,
    memory_from_row,
    moments,
    to_tsvector,
)
from shared_core.storage.postgres.connection.database import by_column
from shared_core.storage.postgres.connection.pipeline import Statement
from shared_core.storage.postgres.connection.sql_files import statement
from shared_core.storage.postgres.items import PostgresItems
from shared_core.storage.postgres.jobs import enqueue_step

_EVENT_COLUMNS = (
    "event_ids", "authors", "roles", "texts", "metadata", "occurred_at", "importances",
    "expires_at", "memory_ids", "values", "terms", "term_counts", "strengths",
)  # fmt: skip


class PostgresEvents(PostgresItems):
    """Turns of threads and the memories made of them."""

    async def known_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> Mapping[str, bytes | None]:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "thread_id": thread_id, "event_ids": list(event_ids)}
        [rows] = await self._database.run(tenant, (statement("known_turns"), values))
        return dict(rows)

    async def append_events(
        self,
        scope: Scope,
        thread_id: ThreadId,
        rows: Sequence[EventRow],
        vectors: VectorRows | None,
        job: NewJob | None = None,
    ) -> set[str]:
        now = self._clock()
        held: Statement = (statement("hold_policies"), {"tenants": [scope_path(scope)]})
        steps = [held, *self._append_steps(scope, thread_id, rows, vectors, now)]
        if job:
            steps.append(enqueue_step(scope, thread_id, job, now, changed_at=now))
        _, new, *_ = await self._database.run(scope_path(scope), *steps)
        return {row[0] for row in new}

    def _append_steps(
        self,
        scope: Scope,
        thread_id: ThreadId,
        rows: Sequence[EventRow],
        vectors: VectorRows | None,
        now: datetime,
    ) -> list[Statement]:
        """Return what appends turns; the first statement returns the ids that were new."""
        columns = by_column(
            [
                (row.event.event_id, row.event.author, row.event.role,
                 None if row.logged else row.event.text,
                 to_json(row.event.metadata, "event metadata"), row.event.occurred_at,
                 float(row.event.importance), row.event.expires_at, row.memory_id,
                 to_json(row.value), to_tsvector(row.terms), len(row.terms),
                 self._initial("episodic", row.event.text, row.event.importance, row.value))
                for row in rows
            ],
            len(_EVENT_COLUMNS),
        )  # fmt: skip
        values = dict(zip(_EVENT_COLUMNS, columns, strict=True)) | {
            "tenant": scope_path(scope),
            "thread_id": thread_id,
            "namespace": rest_of(memories_namespace(scope)),
            "now": now,
        }
        return [(statement("append_events"), values), *self._vector_steps(vectors)]

    async def thread_events(self, scope: Scope, thread_id: ThreadId, limit: int) -> Sequence[Event]:
        tenant = scope_path(scope)
        values = self._turns(tenant, thread_id, limit)
        [rows] = await self._database.run(tenant, (statement("thread_events"), values))
        return [event_from_row(row[1:]) for row in reversed(rows)]

    async def thread_history(
        self, scope: Scope, thread_id: ThreadId, limit: int, as_of: AsOf | None = None
    ) -> Sequence[Event]:
        tenant = scope_path(scope)
        values = self._turns(tenant, thread_id, limit) | moments(as_of)
        [rows] = await self._database.run(tenant, (statement("thread_history"), values))
        return [event_from_row(row[1:]) for row in reversed(rows)]

    def _turns(self, tenant: str, thread_id: ThreadId, limit: int) -> dict[str, object]:
        return {"tenant": tenant, "thread_id": thread_id, "limit": limit, "now": self._clock()}

    async def forget_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> int:
        tenant = scope_path(scope)
        values = {
            "tenant": tenant,
            "tenants": [tenant],
            "thread_id": thread_id,
            "event_ids": [event_id for event_id in event_ids if storable(event_id)],
            "now": self._clock(),
        }
        _, rows = await self._database.run(
            tenant, (statement("lock_tenants"), values), (statement("forget_turns"), values)
        )
        return len(rows)

    async def forget_scope(self, scope: Scope, thread_id: ThreadId | None) -> int:
        steps = self._erasing_steps(scope, thread_id)
        _, _, gone, *_ = await self._database.run(scope_path(scope), *steps)
        return len(gone)

    async def list_memories(self, query: MemoryQuery) -> Sequence[Memory]:
        tenant, path = scope_path(query.scope), rest_of(query.namespace)
        values = {
            "tenant": tenant,
            "path": path,
            "path_end": path_end(path),
            "kinds": None if query.kinds is None else list(query.kinds),
            "limit": query.limit,
            "offset": query.offset,
            "thread_id": query.thread_id,
            "now": self._clock(),
            **moments(query.as_of),
        }
        text = statement("list_memories", as_of=query.as_of is not None)
        [rows] = await self._database.run(tenant, (text, values))
        return [as_known(memory_from_row(row), query.as_of) for row in rows]

    async def memories_without_vectors(
        self, scope: Scope, thread_id: ThreadId, model: str, limit: int
    ) -> Sequence[tuple[ItemAddress, str]]:
        tenant, namespace = scope_path(scope), memories_namespace(scope)
        path = rest_of(namespace)
        values = {
            "tenant": tenant,
            "path": path,
            "path_end": path_end(path),
            "thread_id": thread_id,
            "model": model,
            "limit": limit,
            "now": self._clock(),
        }
        [rows] = await self._database.run(tenant, (statement("memories_without_vectors"), values))
        return [((namespace, key), text) for key, text in rows]

    async def add_vectors(self, scope: Scope, vectors: VectorRows) -> None:
        await self._database.run(scope_path(scope), *self._vector_steps(vectors))

    def _erasing_steps(self, scope: Scope, thread_id: ThreadId | None) -> list[Statement]:
        """Return what erases the memory of a scope or one thread; the third returns what went.

        Nobody says anything in its session meanwhile: an input comes before it, or after.
        """
        tenant = scope_path(scope)
        values = {
            "tenant": tenant,
            "tenants": [tenant],
            "thread_id": thread_id,
            "path": tenant,
            "now": self._clock(),
        }
        names = ["lock_conversation", "lock_tenants"]
        names.append("forget_scope" if thread_id is None else "forget_thread")
        names += ["bury_threads", "drop_jobs", "drop_runs", "drop_empty_threads"]
        names.append("drop_conversations")
        if thread_id is None:
            names += ["drop_aliases", "drop_profiles", "mark_all_deleted", "drop_import_marks"]
            names.append("drop_policies")
        return [(statement(name), values) for name in names]
