"""Runs: their input, their changes, their record, and their undo."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

from shared_core.core.domain import (
    Emotion,
    Event,
    FactDraft,
    FactType,
    JsonValue,
    KnownPerson,
    MemoryId,
    MemoryKind,
    Scope,
    ThreadId,
    TripleDraft,
    Turn,
)
from shared_core.ports.items import ItemAddress, MemoryRow, VectorRows
from shared_core.ports.jobs import JobType, ReflectionDue
from shared_core.ports.retention import Revival


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Maximum numbers to read of a thread. turns: unread turns; context: turns before them.

    replay: turns not covered by the summary; reread: turns before those; 0 for none.
    people: people named by the user in any thread.
    """

    turns: int
    context: int
    replay: int
    reread: int
    people: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadWindow:
    """The input of a run from a thread. Turns come with their number, in the order of storage.

    read_mark: number of the last extracted turn. replay_mark: of the last summarised turn.
    summary, summed: the current summary and the last turn it covers; "" and 0 without one.
    summary_run: the run that wrote it. people: named by the user, as of the run known_number.
    """

    read_mark: int
    turns: Sequence[tuple[int, Event]]
    context: Sequence[Event]
    replay_mark: int
    replay: Sequence[tuple[int, Event]]
    summed: int
    summary: str
    summary_run: UUID | None = None
    people: Sequence[KnownPerson] = ()
    known_number: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFact:
    """A current or ended fact. stated_at: times of its turns; () stands for valid_from.

    has_faded: demoted or archived. doubted_at: when a turn last said that it may have ended, unless
    it was stated again since.
    """

    memory_id: MemoryId
    fact_type: FactType
    key: str
    value: str
    valid_from: datetime
    valid_until: datetime | None = None
    stated_at: Sequence[datetime] = ()
    has_faded: bool = False
    doubted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """A statement that a fact no longer holds, whether the fact was known or not.

    subject_key: of slot and subject (fact_planning.subject_key). value: normalised; "" for every
    value of the slot. valid_until: the stated end, or None. pattern: id of the rule, or name of the
    prompt, that read it. is_doubt: the fact only may have ended.
    """

    retraction_id: UUID
    fact_type: FactType
    slot: str
    subject_key: str
    value: str
    said_at: datetime
    valid_until: datetime | None
    pattern: str = ""
    is_doubt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedTurn:
    """A turn that explains a fact. text, said_at: None if the turn was forgotten."""

    thread_id: ThreadId
    event_id: str
    text: str | None = None
    author: str | None = None
    said_at: datetime | None = None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object; the time in ISO 8601."""
        return {
            "thread_id": self.thread_id,
            "event_id": self.event_id,
            "text": self.text,
            "author": self.author,
            "said_at": _iso(self.said_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FactReason:
    """What states, doubts or ends a fact.

    turns: in the order they were said. extractor: "caller" for a verb of the application. pattern:
    id of the rule, or name of the prompt, that read the turns; "" if unknown. run_id: the run that
    wrote it; None if it was undone or is unknown. fact_key: the fact that took the place.
    """

    turns: tuple[CitedTurn, ...] = ()
    extractor: str = ""
    pattern: str = ""
    run_id: UUID | None = None
    fact_key: str | None = None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object."""
        return {
            "turns": [turn.to_dict() for turn in self.turns],
            "extractor": self.extractor,
            "pattern": self.pattern,
            "run_id": None if self.run_id is None else str(self.run_id),
            "fact_key": self.fact_key,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FactReasons:
    """Why a fact is held: what states it, and what doubts or ended it, if anything does."""

    stated: FactReason
    doubted: FactReason | None = None
    ended: FactReason | None = None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object."""
        return {
            "stated": self.stated.to_dict(),
            "doubted": None if self.doubted is None else self.doubted.to_dict(),
            "ended": None if self.ended is None else self.ended.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A stored fact with both time lines and its provenance.

    Attributes:
        recorded_at: since when it is known.
        superseded_at: since when its end is known.
        doubted_at: when a turn last said that it may have ended.
        why: only if asked for.
    """

    memory_id: MemoryId
    fact_type: FactType
    slot: str
    value: str
    statement: str
    confidence: float
    extractor: str
    pattern: str
    valid_from: datetime
    valid_until: datetime | None
    thread_id: ThreadId | None
    source_event_ids: tuple[str, ...]
    recorded_at: datetime | None = None
    superseded_at: datetime | None = None
    doubted_at: datetime | None = None
    why: FactReasons | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether a turn may have ended it, and no end is known."""
        return self.doubted_at is not None and self.superseded_at is None

    @property
    def key(self) -> str:
        """The key for retract(), restore() and forget(): its memory id as text."""
        return str(self.memory_id)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object; times in ISO 8601. "why" is there only if it was asked for."""
        fact: dict[str, JsonValue] = {
            "key": self.key,
            "slot": self.slot,
            "value": self.value,
            "statement": self.statement,
            "fact_type": self.fact_type,
            "confidence": round(self.confidence, 4),
            "extractor": self.extractor,
            "pattern": self.pattern,
            "valid_from": _iso(self.valid_from),
            "valid_until": _iso(self.valid_until),
            "recorded_at": _iso(self.recorded_at),
            "superseded_at": _iso(self.superseded_at),
            "doubted_at": _iso(self.doubted_at),
            "is_doubtful": self.is_doubtful,
            "thread_id": self.thread_id,
            "source_event_ids": list(self.source_event_ids),
        }
        return fact if self.why is None else {**fact, "why": self.why.to_dict()}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFact:
    """A fact to write. valid_until, doubted_at: set if a later turn ended or doubted it."""

    memory_id: MemoryId
    draft: FactDraft
    key: str
    valid_from: datetime
    valid_until: datetime | None
    doubted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEdge:
    """A current or ended edge of the graph.

    stated_at: as in KnownFact. fact_id: the fact that it ends with.
    """

    edge_id: UUID
    subject: str
    relation: str
    object: str
    valid_from: datetime
    valid_until: datetime | None = None
    stated_at: Sequence[datetime] = ()
    fact_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Known facts, retractions and edges to compare drafts with. number: of their last run."""

    facts: Sequence[KnownFact]
    retractions: Sequence[Retraction]
    edges: Sequence[KnownEdge]
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEdge:
    """An edge to write. fact_id: the fact that it restates and ends with, or None.

    memory_id: the same if the fact is its provenance, else None. subject_key, object_key: the
    normalised names.
    """

    edge_id: UUID
    draft: TripleDraft
    subject_key: str
    object_key: str
    memory_id: MemoryId | None
    fact_id: MemoryId | None
    valid_from: datetime
    valid_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LikeText:
    """A known memory with nearly the text of a draft. similarity: the cosine."""

    memory_id: MemoryId
    text: str
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A turn of a memory's provenance. basis: turns with one number support it jointly."""

    address: ItemAddress
    turn: Turn
    basis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """Emotion and importance that a run found in a turn; values set by the caller stay."""

    event_id: str
    emotion: Emotion | None
    importance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The turns that a run processed: numbers after mark, up to and including to."""

    mark: int
    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """All changes of one run, applied in one transaction.

    thread_id: None for a run across threads. read: the extracted turns. summed: the turns that the
    new summary covers, stored under summary_key. summary_run: the run of the summary it extends.
    close: facts and their ends. ended: all facts that no longer hold; statements of their turns
    retire with them. inherited: memories that take over the provenance of others. edge_sources:
    edge, turn and basis, as in Source. move_facts: facts whose end has come and moves to an earlier
    time. move_edges: edges whose known future end does so. retractions: with the ids of their
    turns. bounds: rows that ended the written ones.
    doubted: facts that become doubtful, or with None certain again.
    revival: faded facts that the run states again. reflection: counts this extraction and may
    enqueue a reflection. counts: for the record of the run.

    The storage raises Conflict unless these hold: the turns of drawn_from exist; no memory has the
    words of unsaid; no run after known_number changed slots, or relations of their subject_key.
    """

    run_id: UUID
    kind: JobType | Literal["graph", "retraction", "statement"]
    scope: Scope
    thread_id: ThreadId | None
    extractor: str
    started_at: datetime
    read: Passage | None = None
    summed: Passage | None = None
    close: Sequence[tuple[MemoryId, datetime]] = ()
    move_facts: Sequence[tuple[MemoryId, datetime]] = ()
    ended: Sequence[MemoryId] = ()
    facts: Sequence[PlannedFact] = ()
    memories: Sequence[MemoryRow] = ()
    sources: Sequence[Source] = ()
    inherited: Sequence[tuple[ItemAddress, MemoryId]] = ()
    summary_key: str | None = None
    summary_run: UUID | None = None
    edges: Sequence[PlannedEdge] = ()
    edge_sources: Sequence[tuple[UUID, Turn, int]] = ()
    close_edges: Sequence[tuple[UUID, datetime]] = ()
    annotations: Sequence[Annotation] = ()
    drawn_from: Collection[Turn] = ()
    vectors: VectorRows | None = None
    counts: Mapping[str, JsonValue] = field(default_factory=dict)
    reflection: ReflectionDue | None = None
    unsaid: Sequence[UUID] = ()
    slots: Sequence[str] = ()
    relations: Sequence[tuple[str, str]] = ()
    known_number: int = 0
    retractions: Sequence[tuple[Retraction, tuple[str, ...]]] = ()
    bounds: Sequence[UUID] = ()
    move_edges: Sequence[tuple[UUID, datetime]] = ()
    revival: Revival | None = None
    doubted: Sequence[tuple[MemoryId, datetime | None]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The record of a run. counts: its changes and its model usage."""

    run_id: UUID
    kind: str
    thread_id: ThreadId | None
    extractor: str
    counts: Mapping[str, JsonValue]
    started_at: datetime
    finished_at: datetime
    undone_at: datetime | None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object; times in ISO 8601."""
        return {
            "run_id": str(self.run_id),
            "kind": self.kind,
            "thread_id": self.thread_id,
            "extractor": self.extractor,
            "counts": self.counts,
            "started_at": _iso(self.started_at),
            "finished_at": _iso(self.finished_at),
            "undone_at": _iso(self.undone_at),
        }


class RunStorage(Protocol):
    """Input and changes of runs. Every method is one transaction and one round trip."""

    async def read_thread(
        self, scope: Scope, thread_id: ThreadId, request: ReadRequest
    ) -> ThreadWindow | None:
        """Return the unread part of a thread, or None if there is no thread."""

    async def like_texts(
        self,
        scope: Scope,
        kinds: Sequence[MemoryKind],
        words_keys: Mapping[ItemAddress, UUID],
        vectors: VectorRows | None,
    ) -> Mapping[ItemAddress, Sequence[LikeText]]:
        """Return, for each address, memories with the same words and the nearest ones."""
