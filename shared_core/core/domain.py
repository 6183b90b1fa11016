"""The nouns: plain, frozen values that every room passes around. No I/O, no framework types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, NewType, TypeAlias
from uuid import UUID

from shared_core.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]

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
"""What a message may call who speaks, wherever a conversation is given, and the role it is."""
MemoryKind = Literal["episodic", "semantic", "summary", "reflection", "item"]
FactType = Literal["preference", "rule", "profile", "custom"]
Privacy = Literal["private", "public"]
InsightCategory = Literal["insight", "pattern", "summary"]

USER = "user"
"""The subject of what is said about the user."""

Turn: TypeAlias = "tuple[ThreadId, str]"
"""A turn anywhere in a scope: its thread, and its event id there."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory it is: one user of one application.

    Both parts are free text of any length: dots, slashes, quotes and percent signs are fine.
    They must not be empty and must not hold NUL or lone surrogates (`namespaces.check_label`).
    """

    app: str
    user: str

    def __str__(self) -> str:
        return f"user {self.user!r} of application {self.app!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One turn of a thread, as it was said.

    event_id is unique within its thread and is the idempotency key of ingestion.
    occurred_at is an aware datetime. text is what may be searched; "" is never searched.
    importance is 1 (trivial) to 10 (vital). From expires_at on the turn, and what was drawn from
    it alone, is no longer recalled.
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
    """Something to remember that did not come out of a thread.

    key: the caller's own id within the scope; a second memory with the same key replaces the
    first. Left out, the memory's UUID is its key. importance is 1 (trivial) to 10 (vital).
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

    value is what a key-value face shows; text is what is searched and shown to a model.
    occurred_at: when it happened or was said. source_event_ids: the turns it was drawn from.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Emotion:
    """What a text expresses, not what its author may feel (Russell's circumplex model, 1980).

    valence: -1 (unpleasant) to 1 (pleasant). arousal: 0 (calm) to 1 (excited). label: a word for
    it in the language of the text, "" for none.
    """

    valence: float
    arousal: float
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """A moment on each of the two time lines. None is now. InvalidInput for naive datetimes.

    valid: what held in the world then. known: as it was believed here then.
    """

    valid: datetime | None = None
    known: datetime | None = None

    def __post_init__(self) -> None:
        for name, moment in (("valid", self.valid), ("known", self.known)):
            if moment is not None and not (isinstance(moment, datetime) and moment.tzinfo):
                raise InvalidInput(
                    f"AsOf({name}=...) must be a datetime with a time zone, e.g."
                    f" datetime.now(UTC), not {moment!r}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDraft:
    """What an extractor read out of a turn, before it is matched with what is known.

    slot: what is said about whom, e.g. "name", "employer", "like", "relation.daughter".
    value: the value in the words of the turn. statement: one sentence that stands alone.
    functional: the slot holds one value at a time, so a new value closes the old one;
    otherwise several values live side by side.
    operation: "assert" states the fact, "retract" ends it (value "" ends every value of the slot);
    denies: what is retracted never held, so it ends when it began. change: it says that something
    is no longer as it was.
    confidence: 0 to 1. pattern: id of the rule, or name of the prompt, that found it.
    other_event_ids: further turns it was drawn from, of the same reading or shown before it:
    without one of them it goes. subject: whom it is about; only a fact about
    the same subject may end another. valid_from: when it began to hold, if the turn says so; else
    when it was said. importance is 1 (trivial) to 10 (who the user is); emotion and privacy, if the
    extractor can tell. people: the facts (KnownPerson.memory_id) that told who is meant: without
    one of them it goes, too.
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
    operation: Literal["assert", "retract"] = "assert"
    denies: bool = False
    change: bool = False
    other_event_ids: tuple[str, ...] = ()
    subject: str = USER
    valid_from: datetime | None = None
    importance: float = 5.0
    emotion: Emotion | None = None
    privacy: Privacy | None = None
    people: tuple[MemoryId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementDraft:
    """What several turns tell together, in one text that stands alone, pronouns resolved.

    event_ids: one of them at least was read, the others may be turns that were shown before.
    people: as of a FactDraft. strategy: of the conversation layer, that drew it; "" for none.
    metadata: what it noted beside the text.
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
    """What turns or memories let one conclude and nobody said.

    event_ids: the turns it rests on, for one of a thread; memory_ids: the memories, for a
    reflection across threads.
    """

    text: str
    category: InsightCategory = "insight"
    importance: float = 5.0
    event_ids: tuple[str, ...] = ()
    memory_ids: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TripleDraft:
    """An edge of the knowledge graph: subject, relation (snake_case), object.

    functional: the subject has one object at a time. confidence: 0 to 1. other_event_ids: further
    turns it was drawn from, people: the facts that told who is meant, as of a FactDraft.
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
    """Somebody, or an animal, whom the user has named: "My son Emil", told in any thread.

    memory_id: the fact that says so, in the words of statement. relation: "son". aliases: other
    names that the user has merged with it. turns: of the first basis of the fact in which the user
    speaks, all told by told_at; they expire at expires_at.
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
class ModelUsage:
    """What a language model was asked for: calls, tokens read, tokens written."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: ModelUsage) -> ModelUsage:
        return ModelUsage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


NO_USAGE = ModelUsage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """All that was read out of some turns.

    emotions and importance: of turns, by event id, where the extractor can tell. needs_model: ids
    of the turns that say more than the extractor can read. unread: ids of turns it did not come
    to: a run ends before the first of them, and the next one reads them.
    """

    facts: Sequence[FactDraft] = ()
    statements: Sequence[StatementDraft] = ()
    insights: Sequence[InsightDraft] = ()
    triples: Sequence[TripleDraft] = ()
    emotions: Mapping[str, Emotion] = field(default_factory=dict)
    importance: Mapping[str, float] = field(default_factory=dict)
    needs_model: Sequence[str] = ()
    unread: Sequence[str] = ()
    usage: ModelUsage = NO_USAGE


SCORE_PARTS = ("meaning", "words", "context", "session", "speaker", "time", "form", "kind")
"""The parts a score is the sum of; shared_core.recall.ranking says what each is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that answers a question.

    score ranks the hits of one answer; it is comparable only within that answer, and the sum of
    those of its parts that SCORE_PARTS names; with a reranker it is the part "rerank" instead. What
    these were made from stands beside them: "similarity" is the cosine, "bm25" the word score,
    "z_similarity" and "z_bm25" the same in standard deviations above the mean of the scope,
    "coverage" the share (0 to 1) of what the words of the query tell that the memory holds,
    "previous" the larger of similarity and coverage of the turn before, and every other feature of
    the ranking by its name. matched: the words of the query that the memory holds, as they were
    asked, in that order.
    """

    memory: Memory
    score: float
    parts: Mapping[str, float]
    matched: tuple[str, ...] = ()

    @property
    def valid_from(self) -> datetime | None:
        """Since when it holds, for a fact; recall shows those that hold now."""
        about = self.memory.value.get("metadata")
        is_fact = isinstance(about, Mapping) and "slot" in about
        return self.memory.occurred_at if is_fact and self.memory.kind == "semantic" else None

    def explain(self) -> str:
        """Return in one line why it was found and where it comes from."""
        why = f"{self.score:.2f} = {self._sum()}" if self._sum() else f"{self.score:.2f}"
        if "similarity" in self.parts:
            why += f" (cosine {self.parts['similarity']:.2f})"
        told = [
            why,
            f"words: {', '.join(self.matched)}" if self.matched else "no word of the query",
        ]
        memory = self.memory
        told.append(f"{memory.kind} by {memory.author}" if memory.author else memory.kind)
        if self.valid_from is not None:
            told.append(f"holds since {self.valid_from:%Y-%m-%d}")
        else:
            told.append(f"{memory.occurred_at:%Y-%m-%d %H:%M} UTC")
        if memory.thread_id:
            told.append(f"session {memory.thread_id}")
        if memory.source_event_ids:
            told.append(f"from {', '.join(memory.source_event_ids)}")
        return " · ".join(told)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return what can be written as JSON; times in ISO 8601."""
        memory, since = self.memory, self.valid_from
        return {
            "memory_id": str(memory.memory_id),
            "key": memory.key,
            "kind": memory.kind,
            "text": memory.text,
            "author": memory.author,
            "importance": memory.importance,
            "occurred_at": memory.occurred_at.isoformat(),
            "valid_from": None if since is None else since.isoformat(),
            "thread_id": memory.thread_id,
            "source_event_ids": list(memory.source_event_ids),
            "score": self.score,
            "parts": dict(self.parts),
            "matched": list(self.matched),
        }

    def _sum(self) -> str:
        names = ("rerank",) if "rerank" in self.parts else SCORE_PARTS
        return " ".join(f"{self.parts[name]:+.2f} {name}" for name in names if self.parts.get(name))
