"""Profiles by whose they are, for surfaces that name no memory_id: HTTP, MCP, the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TypeAlias

from shared_core.core.domain import JsonValue, Scope
from shared_core.errors import NotFound
from shared_core.ports.profiles import ProfileVersion
from shared_core.profiles.entries import Subject
from shared_core.profiles.memory import Memory
from shared_core.profiles.pipeline import PipelineResult
from shared_core.profiles.repository import MemoryRepository, ProfileDiff

ReadLater: TypeAlias = Callable[[Scope, str], Awaitable[None]]
"""Leaves what is unread of a thread to the worker."""


class ProfileDesk:
    """One profile of a scope: engine.profiles.desk(scope, agent_id, subject).

    agent_id: who knows the user, or whose profile it is; the application if left out. Everything
    but current() and update() raises NotFound while there is none.
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
        """Return the newest version; None if there is no profile."""
        return await self._repository.load_memory_by_agent(self.agent_id, subject=self.subject)

    async def show(self, version: int | None = None) -> Memory:
        """Return a version, the newest if none is named."""
        newest = await self._there()
        if version is None:
            return newest
        return await self._repository.load_memory(newest.memory_id, version)

    async def update(self, conversation: object) -> tuple[Memory, PipelineResult]:
        """Remember a conversation and return the profile after it, as update_with_pipeline.

        Facts, edges and a summary are drawn from it afterwards, by a worker.
        """
        known = await self._repository.load_or_create(self.agent_id, subject=self.subject)
        memory, result = await self._repository.update_with_pipeline(known, conversation)
        if self._read_later is not None:
            await self._read_later(self.scope, result.modification.thread_id)
        return memory, result

    async def versions(self, limit: int = 100) -> Sequence[ProfileVersion]:
        """Return the versions that are kept, newest first."""
        return await self._repository.versions((await self._there()).memory_id, limit)

    async def diff(self, from_version: int, to_version: int) -> ProfileDiff:
        """Return what changed from one version to another."""
        memory_id = (await self._there()).memory_id
        return await self._repository.diff(memory_id, from_version, to_version)

    async def rollback(self, version: int) -> Memory:
        """Make a new version that says what an earlier one said, and return it."""
        return await self._repository.rollback_memory((await self._there()).memory_id, version)

    async def _there(self) -> Memory:
        memory = await self.current()
        if memory is None:
            raise NotFound(
                f"there is no {self.subject} profile of agent {self.agent_id!r} in {self.scope}:"
                " an update from a conversation makes one"
            )
        return memory


def memory_json(memory: Memory, language: str | None = None) -> dict[str, JsonValue]:
    """Return what surfaces tell of a profile."""
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
    """Return a profile after an update, and what the pipeline did."""
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
    """Return a version as it stands in a list."""
    return {
        "version": version.version,
        "revision": version.revision,
        "content_hash": version.content_hash,
        "run_id": None if version.run_id is None else str(version.run_id),
        "created_at": version.created_at.isoformat(),
    }


def diff_json(diff: ProfileDiff) -> dict[str, JsonValue]:
    """Return what changed, by texts."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(diff).items()
    }
