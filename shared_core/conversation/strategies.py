"""Strategies extract memories from a conversation when it ends: two built in, others as plugins.

StrategyExtractor runs them on the drafts of another extractor.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import entry_points
from typing import Final

from shared_core.conversation.standalone_statements import session_statements
from shared_core.core.domain import (
    Event,
    Extraction,
    HeldFact,
    JsonValue,
    KnownPerson,
    ModelUsage,
    StatementDraft,
    ThreadId,
)
from shared_core.core.ids import uuid7
from shared_core.core.json_text import to_json
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.ports.storage import Acquainted, Extractor, Revisable
from shared_core.privacy.classifier import private_by_slot, private_by_words

ENTRY_POINTS: Final = "hippocampus.strategies"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """A memory that a strategy extracts from a conversation.


    The fields without a meaning here are not stored: a memory has an id and a time of its own.

    Attributes:
        content: a text that stands alone.
        event_ids: the turns it was derived from, all turns of the conversation if empty; forgetting
            them forgets the memory.
        metadata: JSON, stored as "strategy_metadata" in the metadata of the memory.
    """

    user_id: str
    content: str
    strategy_type: str
    source_session_id: str = ""
    event_ids: tuple[str, ...] = ()
    record_id: str = field(default_factory=lambda: str(uuid7()))
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


class MemoryStrategy(ABC):
    """Extracts memories from the turns of an ended conversation.

    It runs in the process that consolidates, before anything is written. It may run again for the
    same turns; equal records are stored once. An error fails the job, which is retried: a
    conversation is stored whole or not at all.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that enables it; its records carry it."""

    @abstractmethod
    async def extract(self, events: Sequence[Event], user_id: str) -> list[MemoryRecord]:
        """Return the memories in the turns of one conversation, oldest first."""


class RefiningStrategy(MemoryStrategy):
    """A built-in strategy: selects from what the extractor read."""

    private_only = False
    """Whether public knowledge is not stored."""
    with_graph = False
    """Whether edges of the knowledge graph are stored."""

    @abstractmethod
    def refine(self, kept: Extraction, read: Extraction) -> Extraction:
        """Return what earlier strategies kept, as this one changes it. read: all drafts."""


class PrivacyFilterStrategy(RefiningStrategy):
    """Keeps memories about the user's life (PRIVATE), drops general knowledge (PUBLIC)."""

    private_only = True

    @property
    def name(self) -> str:
        return "privacy_filter"

    async def extract(self, events: Sequence[Event], user_id: str) -> list[MemoryRecord]:
        """Return the private statements of the turns, judged by their words alone."""
        return [
            MemoryRecord(
                user_id=user_id, content=one.text, strategy_type=self.name, event_ids=one.event_ids
            )
            for one in session_statements(events)
            if one.privacy == "private" or private_by_words(one.text)
        ]

    def refine(self, kept: Extraction, read: Extraction) -> Extraction:
        private = [
            fact
            for fact in kept.facts
            if fact.privacy != "public" or private_by_slot(fact) or private_by_words(fact.statement)
        ]
        return replace(kept, facts=private)


class GraphExtractionStrategy(RefiningStrategy):
    """Extracts the edges of the knowledge graph."""

    with_graph = True

    @property
    def name(self) -> str:
        return "graph_extraction"

    async def extract(self, events: Sequence[Event], user_id: str) -> list[MemoryRecord]:
        """Return the edges the rules find, each as "subject relation object"."""
        return [
            MemoryRecord(
                user_id=user_id,
                content=f"{one.subject} {one.relation} {one.object}",
                strategy_type=self.name,
                event_ids=(one.event_id, *one.other_event_ids),
                metadata={
                    "source": one.subject, "relation": one.relation, "target": one.object
                },
            )
            for one in RuleExtractor(reader=False).read(events).triples
        ]  # fmt: skip

    def refine(self, kept: Extraction, read: Extraction) -> Extraction:
        return replace(kept, triples=read.triples)


BUILT_IN: Final[Mapping[str, type[RefiningStrategy]]] = {
    "privacy_filter": PrivacyFilterStrategy,
    "graph_extraction": GraphExtractionStrategy,
}


