"""What the core asks of a storage for runs: what one reads, what it changes, and to undo it."""

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
    Memory,
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
    """What a run wants of a thread. turns: so many unread ones; context: so many before them.

    replay: so many turns that its summary does not tell of, and reread before those; 0 for none.
    people: so many of those whom the user has named, in any thread.
    """

    turns: int
    context: int
    replay: int
    reread: int
    people: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadWindow:
    """A thread as a run finds it. Turns come with their number, in the order of remembering.

    read_mark, replay_mark: the numbers of the last turn that was extracted, and that was summed up.
    summed: up to which number summary tells of the thread; 0 and "" when it is gone. summary_run:
    the run that wrote it. people: whom the user has named, as of the run known_number.
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
    """A fact that is believed now, or was. said: when its turns were said; () for valid_from.

    has_faded: out of recall, though it is known.
    """

    memory_id: MemoryId
    fact_type: FactType
    key: str
    value: str
    valid_from: datetime
    valid_until: datetime | None = None
    said: Sequence[datetime] = ()
    has_faded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """What no longer holds since it was said so, whether it was known or not.

    subject_key: of the slot for one subject (facts.subject_key). value: normalised, "" for
    whatever the slot held. valid_until: as of when, if that was said.
    """

    retraction_id: UUID
    fact_type: FactType
    slot: str
    subject_key: str
    value: str
    said_at: datetime
    valid_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A stored fact with both its times and where it came from.

    recorded_at: since when it is known. superseded_at: since when its end is.
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

    @property
    def key(self) -> str:
        """What retract(), restore() and forget() name it by; its memory id as text."""
        return str(self.memory_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFact:
    """A fact to write; valid_until is set when a later turn of the same run already ended it."""

    memory_id: MemoryId
    draft: FactDraft
    key: str
    valid_from: datetime
    valid_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEdge:
    """An edge of the graph that is believed now, or was. said: as of a KnownFact."""

    edge_id: UUID
    subject: str
    relation: str
    object: str
    valid_from: datetime
    valid_until: datetime | None = None
    said: Sequence[datetime] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known that drafts may meet. number: of the last run that it is the work of."""

    facts: Sequence[KnownFact]
    retractions: Sequence[Retraction]
    edges: Sequence[KnownEdge]
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEdge:
    """An edge to write. fact_id: of the fact it says again and ends with, if there is one.

    memory_id: the same if the edge rests on that fact; else it rests on its turns. subject_key,
    object_key: both names as they are compared (facts.normalised).
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
    """What is known and says nearly what a draft says. similarity: the cosine."""

    memory_id: MemoryId
    text: str
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A turn a memory was drawn from. basis: turns of one number say it together."""

    address: ItemAddress
    turn: Turn
    basis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """What a run found out about a turn; only what the turn does not say itself is written."""

    event_id: str
    emotion: Emotion | None
    importance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The turns of a thread a run went through: from the number after mark to the number to."""

    mark: int
    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Everything one run changes: applied whole or not at all.

    thread_id: None for a run across threads. read: what it extracted from; summed: what its summary
    tells of, which stands under summary_key. ended: facts that hold no more, those of close among
    them: with them go statements of their turns. inherited: memories that rest on all that others
    rest on. summary_run: the run that wrote the summary this one builds on. drawn_from: turns of
    any thread that must still be there. counts: for the record of the run. reflection: counts this
    extraction, asks for a reflection with every so many. unsaid: keys of words that nobody may have
    written meanwhile. slots; relations, each with its subject_key: of which no run after
    known_number may have changed anything. retractions: with the ids of their turns. edge_sources:
    edge, turn and basis, as of a Source. bounds: what made history of what is written. move_edges:
    edges of which an end to come is known, and comes earlier. revival: faded facts that the run
    states again.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run as it was. counts: what it changed, and what a model was asked for."""

    run_id: UUID
    kind: str
    thread_id: ThreadId | None
    extractor: str
    counts: Mapping[str, JsonValue]
    started_at: datetime
    finished_at: datetime
    undone_at: datetime | None


class RunStorage(Protocol):
    """What runs read and change. Every method is one transaction and one round trip."""

    async def read_thread(
        self, scope: Scope, thread_id: ThreadId, request: ReadRequest
    ) -> ThreadWindow | None:
        """Return what is new of a thread since the last runs; None when there is no thread."""

    async def known(
        self,
        scope: Scope,
        slots: Sequence[str],
        relations: Sequence[tuple[str, str]],
        since: datetime,
    ) -> Known:
        """Return what holds now or ended after since: facts of some slots, retractions of them,
        edges of some pairs of subject_key and relation."""

    async def like_texts(
        self,
        scope: Scope,
        kinds: Sequence[MemoryKind],
        words_keys: Mapping[ItemAddress, UUID],
        vectors: VectorRows | None,
    ) -> Mapping[ItemAddress, Sequence[LikeText]]:
        """Return what is known for each address: what has its words, and what is nearest."""

    async def apply_run(self, plan: RunPlan) -> None:
        """Apply a run whole. Conflict if another run of the thread or on a fact came first."""

    async def list_runs(
        self, scope: Scope, thread_id: ThreadId | None, limit: int
    ) -> Sequence[RunRecord]:
        """Return runs, newest first; of one thread, or all."""

    async def undo_run(self, scope: Scope, run_id: UUID) -> None:
        """Restore what was before a run. NotFound, or Conflict if a later run builds on it."""

    async def recent_memories(self, scope: Scope, limit: int) -> Sequence[Memory]:
        """Return the newest living memories of a user that no reflection wrote, newest first."""
