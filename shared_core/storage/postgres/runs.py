"""Runs on PostgreSQL: what one reads of a thread, and what it changes, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import psycopg
from pgvector import HalfVector

from shared_core.core.domain import Memory, MemoryId, MemoryKind, Scope, ThreadId
from shared_core.core.ids import uuid7
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import (
    memories_namespace,
    path_end,
    rest_of,
    scope_path,
    summary_key,
)
from shared_core.errors import Conflict, NotFound
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.runs import (
    Known,
    LikeText,
    ReadRequest,
    RunPlan,
    RunRecord,
    ThreadWindow,
)
from shared_core.storage._rows import event_from_row, memory_from_row, utc
from shared_core.storage.postgres.connection.pipeline import Statement
from shared_core.storage.postgres.connection.sql_files import statement
from shared_core.storage.postgres.events import PostgresEvents
from shared_core.storage.postgres.items import address_columns
from shared_core.storage.postgres.jobs import PostgresJobs
from shared_core.storage.postgres.run_columns import (
    edge_columns,
    edge_source_columns,
    fact_columns,
    known_edge,
    known_fact,
    known_person,
    known_retraction,
    relation_columns,
    retraction_columns,
    revival_columns,
    source_columns,
    turn_columns,
)


class PostgresRuns(PostgresEvents, PostgresJobs):
    """Reads for runs, applies them, and undoes them."""

    async def read_thread(
        self, scope: Scope, thread_id: ThreadId, request: ReadRequest
    ) -> ThreadWindow | None:
        values = self._thread(scope, thread_id) | {
            "turns": request.turns,
            "context": request.context,
            "replay": request.replay + request.reread if request.replay else 0,
            "reread": request.reread,
            "people": request.people,
        }
        names = ["read_marks", "unread_turns", "turns_before", "turns_to_sum_up", "last_run"]
        names += ["known_people"] if request.people else []
        marks, unread, before, replay, [[number]], *people = await self._database.run(
            scope_path(scope), *[(statement(name), values) for name in names]
        )
        if not marks:
            return None
        read_mark, replay_mark, summed, summary, summary_run = marks[0]
        return ThreadWindow(
            read_mark=read_mark,
            turns=[(row[0], event_from_row(row[1:])) for row in unread],
            context=[event_from_row(row[1:]) for row in reversed(before)],
            replay_mark=replay_mark,
            summed=summed,
            replay=[(row[0], event_from_row(row[1:])) for row in replay],
            summary=summary or "",
            summary_run=summary_run,
            people=[known_person(row) for rows in people for row in rows],
            known_number=number,
        )

    async def known(
        self,
        scope: Scope,
        slots: Sequence[str],
        relations: Sequence[tuple[str, str]],
        since: datetime,
    ) -> Known:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "slots": list(slots), "since": since}
        values |= relation_columns(relations)
        names = ("last_run", "known_facts", "known_retractions", "known_edges")
        [[number]], facts, retractions, edges = await self._database.run(
            tenant, *[(statement(name), values) for name in names]
        )
        return Known(
            number=number,
            facts=[known_fact(row) for row in facts],
            retractions=[known_retraction(row) for row in retractions],
            edges=[known_edge(row) for row in edges],
        )

    async def like_texts(
        self,
        scope: Scope,
        kinds: Sequence[MemoryKind],
        words_keys: Mapping[ItemAddress, UUID],
        vectors: VectorRows | None,
    ) -> Mapping[ItemAddress, Sequence[LikeText]]:
        path = rest_of(memories_namespace(scope))
        common = {
            "tenant": scope_path(scope),
            "path": path,
            "path_end": path_end(path),
            "kinds": list(kinds),
            "now": self._clock(),
        }
        asked: list[tuple[list[ItemAddress], str, dict[str, object]]] = [
            (list(words_keys), "said_texts", {"words_keys": list(words_keys.values())})
        ]
        if vectors is not None:
            near: dict[str, object] = {
                "model": vectors.model,
                "embeddings": [HalfVector(vector) for vector in vectors.vectors],
            }
            asked.append((list(vectors.addresses), "like_texts", near))
        answers = await self._database.run(
            scope_path(scope), *[(statement(name), common | values) for _, name, values in asked]
        )
        found: dict[ItemAddress, list[LikeText]] = {}
        for (addresses, _, _), rows in zip(asked, answers, strict=True):
            for place, memory_id, text, similarity in rows:
                like = LikeText(
                    memory_id=MemoryId(memory_id), text=text, similarity=float(similarity)
                )
                found.setdefault(addresses[place - 1], []).append(like)
        return found

    async def apply_run(self, plan: RunPlan) -> None:
        try:
            await self._database.run(scope_path(plan.scope), *self._run_steps(plan))
        except (Conflict, psycopg.errors.UniqueViolation) as error:
            raise Conflict(
                f"another run consolidated thread {plan.thread_id!r}, or changed a fact it"
                " touches, at the same time: read again and repeat"
            ) from error

    def _run_steps(self, plan: RunPlan) -> list[Statement]:
        tenant = scope_path(plan.scope)
        common: dict[str, object] = {
            "tenant": tenant,
            "thread_id": plan.thread_id,
            "run_id": plan.run_id,
            "namespace": rest_of(memories_namespace(plan.scope)),
            "summary_key": plan.summary_key,
            "summary_run": plan.summary_run,
            "copy_id": uuid7(),
            "now": self._clock(),
            **_passages(plan),
        }
        closed = {
            "memory_ids": [memory_id for memory_id, _ in plan.close],
            "valid_until": [until for _, until in plan.close],
        }
        closed_edges = {
            "edge_ids": [edge_id for edge_id, _ in plan.close_edges],
            "edges_until": [until for _, until in plan.close_edges],
        }
        inherited = address_columns(address for address, _ in plan.inherited) | {
            "inherited": [memory_id for _, memory_id in plan.inherited]
        }
        sources = address_columns(source.address for source in plan.sources)
        record = {
            "kind": str(plan.kind),
            "extractor": plan.extractor,
            "started_at": plan.started_at,
            "counts": to_json(plan.counts),
        }
        revived = revival_columns(plan.revival) if plan.revival else {}
        steps: list[tuple[str, Mapping[str, object], bool]] = [
            # Before the lock of the tenant, as in every write: another order may deadlock.
            ("hold_policies", {"tenants": [tenant]}, bool(revived)),
            ("lock_tenants", {"tenants": [tenant]}, True),
            ("require_turns", turn_columns(sorted({*plan.drawn_from})), bool(plan.drawn_from)),
            ("require_memories", inherited, bool(plan.inherited)),
            ("require_summary", {}, plan.summary_key is not None),
            (
                "require_known",
                {"slots": list(plan.slots), "known_number": plan.known_number}
                | relation_columns(plan.relations),
                bool(plan.slots or plan.relations),
            ),
            ("require_unsaid", {"words_keys": list(plan.unsaid)}, bool(plan.unsaid)),
            ("move_marks", {}, plan.thread_id is not None),
            ("add_run", record, True),
            ("lock_memories", revived, bool(revived)),
            ("require_faded", revived, bool(revived)),
            ("note_revived", revived, bool(revived)),
            ("revive_memories", revived, bool(revived)),
            ("close_facts", closed, bool(plan.close)),
            ("close_edges", closed | closed_edges, bool(plan.close or plan.close_edges)),
            (
                "move_edge_ends",
                {
                    "edge_ids": [edge_id for edge_id, _ in plan.move_edges],
                    "edges_until": [until for _, until in plan.move_edges],
                },
                bool(plan.move_edges),
            ),
            ("keep_summary", {"started_at": plan.started_at}, plan.summary_key is not None),
        ]
        later: list[tuple[str, Mapping[str, object], bool]] = [
            ("add_facts", fact_columns(plan.facts) | record, bool(plan.facts)),
            ("add_retractions", retraction_columns(plan.retractions), bool(plan.retractions)),
            ("note_bounds", {"bounds": list(plan.bounds)}, bool(plan.bounds)),
            ("add_edges", edge_columns(plan.edges), bool(plan.edges)),
            ("add_edge_sources", edge_source_columns(plan.edge_sources), bool(plan.edge_sources)),
            ("add_sources", sources | source_columns(plan.sources), bool(plan.sources)),
            ("retire_memories", {"memory_ids": list(plan.ended)}, bool(plan.ended)),
            ("retire_drawn", {}, bool(plan.ended)),
            ("inherit_sources", inherited, bool(plan.inherited)),
            ("add_bases", inherited, bool(plan.inherited)),
            ("add_summary_sources", {}, plan.summary_key is not None),
            ("bound_summary", {}, plan.summary_key is not None),
            ("renew_facts", sources, bool(plan.sources)),
            ("rate_turns", {
                "event_ids": [note.event_id for note in plan.annotations],
                "importances": [note.importance for note in plan.annotations],
                "emotions": [
                    note.emotion and to_json({
                        "valence": note.emotion.valence, "arousal": note.emotion.arousal,
                        "label": note.emotion.label})
                    for note in plan.annotations
                ]}, bool(plan.annotations)),
            ("retime_turns", {"event_ids": [note.event_id for note in plan.annotations]},
             bool(plan.annotations)),
        ]  # fmt: skip
        return [
            *((statement(name), {**common, **values}) for name, values, wanted in steps if wanted),
            *self._put_steps(plan.memories),
            *self._vector_steps(plan.vectors),
            *(self._vector_steps(plan.revival.vectors) if plan.revival else ()),
            *((statement(name), {**common, **values}) for name, values, wanted in later if wanted),
            *([self._extraction_step(plan.scope, plan.reflection)] if plan.reflection else []),
        ]

    async def list_runs(
        self, scope: Scope, thread_id: ThreadId | None, limit: int
    ) -> Sequence[RunRecord]:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "thread_id": thread_id, "limit": limit}
        [rows] = await self._database.run(tenant, (statement("list_runs"), values))
        return [
            RunRecord(
                run_id=row[0],
                kind=row[1],
                thread_id=row[2] and ThreadId(row[2]),
                extractor=row[3],
                counts=row[4],
                started_at=utc(row[5]),
                finished_at=utc(row[6]),
                undone_at=row[7] and utc(row[7]),
            )
            for row in rows
        ]

    async def undo_run(self, scope: Scope, run_id: UUID) -> None:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "tenants": [tenant], "run_id": run_id, "now": self._clock()}
        found, later = await self._database.run(
            tenant, (statement("find_run"), values), (statement("later_runs"), values)
        )
        if not found:
            raise NotFound(f"there is no run {run_id} of {scope}: engine.runs() lists them")
        if found[0][0] is not None:
            raise Conflict(f"run {run_id} was undone already, at {utc(found[0][0]).isoformat()}")
        if later:
            named = ", ".join(str(row[0]) for row in later[:5])
            raise Conflict(
                f"{len(later)} later runs build on run {run_id}: undo them first, in this order:"
                f" {named}{', ...' if len(later) > 5 else ''}"
            )
        names = ("hold_policies", "lock_tenants", "require_last", "begin_undo", "restore_summary",
                 "restore_summary_vectors", "unwrite", "drop_baseless", "reopen",
                 "move_back", "fade_again", "retire_drawn", "move_marks_back", "part_aliases",
                 "rejoin_aliases", "require_entities", "retime_run")  # fmt: skip
        try:
            await self._database.run(tenant, *[(statement(name), values) for name in names])
        except psycopg.errors.UniqueViolation as error:
            raise Conflict(
                f"what run {run_id} ended cannot hold again: something else has taken its place"
                " since, which no run names"
            ) from error

    async def recent_memories(self, scope: Scope, limit: int) -> Sequence[Memory]:
        path = rest_of(memories_namespace(scope))
        values = {
            "tenant": scope_path(scope),
            "path": path,
            "path_end": path_end(path),
            "limit": limit,
            "now": self._clock(),
        }
        [rows] = await self._database.run(scope_path(scope), (statement("recent_memories"), values))
        return [memory_from_row(row) for row in rows]

    def _thread(self, scope: Scope, thread_id: ThreadId) -> dict[str, object]:
        return {
            "tenant": scope_path(scope),
            "thread_id": thread_id,
            "namespace": rest_of(memories_namespace(scope)),
            "summary_key": summary_key(thread_id),
            "now": self._clock(),
        }


def _passages(plan: RunPlan) -> dict[str, int | None]:
    return {
        "from_seq": plan.read.mark if plan.read else None,
        "to_seq": plan.read.to if plan.read else None,
        "summed_from": plan.summed.mark if plan.summed else None,
        "summed_to": plan.summed.to if plan.summed else None,
    }
