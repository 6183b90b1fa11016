"""The nouns: plain, frozen values that every room passes around. No I/O, no framework types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, NewType, TypeAlias
from uuid import UUID

from shared_core.core.doubts import doubted_at
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput

JsonValue: TypeAlias = (
    "str | int | float | bool | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)
Namespace: TypeAlias = tuple[str, ...]

MemoryId = NewType("MemoryId", UUID)
ThreadId = NewType("ThreadId", str)

Role = Literal["user", "agent", "tool", "system"]
GivenRole = Literal["user", "human", "agent", "assistant", "ai", "tool", "system"]
ROLES: Final[Mapping[str, Role]] = {
    "user": "user", "human": "user", "agent": "agent", "assistant": "agent", "ai": "agent",
    "tool": "tool", "system": "system",
}  # fmt: skip
"""Maps each accepted name of a speaker to the role that is stored."""
MemoryKind = Literal["episodic", "semantic", "summary", "reflection", "item"]
FactType = Literal["preference", "rule", "profile", "custom"]
Privacy = Literal["private", "public"]
InsightCategory = Literal["insight", "pattern", "summary"]

USER = "user"
"""The subject of facts about the user."""

UNKNOWN_START: Final = datetime(1900, 1, 1, tzinfo=UTC)
"""The start of a past fact whose beginning nobody told."""

Turn: TypeAlias = tuple[ThreadId, str]
"""A turn anywhere in a scope: its thread, and its event id there."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One user of one application.

    Both parts are free text of any length: dots, slashes, quotes and percent signs are fine.
    They must not be empty and must not hold NUL or lone surrogates (`namespaces.check_label`).
    """

    app: str
    user: str

    def __str__(self) -> str:
        return f"user {self.user!r} of application {self.app!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One turn of a thread.

    event_id is unique within its thread and is the idempotency key of ingestion.
    occurred_at is an aware datetime. text is what may be searched; "" is never searched.
    importance is 1 (trivial) to 10 (vital). From expires_at on, recall returns neither the turn
    nor the memories derived from it alone.
    """

    event_id: str
    author: str
    role: Role
    text: str
    occurred_at: datetime
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    importance: float = 5.0
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A memory to store that comes from no thread.

    Attributes:
        key: the caller's own id within the scope; a second memory with the same key replaces the
            first. Left out, the memory's UUID is its key.
        importance: 1 (trivial) to 10 (vital).
    """

    text: str
    kind: MemoryKind = "semantic"
    key: str | None = None
    author: str | None = None
    importance: float = 5.0
    occurred_at: datetime | None = None
    expires_at: datetime | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory.

    Attributes:
        value: the JSON object that key-value reads return.
        text: searched and shown to a model.
        occurred_at: when it happened or was said.
        source_event_ids: its provenance.
    """

    memory_id: MemoryId
    namespace: Namespace
    key: str
    kind: MemoryKind
    text: str
    value: Mapping[str, JsonValue]
    author: str | None
    importance: float
    occurred_at: datetime
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    superseded_at: datetime | None = None
    thread_id: ThreadId | None = None
    source_event_ids: tuple[str, ...] = ()

    @property
    def doubted_at(self) -> datetime | None:
        """Since when this fact is doubtful: a turn may have ended it. None once it has ended."""
        holds = self.kind == "semantic" and self.superseded_at is None
        return doubted_at(self.value) if holds else None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object; times in ISO 8601."""
        doubted = self.doubted_at
        return {
            "memory_id": str(self.memory_id),
            "key": self.key,
            "kind": self.kind,
            "text": self.text,
            "author": self.author,
            "importance": self.importance,
            "occurred_at": self.occurred_at.isoformat(),
            "doubted_at": None if doubted is None else doubted.isoformat(),
            "thread_id": self.thread_id,
            "source_event_ids": list(self.source_event_ids),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Emotion:
    """The emotion a text expresses, in Russell's circumplex model (1980).

    valence: -1 (unpleasant) to 1 (pleasant). arousal: 0 (calm) to 1 (excited). label: a word for
    it in the language of the text, or "".
    """

    valence: float
    arousal: float
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """A moment on each of the two time lines; None means now.

    Attributes:
        valid: selects what held in the world then.
        known: selects what was believed here then.

    Raises:
        InvalidInput: for naive datetimes.
    """

    valid: datetime | None = None
    known: datetime | None = None

    def __post_init__(self) -> None:
        for name, moment in (("valid", self.valid), ("known", self.known)):
            if moment is not None and not (isinstance(moment, datetime) and moment.tzinfo):
                raise InvalidInput(
                    f"AsOf({name}=...) must be a datetime with a time zone, e.g."
                    f" datetime.now(UTC), got {shown(moment)}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDraft:
    """A fact that an extractor found in a turn, not yet compared with the known facts.

    slot: the attribute, e.g. "name", "employer", "like", "relation.daughter".
    value: in the words of the turn. statement: one self-contained sentence.
    functional: the slot holds one value at a time, so a new value supersedes the old one.
    operation: "assert" states the fact; "retract" ends it (value "" ends every value of the slot);
    "doubt" says that it may have ended ("" as well).
    denies: the retracted fact never held, so it ends when it began. change: the turn says that
    something changed. confirms: the turn agrees with a known fact without saying it, so it is no
    provenance and states no new fact.
    confidence: 0 to 1. pattern: id of the rule, or name of the prompt, that found it.
    other_event_ids: further turns of its provenance; forgetting any of them forgets the fact.
    subject: the person it is about; only a fact about the same subject supersedes another.
    valid_from: when it began to hold, or ended, if the turn says so; else the time of the turn.
    foretells: it may be later than the turn, as for a job that begins next month; else that counts
    as now.
    valid_until: when a plan lapses, or when a past fact ended (before the turn), if the turn says
    it; else None. A past fact ends no other.
    importance: 1 (trivial) to 10 (identity of the user). emotion, privacy: None if unknown.
    people: the facts (KnownPerson.memory_id) that identified the people in it; forgetting any of
    them forgets this fact.
    """

    fact_type: FactType
    slot: str
    value: str
    statement: str
    event_id: str
    functional: bool
    confidence: float
    pattern: str
    language: Literal["en", "zh"]
    operation: Literal["assert", "retract", "doubt"] = "assert"
    denies: bool = False
    change: bool = False
    confirms: bool = False
    foretells: bool = False
    other_event_ids: tuple[str, ...] = ()
    subject: str = USER
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    importance: float = 5.0
    emotion: Emotion | None = None
    privacy: Privacy | None = None
    people: tuple[MemoryId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementDraft:
    """One self-contained text derived from several turns, with pronouns resolved.

    event_ids: its provenance; at least one is a new turn, the others may be context turns.
    people: as in FactDraft. strategy: the strategy of the conversation layer that derived it, or
    "". metadata: further output of that strategy.
    """

    text: str
    event_ids: tuple[str, ...]
    importance: float = 5.0
    emotion: Emotion | None = None
    privacy: Privacy | None = None
    people: tuple[MemoryId, ...] = ()
    strategy: str = ""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightDraft:
    """A conclusion from turns or memories that nobody stated.

    event_ids: its provenance within a thread. memory_ids: its provenance across threads.
    """

    text: str
    category: InsightCategory = "insight"
    importance: float = 5.0
    event_ids: tuple[str, ...] = ()
    memory_ids: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TripleDraft:
    """An edge of the knowledge graph: subject, relation (snake_case), object.

    functional: the subject has one object at a time. confidence: 0 to 1.
    other_event_ids, people: as in FactDraft.
    """

    subject: str
    relation: str
    object: str
    event_id: str
    functional: bool = False
    confidence: float = 1.0
    valid_from: datetime | None = None
    other_event_ids: tuple[str, ...] = ()
    people: tuple[MemoryId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPerson:
    """A person or animal that the user has named in any thread: "My son Emil".

    memory_id, statement: the fact that names them. relation: "son". aliases: names merged with
    this one. turns: the first provenance of the fact in which the user speaks; the last of them is
    of told_at, and they expire at expires_at.
    """

    memory_id: MemoryId
    relation: str
    name: str
    statement: str
    turns: tuple[Turn, ...]
    told_at: datetime
    aliases: tuple[str, ...] = ()
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFact:
    """A known fact that an extractor is shown, so that it can say what a turn does to it.

    slot, subject, fact_type, functional: as in FactDraft; the subject is in lower case unless it is
    the user. event_ids: its turns in thread_id. turns: those of its first basis, of any thread.
    stated_at: when it was recorded. is_doubted: a turn may have ended it. ended_at: None while it
    holds. begins_at: its beginning, if that was foretold. ends_at: its end, if that is in the
    future. is_ending: whether a later turn said that end. nearness: cosine to the turns, 0 if
    unknown. valid_from: when it began to hold, if that is known. expires_at: when it is deleted.
    """

    memory_id: MemoryId
    fact_type: FactType
    slot: str
    subject: str
    value: str
    statement: str
    functional: bool
    stated_at: datetime
    thread_id: ThreadId | None = None
    event_ids: tuple[str, ...] = ()
    is_doubted: bool = False
    ended_at: datetime | None = None
    begins_at: datetime | None = None
    ends_at: datetime | None = None
    is_ending: bool = False
    turns: tuple[Turn, ...] = ()
    nearness: float = 0.0
    valid_from: datetime = UNKNOWN_START
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """Usage of a language model: calls, tokens read, tokens written, and calls that failed."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    failed: int = 0

    def __add__(self, other: ModelUsage) -> ModelUsage:
        return ModelUsage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            failed=self.failed + other.failed,
        )


