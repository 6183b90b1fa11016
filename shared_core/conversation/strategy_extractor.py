"""The extractor of an ended conversation: strategies run on what another extractor reads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from shared_core.conversation.standalone_statements import session_statements
from shared_core.conversation.strategies import MemoryRecord, MemoryStrategy, RefiningStrategy
from shared_core.core.domain import (
    Event,
    Extraction,
    KnownPerson,
    ModelUsage,
    StatementDraft,
    ThreadId,
)
from shared_core.core.json_text import to_json
from shared_core.errors import InvalidInput
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.ports.storage import Acquainted, Extractor


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
        self._extractor = extractor
        self._strategies = strategies
        self._user_id = user_id
        self._session_id = session_id
        self._people = people

    @property
    def name(self) -> str:
        return self._extractor.name

    @property
    def window_tokens(self) -> int:
        return self._extractor.window_tokens

    @property
    def reread_turns(self) -> int:
        return self._extractor.reread_turns

    @property
    def private_only(self) -> bool:
        """Whether public knowledge is not stored."""
        return any(
            isinstance(one, RefiningStrategy) and one.private_only for one in self._strategies
        )

    @property
    def with_graph(self) -> bool:
        """Whether edges of the knowledge graph are stored."""
        return any(isinstance(one, RefiningStrategy) and one.with_graph for one in self._strategies)

    def knowing(self, people: Sequence[KnownPerson]) -> StrategyExtractor:
        """Return an extractor that knows the people named before the conversation."""
        inner = self._extractor
        if isinstance(inner, Acquainted):
            inner = inner.knowing(people)
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
            raise InvalidInput(f"strategy {name!r} must return MemoryRecords, got {record!r:.80}")
        if not isinstance(record.metadata, Mapping):
            raise InvalidInput(
                f"the metadata of strategy {name!r} must be a dict, got {record.metadata!r:.80}"
            )
        to_json(record.metadata, f"the metadata of strategy {name!r}")
        return StatementDraft(
            metadata=record.metadata,
            text=record.content,
            event_ids=record.event_ids or tuple(event.event_id for event in events),
            privacy="private",
            strategy=name,
        )
