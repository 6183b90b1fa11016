"""Theory of mind with a language model: at most two calls, and its answer is checked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from shared_core.core.domain import ModelUsage
from shared_core.core.ids import uuid7
from shared_core.extraction.evidence import SECRET
from shared_core.extraction.llm_schema import Element, Share, Text, Turns, Value, lists_schema
from shared_core.extraction.prompts import load_prompt
from shared_core.extraction.transcript import escaped, transcripts
from shared_core.models.json_repair import ParsedJson, Unreadable, clamped, read_items
from shared_core.profiles.entries import Dimension, Finding
from shared_core.profiles.theory_of_mind import QUOTED, Observed, PromptableExtractor

log = logging.getLogger("hippocampus")

MIND: Final = "mind.v1"
MOST: Final = 5
MOST_SURE: Final = 0.95
NONE: Final = "(none)"
KNOWN_CHARACTERS: Final = 4_000


class MindItem(Element):
    """One finding; the prompt "mind" explains each field."""

    turns: Turns
    label: Value = ""
    text: Text
    confidence: Share = 0.5


class EmotionItem(MindItem):
    """One emotion."""

    valence: Annotated[float, BeforeValidator(lambda one: clamped(one, -1.0, 1.0, 0.0))] = Field(
        default=0.0
    )


LISTS: Final[Mapping[str, tuple[Dimension, type[MindItem]]]] = {
    "intent": ("intent", MindItem),
    "emotion": ("emotion", EmotionItem),
    "cognition": ("cognition", MindItem),
    "social": ("social", MindItem),
    "trends": ("trend", MindItem),
}
SCHEMA: Final = lists_schema("Mind", {name: model for name, (_, model) in LISTS.items()})


async def mind_by_model(
    model: PromptableExtractor, observed: Observed, known: str
) -> tuple[list[Finding], ModelUsage]:
    """Return what a model concludes from the last turns that fit its window.

    known: the paragraph of the profile. A finding that names no user turn, or holds a secret, is
    dropped. Raises ModelOutputInvalid for two useless answers, ModelUnavailable if the model fails.
    """
    windows = await asyncio.to_thread(transcripts, observed.turns, model.window_tokens)
    if not windows:
        return [], ModelUsage()
    part = windows[-1]
    prompt = load_prompt(MIND)
    values = {
        "known": escaped(known[:KNOWN_CHARACTERS]) or NONE,
        "turns": part.text,
        "language": part.language_note,
    }
    items, usage = await model.ask(prompt, values, SCHEMA, tuple(LISTS), _answer)
    spoken = {number: event for number, event in part.turns.items() if event.role == "user"}
    found = []
    for dimension, item in items:
        evidence = [spoken[number] for number in item.turns if number in spoken]
        if not evidence or SECRET.search(item.text):
            continue
        found.append(
            Finding(
                finding_id=uuid7(),
                dimension=dimension,
                label=item.label,
                text=item.text,
                confidence=min(item.confidence, MOST_SURE),
                found_at=observed.at,
                extractor=f"{prompt.version}/{model.name}",
                quotes=tuple(event.text[:QUOTED] for event in evidence),
                basis=tuple(
                    turn for event in evidence for turn in observed.bases.get(event.event_id, ())
                ),
                valence=item.valence if isinstance(item, EmotionItem) else None,
            )
        )
    if len(found) < len(items):
        log.info(
            "left out of a model's answer: %d findings without evidence", len(items) - len(found)
        )
    return found, usage


def _answer(reading: ParsedJson) -> list[tuple[Dimension, MindItem]]:
    found: list[tuple[Dimension, MindItem]] = []
    wrong: list[str] = []
    for name, (dimension, model) in LISTS.items():
        items, refused = read_items(reading.value.get(name), model, MOST)
        found += [(dimension, item) for item in items]
        wrong += [f"{name} {one}" for one in refused]
    if wrong and not found:
        raise Unreadable(f"no element can be used: {'; '.join(wrong[:3])}")
    if not found and not any(name in reading.value for name in LISTS):
        raise Unreadable("none of the five lists is there")
    return found
