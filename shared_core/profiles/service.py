"""engine.profiles: profiles of users and agents, each one paragraph and a list of events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from shared_core.core.domain import AsOf, JsonValue, Scope, ThreadId
from shared_core.core.namespaces import scope_path
from shared_core.core.timestamps import check_as_of
from shared_core.core.validation import id_of
from shared_core.errors import Conflict, NotFound
from shared_core.policies.profiles import profile_of_run
from shared_core.ports.profiles import ProfileVersion
from shared_core.profiles.entries import Subject
from shared_core.profiles.memory import Memory
from shared_core.profiles.pipeline import PipelineResult, ProfilePipeline
from shared_core.profiles.repository import KEEP_VERSIONS, MemoryRepository, ProfileDiff
from shared_core.profiles.rows import shown_profile
from shared_core.profiles.search import MemorySearcher

if TYPE_CHECKING:
    from shared_core.lifecycle import Handle
    from shared_core.recall.service import Recall

ReadLater: TypeAlias = Callable[[Scope, str], Awaitable[None]]
"""Enqueues the consolidation of a thread's unread turns."""


class Profiles:
    """Profiles of one memory: engine.profiles.

    pipeline: updates a profile from a conversation. read_later: enqueues a thread's consolidation.
    """

    def __init__(
        self,
        handle: Handle,
        pipeline: ProfilePipeline,
        recall: Recall,
        read_later: ReadLater | None = None,
    ) -> None:
        self._handle = handle
        self._pipeline = pipeline
        self._recall = recall
        self._read_later = read_later

    def repository(self, scope: Scope, *, keep_versions: int = KEEP_VERSIONS) -> MemoryRepository:
        """Return the profiles and conversations of a scope, with the pipeline that updates them.

        Args:
            keep_versions: number of versions kept of each profile, 2 to 1,000; a write drops the
                rest.
        """
        scope_path(scope)
        return MemoryRepository(scope, self._handle, self._pipeline, keep_versions)

    def of(
        self, scope: Scope, agent_id: str | None = None, subject: Subject = "user"
    ) -> AgentProfile:
        """Return the profile an agent has of the user or of itself; the default agent is the
        application."""
        return AgentProfile(self.repository(scope), agent_id, subject, self._read_later)

    def searcher(self, scope: Scope) -> MemorySearcher:
        """Return the search over the conversations and profiles of a scope."""
        scope_path(scope)
        return MemorySearcher(scope, self._recall, self._handle.clock)

    async def shown(self, scope: Scope, as_of: AsOf | None = None) -> str | None:
        """Return the profiles of the user and the agent as a prompt shows them, or None.

        The application's own profile wins over those of other agents, then the latest change.
        """
        scope_path(scope)
        check_as_of(as_of)
        storage = await self._handle.storage()
        return await shown_profile(storage, scope, as_of)

    async def undo(self, scope: Scope, run_id: UUID | str) -> bool:
        """Undo the version that a run wrote; return False for an unknown run.

        Raises Conflict if a newer version builds on it, or if the version is no longer kept.
        """
        run = id_of(run_id, "run_id")
        storage = await self._handle.storage()
        found = await storage.query(scope_path(scope), lambda: profile_of_run(run))
        if found is None:
            return False
        if found.memory_id is None or found.version is None:
            raise Conflict(
                f"run {run} made no version of a profile that is kept: take rollback_memory()"
            )
        if found.version != found.newest:
            raise Conflict(
                f"version {found.newest} of profile {found.memory_id}, of run {found.newest_run},"
                f" builds on run {run}: undo that first, or take rollback_memory()"
            )
        await self.repository(scope).roll_back(found.memory_id, found.version - 1, undoes=run)
        return True


async def follow_thread(
    handle: Handle, pipeline: ProfilePipeline, scope: Scope, thread_id: ThreadId
) -> None:
    """Update the application's profile of the user from a thread just consolidated."""
    await MemoryRepository(scope, handle, pipeline).follow(scope.app, thread_id)


