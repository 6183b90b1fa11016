"""Strategies: what is made of a session when it ends. Two are built in; others are plugins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import entry_points
from typing import Final

from shared_core.conversation.standalone_statements import session_statements
from shared_core.core.domain import Event, Extraction, JsonValue
from shared_core.core.ids import uuid7
from shared_core.errors import InvalidInput
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.privacy.classifier import private_by_slot, private_by_words

ENTRY_POINTS: Final = "hippocampus.strategies"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """What a strategy draws out of a session, to be remembered.

    content: a text that stands alone. event_ids: the events it rests on, all of the session if
    empty: it goes with them. metadata: JSON that is stored with it, as "strategy_metadata" in the
    metadata of the memory. The other fields are the strategy's own and not stored: the memory has
    its own id and moment, and knows its session by the events.
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
    """Draws memories out of the events of a session when it has ended.

    It runs in whichever process consolidates, before anything is written, and may run again for
    the same events: what it returns is stored once. What it raises fails the job, which is tried
    again; nothing of the session is stored by halves.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which it is enabled, and that its records carry."""

    @abstractmethod
    async def extract(self, events: Sequence[Event], user_id: str) -> list[MemoryRecord]:
        """Return what is to be remembered of the events of one session, oldest first."""


class RefiningStrategy(MemoryStrategy):
    """A built-in strategy: chooses from what was read out of the session already."""

    private_only = False
    """Whether what turns out to be public is not stored."""
    with_graph = False
    """Whether edges of the knowledge graph are drawn."""

    @abstractmethod
    def refine(self, kept: Extraction, read: Extraction) -> Extraction:
        """Return what is kept so far with this strategy's part of what was read."""


class PrivacyFilterStrategy(RefiningStrategy):
    """Keeps what is about the user's life (PRIVATE) and drops general knowledge (PUBLIC)."""

    private_only = True

    @property
    def name(self) -> str:
        return "privacy_filter"

    async def extract(self, events: Sequence[Event], user_id: str) -> list[MemoryRecord]:
        """Return the private statements of the events, as far as words alone tell."""
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
    """Draws the edges of the knowledge graph."""

    with_graph = True

    @property
    def name(self) -> str:
        return "graph_extraction"

    async def extract(self, events: Sequence[Event], user_id: str) -> list[MemoryRecord]:
        """Return the edges that rules find, each as "subject relation object"."""
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
            for one in RuleExtractor().read(events).triples
        ]  # fmt: skip

    def refine(self, kept: Extraction, read: Extraction) -> Extraction:
        return replace(kept, triples=read.triples)


BUILT_IN: Final[Mapping[str, type[RefiningStrategy]]] = {
    "privacy_filter": PrivacyFilterStrategy,
    "graph_extraction": GraphExtractionStrategy,
}


def resolve_strategies(wanted: Sequence[object]) -> tuple[MemoryStrategy, ...]:
    """Return the strategies that names or objects stand for, each once.

    A name is a built-in one, or an entry point of the group "hippocampus.strategies": a subclass
    of MemoryStrategy that needs no arguments. Raises InvalidInput for anything else.
    """
    found = [one if isinstance(one, MemoryStrategy) else _named(one) for one in wanted]
    by_name = {one.name: one for one in found}
    return tuple(by_name.values())


def _named(name: object) -> MemoryStrategy:
    if isinstance(name, str) and name in BUILT_IN:
        return BUILT_IN[name]()
    plugins = {one.name: one for one in entry_points(group=ENTRY_POINTS)}
    if not isinstance(name, str) or name not in plugins:
        known = ", ".join([*BUILT_IN, *sorted(plugins)])
        raise InvalidInput(
            f"strategy {name!r} is not known: take one of {known}, a MemoryStrategy object, or"
            f" install a package with an entry point of that name in the group {ENTRY_POINTS!r}"
        )
    try:
        made = plugins[name].load()()
    except (ImportError, AttributeError, TypeError) as error:
        raise InvalidInput(
            f"strategy {name!r} ({plugins[name].value}) cannot be loaded: {error}"
        ) from error
    if not isinstance(made, MemoryStrategy):
        raise InvalidInput(
            f"strategy {name!r} ({plugins[name].value}) makes a {type(made).__name__}, not a"
            " MemoryStrategy"
        )
    return made
