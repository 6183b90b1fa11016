"""Reflection across threads: recent memories become patterns, summaries and insights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

from shared_core.core.domain import (
    NO_USAGE,
    InsightCategory,
    InsightDraft,
    Memory,
    MemoryId,
    ModelUsage,
    Scope,
)
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import scope_path
from shared_core.core.validation import whole_number
from shared_core.errors import Conflict
from shared_core.extraction.draft_validation import validated_insights
from shared_core.extraction.rule_reader import RULES_VERSION
from shared_core.knowledge.run_rows import RunRows, add_privacy, apply_run
from shared_core.models.embedding import Embedding
from shared_core.nlp.text import language
from shared_core.policies.memories import recent_memories
from shared_core.ports.items import ItemAddress
from shared_core.ports.jobs import JobType
from shared_core.ports.runs import RunPlan
from shared_core.ports.storage import Clock, Reflector, Storage

MIN_SAID: Final = 3
"""Minimum number of turns that state a fact for it to be a pattern."""

WORDING: Final = {"en": "Again and again: {}", "zh": "反复提到：{}"}


class RuleReflector:
    """Reports facts that several turns state as patterns, without a model."""

    name = RULES_VERSION

    async def reflect(
        self, memories: Sequence[Memory]
    ) -> tuple[Sequence[InsightDraft], ModelUsage]:
        patterns = [
            InsightDraft(
                text=WORDING[language(memory.text)].format(memory.text),
                category="pattern",
                importance=max(memory.importance, 6.0),
                memory_ids=(memory.memory_id,),
            )
            for memory in memories
            if memory.kind == "semantic" and len(memory.source_event_ids) >= MIN_SAID
        ]
        return patterns, NO_USAGE


MAX_TRIES = 3
MAX_MEMORIES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """A stored conclusion. memory_ids: its provenance."""

    content: str
    category: InsightCategory
    memory_ids: Sequence[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionReport:
    """The result of a reflection: new conclusions only."""

    reflections: Sequence[Reflection]
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
) -> ReflectionReport:
    """Reflect on the newest memories of a user across threads, and store the conclusions.

    Raises InvalidInput unless limit is between 1 and MAX_MEMORIES.
    """
    whole_number(limit, "limit", 1, MAX_MEMORIES)
    for tries_left in reversed(range(MAX_TRIES)):
        started_at = clock()
        memories = await storage.query(
            scope_path(scope), partial(recent_memories, scope, limit, started_at)
        )
        drafts, usage = await reflector.reflect(memories) if memories else ((), NO_USAGE)
        rows = RunRows(scope, None, MemoryId(uuid7()), clock(), reflector.name)
        kept, inherited = _add_insights(rows, drafts, memories)
        vectors = await embedding.rows(rows.texts())
        keys = rows.free_keys()
        if keys:
            rows.drop_known(
                await storage.runs.like_texts(scope, ("reflection", "semantic"), keys, vectors)
            )
        written = {(row.namespace, row.key) for row in rows.memories}
        if not written:
            return ReflectionReport(reflections=(), usage=usage)
        await add_privacy(embedding, rows, vectors)
        plan = RunPlan(
            run_id=rows.run_id,
            kind=JobType.REFLECTION,
            scope=scope,
            thread_id=None,
            extractor=reflector.name,
            started_at=started_at,
            memories=rows.memories,
            inherited=[pair for pair in inherited if pair[0] in written],
            vectors=rows.vectors_of(vectors),
            unsaid=list(rows.free_keys().values()),
            counts={
                "memories": len(memories),
                "insights": len(written),
                "model_calls": usage.calls,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
            },
        )
        try:
            await apply_run(storage, plan, clock)
        except Conflict:
            if not tries_left:
                raise
        else:
            return _report(plan, kept, usage)
    raise AssertionError("unreachable")


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


def _report(plan: RunPlan, kept: dict[str, InsightDraft], usage: ModelUsage) -> ReflectionReport:
    drafts = [kept[row.key] for row in plan.memories]
    return ReflectionReport(
        reflections=[
            Reflection(content=one.text, category=one.category, memory_ids=one.memory_ids)
            for one in drafts
        ],
        run_id=plan.run_id,
        usage=usage,
    )
