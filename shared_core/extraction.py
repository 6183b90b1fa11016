"""Extractors behind the port; the rule-based one, which needs no model."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.domain import Event, FactDraft
from shared_core.rule_extractor import RULES_VERSION, extract_facts


class RuleExtractor:
    """Reads plain first-person statements of English and Chinese users; misses all else."""

    name = RULES_VERSION

    async def extract(self, events: Sequence[Event]) -> list[FactDraft]:
        return [draft for event in events for draft in extract_facts(event)]
