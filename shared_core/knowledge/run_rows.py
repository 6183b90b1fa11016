"""Builds the rows of a run with their provenance, and repeats a run after a conflict."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from shared_core.core.domain import (
    Emotion,
    Event,
    Extraction,
    FactDraft,
    InsightDraft,
    JsonValue,
    KnownPerson,
    Memory,
    MemoryId,
    MemoryKind,
    Privacy,
    Scope,
    ThreadId,
    TripleDraft,
    Turn,
)
from shared_core.core.doubts import marked
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import memories_namespace, scope_path, summary_key
from shared_core.core.timestamps import CLOCKS_APART
from shared_core.errors import Conflict
from shared_core.ingest.events import memory_value
from shared_core.knowledge.edge_planning import EdgePlan
from shared_core.knowledge.fact_planning import FactPlan
from shared_core.models.embedding import Embedding
from shared_core.nlp.similarity import same_statement, words_key
from shared_core.nlp.text import language, search_terms
from shared_core.policies import applying as policies
from shared_core.policies.vectors import TEXT_FIELD
from shared_core.ports.items import ItemAddress, MemoryRow, VectorRows
from shared_core.ports.runs import Annotation, LikeText, PlannedFact, RunPlan, Source
from shared_core.privacy.classifier import class_by_example, private_by_slot, private_by_words

if TYPE_CHECKING:
    from shared_core.ports.storage import Clock, Storage, Vectors

PRIVACY_FIELD = "privacy"
"""The metadata key of the privacy class of a derived memory."""
MAX_TRIES = 64
"""Maximum tries to apply a run; each failure means that a concurrent run was applied."""
PAUSE_S = 0.02
"""Growth of the maximum pause with each try, in seconds; it stops after ten tries."""

_Result = TypeVar("_Result")


class RunRows:
    """Collects the rows of one run. thread_id: None for a run across threads.

    people: known people, with the turns that named them.
    """

    def __init__(
        self,
        scope: Scope,
        thread_id: ThreadId | None,
        run_id: UUID,
        now: datetime,
        extractor: str,
        people: Sequence[KnownPerson] = (),
    ) -> None:
        self.run_id = run_id
        self.memories: list[MemoryRow] = []
        self.sources: list[Source] = []
        self.edge_sources: list[tuple[UUID, Turn, int]] = []
        self.annotations: list[Annotation] = []
        self.drawn_from: set[Turn] = set()
        self._namespace = memories_namespace(scope)
        self._thread_id = thread_id
        self._now = now
        self._extractor = extractor
        self._people = {one.memory_id: one for one in people}
        self._turns: dict[str, Event] = {}
        self._free: dict[ItemAddress, str] = {}
        self._drawn: set[tuple[str, frozenset[Turn]]] = set()

    @property
    def statements(self) -> int:
        """Number of statements to write."""
        return sum(self._is_free(row) and row.kind == "semantic" for row in self.memories)

    @property
    def insights(self) -> int:
        """Number of insights to write."""
        return sum(self._is_free(row) and row.kind == "reflection" for row in self.memories)

    def texts(self) -> list[tuple[ItemAddress, str, str]]:
        """Return addresses, fields and texts to embed."""
        return [(_address(row), TEXT_FIELD, row.text) for row in self.memories]

    def free_keys(self) -> Mapping[ItemAddress, UUID]:
        """Return the words keys of statements and insights, which have no other identity."""
        keys = {address: words_key(text) for address, text in self._free.items()}
        return {address: key for address, key in keys.items() if key}

    def drop_known(self, near: Mapping[ItemAddress, Sequence[LikeText]]) -> None:
        """Drop known statements and add their turns to the known ones; near: similar memories."""
        for address, text in list(self._free.items()):
            if known := same_statement(text, near.get(address, ())):
                turns = [one.turn for one in self.sources if one.address == address]
                self._drop(address)
                if turns:
                    self._draw(str(known.memory_id), turns)

    def vectors_of(self, vectors: VectorRows | None) -> VectorRows | None:
        """Return the vectors of the rows to write."""
        return vectors and vectors.only({_address(row) for row in self.memories})

    def _drop(self, address: ItemAddress) -> None:
        del self._free[address]
        self.memories = [row for row in self.memories if _address(row) != address]
        self.sources = [one for one in self.sources if one.address != address]

    def undecided(self) -> Mapping[ItemAddress, str]:
        """Return the texts not classified as private yet, except summaries."""
        return {
            _address(row): row.text
            for row in self.memories
            if row.kind != "summary" and _privacy(row) != "private"
        }

    def classify(self, classes: Mapping[ItemAddress, Privacy]) -> None:
        """Set the privacy class of the rows at these addresses."""
        self.memories = [
            _classified(row, classes[_address(row)]) if _address(row) in classes else row
            for row in self.memories
        ]

    def drop_public(self) -> None:
        """Drop public statements and insights."""
        for row in [row for row in self.memories if self._is_free(row)]:
            if _privacy(row) == "public":
                self._drop(_address(row))

    def add_facts(self, plan: FactPlan, turns: Sequence[Event]) -> None:
        """Add the facts of a plan; turns are their provenance."""
        self._turns = {event.event_id: event for event in turns}
        for fact in plan.opened:
            self.memories.append(self._fact_row(fact))
            self._draw(str(fact.memory_id), self._turns_of(fact.draft))
        for draft, known in plan.restated:
            if not draft.confirms:
                self._draw(str(known.row_id), self._turns_of(draft))

    def add_edges(self, plan: EdgePlan) -> None:
        """Add the provenance of the edges of a plan."""
        for basis, (edge_id, draft) in enumerate(plan.stated_by):
            turns = self._turns_of(draft)
            self.edge_sources += [(edge_id, one, basis) for one in sorted(turns)]
            self.drawn_from |= turns

    def add_drafts(self, drafts: Extraction) -> None:
        """Add statements, insights and annotations; call add_facts first."""
        seen = {row.words_key for row in self.memories} - {None}
        for statement in drafts.statements:
            key = words_key(statement.text)
            if key in seen:
                continue
            seen |= {key} - {None}
            extra = _extra(statement.emotion, statement.privacy) | {"statement": True}
            if statement.strategy:
                extra["strategy"] = statement.strategy
            if statement.metadata:
                extra["strategy_metadata"] = dict(statement.metadata)
            self._free_row("semantic", statement.text, statement.event_ids,
                           statement.importance, extra, statement.people)  # fmt: skip
        for insight in drafts.insights:
            key = words_key(insight.text)
            if key in seen:
                continue
            seen |= {key} - {None}
            extra = {"category": insight.category}
            self._free_row("reflection", insight.text, insight.event_ids,
                           insight.importance, extra)  # fmt: skip
        for event_id in dict.fromkeys([*drafts.importance, *drafts.emotions]):
            note = Annotation(
                event_id=event_id,
                emotion=drafts.emotions.get(event_id),
                importance=drafts.importance.get(event_id),
            )
            self.annotations.append(note)

    def add_reflection(self, insight: InsightDraft, based_on: Sequence[Memory]) -> ItemAddress:
        """Add an insight derived from memories; it expires with the first of them.

        It is private unless all of them are public.
        """
        occurred_at = max(one.occurred_at for one in based_on)
        extra: dict[str, JsonValue] = {"category": insight.category}
        extra["memories"] = [str(memory_id) for memory_id in insight.memory_ids]
        if any(_privacy(one) != "public" for one in based_on):
            extra[PRIVACY_FIELD] = "private"
        row = self._row("reflection", insight.text, occurred_at, insight.importance, extra,
                        _first_expiry(based_on))  # fmt: skip
        self.memories.append(row)
        self._free[row.namespace, row.key] = row.text
        return row.namespace, row.key

    def add_summary(self, summary: str, turns: Sequence[Event]) -> None:
        """Add the summary of the thread, which covers these turns."""
        occurred_at = turns[-1].occurred_at
        self.drawn_from |= self._own(event.event_id for event in turns)
        self.memories.append(
            MemoryRow(
                memory_id=MemoryId(uuid7()),
                namespace=self._namespace,
                key=summary_key(self._thread_id or ""),
                kind="summary",
                text=summary,
                value=memory_value(
                    "summary", summary, occurred_at=occurred_at, thread_id=self._thread_id
                ),
                terms=search_terms(summary),
                occurred_at=occurred_at,
                thread_id=self._thread_id,
                run_id=self.run_id,
                expires_at=_first_expiry(turns),
            )
        )

    def _fact_row(self, fact: PlannedFact) -> MemoryRow:
        draft = fact.draft
        turn = self._turns.get(draft.event_id)
        occurred_at = min(fact.valid_from, turn.occurred_at) if turn else fact.valid_from
        privacy: Privacy | None = "private" if private_by_slot(draft) else draft.privacy
        extra: dict[str, JsonValue] = {
            "fact_type": draft.fact_type,
            "slot": draft.slot,
            "value": draft.value,
            "confidence": draft.confidence,
            "pattern": draft.pattern,
            **_extra(draft.emotion, privacy),
        }
        value = memory_value(
            "semantic",
            draft.statement,
            occurred_at=occurred_at,
            thread_id=self._thread_id,
            metadata=extra,
        )
        return MemoryRow(
            memory_id=fact.memory_id,
            namespace=self._namespace,
            key=str(fact.memory_id),
            kind="semantic",
            text=draft.statement,
            value=marked(value, fact.doubted_at),
            terms=search_terms(draft.statement),
            occurred_at=occurred_at,
            importance=draft.importance,
            thread_id=self._thread_id,
            run_id=self.run_id,
            superseded_at=self._now if self._has_ended(fact) else None,
            words_key=words_key(draft.statement),
            expires_at=self._first_expiry((draft.event_id, *draft.other_event_ids), draft.people),
        )

    def _free_row(
        self,
        kind: MemoryKind,
        text: str,
        event_ids: Sequence[str],
        importance: float,
        extra: Mapping[str, JsonValue],
        people: Sequence[MemoryId] = (),
    ) -> None:
        occurred_at = max(self._turns[event_id].occurred_at for event_id in event_ids)
        expires_at = self._first_expiry(event_ids, people)
        row = self._row(kind, text, occurred_at, importance, extra, expires_at)
        self.memories.append(row)
        self._free[row.namespace, row.key] = text
        self._draw(row.key, self._own(event_ids) | self._naming(people))

    def _row(
        self,
        kind: MemoryKind,
        text: str,
        occurred_at: datetime,
        importance: float,
        extra: Mapping[str, JsonValue],
        expires_at: datetime | None = None,
    ) -> MemoryRow:
        memory_id = MemoryId(uuid7())
        metadata = {**extra, "extractor": self._extractor}
        return MemoryRow(
            memory_id=memory_id,
            namespace=self._namespace,
            key=str(memory_id),
            kind=kind,
            text=text,
            value=memory_value(
                kind, text, occurred_at=occurred_at, thread_id=self._thread_id, metadata=metadata
            ),
            terms=search_terms(text),
            occurred_at=occurred_at,
            importance=importance,
            thread_id=self._thread_id,
            run_id=self.run_id,
            expires_at=expires_at,
            words_key=words_key(text),
        )

    def _own(self, event_ids: Iterable[str]) -> set[Turn]:
        """Return turns of the thread; an empty id stands for a fact that a caller stated."""
        return {(self._thread_id or ThreadId(""), one) for one in event_ids if one}

    def _naming(self, people: Iterable[MemoryId]) -> set[Turn]:
        return {turn for one in people for turn in self._people[one].turns}

    def _turns_of(self, draft: FactDraft | TripleDraft) -> set[Turn]:
        return self._own((draft.event_id, *draft.other_event_ids)) | self._naming(draft.people)

    def _draw(self, key: str, turns: Iterable[Turn]) -> None:
        """Add turns that jointly support the memory with a key."""
        together = frozenset(turns)
        if (key, together) not in self._drawn:
            self._drawn.add((key, together))
            address, basis = (self._namespace, key), len(self._drawn)
            self.sources += [Source(address=address, turn=one, basis=basis)
                             for one in sorted(together)]  # fmt: skip
            self.drawn_from |= together

    def _first_expiry(
        self, event_ids: Iterable[str], people: Iterable[MemoryId]
    ) -> datetime | None:
        named = [self._people[one] for one in people]
        turns = [self._turns[event_id] for event_id in event_ids if event_id]
        return _first_expiry([*turns, *named])

    def _has_ended(self, fact: PlannedFact) -> bool:
        return bool(fact.valid_until and fact.valid_until <= self._now + CLOCKS_APART)

    def _is_free(self, row: MemoryRow) -> bool:
        return _address(row) in self._free


def _address(row: MemoryRow) -> ItemAddress:
    return row.namespace, row.key


def _privacy(row: MemoryRow | Memory) -> JsonValue:
    metadata = row.value.get("metadata")
    return metadata.get(PRIVACY_FIELD) if isinstance(metadata, Mapping) else None


def _classified(row: MemoryRow, privacy: Privacy) -> MemoryRow:
    metadata = row.value.get("metadata")
    assert isinstance(metadata, Mapping)
    return replace(row, value={**row.value, "metadata": {**metadata, PRIVACY_FIELD: privacy}})


def _first_expiry(drawn_from: Iterable[Event | Memory | KnownPerson]) -> datetime | None:
    return min((one.expires_at for one in drawn_from if one.expires_at), default=None)


def _extra(emotion: Emotion | None, privacy: Privacy | None) -> dict[str, JsonValue]:
    extra: dict[str, JsonValue] = {}
    if emotion:
        extra["emotion"] = {
            "valence": emotion.valence,
            "arousal": emotion.arousal,
            "label": emotion.label,
        }
    if privacy:
        extra[PRIVACY_FIELD] = privacy
    return extra


async def add_privacy(embedding: Embedding, rows: RunRows, vectors: VectorRows | None) -> None:
    """Classify each row that is not private yet; unclear rows become private.

    vectors: of the rows, as stored. The first call embeds the examples, so hold no connection.
    """
    undecided = rows.undecided()
    classes: dict[ItemAddress, Privacy] = dict.fromkeys(undecided, "private")
    known: dict[ItemAddress, Vectors] = (
        dict(zip(vectors.addresses, vectors.vectors, strict=True)) if vectors else {}
    )
    unclear = {
        address: language(text)
        for address, text in undecided.items()
        if address in known and not private_by_words(text)
    }
    prototypes = {spoken: await embedding.prototypes(spoken) for spoken in set(unclear.values())}
    for address, spoken in unclear.items():
        classes[address] = class_by_example(known[address], prototypes[spoken])
    rows.classify(classes)


class _Overtaken(Exception):
    """A concurrent run was applied before the one that an attempt planned."""


async def apply_run(storage: Storage, plan: RunPlan, clock: Clock) -> None:
    """Apply a run. Raises Conflict if another run of the thread or on a fact came first."""
    now = clock()
    try:
        await storage.transact(scope_path(plan.scope), lambda: policies.apply_run(plan, now))
    except Conflict as error:
        raise Conflict(
            f"another run consolidated thread {plan.thread_id!r} at the same time, or changed a"
            " fact of this run: read the thread again and repeat the run"
        ) from error


async def applied(write: Awaitable[_Result]) -> _Result:
    """Return the result of the write of an attempt; its Conflict is for until_applied()."""
    try:
        return await write
    except Conflict as conflict:
        raise _Overtaken from conflict


async def until_applied(attempt: Callable[[], Awaitable[_Result]]) -> _Result:
    """Return the result of an attempt to plan and apply a run.

    If another run came first, pause and try again. A Conflict of anything but applied() is raised:
    an extractor is not called again for it.
    """
    for tries in range(1, MAX_TRIES + 1):
        try:
            return await attempt()
        except _Overtaken as overtaken:
            if tries == MAX_TRIES:
                assert overtaken.__cause__
                raise overtaken.__cause__  # noqa: B904 # the conflict itself
            await asyncio.sleep(PAUSE_S * min(tries, 10) * random.random())
    raise AssertionError("unreachable")
