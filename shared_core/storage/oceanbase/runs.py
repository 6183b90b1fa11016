"""OceanBaseStorage: runs that turn turns into knowledge, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import MemoryKind, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path, summary_key
from shared_core.core.retention_policy import Strength
from shared_core.errors import Conflict
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.runs import (
    Annotation,
    LikeText,
    PlannedEdge,
    ReadRequest,
    RunPlan,
    ThreadWindow,
)
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Transaction, grouped
from shared_core.storage.oceanbase.item_writes import ids_at, put_rows, put_vectors, strengths_of
from shared_core.storage.oceanbase.job_steps import count_extraction
from shared_core.storage.oceanbase.retention_fading import note_revived, require_faded, revive
from shared_core.storage.oceanbase.retention_timing import retime
from shared_core.storage.oceanbase.run_changes import (
    add_edge_sources,
    add_sources,
    add_summary_sources,
    bound_summary,
    close_edges,
    close_facts,
    inherit,
    keep_summary,
    move_edge_ends,
    renew,
    require_places,
    require_unchanged,
    retire_drawn,
    retire_memories,
)
from shared_core.storage.oceanbase.run_reads import ThreadSource, like_texts, read_thread
from shared_core.storage.oceanbase.run_records import insert_run, note, set_each

_FACTS = (
    "tenant_id", "memory_id", "fact_type", "slot", "`key`", "value", "functional", "confidence",
    "extractor", "pattern", "valid_from", "valid_until", "recorded_at", "superseded_at",
)  # fmt: skip
_EDGES = (
    "tenant_id", "edge_id", "memory_id", "fact_id", "run_id", "subject", "relation", "object",
    "subject_key", "object_key", "functional", "confidence", "valid_from", "valid_until",
    "recorded_at", "superseded_at",
)  # fmt: skip
_RETRACTIONS = (
    "tenant_id", "retraction_id", "run_id", "fact_type", "slot", "subject_key", "value", "said_at",
    "valid_until", "thread_id", "event_ids",
)  # fmt: skip
_USUAL = 5.0
"""The importance of a turn that nobody rated."""


class OceanBaseRuns(OceanBasePart):
    """Reads for runs, applies runs, and undoes them."""

    async def read_thread(
        self, scope: Scope, thread_id: ThreadId, request: ReadRequest
    ) -> ThreadWindow | None:
        now = self._clock()
        source = ThreadSource(
            tenant=scope_path(scope),
            thread_id=thread_id,
            namespace=rest_of(memories_namespace(scope)),
            summary_key=summary_key(thread_id),
        )
        return await self._database.read(lambda tx: read_thread(tx, source, request, now))

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

        try:
            await self._database.write(lambda tx: apply_run(tx, plan, now, self._strength), tenant)
        except Conflict as error:
            raise Conflict(
                f"another run consolidated thread {plan.thread_id!r} at the same time, or changed a"
                " fact of this run: read the thread again and repeat the run"
            ) from error


def apply_run(tx: Transaction, plan: RunPlan, now: datetime, strength: Strength | None) -> None:
    """Apply a run; the tenant is locked. Raises Conflict if another run came first."""
    tenant, namespace = scope_path(plan.scope), rest_of(memories_namespace(plan.scope))
    require_unchanged(tx, tenant, namespace, plan, now)
    if plan.thread_id is not None:
        _move_marks(tx, tenant, plan)
    _insert_run(tx, tenant, plan, now)
    if plan.revival:
        faded = plan.revival.faded
        require_faded(tx, tenant, faded)
        note_revived(tx, tenant, plan.run_id, [one.memory_id for one in faded], now)
        revive(tx, tenant, plan.revival, now)
    close_facts(tx, tenant, plan.run_id, plan.close, now)
    close_edges(tx, tenant, plan.run_id, plan.close_edges, plan.close, now)
    move_edge_ends(tx, tenant, plan.run_id, plan.move_edges, now)
    copy_id = keep_summary(tx, tenant, namespace, plan, now) if plan.summary_key else None
    if plan.memories:
        put_rows(tx, plan.memories, now, strengths_of(strength, plan.memories))
    put_vectors(tx, plan.vectors)
    _write_structure(tx, tenant, plan, now)
    _write_sources(tx, tenant, plan, copy_id, now)
    _rate_turns(tx, tenant, plan, now)
    if plan.reflection:
        count_extraction(tx, plan.scope, plan.reflection, now)


def _insert_run(tx: Transaction, tenant: str, plan: RunPlan, now: datetime) -> None:
    read, summed = plan.read, plan.summed
    columns = {
        "run_id": plan.run_id,
        "kind": str(plan.kind),
        "thread_id": plan.thread_id,
        "extractor": plan.extractor,
        "from_seq": read.mark if read else None,
        "to_seq": read.to if read else None,
        "summed_from_seq": summed.mark if summed else None,
        "summed_to_seq": summed.to if summed else None,
        "counts": to_json(plan.counts),
        "started_at": plan.started_at,
        "finished_at": now,
    }
    insert_run(tx, tenant, columns)


def _write_structure(tx: Transaction, tenant: str, plan: RunPlan, now: datetime) -> None:
    """Write facts, retractions and edges."""
    _add_facts(tx, tenant, plan, now)
    tx.insert(
        "retractions",
        _RETRACTIONS,
        (
            (tenant, one.retraction_id, plan.run_id, one.fact_type, one.slot, one.subject_key,
             one.value, one.said_at, one.valid_until, plan.thread_id, to_json(list(event_ids)))
            for one, event_ids in plan.retractions
        ),
    )  # fmt: skip
    note(tx, tenant, plan.run_id, "bounded", ((one, {}) for one in dict.fromkeys(plan.bounds)))
    tx.insert("edges", _EDGES, (_edge(tenant, plan.run_id, edge, now) for edge in plan.edges))
    require_places(
        tx, tenant, [fact.memory_id for fact in plan.facts], [edge.edge_id for edge in plan.edges]
    )


def _write_sources(
    tx: Transaction, tenant: str, plan: RunPlan, copy_id: UUID | None, now: datetime
) -> None:
    """Write the provenance of what a run wrote, and retire what it ended."""
    add_edge_sources(tx, tenant, plan.run_id, plan.edge_sources)
    add_sources(tx, tenant, plan.run_id, plan.sources)
    if plan.ended:
        retire_memories(tx, tenant, plan.run_id, plan.ended, now)
        retire_drawn(tx, tenant, plan.run_id, now)
    inherit(tx, tenant, plan.inherited)
    if plan.summary_key is not None:
        address = (memories_namespace(plan.scope), plan.summary_key)
        for summary_id in ids_at(tx, [address]).values():
            add_summary_sources(tx, tenant, plan, summary_id, replaces=copy_id is not None)
            if copy_id is not None:
                bound_summary(tx, tenant, summary_id, copy_id)
    renew(tx, tenant, plan.run_id, plan.sources)


def _move_marks(tx: Transaction, tenant: str, plan: RunPlan) -> None:
    """Move the marks of a thread to where the run ended; unread turns keep their share of bytes.

    Raises Conflict if another run moved them first.
    """
    row = tx.one(
        "SELECT consolidated_seq, summarised_seq, last_memory_seq, unread_bytes FROM threads"
        " WHERE tenant_id = %s AND thread_id = %s",
        [tenant, plan.thread_id],
    )
    if row is None:
        raise Conflict("the thread is gone")
    read_to, summed_to, last, unread = row
    if plan.read is not None:
        if plan.read.mark != read_to:
            raise Conflict("the thread was consolidated by another run")
        unread = unread * max(0, last - plan.read.to) // max(1, last - read_to)
        read_to = plan.read.to
    if plan.summed is not None:
        if plan.summed.mark != summed_to:
            raise Conflict("the thread was consolidated by another run")
        summed_to = plan.summed.to
    tx.run(
        "UPDATE threads SET consolidated_seq = %s, summarised_seq = %s, unread_bytes = %s"
        " WHERE tenant_id = %s AND thread_id = %s",
        [read_to, summed_to, unread, tenant, plan.thread_id],
    )


def _add_facts(tx: Transaction, tenant: str, plan: RunPlan, now: datetime) -> None:
    tx.insert(
        "facts",
        _FACTS,
        (
            (tenant, fact.memory_id, fact.draft.fact_type, fact.draft.slot, fact.key,
             to_json(fact.draft.value), fact.draft.functional, float(fact.draft.confidence),
             plan.extractor, fact.draft.pattern, fact.valid_from, fact.valid_until, now,
             None if fact.valid_until is None else now)
            for fact in plan.facts
        ),
    )  # fmt: skip


def _edge(tenant: str, run_id: UUID, edge: PlannedEdge, now: datetime) -> tuple[object, ...]:
    draft = edge.draft
    return (
        tenant, edge.edge_id, edge.memory_id, edge.fact_id, run_id, draft.subject, draft.relation,
        draft.object, edge.subject_key, edge.object_key, draft.functional, float(draft.confidence),
        edge.valid_from, edge.valid_until, now, None if edge.valid_until is None else now,
    )  # fmt: skip


def _rate_turns(tx: Transaction, tenant: str, plan: RunPlan, now: datetime) -> None:
    """Write the importance of turns that nobody rated, and the emotion of turns without one."""
    rated, noted = {}, []
    turns = _turns_of(tx, tenant, plan)
    for annotation in plan.annotations:
        unfelt = [row for row in turns.get(annotation.event_id, ()) if not _has_emotion(row[2])]
        for memory_id, importance, text in unfelt[:1]:
            emotion = _emotion_of(annotation)
            rating = annotation.importance
            new = rating if importance == _USUAL and rating is not None else importance
            rated[memory_id] = (float(new), text if emotion is None else _with(text, emotion))
            noted.append((memory_id, {"importance": importance, "emotion": emotion is not None}))
    set_each(tx, "memories", "memory_id", tenant, ("importance", "value"), rated)
    note(tx, tenant, plan.run_id, "rated", noted)
    all_turns = [row[0] for rows in turns.values() for row in rows]
    retime(tx, tenant, all_turns, counted_only=True)


def _turns_of(
    tx: Transaction, tenant: str, plan: RunPlan
) -> Mapping[str, Sequence[tuple[UUID, float, str]]]:
    """Return id, importance and value of the memories of annotated turns, by turn."""
    rows = tx.rows_in(
        "SELECT s.event_id, m.memory_id, m.importance, m.value FROM memory_sources s"
        " JOIN memories m ON m.tenant_id = s.tenant_id AND m.memory_id = s.memory_id"
        " WHERE s.tenant_id = %s AND s.event_id IN %s AND s.thread_id = %s"
        " AND m.kind = 'episodic' ORDER BY m.memory_id",
        [tenant, [annotation.event_id for annotation in plan.annotations], plan.thread_id],
    )
    return grouped((row[0], (row[1], row[2], row[3])) for row in rows)


def _has_emotion(value: str) -> bool:
    metadata = json.loads(value).get("metadata")
    return isinstance(metadata, Mapping) and "emotion" in metadata


def _emotion_of(annotation: Annotation) -> dict[str, object] | None:
    emotion = annotation.emotion
    if emotion is None:
        return None
    return {"valence": emotion.valence, "arousal": emotion.arousal, "label": emotion.label}


def _with(text: str, emotion: Mapping[str, object]) -> str:
    """Return the stored value of a turn with an emotion in its metadata."""
    value = json.loads(text)
    metadata = value.get("metadata")
    held = metadata if isinstance(metadata, Mapping) else {}
    return to_json({**value, "metadata": {**held, "emotion": emotion}})
