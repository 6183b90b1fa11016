"""The rule-based extractor, which needs no model, and the choice of an extractor."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final, Self

from shared_core.core.domain import (
    NO_USAGE,
    Event,
    Extraction,
    FactDraft,
    HeldFact,
    KnownPerson,
    ModelUsage,
)
from shared_core.core.model_limits import ModelLimits
from shared_core.errors import InvalidInput
from shared_core.extraction.grouping import statements_of
from shared_core.extraction.pattern_facts import TRAILING
from shared_core.extraction.rule_reader import (
    RULES_VERSION,
    ResolvedClause,
    extract_facts,
    guarded,
    pattern_of,
    read_turn,
    states_facts,
)
from shared_core.extraction.trained_reader import is_proposed, reader_patterns
from shared_core.models.language_model import resolve_language_model
from shared_core.nlp.affect import emotion_of, turn_importance
from shared_core.nlp.clauses import own_sentences
from shared_core.nlp.coreference import observe_turns
from shared_core.nlp.discourse import DiscourseState
from shared_core.nlp.extractive_summary import NEWS, summarise
from shared_core.nlp.relation_schema import triples_of
from shared_core.nlp.rules import load_rules
from shared_core.nlp.slots import is_name_slot
from shared_core.nlp.text import normalised, sentences
from shared_core.ports.storage import Extractor


class RuleExtractor:
    """Reads plain statements of English and Chinese users, and reports the turns it could not read.

    without: ids of disabled patterns, those of the trained reader too. Raises InvalidInput for an
    unknown one. reader: whether the trained reader proposes facts where the rules find none.
    """

    name = RULES_VERSION
    window_tokens = 1_000_000
    reread_turns = 1_000
    needs_revision = True

    def __init__(self, *, without: Collection[str] = (), reader: bool = True) -> None:
        known = (one.id for name in ("en", "zh") for one in load_rules(name).patterns)
        if without and (unknown := sorted(set(without).difference(known, reader_patterns()))):
            raise InvalidInput(
                f"no such pattern: {', '.join(unknown)}; see shared_core/nlp/rules/*.toml"
            )
        self._without = frozenset(without)
        self.reader = reader
        self._people: Sequence[KnownPerson] = ()

    def knowing(self, people: Sequence[KnownPerson], held: Sequence[HeldFact] = ()) -> Self:
        """Return a copy that knows the people the user named before the given turns.

        held: not read here; shared_core.knowledge compares the drafts with it.
        """
        knowing = copy(self)
        knowing._people = people
        return knowing

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        return await asyncio.to_thread(self.read, events, context)

    def read(self, events: Sequence[Event], context: Sequence[Event] = ()) -> Extraction:
        """Return the drafts of events; same as extract, in the caller's thread."""
        discourse = DiscourseState(self._people)
        observe_turns(discourse, context)
        facts: list[FactDraft] = []
        clauses: list[ResolvedClause] = []
        emotions, importance, unread = {}, {}, []
        for event in events:
            if event.role == "agent":
                observe_turns(discourse, [event])
            if event.role != "user":
                continue
            reading = read_turn(event, discourse, self._without, reader=self.reader)
            if found := list(self_corrections(event.text)):
                reading.facts = [one for one in reading.facts if not is_proposed(one)]
                before = [fact for one in context for fact in extract_facts(one)]
                reading.facts += apply_corrections(event, found, [*before, *facts, *reading.facts])
            emotion = emotion_of(event.text)
            if emotion is not None:
                emotions[event.event_id] = emotion
            facts += [replace(fact, emotion=emotion) for fact in reading.facts]
            clauses += reading.clauses
            importance[event.event_id] = turn_importance(event.text, reading.facts)
            if reading.unread:
                unread.append(event.event_id)
        return Extraction(
            facts=facts,
            statements=statements_of(clauses),
            triples=triples_of(facts),
            emotions=emotions,
            importance=importance,
            needs_model=unread,
        )

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        # In a thread: summarising a long thread would block the event loop.
        turns = [*_summary_as_turns(previous, events), *events]
        return await asyncio.to_thread(_summary, turns, max_characters), NO_USAGE


def _summary_as_turns(previous: str, events: Sequence[Event]) -> list[Event]:
    """Return the sentences of a summary as user turns, to be ranked with the others."""
    if not events:
        return []
    at = events[0].occurred_at
    return [
        Event(event_id=f"summary/{place}", author="user", role="user", text=one, occurred_at=at)
        for place, one in enumerate(sentences(previous))
    ]


def _summary(events: Sequence[Event], max_characters: int) -> str:
    return summarise(events, max_characters=max_characters, key_sentences=key_sentences(events))


