"""What the stages of a profile's pipeline make, and what their records say of it, in counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import (
    NO_USAGE,
    Event,
    Extraction,
    FactDraft,
    JsonValue,
    ModelUsage,
    ThreadId,
)
from shared_core.ports.profiles import StageRecord
from shared_core.profiles.event_memory import EventMemory
from shared_core.profiles.parts import Basis, Finding, Mind, Statement, Subject
from shared_core.profiles.profile_memory import ProfileMemory
from shared_core.profiles.relations import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Modification:
    """A conversation as it can be stored and read: cleaned, redacted, and what is in it.

    events: all of its turns that may be stored; read: those that speak of the subject, as if the
    user said them; told: what the user said, which summary tells of, "" for nothing. drafts: the
    facts in read. left_out: turns without words, of small talk, that expire, and forgotten ones.
    fallback: why rules did a model's work.
    """

    thread_id: ThreadId
    subject: Subject
    events: tuple[Event, ...]
    read: tuple[Event, ...]
    told: tuple[Event, ...]
    extraction: Extraction
    drafts: tuple[FactDraft, ...]
    summary: str
    quoted: bool
    topics: tuple[str, ...]
    left_out: int
    rejected: int
    at: datetime
    extractor: str
    usage: ModelUsage = NO_USAGE
    fallback: str | None = None

    def basis_of(self, draft: FactDraft) -> Basis:
        """Return the turns that say a draft together."""
        turns = dict.fromkeys((draft.event_id, *draft.other_event_ids))
        return tuple((self.thread_id, event_id) for event_id in turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileUpdate:
    """A profile after a conversation. ended: what holds no more, and what took its place."""

    modification: Modification
    profile_memory: ProfileMemory
    opened: int
    said_again: int
    ended: tuple[tuple[Statement, Statement | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventUpdate:
    """The events after a conversation."""

    modification: Modification
    event_memory: EventMemory
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoryOfMind:
    """What was concluded. found: of this conversation; mind: with what was known before.

    relations: between all memories of the profile, as it is then.
    """

    found: tuple[Finding, ...]
    mind: Mind
    extractor: str
    relations: tuple[Relation, ...] = ()
    usage: ModelUsage = NO_USAGE
    fallback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineResult:
    """What a pipeline did. changed: whether there is a new version. tries: one without conflicts.

    stages: each with what went in and came out, in counts, its status and its time; what they made
    stands beside them. new_turns: how many turns of the conversation were not remembered before.
    """

    run_id: UUID
    stages: tuple[StageRecord, ...]
    modification: Modification
    profile_update: ProfileUpdate
    event_update: EventUpdate
    theory_of_mind: TheoryOfMind
    previous_version: int
    version: int
    changed: bool
    new_turns: int = 0
    tries: int = 1

    @property
    def usage(self) -> ModelUsage:
        """What a model was asked for."""
        return self.modification.usage + self.theory_of_mind.usage


def counts_of(modification: Modification) -> dict[str, JsonValue]:
    """Return what the record of the first stage says came out of it."""
    counts: dict[str, JsonValue] = {
        "turns": len(modification.read),
        "left_out": modification.left_out,
        "drafts": len(modification.drafts),
        "rejected": modification.rejected,
        "needs_model": len(modification.extraction.needs_model),
        "topics": list(modification.topics),
        "summary_characters": len(modification.summary),
        "model_calls": modification.usage.calls,
        "extractor": modification.extractor,
    }
    return counts | ({"warning": modification.fallback} if modification.fallback else {})


def counts_of_mind(mind: TheoryOfMind) -> dict[str, JsonValue]:
    """Return what the record of the last stage says came out of it."""
    counts: dict[str, JsonValue] = {
        "found": len(mind.found),
        "confidence": Mind(findings=mind.found).confidence,
        "model_calls": mind.usage.calls,
        "extractor": mind.extractor,
        "relations": len(mind.relations),
    }
    for finding in mind.found:
        counts[finding.dimension] = int(str(counts.get(finding.dimension, 0))) + 1
    return counts | ({"warning": mind.fallback} if mind.fallback else {})
