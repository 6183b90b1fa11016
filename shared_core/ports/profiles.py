"""What the core asks of a storage for profiles; ports.Storage joins it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol
from uuid import NAMESPACE_OID, UUID, uuid5

from shared_core.core.domain import Event, JsonValue, Scope, ThreadId, Turn
from shared_core.ports.events import EventRow
from shared_core.ports.items import MemoryRow, VectorRows

SAID = 50
"""So many turns of a thread tell what it is about,"""
SAID_CHARACTERS = 1_000
"""and so much of each."""

SubjectKind = Literal["user", "agent"]
EntryRole = Literal["statement", "ended", "event", "mind"]
StageStatus = Literal["success", "warning", "error"]

PARAGRAPH_KEY = "profile"
"""The key under which the paragraph of a profile stands, as a key-value face reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileVersion:
    """One version of a profile. began_at: when its first was stored; created_at: this one.

    revision: how often it was told again by other turns since.
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
    """A memory in a version: what it is there, as it was written, and its turns as they are now."""

    role: EntryRole
    value: Mapping[str, JsonValue]
    bases: tuple[tuple[Turn, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """A version with all it is made of that was not forgotten. forgotten: the ids of the rest."""

    version: ProfileVersion
    entries: Sequence[ProfileEntry]
    forgotten: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """A stage of a pipeline: counts and ids of what went in and came out, no text of a user."""

    stage: str
    status: StageStatus
    input: Mapping[str, JsonValue]
    output: Mapping[str, JsonValue]
    started_at: datetime
    duration_s: float
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLog:
    """A stage as it was logged. version: of the profile that its run wrote, if it wrote one."""

    run_id: UUID
    step: int
    record: StageRecord
    thread_id: ThreadId | None
    version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRun:
    """The record of a run about a profile. undoes: the run it takes back."""

    run_id: UUID
    extractor: str
    started_at: datetime
    counts: Mapping[str, JsonValue]
    stages: Sequence[StageRecord] = ()
    thread_id: ThreadId | None = None
    undoes: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """A version to write after the one numbered expected (0: none), whole or not at all.

    revises: it says the same as that one, and only rows of it are written anew. revision: of it.
    entries: memory and role, in order. rows: those to write, the paragraph among them, with their
    turns by basis in sources; rewritten: those of them that must still be there. required: turns
    that must be there. told: what the paragraph tells. keep: so many versions are kept, with it.
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
    told: Sequence[UUID]
    keep: int


@dataclass(frozen=True, slots=True)
class RunOfProfile:
    """The version of a profile that a run wrote, and the newest. None: no version of it is kept."""

    memory_id: UUID | None
    version: int | None
    newest: int | None
    newest_run: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOverview:
    """A thread. turns: how many are remembered, from started_at to ended_at.

    said: what users said last, in order. summary: as consolidation wrote it, or drawn from said;
    topics: of said.
    """

    thread_id: ThreadId
    started_at: datetime
    ended_at: datetime
    turns: int
    summary: str
    said: Sequence[str] = ()
    topics: Sequence[str] = ()


def marks_id(agent_id: str) -> UUID:
    """Return under which id it is logged how far deleted profiles of an agent had read."""
    return uuid5(NAMESPACE_OID, agent_id)


class ProfileStorage(Protocol):
    """Profiles with all their versions; ports.Storage.save_profile writes them."""

    async def profile_by_id(
        self, scope: Scope, memory_id: UUID, version: int | None = None
    ) -> StoredProfile | None:
        """Return the newest version of a profile, or the one of a number."""

    async def profile_of(
        self, scope: Scope, subject: SubjectKind, agent_id: str
    ) -> StoredProfile | None:
        """Return the newest version of the profile of a subject."""

    async def profiles_to_show(
        self, scope: Scope, known: datetime | None, roles: Sequence[EntryRole]
    ) -> Sequence[StoredProfile]:
        """Return the profiles a prompt shows, as they were known at a moment: user, then agent.

        roles: only these entries of them.
        """

    async def profile_versions(
        self, scope: Scope, memory_id: UUID, limit: int
    ) -> Sequence[ProfileVersion]:
        """Return the versions of a profile, newest first."""

    async def profile_of_run(self, scope: Scope, run_id: UUID) -> RunOfProfile | None:
        """Return what a run about a profile wrote; None if it is no such run."""

    async def pipeline_history(
        self, scope: Scope, memory_id: UUID, limit: int
    ) -> Sequence[StageLog]:
        """Return the stages of the runs about a profile, newest run first."""

    async def turns_to_profile(
        self, scope: Scope, agent_id: str, memory_id: UUID, thread_id: ThreadId, limit: int
    ) -> Sequence[tuple[int, Event]]:
        """Return the first consolidated turns of a thread that a profile of a user has not read.

        Nor was told before a profile of the same agent was deleted. Each with its number in the
        order of remembering.
        """

    async def forgotten_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> set[str]:
        """Return those of the ids whose turns were forgotten."""

    async def drop_profile(
        self, scope: Scope, memory_id: UUID, subject: SubjectKind, agent_id: str
    ) -> int:
        """Delete a profile with its memories and its log; return how many versions went.

        What was said up to now counts as read for the next profile of the same agent and user.
        """

    async def recent_threads(
        self, scope: Scope, author: str | None, limit: int
    ) -> Sequence[ThreadOverview]:
        """Return the threads spoken in last; author: only where this agent said something."""

    async def save_profile(
        self,
        scope: Scope,
        memory_id: UUID,
        run: ProfileRun,
        version: NewVersion | None,
        vectors: VectorRows | None,
        turns: Sequence[EventRow] = (),
    ) -> set[str]:
        """Append turns, write a version of a profile and the record of its run: one transaction.

        version: None where nothing changed. vectors: of the rows of both. Returns the ids of turns
        that were new. Conflict, and nothing is written, if the version is not the next one.
        """
