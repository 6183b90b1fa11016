"""OceanBaseStorage: turns that are remembered, read again, and forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared_core.core.domain import AsOf, Event, Memory, Scope, ThreadId
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path, storable
from shared_core.ports.events import EventRow, MemoryQuery
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.jobs import NewJob
from shared_core.storage._rows import as_known
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.erasure_steps import erase
from shared_core.storage.oceanbase.event_steps import (
    EVENT_COLUMNS,
    append_turns,
    event_of,
    forgotten,
    last_turns,
    write_vectors,
)
from shared_core.storage.oceanbase.forgetting import forget_turns
from shared_core.storage.oceanbase.jobs import enqueue
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
            write_vectors(tx, vectors)

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
