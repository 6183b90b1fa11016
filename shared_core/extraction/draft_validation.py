"""Checks what an extractor returned before it is applied: sources, texts and number ranges."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from uuid import UUID

from shared_core.core.domain import (
    USER,
    Emotion,
    Extraction,
    FactDraft,
    ForgetDraft,
    InsightDraft,
    MemoryId,
    TripleDraft,
)
from shared_core.core.namespaces import clean_text
from shared_core.nlp.text import short_name

MAX_STATEMENT_CHARACTERS = 2_000
"""Longer texts are cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedDrafts:
    """An extraction that can be applied, and the number of drafts that were refused."""

    extraction: Extraction
    rejected: int


def without_turns(found: Extraction, event_ids: Collection[str]) -> Extraction:
    """Return an extraction without the drafts that rest on one of these turns."""
    gone = frozenset(event_ids)
    return replace(
        found,
        facts=[one for one in found.facts if gone.isdisjoint((one.event_id, *one.other_event_ids))],
        statements=[one for one in found.statements if gone.isdisjoint(one.event_ids)],
        triples=[
            one for one in found.triples if gone.isdisjoint((one.event_id, *one.other_event_ids))
        ],
    )


def resting_on(found: Extraction, known: Collection[MemoryId]) -> Extraction:
    """Return an extraction without the drafts that rest on a fact that is not among the known."""
    return replace(
        found,
        facts=[one for one in found.facts if {*one.people} <= {*known}],
        statements=[one for one in found.statements if {*one.people} <= {*known}],
        triples=[one for one in found.triples if {*one.people} <= {*known}],
    )


def validated(
    extraction: Extraction,
    event_ids: Collection[str],
    context_ids: Collection[str] = (),
    people: Collection[MemoryId] = (),
) -> ValidatedDrafts:
    """Return the drafts that name real sources, with their texts cleaned and numbers in range.

    Args:
        extraction: What an extractor returned.
        event_ids: Ids of the turns it read. Each draft needs at least one of them.
        context_ids: Ids of earlier turns that a draft may name as further sources.
        people: Ids of the facts that identify the people a draft may be about.
    """
    check = _Check(frozenset(event_ids), frozenset((*event_ids, *context_ids)), frozenset(people))
    facts = [check.fact(draft) for draft in extraction.facts if check.accepts_fact(draft)]
    statements = [
        replace(
            draft,
            text=_text(draft.text),
            importance=_clamped(draft.importance, 1, 10, 5),
            emotion=_emotion(draft.emotion),
        )
        for draft in extraction.statements
        if check.knows_sources(draft.event_ids)
        and check.knows_people(draft.people)
        and draft.text.strip()
    ]
    insights = [
        _insight(draft)
        for draft in extraction.insights
        if check.knows_sources(draft.event_ids) and draft.text.strip()
    ]
    triples = [check.triple(draft) for draft in extraction.triples if check.accepts_triple(draft)]
    kept = len(facts) + len(statements) + len(insights) + len(triples)
    drafted = (extraction.facts, extraction.statements, extraction.insights, extraction.triples)
    return ValidatedDrafts(
        extraction=replace(
            extraction,
            facts=facts,
            statements=statements,
            insights=insights,
            triples=triples,
            forget=[one for one in extraction.forget if check.accepts_request(one)],
            emotions=_of_turns(extraction.emotions, event_ids),
            importance={
                event_id: _clamped(value, 1, 10, 5)
                for event_id, value in extraction.importance.items()
                if event_id in event_ids
            },
        ),
        rejected=sum(map(len, drafted)) - kept,
    )


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks drafts against the turns and people their extractor was given."""

    event_ids: frozenset[str]
    known_ids: frozenset[str]
    people: frozenset[MemoryId]

    def knows_people(self, people: Collection[MemoryId]) -> bool:
        return self.people.issuperset(people)

    def knows_sources(self, event_ids: Collection[str]) -> bool:
        """Tell whether all these turns are known, and at least one is not mere context."""
        return not self.event_ids.isdisjoint(event_ids) and self.known_ids.issuperset(event_ids)

    def accepts_fact(self, draft: FactDraft) -> bool:
        states = draft.operation == "assert"
        complete = not states or (draft.value.strip() and draft.statement.strip())
        return (
            draft.event_id in self.event_ids and self.knows_people(draft.people) and bool(complete)
        )

    def accepts_triple(self, draft: TripleDraft) -> bool:
        return (
            draft.event_id in self.event_ids
            and self.knows_people(draft.people)
            and all(part.strip() for part in (draft.subject, draft.relation, draft.object))
        )

    def accepts_request(self, draft: ForgetDraft) -> bool:
        return draft.event_id in self.event_ids and self.known_ids.issuperset(draft.event_ids)

    def fact(self, draft: FactDraft) -> FactDraft:
        return replace(
            draft,
            statement=_text(draft.statement),
            slot=_name(draft.slot),
            value=_text(draft.value),
            subject=_name(draft.subject) or USER,
            pattern=_name(draft.pattern),
            confidence=_clamped(draft.confidence, 0, 1, 0.5),
            importance=_clamped(draft.importance, 1, 10, 5),
            emotion=_emotion(draft.emotion),
            other_event_ids=self._other_ids(draft),
        )

    def triple(self, draft: TripleDraft) -> TripleDraft:
        return replace(
            draft,
            subject=_name(draft.subject),
            relation=_name(draft.relation),
            object=_name(draft.object),
            confidence=_clamped(draft.confidence, 0, 1, 0.5),
            other_event_ids=self._other_ids(draft),
        )

    def _other_ids(self, draft: FactDraft | TripleDraft) -> tuple[str, ...]:
        return tuple(
            one for one in draft.other_event_ids if one in self.known_ids and one != draft.event_id
        )


def identifying_facts(drafts: Extraction) -> list[MemoryId]:
    """Return the ids of the facts that identify the people in drafts, each once."""
    people = [
        *(fact.people for fact in drafts.facts),
        *(statement.people for statement in drafts.statements),
        *(triple.people for triple in drafts.triples),
    ]
    return sorted({*chain.from_iterable(people)})


def validated_insights(
    drafts: Sequence[InsightDraft], memory_ids: Collection[UUID]
) -> list[InsightDraft]:
    """Return the insights derived from these memories and no others."""
    return [
        _insight(draft)
        for draft in drafts
        if draft.memory_ids
        and all(memory_id in memory_ids for memory_id in draft.memory_ids)
        and draft.text.strip()
    ]


def _insight(draft: InsightDraft) -> InsightDraft:
    importance = _clamped(draft.importance, 1, 10, 5)
    return replace(draft, text=_text(draft.text), importance=importance)


def _of_turns(emotions: Mapping[str, Emotion], event_ids: Collection[str]) -> dict[str, Emotion]:
    return {
        event_id: emotion
        for event_id, given in emotions.items()
        if event_id in event_ids and (emotion := _emotion(given))
    }


def _text(text: str) -> str:
    return clean_text(text).strip()[:MAX_STATEMENT_CHARACTERS]


def _name(text: str) -> str:
    return short_name(_text(text))


def _emotion(emotion: Emotion | None) -> Emotion | None:
    if emotion is None:
        return None
    return Emotion(
        valence=_clamped(emotion.valence, -1, 1, 0),
        arousal=_clamped(emotion.arousal, 0, 1, 0),
        label=_text(emotion.label)[:40],
    )


def _clamped(number: float, least: float, most: float, default: float) -> float:
    return float(default if not math.isfinite(number) else min(max(number, least), most))
