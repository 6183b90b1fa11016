"""An extractor that doubts facts."""

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

from person import at
from turns import Clock

from shared_core import Event, Scope
from shared_core.core.domain import Extraction, FactDraft, HeldFact, KnownPerson
from shared_core.extraction.rule_based import RuleExtractor

__all__ = ["ANN", "PATTERN", "Clock", "Doubting", "at"]

ANN = Scope("app", "ann")
CUES = {"I might leave": "doubt", "可能要离开": "doubt", "I left": "retract", "我离开了": "retract"}
PATTERN = "test.held"


class Doubting(RuleExtractor):
    """The rules, and turns that doubt or end the held facts whose value they name."""

    _held: Sequence[HeldFact] = ()

    def knowing(self, people: Sequence[KnownPerson], held: Sequence[HeldFact] = ()) -> Self:
        knowing = copy(super().knowing(people, held))
        knowing._held = held
        return knowing

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        read = await super().extract(events, context)
        drafts = [
            FactDraft(
                fact_type=one.fact_type, slot=one.slot, value=one.value, statement="",
                event_id=event.event_id, functional=one.functional, confidence=0.9,
                pattern=PATTERN, language="en", operation=operation, subject=one.subject,
            )
            for event in events
            for cue, operation in CUES.items()
            if cue in event.text
            for one in self._held
            if one.ended_at is None and one.value in event.text
        ]  # fmt: skip
        cued = {event.event_id for event in events if any(cue in event.text for cue in CUES)}
        facts = [one for one in read.facts if one.event_id not in cued]
        order = {event.event_id: place for place, event in enumerate(events)}
        drafts = sorted([*facts, *drafts], key=lambda draft: order[draft.event_id])
        kept: dict[str, Any] = {"facts": drafts, "importance": read.importance}
        return Extraction(**kept)
