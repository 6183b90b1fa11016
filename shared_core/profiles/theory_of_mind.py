"""Theory of mind by rules: wants, feelings, reasons and people that turns state outright. Pure.

The rules find little, with a confidence of at most 0.6. Every finding quotes its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, get_args, runtime_checkable

from shared_core.core.domain import Emotion, Event, FactDraft, JsonValue, ModelUsage
from shared_core.core.ids import uuid7
from shared_core.nlp.keywords_and_topics import patterns
from shared_core.nlp.text import language, normalised, sentences
from shared_core.profiles.entries import Basis, Dimension, Finding, Mind, Statement

if TYPE_CHECKING:
    from shared_core.extraction.prompts import Prompt
    from shared_core.models.json_repair import ParsedJson

Parsed = TypeVar("Parsed")

RULES_OF_MIND: Final = "mind-rules-v1"
MOST_A_DIMENSION: Final = 10
"""Most findings kept per dimension, the newest ones."""
BY_RULES: Final = 0.6
QUOTED: Final = 300
READ: Final = 20_000
"""Most characters read of a turn."""
SWING: Final = 0.5
"""Least difference of the mean valence that counts as a change of feelings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The input of theory of mind: turns with their bases, their facts, emotions and changes.

    facts: each with its basis. ended: each ended statement and its successor, if any.
    """

    turns: Sequence[Event]
    bases: Mapping[str, Basis]
    facts: Sequence[tuple[FactDraft, Basis]]
    emotions: Mapping[str, Emotion]
    ended: Sequence[tuple[Statement, Statement | None]]
    at: datetime


@runtime_checkable
class PromptableExtractor(Protocol):
    """An extractor with a language model that answers other prompts too."""

    @property
    def name(self) -> str: ...
    @property
    def window_tokens(self) -> int: ...

    async def ask(
        self,
        prompt: Prompt,
        values: Mapping[str, str],
        schema: Mapping[str, JsonValue],
        keys: Sequence[str],
        parse: Callable[[ParsedJson], Parsed],
    ) -> tuple[Parsed, ModelUsage]:
        """Return the parsed answer; a useless answer is requested once more."""
        ...


def mind_by_rules(observed: Observed, before: Mind) -> list[Finding]:
    """Return the findings of the rules, in the order of the dimensions."""
    spoken = [event for event in observed.turns if event.role == "user"]
    return [
        *_stated(observed, spoken, "intent"),
        *_emotions(observed, spoken),
        *_stated(observed, spoken, "cognition"),
        *_social(observed),
        *_trends(observed, before),
    ]


def with_findings(before: Mind, found: Iterable[Finding]) -> Mind:
    """Return a mind with new findings; a finding in known words updates the known one."""
    kept = {_same(one): one for one in before.findings}
    for one in found:
        known = kept.pop(_same(one), None)
        better = known is not None and (known.confidence >= one.confidence or not one.basis)
        if known is not None:
            one = known if better else replace(one, finding_id=known.finding_id)
        kept[_same(one)] = one
    findings: list[Finding] = []
    for dimension in get_args(Dimension):
        some = [one for one in kept.values() if one.dimension == dimension]
        findings += sorted(some, key=lambda one: one.found_at)[-MOST_A_DIMENSION:]
    return Mind(findings=tuple(findings))


def _same(finding: Finding) -> tuple[str, str]:
    return finding.dimension, normalised(finding.text)


def _stated(observed: Observed, turns: Sequence[Event], dimension: Dimension) -> list[Finding]:
    """Return the findings of sentences that state this dimension outright."""
    found = []
    for event in turns:
        for sentence in sentences(event.text[:READ]):
            spoken = language(sentence)
            for labels, confidence, words in patterns(dimension):
                if words[spoken].search(sentence):
                    quote = sentence[:QUOTED]
                    text = (
                        f"{labels['zh']}：“{quote}”"
                        if spoken == "zh"
                        else f'{labels["en"]}: "{quote}"'
                    )
                    found.append(_finding(observed, dimension, labels["en"], text, confidence,
                                          event.event_id, quote))  # fmt: skip
                    break
    return found


def _emotions(observed: Observed, turns: Sequence[Event]) -> list[Finding]:
    found = []
    for event in turns:
        emotion = observed.emotions.get(event.event_id)
        if emotion is None or not emotion.label:
            continue
        quote = event.text[:QUOTED]
        text = (
            f"表达了{emotion.label}：“{quote}”"
            if language(quote) == "zh"
            else (f'expresses {emotion.label}: "{quote}"')
        )
        found.append(_finding(observed, "emotion", emotion.label, text, 0.5, event.event_id, quote,
                              valence=emotion.valence))  # fmt: skip
    return found


def _social(observed: Observed) -> list[Finding]:
    """Return the people the user names, from the facts of the extractor."""
    found = []
    for draft, basis in observed.facts:
        if draft.operation == "assert" and draft.slot.startswith("relation."):
            quotes = (event.text[:QUOTED] for event in observed.turns
                      if event.event_id == draft.event_id)  # fmt: skip
            relation = draft.slot.split(".")[1]
            found.append(_finding(observed, "social", relation, draft.statement, draft.confidence,
                                  draft.event_id, *quotes, basis=basis))  # fmt: skip
    return found


def _trends(observed: Observed, before: Mind) -> list[Finding]:
    found = []
    for old, new in observed.ended:
        if new is None or not new.facts or not old.facts:
            continue
        slot, was, now = new.facts[0].slot, old.facts[0].value, new.facts[0].value
        text = (
            f"{slot}：从“{was}”变为“{now}”"
            if language(was + now) == "zh"
            else (f'{slot} changed from "{was}" to "{now}"')
        )
        basis = tuple(dict.fromkeys(t for one in (old, new) for b in one.bases for t in b))
        found.append(_finding(observed, "trend", slot, text, BY_RULES, "", old.text, new.text,
                              basis=basis))  # fmt: skip
    return [*found, *_swing(observed, before)]


def _swing(observed: Observed, before: Mind) -> list[Finding]:
    """Return a finding if the feelings differ from the last known ones."""
    past = [one for one in before.of("emotion") if one.valence is not None][-3:]
    now = [(event, observed.emotions[event.event_id]) for event in observed.turns
           if event.role == "user" and event.event_id in observed.emotions]  # fmt: skip
    fresh = {turn for event, _ in now for turn in observed.bases.get(event.event_id, ())}
    past = [one for one in past if not fresh.intersection(one.basis)]
    if not past or not now:
        return []
    was = sum(one.valence or 0.0 for one in past) / len(past)
    event, last = now[-1]
    mean = sum(emotion.valence for _, emotion in now) / len(now)
    if abs(mean - was) < SWING:
        return []
    label = past[-1].label
    text = (
        f"情绪：从{label}到{last.label}"
        if language(event.text) == "zh"
        else (f"feelings went from {label} to {last.label}")
    )
    one = _finding(observed, "trend", "feelings", text, 0.4, event.event_id, event.text[:QUOTED])
    basis = tuple(dict.fromkeys([*(turn for old in past for turn in old.basis), *one.basis]))
    return [replace(one, basis=basis)]


def _finding(
    observed: Observed,
    dimension: Dimension,
    label: str,
    text: str,
    confidence: float,
    event_id: str,
    *quotes: str,
    basis: Basis = (),
    valence: float | None = None,
) -> Finding:
    return Finding(
        finding_id=uuid7(),
        dimension=dimension,
        label=label,
        text=text,
        confidence=min(confidence, BY_RULES),
        found_at=observed.at,
        extractor=RULES_OF_MIND,
        quotes=tuple(filter(None, quotes)),
        basis=basis or observed.bases.get(event_id, ()),
        valence=valence,
    )