def resolve_strategies(given: Sequence[object]) -> tuple[MemoryStrategy, ...]:
    """Return the strategies for names or objects, each once.

    A name is a built-in strategy or an entry point in the group "hippocampus.strategies", which
    names a MemoryStrategy class without arguments. Raises InvalidInput for anything else.
    """
    found = [one if isinstance(one, MemoryStrategy) else _named(one) for one in given]
    by_name = {one.name: one for one in found}
    return tuple(by_name.values())


def _named(name: object) -> MemoryStrategy:
    if isinstance(name, str) and name in BUILT_IN:
        return BUILT_IN[name]()
    plugins = {one.name: one for one in entry_points(group=ENTRY_POINTS)}
    if not isinstance(name, str) or name not in plugins:
        known = ", ".join([*BUILT_IN, *sorted(plugins)])
        raise InvalidInput(
            f"strategy {shown(name)} is unknown: name one of {known}, pass a MemoryStrategy"
            " object, or install a package with an entry point of that name in the group"
            f" {ENTRY_POINTS!r}"
        )
    try:
        made = plugins[name].load()()
    except (ImportError, AttributeError, TypeError) as error:
        raise InvalidInput(
            f"strategy {shown(name)} ({plugins[name].value}) cannot be loaded: {error}"
        ) from error
    if not isinstance(made, MemoryStrategy):
        raise InvalidInput(
            f"strategy {shown(name)} ({plugins[name].value}) must make a MemoryStrategy, got a"
            f" {type(made).__name__}"
        )
    return made


class StrategyExtractor:
    """An extractor for one conversation: the strategies select from and add to what another reads.

    With the rule extractor, statements are grouped in the user's own words; a language model
    writes its own.
    """

    def __init__(
        self,
        extractor: Extractor,
        strategies: Sequence[MemoryStrategy],
        user_id: str,
        session_id: ThreadId,
        people: Sequence[KnownPerson] = (),
    ) -> None:
        refining = [one for one in strategies if isinstance(one, RefiningStrategy)]
        self.name = extractor.name
        self.window_tokens = extractor.window_tokens
        self.reread_turns = extractor.reread_turns
        self.needs_revision = isinstance(extractor, Revisable) and extractor.needs_revision
        self.reader = isinstance(extractor, Revisable) and extractor.reader
        self.private_only = any(one.private_only for one in refining)
        """Whether public knowledge is not stored."""
        self.with_graph = any(one.with_graph for one in refining)
        """Whether edges of the knowledge graph are stored."""
        self._extractor = extractor
        self._strategies = strategies
        self._user_id = user_id
        self._session_id = session_id
        self._people = people

    def knowing(
        self, people: Sequence[KnownPerson], held: Sequence[HeldFact] = ()
    ) -> StrategyExtractor:
        """Return an extractor that knows the people and facts of before the conversation."""
        inner = self._extractor
        if isinstance(inner, Acquainted):
            inner = inner.knowing(people, held)
        return StrategyExtractor(inner, self._strategies, self._user_id, self._session_id, people)

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        read = await self._extractor.extract(events, context)
        if isinstance(self._extractor, RuleExtractor):
            statements = await asyncio.to_thread(session_statements, events, context, self._people)
            read = replace(read, statements=statements)
        kept = replace(read, triples=())
        for strategy in self._strategies:
            if isinstance(strategy, RefiningStrategy):
                kept = strategy.refine(kept, read)
            else:
                records = await strategy.extract(list(events), self._user_id)
                drafts = [self._draft(one, events, strategy.name) for one in records]
                kept = replace(kept, statements=[*kept.statements, *drafts])
        return kept

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        return await self._extractor.summarise(events, previous, max_characters)

    def _draft(self, record: MemoryRecord, events: Sequence[Event], name: str) -> StatementDraft:
        if not isinstance(record, MemoryRecord) or not isinstance(record.content, str):
            raise InvalidInput(
                f"strategy {shown(name)} must return MemoryRecords, got {shown(record)}"
            )
        if not isinstance(record.metadata, Mapping):
            raise InvalidInput(
                f"the metadata of strategy {shown(name)} must be a dict,"
                f" got {shown(record.metadata)}"
            )
        to_json(record.metadata, f"the metadata of strategy {shown(name)}")
        return StatementDraft(
            metadata=record.metadata,
            text=record.content,
            event_ids=record.event_ids or tuple(event.event_id for event in events),
            privacy="private",
            strategy=name,
        )
