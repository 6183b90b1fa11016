"""Turns of threads on PostgreSQL: appended, read again, forgotten, erased with a receipt."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared_core.core.domain import AsOf, Event, Memory, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import (
    ROOT,
    from_path,
    memories_namespace,
    rest_of,
    scope_path,
    storable,
    to_path,
)
from shared_core.ports.erasures import ERASED_TABLES, ERASED_TOKEN, ErasureReceipt
from shared_core.ports.events import EventRow, MemoryQuery, SliceOrder
from shared_core.ports.items import ItemAddress, VectorRows
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
from shared_core.storage.postgres.connection.database import PostgresDatabase, by_column
from shared_core.storage.postgres.connection.marks import AnswerLost, Mark
from shared_core.storage.postgres.connection.operations import compiled
from shared_core.storage.postgres.connection.statements import Step, step, steps
from shared_core.storage.postgres.items import PostgresItems, below, vector_steps
from shared_core.storage.postgres.jobs import enqueue_step

DIRECTIONS: Final[Mapping[SliceOrder, str]] = {"newest": "DESC", "oldest": "ASC"}
_EVENT_COLUMNS = (
    "event_ids", "authors", "roles", "texts", "metadata", "occurred_at", "importances",
    "expires_at", "memory_ids", "values", "terms", "term_counts", "strengths",
)  # fmt: skip
ROWS_OF_TENANT = " UNION ALL ".join(
    f"SELECT '{table}' AS name, count(*) AS rows FROM {table} WHERE tenant_id = %(tenant)s"  # noqa: S608
    for table in (*ERASED_TABLES, "embeddings")
)
"""Fills {rows_of_tenant}: the number of rows in each table that an erasure reaches."""


@dataclass
class PostgresEvents:
    """Turns of threads, and the memories of a scope."""

    _database: PostgresDatabase
    _clock: Clock
    _items: PostgresItems

    async def known_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> Mapping[str, bytes | None]:
        rows = await self._database.rows(
            scope_path(scope), "known_turns", thread_id=thread_id, event_ids=list(event_ids)
        )
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
        sent = [
            step("hold_policies", {"tenants": [scope_path(scope)]}),
            self.append_step(scope, thread_id, rows, now),
            *vector_steps(vectors),
        ]
        if job:
            sent.append(enqueue_step(scope, thread_id, job, now, changed_at=now))
        tenant = scope_path(scope)
        try:
            answers = await self._database.run(tenant, *sent, mark=Mark(tenant))
        except AnswerLost:
            return await self._remembered(tenant, thread_id, rows, now)
        return {row[0] for row in answers.named("append_events")}

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

    def append_step(
        self, scope: Scope, thread_id: ThreadId, rows: Sequence[EventRow], now: datetime
    ) -> Step:
        """Return the step that appends turns and returns the ids of those that are new."""
        values = by_column(
            _EVENT_COLUMNS,
            [
                (row.event.event_id, row.event.author, row.event.role,
                 None if row.logged else row.event.text,
                 to_json(row.event.metadata, "event metadata"), row.event.occurred_at,
                 float(row.event.importance), row.event.expires_at, row.memory_id,
                 to_json(row.value), to_tsvector(row.terms), len(row.terms),
                 self._items.initial_strength(
                     "episodic", row.event.text, row.event.importance, row.value))
                for row in rows
            ],
        )  # fmt: skip
        values |= {
            "tenant": scope_path(scope),
            "thread_id": thread_id,
            "namespace": rest_of(memories_namespace(scope)),
            "now": now,
        }
        return step("append_events", values)

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
        sent = steps(values, "lock_tenants", "forget_turns")
        return len((await self._database.run(tenant, *sent)).named("forget_turns"))

    async def forget_scope(self, scope: Scope, thread_id: ThreadId | None) -> int:
        sent = erasing_steps(scope, thread_id, self._clock())
        answers = await self._database.run(scope_path(scope), *sent)
        return len(answers.named("forget_scope" if thread_id is None else "forget_thread"))

    async def list_memories(
        self, query: MemoryQuery, order: SliceOrder, limit: int, offset: int
    ) -> Sequence[Memory]:
        page = {"limit": limit, "offset": offset}
        literals = (("direction", DIRECTIONS[order]),)
        listing = self._step("list_memories", query, page, literals)
        tenant = scope_path(query.scope)
        _, rows = await self._database.run(tenant, step("walk_index"), listing)
        return [as_known(memory_from_row(row), query.as_of) for row in rows]

    async def count_memories(self, query: MemoryQuery, bounds: Sequence[datetime]) -> Sequence[int]:
        counting = self._step("count_memories", query, {"bounds": list(bounds)})
        [rows] = await self._database.run(scope_path(query.scope), counting)
        counts: dict[int, int] = dict(rows)
        return [counts.get(number, 0) for number in range(1, len(bounds) + 1)]

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
        return step(name, {**common, **values}, as_of=query.as_of is not None, literals=literals)

    async def memories_without_vectors(
        self, scope: Scope, thread_id: ThreadId, model: str, limit: int
    ) -> Sequence[tuple[ItemAddress, str]]:
        namespace = memories_namespace(scope)
        values = {"thread_id": thread_id, "model": model, "limit": limit, "now": self._clock()}
        rows = await self._database.rows(
            scope_path(scope), "memories_without_vectors", **below(namespace), **values
        )
        return [((namespace, key), text) for key, text in rows]

    async def add_vectors(self, scope: Scope, vectors: VectorRows) -> None:
        await self._database.run(scope_path(scope), *vector_steps(vectors))


def locking_steps(scope: Scope, thread_id: ThreadId | None, now: datetime) -> list[Step]:
    """Return the locks of an erasure: an input of the session comes before it or after it."""
    tenant = scope_path(scope)
    values = {"tenant": tenant, "tenants": [tenant], "thread_id": thread_id, "now": now}
    return steps(values, "lock_conversation", "lock_tenants")


def forgetting_steps(scope: Scope, thread_id: ThreadId | None, now: datetime) -> list[Step]:
    """Return the steps that erase the memory of a scope, or of one of its threads."""
    tenant = scope_path(scope)
    values = {
        "tenant": tenant, "tenants": [tenant], "thread_id": thread_id, "path": tenant, "now": now,
    }  # fmt: skip
    names = ["forget_scope" if thread_id is None else "forget_thread"]
    names += ["bury_threads", "drop_jobs", "drop_runs", "drop_empty_threads", "drop_conversations"]
    if thread_id is None:
        names += ["drop_aliases", "drop_profiles", "mark_all_deleted", "drop_import_marks"]
        names.append("drop_policies")
    return steps(values, *names)


def erasing_steps(scope: Scope, thread_id: ThreadId | None, now: datetime) -> list[Step]:
    """Return the steps that erase the memory of a scope or a thread, its locks first."""
    return [*locking_steps(scope, thread_id, now), *forgetting_steps(scope, thread_id, now)]


@dataclass
class PostgresErasures:
    """Erasures of users and threads, and their receipts."""

    _database: PostgresDatabase
    _clock: Clock

    async def erase(
        self, scope: Scope, thread_id: ThreadId | None, erasure_id: UUID, requested_at: datetime
    ) -> ErasureReceipt:
        tenant, now = scope_path(scope), self._clock()
        values = {
            "tenant": tenant,
            "app_tenant": to_path((scope.app,)),
            "app": scope.app,
            "user": scope.user,
            "thread_id": thread_id,
            "nobody": ERASED_TOKEN,
            "salt": secrets.token_bytes(32),
            "erasure_id": erasure_id,
            "requested_at": requested_at,
            "now": now,
        }
        last = ["drop_marks_of_words", "erase_logs", "drop_lost_jobs", "blur_profiles"]
        if thread_id is None:
            last += ["erase_user", "bind_app", "erase_tokens", "bind_user"]
        rows = (("rows_of_tenant", ROWS_OF_TENANT),)
        answers = await self._database.run(
            tenant,
            *locking_steps(scope, thread_id, now),
            # Counted within the locks: the receipt then counts what this erasure deletes.
            step("drop_marks_of_words", values),
            step("count_before_erasing", values, literals=rows),
            *forgetting_steps(scope, thread_id, now),
            *steps(values, *last),
            step("add_erasure", values, literals=rows),
            step("erasure", values),
        )
        return _receipt(answers.named("erasure")[0])

    async def erasures(self, scope: Scope | None, app: str | None) -> Sequence[ErasureReceipt]:
        above = scope_path(scope) if scope else ROOT if app is None else to_path((app,))
        rows = await self._database.rows(above, "erasures", above=above)
        return [_receipt(row) for row in rows]


def _receipt(row: Sequence[Any]) -> ErasureReceipt:
    tenant, erasure_id, target, counts, receipt_hash, requested_at, completed_at = row
    return ErasureReceipt(
        erasure_id=erasure_id,
        scope=Scope(*from_path(tenant)),
        thread_id=target.get("thread_id"),
        counts=counts,
        requested_at=requested_at,
        completed_at=completed_at,
        receipt_hash=bytes(receipt_hash).hex(),
    )
