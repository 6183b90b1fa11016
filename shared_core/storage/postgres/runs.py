"""Runs on PostgreSQL: a run reads a thread, and its changes apply whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import psycopg
from pgvector import HalfVector

from shared_core.core.domain import KnownPerson, MemoryId, MemoryKind, Scope, ThreadId, Turn
from shared_core.core.ids import uuid7
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path, summary_key
from shared_core.errors import Conflict
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.runs import (
    LikeText,
    PlannedEdge,
    PlannedFact,
    ReadRequest,
    Retraction,
    RunPlan,
    Source,
    ThreadWindow,
)
from shared_core.ports.storage import Clock
from shared_core.storage._rows import event_from_row
from shared_core.storage.postgres.connection.database import PostgresDatabase, by_column
from shared_core.storage.postgres.connection.statements import Step, step, steps
from shared_core.storage.postgres.items import PostgresItems, address_columns, below, vector_steps
from shared_core.storage.postgres.jobs import count_extraction_step
from shared_core.storage.postgres.retention import revival_columns

_Planned: TypeAlias = tuple[str, bool, Mapping[str, object]]
"""The name of a statement, whether a plan needs it, and its values."""


@dataclass
class PostgresRuns:
    """Reads for runs, applies them, and undoes them."""

    _database: PostgresDatabase
    _clock: Clock
    _items: PostgresItems

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
        answers = await self._database.run(scope_path(scope), *steps(values, *names))
        marks, [(number,)] = answers.named("read_marks"), answers.named("last_run")
        people = answers.named("known_people") if request.people else []
        if not marks:
            return None
        read_mark, replay_mark, summed, summary, summary_run = marks[0]
        return ThreadWindow(
            read_mark=read_mark,
            turns=[(row[0], event_from_row(row[1:])) for row in answers.named("unread_turns")],
            context=[event_from_row(row[1:]) for row in reversed(answers.named("turns_before"))],
            replay_mark=replay_mark,
            summed=summed,
            replay=[(row[0], event_from_row(row[1:])) for row in answers.named("turns_to_sum_up")],
            summary=summary or "",
            summary_run=summary_run,
            people=[_known_person(row) for row in people],
            known_number=number,
        )

    async def like_texts(
        self,
        scope: Scope,
        kinds: Sequence[MemoryKind],
        words_keys: Mapping[ItemAddress, UUID],
        vectors: VectorRows | None,
    ) -> Mapping[ItemAddress, Sequence[LikeText]]:
        common = below(memories_namespace(scope)) | {
            "tenant": scope_path(scope),
            "kinds": list(kinds),
            "now": self._clock(),
        }
        searches: list[tuple[list[ItemAddress], Step]] = [
            (
                list(words_keys),
                step("said_texts", common | {"words_keys": list(words_keys.values())}),
            )
        ]
        if vectors is not None:
            near = {
                "model": vectors.model,
                "embeddings": [HalfVector(vector) for vector in vectors.vectors],
            }
            searches.append((list(vectors.addresses), step("like_texts", common | near)))
        answers = await self._database.run(scope_path(scope), *[search for _, search in searches])
        found: dict[ItemAddress, list[LikeText]] = {}
        for (addresses, _), rows in zip(searches, answers, strict=True):
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
                f"another run consolidated thread {plan.thread_id!r} at the same time, or changed a"
                " fact of this run: read the thread again and repeat the run"
            ) from error

    def _run_steps(self, plan: RunPlan) -> list[Step]:
        now = self._clock()
        common: dict[str, object] = {
            "tenant": scope_path(plan.scope),
            "thread_id": plan.thread_id,
            "run_id": plan.run_id,
            "namespace": rest_of(memories_namespace(plan.scope)),
            "summary_key": plan.summary_key,
            "summary_run": plan.summary_run,
            "copy_id": uuid7(),
            "now": now,
            "kind": str(plan.kind),
            "extractor": plan.extractor,
            "started_at": plan.started_at,
            "counts": to_json(plan.counts),
            **_passages(plan),
        }
        return [
            *_needed(common, _checks(plan)),
            *_needed(common, _endings(plan)),
            *self._items.put_steps(plan.memories),
            *vector_steps(plan.vectors),
            *(vector_steps(plan.revival.vectors) if plan.revival else ()),
            *_needed(common, _additions(plan)),
            *_needed(common, _provenance(plan)),
            *_needed(common, _ratings(plan)),
            *([count_extraction_step(plan.scope, plan.reflection, now)] if plan.reflection else []),
        ]

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


def _needed(common: Mapping[str, object], planned: Iterable[_Planned]) -> list[Step]:
    """Return the steps that a plan needs; empty ones would cost the server a statement each."""
    return [step(name, {**common, **values}) for name, is_needed, values in planned if is_needed]


def _checks(plan: RunPlan) -> list[_Planned]:
    """Return what must still hold for the plan, checked within the lock of the tenant."""
    inherited = _inherited_columns(plan)
    known = {"slots": list(plan.slots), "known_number": plan.known_number}
    known |= _relation_columns(plan.relations)
    tenants = {"tenants": [scope_path(plan.scope)]}
    turns = _turn_columns(sorted({*plan.drawn_from}))
    return [
        # Before the lock of the tenant, as in every write: another order may deadlock.
        ("hold_policies", plan.revival is not None, tenants),
        ("lock_tenants", True, tenants),
        ("require_turns", bool(plan.drawn_from), turns),
        ("require_memories", bool(plan.inherited), inherited),
        ("require_summary", plan.summary_key is not None, {}),
        ("require_known", bool(plan.slots or plan.relations), known),
        ("require_unsaid", bool(plan.unsaid), {"words_keys": list(plan.unsaid)}),
    ]


def _endings(plan: RunPlan) -> list[_Planned]:
    """Return the record of the run, and what it revives and ends before it writes memories."""
    facts = {
        "memory_ids": [memory_id for memory_id, _ in plan.close],
        "valid_until": [until for _, until in plan.close],
    }
    edges = facts | _ended_edge_columns(plan.close_edges)
    has_summary = plan.summary_key is not None
    revived = revival_columns(plan.revival) if plan.revival else {}
    return [
        ("move_marks", plan.thread_id is not None, {}),
        ("add_run", True, {}),
        ("lock_memories", bool(revived), revived),
        ("require_faded", bool(revived), revived),
        ("note_revived", bool(revived), revived),
        ("revive_memories", bool(revived), revived),
        ("close_facts", bool(plan.close), facts),
        ("close_edges", bool(plan.close or plan.close_edges), edges),
        ("move_edge_ends", bool(plan.move_edges), _ended_edge_columns(plan.move_edges)),
        ("keep_summary", has_summary, {}),
    ]


def _additions(plan: RunPlan) -> list[_Planned]:
    """Return the facts, retractions and edges that the run adds."""
    retractions = _retraction_columns(plan.retractions)
    return [
        ("add_facts", bool(plan.facts), _fact_columns(plan.facts)),
        ("add_retractions", bool(plan.retractions), retractions),
        ("note_bounds", bool(plan.bounds), {"bounds": list(plan.bounds)}),
        ("add_edges", bool(plan.edges), _edge_columns(plan.edges)),
    ]


def _provenance(plan: RunPlan) -> list[_Planned]:
    """Return the turns of everything the run wrote, and the memories it retires."""
    inherited = _inherited_columns(plan)
    addresses = address_columns(source.address for source in plan.sources)
    sources = addresses | _source_columns(plan.sources)
    has_sources, has_summary = bool(plan.sources), plan.summary_key is not None
    edge_sources = _edge_source_columns(plan.edge_sources)
    return [
        ("add_edge_sources", bool(plan.edge_sources), edge_sources),
        ("add_sources", has_sources, sources),
        ("retire_memories", bool(plan.ended), {"memory_ids": list(plan.ended)}),
        ("retire_drawn", bool(plan.ended), {}),
        ("inherit_sources", bool(plan.inherited), inherited),
        ("add_bases", bool(plan.inherited), inherited),
        ("add_summary_sources", has_summary, {}),
        ("bound_summary", has_summary, {}),
        ("renew_facts", has_sources, addresses),
    ]


def _ratings(plan: RunPlan) -> list[_Planned]:
    """Return the importance and emotion of turns, and the retention times that follow from them."""
    notes = plan.annotations
    emotions = [
        note.emotion
        and to_json({
            "valence": note.emotion.valence, "arousal": note.emotion.arousal,
            "label": note.emotion.label,
        })
        for note in notes
    ]  # fmt: skip
    ids = {"event_ids": [note.event_id for note in notes]}
    ratings = {"importances": [note.importance for note in notes], "emotions": emotions}
    return [("rate_turns", bool(notes), ids | ratings), ("retime_turns", bool(notes), ids)]


def _inherited_columns(plan: RunPlan) -> dict[str, object]:
    columns = address_columns(address for address, _ in plan.inherited)
    return columns | {"inherited": [memory_id for _, memory_id in plan.inherited]}


def _ended_edge_columns(edges: Sequence[tuple[UUID, datetime]]) -> dict[str, object]:
    return {
        "edge_ids": [edge_id for edge_id, _ in edges],
        "edges_until": [until for _, until in edges],
    }


def _known_person(row: Sequence[Any]) -> KnownPerson:
    memory_id, relation, name, statement, thread_ids, event_ids, told_at, expires_at, names = row
    return KnownPerson(
        memory_id=MemoryId(memory_id),
        relation=relation,
        name=name,
        statement=statement,
        turns=tuple(zip(map(ThreadId, thread_ids), event_ids, strict=True)),
        told_at=told_at,
        expires_at=expires_at,
        aliases=tuple(one for one in names or () if one != name),
    )


def _retraction_columns(
    retractions: Sequence[tuple[Retraction, tuple[str, ...]]],
) -> dict[str, object]:
    names = ("retraction_ids", "fact_types", "slots", "subject_keys", "values", "said_at",
             "valid_until", "event_ids")  # fmt: skip
    return by_column(names, [
            (one.retraction_id, one.fact_type, one.slot, one.subject_key, one.value, one.said_at,
             one.valid_until, to_json(event_ids))
            for one, event_ids in retractions
        ])  # fmt: skip


def _fact_columns(facts: Sequence[PlannedFact]) -> dict[str, object]:
    names = ("memory_ids", "fact_types", "slots", "keys", "values", "functional",
             "confidences", "patterns", "valid_from", "valid_until")  # fmt: skip
    return by_column(names, [
            (fact.memory_id, fact.draft.fact_type, fact.draft.slot, fact.key,
             to_json(fact.draft.value), fact.draft.functional, float(fact.draft.confidence),
             fact.draft.pattern, fact.valid_from, fact.valid_until)
            for fact in facts
        ])  # fmt: skip


def _edge_columns(edges: Sequence[PlannedEdge]) -> dict[str, object]:
    names = ("edge_ids", "memory_ids", "fact_ids", "subjects", "relations", "objects",
             "subject_keys", "object_keys", "functional", "confidences", "valid_from",
             "valid_until")  # fmt: skip
    return by_column(names, [
            (edge.edge_id, edge.memory_id, edge.fact_id, edge.draft.subject,
             edge.draft.relation, edge.draft.object, edge.subject_key, edge.object_key,
             edge.draft.functional, float(edge.draft.confidence),
             edge.valid_from, edge.valid_until)
            for edge in edges
        ])  # fmt: skip


def _turn_columns(turns: Sequence[Turn]) -> dict[str, object]:
    return by_column(("thread_ids", "event_ids"), turns)


def _source_columns(sources: Sequence[Source]) -> dict[str, object]:
    turns = _turn_columns([source.turn for source in sources])
    return turns | {"bases": [source.basis for source in sources]}


def _edge_source_columns(sources: Sequence[tuple[UUID, Turn, int]]) -> dict[str, object]:
    turns = _turn_columns([turn for _, turn, _ in sources])
    return turns | {
        "edge_ids": [edge_id for edge_id, _, _ in sources],
        "bases": [basis for _, _, basis in sources],
    }


def _relation_columns(relations: Sequence[tuple[str, str]]) -> dict[str, object]:
    return by_column(("subjects", "relations"), relations)
