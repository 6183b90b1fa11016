"""OceanBaseStorage: runs that turn turns into knowledge."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Memory, MemoryKind, Scope, ThreadId
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path, summary_key
from shared_core.errors import Conflict
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.runs import Known, LikeText, Reading, ReadRequest, RunPlan, RunRecord
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.rows import memory_columns, memory_of, sources_of
from shared_core.storage.oceanbase.run_likeness import like_texts
from shared_core.storage.oceanbase.run_reads import (
    ThreadAsked,
    known_edges,
    known_facts,
    known_retractions,
    read_thread,
)
from shared_core.storage.oceanbase.run_records import last_number
from shared_core.storage.oceanbase.run_undo import undo_run
from shared_core.storage.oceanbase.run_writing import apply_run
from shared_core.storage.oceanbase.visibility import Condition, all_of, below, living


class OceanBaseRuns(OceanBasePart):
    """Reads for runs, applies them, and undoes them."""

    async def read_thread(
        self, scope: Scope, thread_id: ThreadId, request: ReadRequest
    ) -> Reading | None:
        now = self._clock()
        asked = ThreadAsked(
            tenant=scope_path(scope),
            thread_id=thread_id,
            namespace=rest_of(memories_namespace(scope)),
            summary_key=summary_key(thread_id),
        )
        return await self._database.read(lambda tx: read_thread(tx, asked, request, now))

    async def known(
        self,
        scope: Scope,
        slots: Sequence[str],
        relations: Sequence[tuple[str, str]],
        since: datetime,
    ) -> Known:
        tenant = scope_path(scope)
        return await self._database.read(
            lambda tx: Known(
                number=last_number(tx, tenant),
                facts=known_facts(tx, tenant, slots, since),
                retractions=known_retractions(tx, tenant, slots, since),
                edges=known_edges(tx, tenant, relations, since),
            )
        )

    async def like_texts(
        self,
        scope: Scope,
        kinds: Sequence[MemoryKind],
        words_keys: Mapping[ItemAddress, UUID],
        vectors: VectorRows | None,
    ) -> Mapping[ItemAddress, Sequence[LikeText]]:
        tenant, path = scope_path(scope), rest_of(memories_namespace(scope))
        now = self._clock()
        return await self._database.read(
            lambda tx: like_texts(tx, tenant, path, kinds, words_keys, vectors, now)
        )

    async def apply_run(self, plan: RunPlan) -> None:
        tenant, now = scope_path(plan.scope), self._clock()

        def work(tx: Transaction) -> None:
            tx.lock(tenant)
            apply_run(tx, plan, now, self._strength)

        try:
            await self._database.write(work)
        except Conflict as error:
            raise Conflict(
                f"another run consolidated thread {plan.thread_id!r}, or changed a fact it"
                " touches, at the same time: read again and repeat"
            ) from error

    async def list_runs(
        self, scope: Scope, thread_id: ThreadId | None, limit: int
    ) -> Sequence[RunRecord]:
        wanted = Condition("tenant_id = %s", (scope_path(scope),))
        if thread_id is not None:
            wanted = all_of(wanted, Condition("thread_id = %s", (thread_id,)))

        def work(tx: Transaction) -> list[Row]:
            return tx.rows(
                "SELECT run_id, kind, thread_id, extractor, counts, started_at, finished_at,"
                f" undone_at FROM runs WHERE {wanted.sql} ORDER BY number DESC LIMIT %s",
                *wanted.values,
                limit,
            )

        return [_record(row) for row in await self._database.read(work)]

    async def undo_run(self, scope: Scope, run_id: UUID) -> None:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> None:
            tx.lock(tenant)
            undo_run(tx, scope, run_id, now)

        await self._database.write(work)

    async def recent_memories(self, scope: Scope, limit: int) -> Sequence[Memory]:
        tenant = scope_path(scope)
        wanted = all_of(
            Condition("m.tenant_id = %s", (tenant,)),
            below(rest_of(memories_namespace(scope))),
            living(self._clock()),
            Condition("m.kind <> 'reflection'"),
        )

        def work(tx: Transaction) -> list[Memory]:
            rows = tx.rows(
                f"SELECT {memory_columns('m')} FROM memories m WHERE {wanted.sql}"
                " ORDER BY m.occurred_at DESC, m.memory_id DESC LIMIT %s",
                *wanted.values,
                limit,
            )
            sources = sources_of(tx, tenant, [row[0] for row in rows])
            return [memory_of(row, sources.get(row[0], ())) for row in rows]

        return await self._database.read(work)


def _record(row: Row) -> RunRecord:
    return RunRecord(
        run_id=row[0],
        kind=row[1],
        thread_id=row[2] and ThreadId(row[2]),
        extractor=row[3],
        counts=json.loads(row[4]),
        started_at=row[5],
        finished_at=row[6],
        undone_at=row[7],
    )