MOST_IMPORTANT: Final = 10.0
LIFE: Final = 8.0
"""Minimum importance of a change that is news: a job, a home, a marriage, but no taste."""


def key_sentences(events: Sequence[Event]) -> Mapping[str, float]:
    """Return the user sentences that carried facts, with weights above 0 up to NEWS.

    A sentence about a change of life weighs NEWS: an end, a move, a new value. Any other weighs by
    the importance of its facts. Sentences with a value that was replaced later are left out.
    """
    held: dict[tuple[str, str], tuple[FactDraft, tuple[int, str]]] = {}
    weights: dict[tuple[int, str], float] = {}
    for number, (sentence, fact) in enumerate(_carried(events)):
        carrier, changed = (number, sentence), _is_change(fact)
        if fact.functional:
            before, carried_by = held.get((fact.slot, fact.subject), (fact, carrier))
            if (before.value, before.operation) != (fact.value, fact.operation):
                changed = True
                weights.pop(carried_by, None)
            held[fact.slot, fact.subject] = fact, carrier
        is_news = changed and fact.importance >= LIFE
        weights[carrier] = NEWS if is_news else fact.importance / MOST_IMPORTANT
    found: dict[str, float] = {}
    for (_, sentence), weight in weights.items():
        found[sentence] = max(weight, found.get(sentence, 0.0))
    return found


def _carried(events: Sequence[Event]) -> Iterator[tuple[str, FactDraft]]:
    for event in events:
        if event.role != "user" or not states_facts(event):
            continue
        for sentence in sentences(event.text):
            for fact in extract_facts(replace(event, text=sentence)):
                yield sentence, fact


def _is_change(fact: FactDraft) -> bool:
    pattern = pattern_of(fact)
    return fact.operation == "retract" or bool(pattern and pattern.change)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCorrection:
    """A wrong word and the right one. meant: the user says outright what they meant."""

    wrong: str
    right: str
    meant: bool


def self_corrections(text: str) -> Iterator[SelfCorrection]:
    """Yield the self-corrections in a turn that is no joke: "I meant Apex, not Acme"."""
    found = own_sentences(text)
    if any(guarded(sentence, load_rules(lang), "turn") for sentence, lang in found):
        return
    for sentence, lang in found:
        match = load_rules(lang).self_correction.fullmatch(sentence.strip())
        if match:
            wrong = match["wrong"] or match["wrong_first"]
            right = match["right"] or match["right_last"]
            yield SelfCorrection(
                wrong=wrong.strip(TRAILING),
                right=right.strip(TRAILING),
                meant=match["meant"] is not None,
            )


def apply_corrections(
    event: Event, found: Iterable[SelfCorrection], known: Sequence[FactDraft]
) -> list[FactDraft]:
    """Return the facts of a turn with these self-corrections, given all facts so far in order.

    The corrected fact takes the right word. In a slot with several values the wrong one ends, but
    only if the user says what they meant: "it's coffee, not tea" may be about a cup. Names of
    people stay, because facts are stored under them. A correction that matches no fact is ignored.
    """
    facts: list[FactDraft] = []
    for correction in found:
        draft = next((one for one in reversed(known) if _takes_back(correction, one)), None)
        if draft is None:
            continue
        others = dict.fromkeys([draft.event_id, *draft.other_event_ids])
        others.pop(event.event_id, None)
        corrected = replace(draft, event_id=event.event_id, other_event_ids=tuple(others))
        if not draft.functional:
            facts.append(replace(corrected, operation="retract"))
        statement = draft.statement.replace(draft.value, correction.right, 1)
        facts.append(replace(corrected, value=correction.right, statement=statement))
    return facts


def _takes_back(correction: SelfCorrection, draft: FactDraft) -> bool:
    return (
        draft.operation == "assert"
        and (draft.functional or (correction.meant and draft.fact_type != "rule"))
        and not is_name_slot(draft.slot)
        and normalised(draft.value) == normalised(correction.wrong)
    )


def resolve_extractor(
    llm: object = None, extractor: Extractor | None = None, limits: ModelLimits | None = None
) -> Extractor:
    """Return the extractor for arguments of open_memory(); calls no model.

    Raises InvalidInput for both, and for an unsupported llm.
    """
    if llm is None:
        return extractor or RuleExtractor()
    if extractor is not None:
        raise InvalidInput("give llm or extractor, not both: an extractor brings its own model")
    # Deferred: pydantic takes a moment to load.
    from shared_core.extraction.llm_extractor import ModelExtractor

    model = resolve_language_model(llm)
    return ModelExtractor(model, RuleExtractor(reader=False), limits=limits)
