"""Turn a language model's answer into drafts, and drop inadmissible ones. Pure.

A model is not trusted with the owner or the sources of memories: a draft needs the number of a
shown user turn, and words of the turns. Secrets are dropped. What a model may do to facts is in
fact_operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from shared_core.core.domain import (
    USER,
    Emotion,
    Extraction,
    FactDraft,
    InsightDraft,
    KnownPerson,
    StatementDraft,
    TripleDraft,
)
from shared_core.extraction.evidence import SECRET, USER_WORDS, Evidence
from shared_core.extraction.fact_operations import FactDrafting
from shared_core.extraction.held_listing import NOTHING_HELD, HeldListing
from shared_core.extraction.llm_schema import (
    FactOperation,
    FeelingItem,
    InsightItem,
    RelationItem,
    SourcedTextItem,
    StatementItem,
)
from shared_core.extraction.transcript import Transcript
from shared_core.nlp.slots import edge_relation, slot_of
from shared_core.nlp.text import normalised, search_terms

Item = TypeVar("Item", bound=SourcedTextItem)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """The well-formed elements of an answer."""

    facts: Sequence[FactOperation] = ()
    statements: Sequence[StatementItem] = ()
    insights: Sequence[InsightItem] = ()
    relations: Sequence[RelationItem] = ()
    feelings: Sequence[FeelingItem] = ()


@dataclass(slots=True)
class DraftedAnswer:
    """The drafts of an answer. left_out: number of dropped elements by reason."""

    extraction: Extraction
    left_out: Counter[str] = field(default_factory=Counter)


class AnswerDrafting:
    """Turns the elements of one answer about a conversation into drafts.

    known: text of the earlier turns the model was shown. pattern: name of the drafts' origin.
    listing: the known facts it was shown. people: those whom the user named before.
    """

    def __init__(
        self,
        shown: Transcript,
        known: str,
        pattern: str,
        listing: HeldListing = NOTHING_HELD,
        people: Sequence[KnownPerson] = (),
    ) -> None:
        self._evidence = Evidence(shown, known)
        self._facts = FactDrafting(self._evidence, pattern, listing, people)

    def drafts_from(self, answer: ModelAnswer) -> DraftedAnswer:
        emotions = self._emotions(answer.feelings)
        facts = self._facts.drafts(answer.facts, emotions)
        statements = [
            StatementDraft(
                text=item.text,
                event_ids=ids,
                importance=item.importance,
                emotion=next((emotions[one] for one in ids if one in emotions), None),
                privacy=item.privacy,
            )
            for item, ids in self._founded("statement", answer.statements)
        ]
        insights = [
            InsightDraft(
                text=item.text, category=item.category, importance=item.importance, event_ids=ids
            )
            for item, ids in self._founded("insight", answer.insights)
        ]
        extraction = Extraction(
            facts=facts,
            statements=statements,
            insights=insights,
            triples=self._triples(answer.relations),
            emotions=emotions,
            importance=self._importance(facts, statements),
        )
        return DraftedAnswer(extraction=extraction, left_out=self._evidence.left_out)

    def _triples(self, items: Iterable[RelationItem]) -> list[TripleDraft]:
        found: dict[tuple[str, str, str, str], TripleDraft] = {}
        for item in items:
            source = self._evidence.source(item.turn)
            relation, functional = edge_relation(item.relation)
            ends = [
                USER if end.casefold() in USER_WORDS else end for end in (item.subject, item.object)
            ]
            if source is None or not relation:
                self._evidence.leave_out("relation without a turn of the user")
            elif not all(end == USER or self._evidence.says(end) for end in ends):
                self._evidence.leave_out("relation of something nobody named")
            elif slot_of(item.relation) is None or SECRET.search(
                f"{item.relation} is {item.object}"
            ):
                self._evidence.leave_out("relation with a secret")
            else:
                key = (
                    normalised(ends[0]), relation, normalised(ends[1]), source[0].event_id
                )  # fmt: skip
                found.setdefault(
                    key,
                    TripleDraft(
                        subject=ends[0],
                        relation=relation,
                        object=ends[1],
                        event_id=source[0].event_id,
                        functional=functional,
                        confidence=item.confidence,
                        other_event_ids=source[1],
                    ),
                )
        return sorted(found.values(), key=lambda draft: self._evidence.order[draft.event_id])

    def _founded(self, kind: str, items: Iterable[Item]) -> list[tuple[Item, tuple[str, ...]]]:
        """Return the elements with a user turn as source, each text once, with the ids of its
        turns."""
        found: dict[str, tuple[Item, tuple[str, ...]]] = {}
        for item in items:
            source = self._evidence.source([*item.turns])
            if source is None:
                self._evidence.leave_out(f"{kind} without a turn of the user")
            elif SECRET.search(item.text):
                self._evidence.leave_out(f"{kind} with a secret")
            elif kind == "statement" and self._evidence.terms.isdisjoint(search_terms(item.text)):
                self._evidence.leave_out(f"{kind} without a word from the turns")
            else:
                ids = [source[0].event_id, *source[1]]
                ordered = tuple(sorted(ids, key=lambda event_id: self._evidence.order[event_id]))
                found.setdefault(normalised(item.text), (item, ordered))
        return list(found.values())

    def _emotions(self, items: Iterable[FeelingItem]) -> dict[str, Emotion]:
        found: dict[str, Emotion] = {}
        for item in items:
            event = self._evidence.turns.get(item.turn)
            if event is None or event.role != "user":
                self._evidence.leave_out("feeling of no turn of the user")
                continue
            emotion = Emotion(valence=item.valence, arousal=item.arousal, label=item.label)
            found.setdefault(event.event_id, emotion)
        return found

    def _importance(
        self, facts: Iterable[FactDraft], statements: Iterable[StatementDraft]
    ) -> dict[str, float]:
        weighted = [(fact.event_id, fact.importance) for fact in facts]
        weighted += [(one, item.importance) for item in statements for one in item.event_ids]
        most: dict[str, float] = {}
        for event_id, importance in weighted:
            most[event_id] = max(importance, most.get(event_id, 0.0))
        return most
