"""Extractors behind the port; the rule-based one, which needs no model."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from typing import Self

from shared_core.core.domain import NO_USAGE, Event, Extraction, FactDraft, KnownPerson, ModelUsage
from shared_core.errors import InvalidInput
from shared_core.extraction.grouping import statements_of
from shared_core.extraction.importance import turn_importance
from shared_core.extraction.key_sentences import key_sentences
from shared_core.extraction.rule_reader import RULES_VERSION, ReadClause, extract_facts, read_turn
from shared_core.extraction.self_corrections import corrected, slips
from shared_core.nlp.affect import emotion_of
from shared_core.nlp.coreference import follow
from shared_core.nlp.discourse import Register
from shared_core.nlp.extractive_summary import summarise
from shared_core.nlp.rules import load_rules
from shared_core.nlp.text import sentences
from shared_core.nlp.triples import triples_of


class RuleExtractor:
    """Reads plain statements of English and Chinese users; misses all else, and says where.

    without: ids of patterns that are switched off. Raises InvalidInput for an unknown one.
    """

    name = RULES_VERSION
    window_tokens = 1_000_000
    reread_turns = 1_000

    def __init__(self, *, without: Collection[str] = ()) -> None:
        known = {pattern.id for name in ("en", "zh") for pattern in load_rules(name).patterns}
        if unknown := sorted(set(without) - known):
            raise InvalidInput(
                f"no such pattern: {', '.join(unknown)}; the ids are in shared_core/rules/*.toml"
            )
        self._without = frozenset(without)
        self._people: Sequence[KnownPerson] = ()

    def knowing(self, people: Sequence[KnownPerson]) -> Self:
        """Return a copy that knows whom the user named before the turns it is given."""
        knowing = copy(self)
        knowing._people = people
        return knowing

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        return await asyncio.to_thread(self.read, events, context)

    def read(self, events: Sequence[Event], context: Sequence[Event] = ()) -> Extraction:
        """Return what events say; the same as extract, in the caller's thread."""
        register = Register(self._people)
        follow(register, context)
        facts: list[FactDraft] = []
        clauses: list[ReadClause] = []
        extraction = Extraction()
        emotions, importance, unread = {}, {}, []
        for event in events:
            if event.role == "agent":
                follow(register, [event])
            if event.role != "user":
                continue
            reading = read_turn(event, register, self._without)
            if found := list(slips(event.text)):
                before = [fact for one in context for fact in extract_facts(one)]
                reading.facts += corrected(event, found, [*before, *facts, *reading.facts])
            emotion = emotion_of(event.text)
            if emotion is not None:
                emotions[event.event_id] = emotion
            facts += [replace(fact, emotion=emotion) for fact in reading.facts]
            clauses += reading.clauses
            importance[event.event_id] = turn_importance(event.text, reading.facts)
            if reading.unread:
                unread.append(event.event_id)
        return replace(
            extraction,
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
    return summarise(events, max_characters=max_characters, key_sentences=key_sentences(events))
