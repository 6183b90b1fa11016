"""Versioned profiles as they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import NAMESPACE_OID, UUID, uuid5

from shared_core.core.domain import JsonValue, ThreadId, Turn
from shared_core.ports.items import MemoryRow

USER_TEXTS = 50
"""Maximum number of turns in ThreadOverview.user_texts."""
USER_TEXT_CHARACTERS = 1_000
"""Maximum characters of each turn in ThreadOverview.user_texts."""

SubjectKind = Literal["user", "agent"]
EntryRole = Literal["statement", "ended", "event", "mind"]
StageStatus = Literal["success", "warning", "error"]

PARAGRAPH_KEY = "profile"
"""The item key of the paragraph of a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileVersion:
    """One version of a profile. began_at: time of the first version; created_at: of this one.

    revision: number of times that other turns confirmed it.
    """

    subject: SubjectKind
    agent_id: str
    version: int
    memory_id: UUID
    event_limit: int
    content_hash: str
    run_id: UUID | None
    began_at: datetime
    created_at: datetime
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEntry:
    """A memory in a version: its role, its value as written, and its current provenance."""

    role: EntryRole
    value: Mapping[str, JsonValue]
    bases: tuple[tuple[Turn, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """A version with its entries. forgotten: ids of entries that were forgotten."""

    version: ProfileVersion
    entries: Sequence[ProfileEntry]
    forgotten: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """A stage of a pipeline: counts and ids of its input and output, without text of a user."""

    stage: str
    status: StageStatus
    input: Mapping[str, JsonValue]
    output: Mapping[str, JsonValue]
    started_at: datetime
    duration_s: float
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLog:
    """A logged stage. version: the profile version that its run wrote, or None."""

    run_id: UUID
    step: int
    record: StageRecord
    thread_id: ThreadId | None
    version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRun:
    """The record of a run on a profile. undoes: the run that it undoes."""

    run_id: UUID
    extractor: str
    started_at: datetime
    counts: Mapping[str, JsonValue]
    stages: Sequence[StageRecord] = ()
    thread_id: ThreadId | None = None
    undoes: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """A version to write atomically after the version `expected` (0: none).

    revises: the content equals that version, so only its rows are rewritten. revision: the new
    revision number. entries: memory and role, in order. rows: memories to write, including the
    paragraph. sources: key, turn and basis of the rows. rewritten: rows that must still exist.
    required: turns that must still exist. covered: memories that the paragraph covers. keep: number
    of versions to keep, including this one.
    """

    subject: SubjectKind
    agent_id: str
    expected: int
    revision: int
    revises: bool
    event_limit: int
    content_hash: str
    began_at: datetime
    entries: Sequence[tuple[UUID, EntryRole]]
    rows: Sequence[MemoryRow]
    sources: Sequence[tuple[str, Turn, int]]
    rewritten: Sequence[UUID]
    required: Sequence[Turn]
    covered: Sequence[UUID]
    keep: int


@dataclass(frozen=True, slots=True)
class RunOfProfile:
    """The version that a run wrote, and the newest one. None: no such version is kept."""

    memory_id: UUID | None
    version: int | None
    newest: int | None
    newest_run: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOverview:
    """Overview of a thread. turns: number of remembered turns, from started_at to ended_at.

    user_texts: the last turns of users, in order. summary: by consolidation, or else made from
    user_texts. topics: of user_texts.
    """

    thread_id: ThreadId
    started_at: datetime
    ended_at: datetime
    turns: int
    summary: str
    user_texts: Sequence[str] = ()
    topics: Sequence[str] = ()


def marks_id(agent_id: str) -> UUID:
    """Return the log id for the read positions of an agent's deleted profiles."""
    return uuid5(NAMESPACE_OID, agent_id)