NO_USAGE = ModelUsage()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutdatedFact:
    """A held fact that other facts show to be out of date.

    because: those that show it; () if its own term has passed. until: when it ended. still: the
    draft of what still holds of it, if anything does.
    """

    fact: HeldFact
    because: tuple[HeldFact, ...]
    until: datetime
    still: FactDraft | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusions:
    """What a reflection draws from memories and held facts.

    insights: what follows from memories. outdated: held facts that others outdate. refused: number
    of elements of an answer that were dropped, by reason.
    """

    insights: Sequence[InsightDraft] = ()
    outdated: Sequence[OutdatedFact] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    usage: ModelUsage = NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetDraft:
    """A request of the user to forget something, found by an extractor.

    event_id: the turn that asks. topics: in the user's words. event_ids: turns to forget with what
    was drawn from them. memory_ids: memories to forget with the turns that they come from.
    """

    event_id: str
    topics: tuple[str, ...] = ()
    event_ids: tuple[str, ...] = ()
    memory_ids: tuple[MemoryId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Everything that an extractor found in some turns.

    emotions, importance: by event id, where known. needs_model: ids of turns that hold more than
    the extractor understands. unread: ids of turns it did not reach; the run ends before the first
    of them, and the next run reads them. skipped: ids of the user's turns for which no model was
    asked, because they tell nothing. forget: what the user asks to forget. refused: number of
    elements of an answer that were dropped, by reason. summary: of the thread, if the extractor
    was asked for it (Summarising).
    """

    facts: Sequence[FactDraft] = ()
    statements: Sequence[StatementDraft] = ()
    insights: Sequence[InsightDraft] = ()
    triples: Sequence[TripleDraft] = ()
    emotions: Mapping[str, Emotion] = field(default_factory=dict)
    importance: Mapping[str, float] = field(default_factory=dict)
    needs_model: Sequence[str] = ()
    unread: Sequence[str] = ()
    skipped: Sequence[str] = ()
    forget: Sequence[ForgetDraft] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    summary: str = ""
    usage: ModelUsage = NO_USAGE


SCORE_PARTS = ("meaning", "words", "context", "session", "speaker", "time", "form", "kind")
"""The parts that add up to a score; see shared_core.recall.ranking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that recall returns.

    Attributes:
        score: ranks the hits of one result and is comparable only within it. It is the sum of the
            parts named in SCORE_PARTS, or the part "rerank" where a reranker ran.
        parts: also holds the features of the score. "similarity" is the cosine and "bm25" the word
            score; "z_similarity" and "z_bm25" are the same in standard deviations above the mean of
            the scope. "coverage" is the share (0 to 1) of the query's information that the memory's
            words cover. "previous" is the larger of similarity and coverage of the turn before.
        matched: the words of the query that the memory holds, spelled and ordered as in the query.
    """

    memory: Memory
    score: float
    parts: Mapping[str, float]
    matched: tuple[str, ...] = ()

    @property
    def valid_from(self) -> datetime | None:
        """When a fact began to hold; None for any other memory."""
        about = self.memory.value.get("metadata")
        is_fact = isinstance(about, Mapping) and "slot" in about
        return self.memory.occurred_at if is_fact and self.memory.kind == "semantic" else None

    def explain(self) -> str:
        """Return one line that explains the score and the provenance."""
        why = f"{self.score:.2f} = {self._sum()}" if self._sum() else f"{self.score:.2f}"
        if "similarity" in self.parts:
            why += f" (cosine {self.parts['similarity']:.2f})"
        explained = [
            why,
            f"words: {', '.join(self.matched)}" if self.matched else "no word of the query",
        ]
        memory = self.memory
        explained.append(f"{memory.kind} by {memory.author}" if memory.author else memory.kind)
        if self.valid_from is not None:
            explained.append(f"holds since {self.valid_from:%Y-%m-%d}")
            if memory.doubted_at is not None:
                explained.append(f"uncertain since {memory.doubted_at:%Y-%m-%d}")
        else:
            explained.append(f"{memory.occurred_at:%Y-%m-%d %H:%M} UTC")
        if memory.thread_id:
            explained.append(f"session {memory.thread_id}")
        if memory.source_event_ids:
            explained.append(f"from {', '.join(memory.source_event_ids)}")
        return " · ".join(explained)

    def to_dict(self, *, explain: bool = False) -> dict[str, JsonValue]:
        """Return a JSON object; times in ISO 8601. explain: add the parts of the score."""
        memory, since = self.memory, self.valid_from
        return {
            **memory.to_dict(),
            "valid_from": None if since is None else since.isoformat(),
            "score": self.score,
            "matched": list(self.matched),
            **({"parts": dict(self.parts)} if explain else {}),
        }

    def _sum(self) -> str:
        names = ("rerank",) if "rerank" in self.parts else SCORE_PARTS
        return " ".join(f"{self.parts[name]:+.2f} {name}" for name in names if self.parts.get(name))
