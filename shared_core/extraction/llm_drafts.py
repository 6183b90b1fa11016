"""Turn a language model's answer into drafts, and drop inadmissible ones. Pure.

A model is not trusted with the owner or the sources of memories: a draft needs the number of a
shown user turn, and words of the turns. Secrets are dropped. What a model may do to facts is in
fact_operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shared_core.core.domain import (
    Emotion,
    Extraction,
    FactDraft,
    HeldFact,
    KnownPerson,
    StatementDraft,
)
from shared_core.extraction.evidence import SECRET, Evidence
from shared_core.extraction.fact_operations import FactDrafting
from shared_core.extraction.forget_operations import ForgetDrafting
from shared_core.extraction.held_listing import NOTHING_HELD, HeldListing
from shared_core.extraction.llm_schema import IMPORTANCE, FactOperation
from shared_core.extraction.transcript import Transcript
from shared_core.nlp.affect import emotion_of
from shared_core.nlp.text import normalised, search_terms


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """The well-formed elements of an answer, and its summary as it stands there.

    malformed: number of elements that could not be read.
    """

    facts: Sequence[FactOperation] = ()
    summary: str = ""
    malformed: int = 0


class AnswerDrafting:
    """Turns the elements of one answer about a conversation into drafts.

    known: text of the earlier turns the model was shown. pattern: name of the drafts' origin.
    listing: the known facts it was shown. people: those whom the user named before. ended: facts
    that have ended.
    """

    def __init__(
        self,
        shown: Transcript,
        known: str,
        pattern: str,
        listing: HeldListing = NOTHING_HELD,
        people: Sequence[KnownPerson] = (),
        ended: Sequence[HeldFact] = (),
    ) -> None:
        self._evidence = Evidence(shown, known)
        self._facts = FactDrafting(self._evidence, pattern, listing, people, ended)
        self._forgetting = ForgetDrafting(self._evidence, listing)

    def drafts_from(self, answer: ModelAnswer) -> Extraction:
        """Return the drafts of an answer, without those of what it says to forget."""
        self._evidence.leave_out("malformed element", answer.malformed)
        emotions = self._emotions()
        asked = self._forgetting.drafts(one for one in answer.facts if one.op == "forget")
        operations = [one for one in answer.facts if one.op not in ("forget", "event")]
        events = [one for one in answer.facts if one.op == "event"]
        facts = self._facts.drafts(operations, emotions)
        statements = [
            StatementDraft(
                text=item.statement,
                event_ids=ids,
                importance=IMPORTANCE,
                emotion=next((emotions[one] for one in ids if one in emotions), None),
            )
            for item, ids in self._founded_statements(events)
        ]
        found = Extraction(
            facts=facts,
            statements=statements,
            emotions=emotions,
            importance=self._importance(facts, statements),
            summary=answer.summary,
        )
        return replace(self._forgetting.without(found, asked), refused=self._evidence.left_out)

    def _founded_statements(
        self, items: Iterable[FactOperation]
    ) -> list[tuple[FactOperation, tuple[str, ...]]]:
        """Return the statements with a user turn as source, each text once, with the ids of its
        turns."""
        found: dict[str, tuple[FactOperation, tuple[str, ...]]] = {}
        for item in items:
            source = self._evidence.source([*item.turns])
            if source is None:
                self._evidence.leave_out("statement without a turn of the user")
            elif SECRET.search(item.statement):
                self._evidence.leave_out("statement with a secret")
            elif self._evidence.terms.isdisjoint(search_terms(item.statement)):
                self._evidence.leave_out("statement without a word from the turns")
            else:
                ids = [source[0].event_id, *source[1]]
                ordered = tuple(sorted(ids, key=lambda event_id: self._evidence.order[event_id]))
                found.setdefault(normalised(item.statement), (item, ordered))
        return list(found.values())

    def _emotions(self) -> dict[str, Emotion]:
        """Return the emotions that the user's turns state outright; the rules read them."""
        said = (one for one in self._evidence.turns.values() if one.role == "user")
        found = {event.event_id: emotion_of(event.text) for event in said}
        return {event_id: emotion for event_id, emotion in found.items() if emotion}

    def _importance(
        self, facts: Iterable[FactDraft], statements: Iterable[StatementDraft]
    ) -> dict[str, float]:
        weighted = [(fact.event_id, fact.importance) for fact in facts]
        weighted += [(one, item.importance) for item in statements for one in item.event_ids]
        most: dict[str, float] = {}
        for event_id, importance in weighted:
            most[event_id] = max(importance, most.get(event_id, 0.0))
        return most
