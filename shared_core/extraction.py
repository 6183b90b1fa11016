"""Extractors behind the port; the rule-based one, which needs no model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shared_core.domain import Event, Extraction, ModelUsage
from shared_core.rule_extractor import RULES_VERSION, extract_facts
from shared_core.summary import summarise


class RuleExtractor:
    """Reads plain first-person statements of English and Chinese users; misses all else."""

    name = RULES_VERSION

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        return Extraction(facts=[draft for event in events for draft in extract_facts(event)])

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        # A long thread takes a moment, and others wait for this loop.
        return await asyncio.to_thread(_summary, events, max_characters), ModelUsage()


def _summary(events: Sequence[Event], max_characters: int) -> str:
    telling = {event.text for event in events if extract_facts(event)}
    return summarise(events, max_characters=max_characters, key_sentences=telling)
