"""What memories of several threads let one say without a model: what is said again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shared_core.core.domain import NO_USAGE, InsightDraft, Memory, ModelUsage
from shared_core.extraction.rule_reader import RULES_VERSION
from shared_core.nlp.text import language

MIN_SAID: Final = 3
"""So many turns must state a thing before it is a pattern."""

WORDING: Final = {"en": "Again and again: {}", "zh": "反复提到：{}"}


class RuleReflector:
    """Finds facts that several turns state. No more can be said honestly without a model."""

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
