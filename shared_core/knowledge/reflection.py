"""Reflection across threads: memories become insights, and facts that others outdate end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from shared_core.core.domain import (
    NO_USAGE,
    Conclusions,
    Extraction,
    HeldFact,
    InsightCategory,
    InsightDraft,
    JsonValue,
    Memory,
    MemoryId,
    ModelUsage,
    OutdatedFact,
    Scope,
    TripleDraft,
)
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import scope_path
from shared_core.core.validation import whole_number
from shared_core.errors import Conflict
from shared_core.extraction.draft_validation import validated_insights
from shared_core.extraction.rule_reader import RULES_VERSION
from shared_core.knowledge.edge_planning import EdgePlan, plan_edges, stated_edges
from shared_core.knowledge.fact_planning import FactPlan, fact_key
from shared_core.knowledge.revision import as_grounds
from shared_core.knowledge.run_rows import RunRows, add_privacy, apply_run
from shared_core.models.embedding import Embedding
from shared_core.nlp.relation_schema import Relations
from shared_core.nlp.text import language, normalised
from shared_core.policies.memories import recent_memories
from shared_core.policies.run_reads import held_facts, known_of
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.jobs import JobType
from shared_core.ports.runs import PlannedFact, RunPlan
from shared_core.ports.storage import Clock, Reflector, Storage

MIN_SAID: Final = 3
"""Minimum number of turns that state a fact for it to be a pattern."""

WORDING: Final = {"en": "Again and again: {}", "zh": "反复提到：{}"}


class RuleReflector:
    """Reports facts that several turns state as patterns, without a model."""

    name = RULES_VERSION

    async def reflect(
        self, memories: Sequence[Memory], held: Sequence[HeldFact], now: datetime
    ) -> Conclusions:
        return Conclusions(
            insights=[
                InsightDraft(
                    text=WORDING[language(memory.text)].format(memory.text),
                    category="pattern",
                    importance=max(memory.importance, 6.0),
                    memory_ids=(memory.memory_id,),
                )
                for memory in memories
                if memory.kind == "semantic" and len(memory.source_event_ids) >= MIN_SAID
            ]
        )


MAX_TRIES = 3
MAX_MEMORIES = 500
MAX_HELD = 500
"""Maximum number of facts that hold, and of ended ones, that a reflection looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """A stored conclusion. memory_ids: its provenance."""

    content: str
    category: InsightCategory
    memory_ids: Sequence[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionReport:
    """The result of a reflection: new conclusions, and what it changed of the facts.

    ended: statements that hold no longer; what still holds of one is a new fact. refused: number of
    elements of the model's answer that were dropped, by reason.
    """

    reflections: Sequence[Reflection]
    ended: Sequence[str] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    run_id: UUID | None = None
    usage: ModelUsage = NO_USAGE

    @property
    def reflections_generated(self) -> int:
        return len(self.reflections)


async def reflect(
    storage: Storage,
    embedding: Embedding,
    reflector: Reflector,
    clock: Clock,
    scope: Scope,
    limit: int,
    relations: Relations | None,
) -> ReflectionReport:
    """Reflect on the newest memories of a user across threads, and store the conclusions.

    Facts that the reflector finds out of date end, and what still holds of them is stated anew, all
    in one run. relations: of the graph, None if it is switched off. Raises InvalidInput unless
    limit is between 1 and MAX_MEMORIES.
    """
    whole_number(limit, "limit", 1, MAX_MEMORIES)
    for tries_left in reversed(range(MAX_TRIES)):
        started_at, tenant = clock(), scope_path(scope)
        before = await storage.query(tenant, partial(known_of, [], [], started_at))
        memories = await storage.query(tenant, partial(recent_memories, scope, limit, started_at))
        if not memories:
            return ReflectionReport(reflections=())
        held = await storage.query(tenant, partial(held_facts, MAX_HELD, started_at))
        found = _standing(await reflector.reflect(memories, held, started_at), memories)
        rows = RunRows(
            scope, None, MemoryId(uuid7()), clock(), reflector.name, as_grounds(held)
        )  # fmt: skip
        facts = _changed(found.outdated, held)
        rows.add_facts(facts, ())
        kept, inherited = _add_insights(rows, found.insights, memories)
        vectors = await _vectors(storage, embedding, scope, rows)
        if not (rows.memories or facts.closed or found.refused):
            return ReflectionReport(reflections=(), usage=found.usage)
        triples = _triples(facts, relations)
        graph = await _edges(storage, scope, facts, triples, started_at)
        rows.add_edges(graph)
        written = {(row.namespace, row.key) for row in rows.memories}
        plan = RunPlan(
            run_id=rows.run_id,
            kind=JobType.REFLECTION,
            scope=scope,
            thread_id=None,
            extractor=reflector.name,
            started_at=started_at,
            close=list(facts.closed.items()),
            ended=facts.ended(started_at),
            facts=facts.opened,
            memories=rows.memories,
            sources=rows.sources,
            edges=graph.opened,
            edge_sources=rows.edge_sources,
            close_edges=list(graph.closed.items()),
            drawn_from=rows.drawn_from,
            inherited=[pair for pair in inherited if pair[0] in written],
            vectors=vectors,
            unsaid=list(rows.free_keys().values()),
            bounds=[one.memory_id for item in found.outdated for one in item.because],
            slots=sorted({one.fact.slot for one in found.outdated}),
            relations=_pairs(triples),
            known_number=before.number,
            counts=_counts(memories, rows, facts, found),
        )
        try:
            await apply_run(storage, plan, clock)
        except Conflict:
            if not tries_left:
                raise
        else:
            return _report(plan, kept, found)
    raise AssertionError("unreachable")


async def _vectors(
    storage: Storage, embedding: Embedding, scope: Scope, rows: RunRows
) -> VectorRows | None:
    """Embed the rows, drop insights that are known, and classify what may be shown to whom."""
    vectors = await embedding.rows(rows.texts())
    if keys := rows.free_keys():
        near = await storage.runs.like_texts(scope, ("reflection", "semantic"), keys, vectors)
        rows.drop_known(near)
    await add_privacy(embedding, rows, vectors)
    return rows.vectors_of(vectors)


def _changed(outdated: Sequence[OutdatedFact], held: Sequence[HeldFact]) -> FactPlan:
    """Return the ends of facts, and what still holds of them, unless that is held already."""
    plan = FactPlan()
    gone = {one.fact.memory_id for one in outdated}
    values = {
        (one.slot, one.subject, normalised(one.value))
        for one in held
        if one.ended_at is None and one.memory_id not in gone
    }
    for one in outdated:
        plan.closed[one.fact.memory_id] = one.until
        if one.still is None:
            continue
        place = (one.fact.slot, one.fact.subject, normalised(one.still.value))
        if place not in values:
            values.add(place)
            plan.opened.append(
                PlannedFact(
                    memory_id=MemoryId(uuid7()),
                    draft=one.still,
                    key=fact_key(one.still),
                    valid_from=one.until,
                    valid_until=one.fact.ends_at,
                )
            )
    return plan


def _triples(facts: FactPlan, relations: Relations | None) -> list[TripleDraft]:
    """Return the edges that what still holds states."""
    if relations is None:
        return []
    return stated_edges(Extraction(facts=[one.draft for one in facts.opened]), relations)


def _pairs(triples: Sequence[TripleDraft]) -> list[tuple[str, str]]:
    return sorted({(normalised(one.subject), one.relation) for one in triples})


def _standing(found: Conclusions, memories: Sequence[Memory]) -> Conclusions:
    """Return the conclusions without insights on facts that end, or on statements of their value.

    Such a statement may go out of recall with the fact.
    """
    gone = {one.fact.memory_id for one in found.outdated}
    values = [one.fact.value.lower() for one in found.outdated]
    going = {
        one.memory_id
        for one in memories
        if one.memory_id in gone
        or (one.kind == "semantic" and any(value in one.text.lower() for value in values))
    }
    kept = [one for one in found.insights if going.isdisjoint(map(MemoryId, one.memory_ids))]
    dropped = Counter({"insight on a fact that ends": len(found.insights) - len(kept)})
    return replace(found, insights=kept, refused=+(Counter(found.refused) + dropped))


async def _edges(
    storage: Storage, scope: Scope, facts: FactPlan, triples: Sequence[TripleDraft], now: datetime
) -> EdgePlan:
    """Return the changes that triples make to the known edges."""
    if not triples:
        return EdgePlan()
    known = await storage.query(scope_path(scope), partial(known_of, [], _pairs(triples), now))
    return plan_edges(
        triples, known.edges, facts.opened, {"": now}, uuid7, closing=facts.closed
    )  # fmt: skip


def _counts(
    memories: Sequence[Memory], rows: RunRows, facts: FactPlan, found: Conclusions
) -> dict[str, JsonValue]:
    counts: dict[str, JsonValue] = {
        "memories": len(memories),
        "insights": rows.insights,
        "facts": len(facts.opened),
        "closed": len(facts.closed),
        "model_calls": found.usage.calls,
        "input_tokens": found.usage.input_tokens,
        "output_tokens": found.usage.output_tokens,
    }
    if found.refused:
        counts["refused"] = dict(sorted(found.refused.items()))
    return counts


def _add_insights(
    rows: RunRows, drafts: Sequence[InsightDraft], memories: Sequence[Memory]
) -> tuple[dict[str, InsightDraft], list[tuple[ItemAddress, MemoryId]]]:
    """Add valid drafts to rows; return them by key, and their provenance."""
    known = {memory.memory_id: memory for memory in memories}
    kept: dict[str, InsightDraft] = {}
    inherited: list[tuple[ItemAddress, MemoryId]] = []
    for draft in validated_insights(drafts, known):
        based_on = [known[MemoryId(one)] for one in dict.fromkeys(draft.memory_ids)]
        address = rows.add_reflection(draft, based_on)
        kept[address[1]] = draft
        inherited += [(address, memory.memory_id) for memory in based_on]
    return kept, inherited


def _report(
    plan: RunPlan, kept: Mapping[str, InsightDraft], found: Conclusions
) -> ReflectionReport:
    drafts = [kept[row.key] for row in plan.memories if row.key in kept]
    return ReflectionReport(
        reflections=[
            Reflection(content=one.text, category=one.category, memory_ids=one.memory_ids)
            for one in drafts
        ],
        ended=[one.fact.statement for one in found.outdated],
        refused=found.refused,
        run_id=plan.run_id,
        usage=found.usage,
    )