class AgentProfile:
    """One profile of a scope, found by its agent and subject: engine.profiles.of().

    agent_id: the agent that knows the user, or is the subject; the application by default. Methods
    other than current() and update() raise NotFound if the profile does not exist.
    """

    def __init__(
        self,
        repository: MemoryRepository,
        agent_id: str | None,
        subject: Subject = "user",
        read_later: ReadLater | None = None,
    ) -> None:
        self.scope = repository.scope
        self.agent_id = repository.scope.app if agent_id is None else agent_id
        self.subject: Subject = subject
        self._repository = repository
        self._read_later = read_later

    async def current(self) -> Memory | None:
        """Return the newest version, or None."""
        return await self._repository.load_memory_by_agent(self.agent_id, subject=self.subject)

    async def show(self, version: int | None = None) -> Memory:
        """Return a version, by default the newest."""
        newest = await self._stored()
        if version is None:
            return newest
        return await self._repository.load_memory(newest.memory_id, version)

    async def update(self, conversation: object) -> tuple[Memory, PipelineResult]:
        """Update the profile from a conversation, as MemoryRepository.update_with_pipeline() does.

        A worker consolidates the conversation afterwards.
        """
        known = await self._repository.load_or_create(self.agent_id, subject=self.subject)
        memory, result = await self._repository.update_with_pipeline(known, conversation)
        if self._read_later is not None:
            await self._read_later(self.scope, result.modification.thread_id)
        return memory, result

    async def versions(self, limit: int = 100) -> Sequence[ProfileVersion]:
        """Return the kept versions, newest first."""
        return await self._repository.versions((await self._stored()).memory_id, limit)

    async def diff(self, from_version: int, to_version: int) -> ProfileDiff:
        """Return the differences between two versions."""
        memory_id = (await self._stored()).memory_id
        return await self._repository.diff(memory_id, from_version, to_version)

    async def rollback(self, version: int) -> Memory:
        """Store a new version with the content of an earlier one, and return it."""
        return await self._repository.rollback_memory((await self._stored()).memory_id, version)

    async def _stored(self) -> Memory:
        memory = await self.current()
        if memory is None:
            raise NotFound(
                f"there is no {self.subject} profile of agent {self.agent_id!r} in {self.scope}:"
                " an update from a conversation makes one"
            )
        return memory


def memory_json(memory: Memory, language: str | None = None) -> dict[str, JsonValue]:
    """Return a profile as JSON for HTTP, MCP and the command line."""
    return {
        "memory_id": str(memory.memory_id),
        "agent_id": memory.agent_id,
        "subject": memory.subject,
        "version": memory.version,
        "created_at": memory.created_at.isoformat(),
        "updated_at": memory.updated_at.isoformat(),
        "content_hash": memory.content_hash(),
        "profile": memory.get_profile_content(),
        "events": list(memory.get_event_content()),
        "findings": [
            {
                "dimension": one.dimension,
                "label": one.label,
                "text": one.text,
                "confidence": one.confidence,
                "quotes": list(one.quotes),
            }
            for one in memory.mind.findings
        ],
        "relations": [one.to_dict() for one in memory.relations()],
        "prompt": memory.to_prompt(language),
    }


def update_json(memory: Memory, result: PipelineResult) -> dict[str, JsonValue]:
    """Return a profile after an update and the stages of its pipeline as JSON."""
    return {
        "changed": result.changed,
        "previous_version": result.previous_version,
        "run_id": str(result.run_id),
        "conversation_id": result.modification.thread_id,
        "new_turns": result.new_turns,
        "stages": [
            {
                "stage": stage.stage,
                "status": stage.status,
                "input": dict(stage.input),
                "output": dict(stage.output),
                "duration_ms": round(stage.duration_s * 1000, 3),
            }
            for stage in result.stages
        ],
        "profile": memory_json(memory),
    }


def version_json(version: ProfileVersion) -> dict[str, JsonValue]:
    """Return a version as JSON, without its content."""
    return {
        "version": version.version,
        "revision": version.revision,
        "content_hash": version.content_hash,
        "run_id": None if version.run_id is None else str(version.run_id),
        "created_at": version.created_at.isoformat(),
    }


def diff_json(diff: ProfileDiff) -> dict[str, JsonValue]:
    """Return the differences between two versions as JSON."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(diff).items()
    }
