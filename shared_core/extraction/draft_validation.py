"""What an extractor returned, made safe: of turns it was given, numbers within their bounds."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from uuid import UUID

from shared_core.core.domain import USER, Emotion, Extraction, InsightDraft, MemoryId
from shared_core.core.namespaces import clean_text
from shared_core.nlp.text import short_name

MAX_STATEMENT_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """An extraction that can be applied; rejected: how many drafts were of no turn, or empty."""

    extraction: Extraction
    rejected: int


def checked(
    extraction: Extraction,
    event_ids: Collection[str],
    context_ids: Collection[str] = (),
    people: Collection[MemoryId] = (),
) -> Checked:
    """Return what can be applied of an extraction from the turns with these ids.

    context_ids: of the turns before them, which a draft may rest on as well, and not alone.
    people: of the facts that name whom it may be about.
    """
    known_ids = {*event_ids, *context_ids}
    facts = [
        replace(
            draft,
            statement=_text(draft.statement),
            slot=_name(draft.slot),
            value=_text(draft.value),
            subject=_name(draft.subject) or USER,
            pattern=_name(draft.pattern),
            confidence=_within(draft.confidence, 0, 1, 0.5),
            importance=_within(draft.importance, 1, 10, 5),
            emotion=_emotion(draft.emotion),
            other_event_ids=tuple(
                one for one in draft.other_event_ids if one in known_ids and one != draft.event_id
            ),
        )
        for draft in extraction.facts
        if draft.event_id in event_ids
        and {*draft.people} <= {*people}
        and (draft.operation == "retract" or (draft.value.strip() and draft.statement.strip()))
    ]
    statements = [
        replace(
            draft,
            text=_text(draft.text),
            importance=_within(draft.importance, 1, 10, 5),
            emotion=_emotion(draft.emotion),
        )
        for draft in extraction.statements
        if _rests_on(draft.event_ids, event_ids, known_ids)
        and {*draft.people} <= {*people}
        and draft.text.strip()
    ]
    insights = [
        _insight(draft)
        for draft in extraction.insights
        if _rests_on(draft.event_ids, event_ids, known_ids) and draft.text.strip()
    ]
    triples = [
        replace(
            draft,
            subject=_name(draft.subject),
            relation=_name(draft.relation),
            object=_name(draft.object),
            confidence=_within(draft.confidence, 0, 1, 0.5),
            other_event_ids=tuple(
                one for one in draft.other_event_ids if one in known_ids and one != draft.event_id
            ),
        )
        for draft in extraction.triples
        if draft.event_id in event_ids
        and {*draft.people} <= {*people}
        and all(part.strip() for part in (draft.subject, draft.relation, draft.object))
    ]
    kept = len(facts) + len(statements) + len(insights) + len(triples)
    drafted = (extraction.facts, extraction.statements, extraction.insights, extraction.triples)
    return Checked(
        extraction=replace(
            extraction,
            facts=facts,
            statements=statements,
            insights=insights,
            triples=triples,
            emotions=_of_turns(extraction.emotions, event_ids),
            importance={
                event_id: _within(value, 1, 10, 5)
                for event_id, value in extraction.importance.items()
                if event_id in event_ids
            },
        ),
        rejected=sum(map(len, drafted)) - kept,
    )


def people_meant(drafts: Extraction) -> list[MemoryId]:
    """Return the facts that told whom drafts are about, each once."""
    told = [
        *(fact.people for fact in drafts.facts),
        *(statement.people for statement in drafts.statements),
        *(triple.people for triple in drafts.triples),
    ]
    return sorted({*chain.from_iterable(told)})


def checked_insights(
    drafts: Sequence[InsightDraft], memory_ids: Collection[UUID]
) -> list[InsightDraft]:
    """Return the conclusions that rest on these memories and nothing else."""
    return [
        _insight(draft)
        for draft in drafts
        if draft.memory_ids
        and all(memory_id in memory_ids for memory_id in draft.memory_ids)
        and draft.text.strip()
    ]


def _insight(draft: InsightDraft) -> InsightDraft:
    importance = _within(draft.importance, 1, 10, 5)
    return replace(draft, text=_text(draft.text), importance=importance)


def _of_turns(emotions: Mapping[str, Emotion], event_ids: Collection[str]) -> dict[str, Emotion]:
    return {
        event_id: emotion
        for event_id, given in emotions.items()
        if event_id in event_ids and (emotion := _emotion(given))
    }


def _rests_on(named: Sequence[str], event_ids: Collection[str], known_ids: Collection[str]) -> bool:
    return any(one in event_ids for one in named) and all(one in known_ids for one in named)


def _text(text: str) -> str:
    return clean_text(text).strip()[:MAX_STATEMENT_CHARACTERS]


def _name(text: str) -> str:
    return short_name(_text(text))


def _emotion(emotion: Emotion | None) -> Emotion | None:
    if emotion is None:
        return None
    return Emotion(
        valence=_within(emotion.valence, -1, 1, 0),
        arousal=_within(emotion.arousal, 0, 1, 0),
        label=_text(emotion.label)[:40],
    )


def _within(number: float, least: float, most: float, otherwise: float) -> float:
    return float(otherwise if not math.isfinite(number) else min(max(number, least), most))
