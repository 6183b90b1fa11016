"""Extractors behind the port; the rule-based one, which needs no model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shared_core.domain import NO_USAGE, Event, Extraction, ModelUsage
from shared_core.rule_extractor import RULES_VERSION, extract_facts
from shared_core.summary import summarise
from shared_core.text import sentences


class RuleExtractor:
    """Reads plain first-person statements of English and Chinese users; misses all else."""

    name = RULES_VERSION
    window_tokens = 1_000_000
    reread_turns = 1_000

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        return Extraction(facts=[draft for event in events for draft in extract_facts(event)])

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        # A long thread takes a moment, and others wait for this loop.
        said = [*_said_before(previous, events), *events]
        return await asyncio.to_thread(_summary, said, max_characters), NO_USAGE


def _said_before(previous: str, events: Sequence[Event]) -> list[Event]:
    """Return the sentences of a summary as turns of the user, to be weighed with the others."""
    return [
        Event(
            event_id=f"summary/{place}",
            author="user",
            role="user",
            text=sentence,
            occurred_at=events[0].occurred_at,
        )
        for place, sentence in enumerate(sentences(previous))
        if events
    ]


def _summary(events: Sequence[Event], max_characters: int) -> str:
    telling = {event.text for event in events if extract_facts(event)}
    return summarise(events, max_characters=max_characters, key_sentences=telling)
