"""engine.profiles: what is known of users and agents, as one paragraph and a list of events."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from shared_core.core.domain import AsOf, Scope, ThreadId
from shared_core.core.namespaces import scope_path
from shared_core.errors import Conflict, InvalidInput
from shared_core.profiles.by_agent import ProfileDesk, ReadLater
from shared_core.profiles.entries import Subject
from shared_core.profiles.pipeline import ProfilePipeline
from shared_core.profiles.repository import KEEP_VERSIONS, MemoryRepository
from shared_core.profiles.rows import shown_profile
from shared_core.profiles.search import MemorySearcher

if TYPE_CHECKING:
    from shared_core.lifecycle import Handle
    from shared_core.recall.service import Recall


class Profiles:
    """Profiles of one memory: engine.profiles.

    pipeline: updates a profile from a conversation. read_later: leaves a thread to the worker.
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

        keep_versions: so many versions of a profile are kept, 2 to 1,000; what it writes prunes.
        """
        scope_path(scope)
        return MemoryRepository(scope, self._handle, self._pipeline, keep_versions)

    def desk(
        self, scope: Scope, agent_id: str | None = None, subject: Subject = "user"
    ) -> ProfileDesk:
        """Return one profile of a scope by whose it is; of the application if none is named."""
        return ProfileDesk(self.repository(scope), agent_id, subject, self._read_later)

    def searcher(self, scope: Scope) -> MemorySearcher:
        """Return the search over the conversations and profiles of a scope."""
        scope_path(scope)
        return MemorySearcher(scope, self._recall, self._handle.clock)

    async def shown(self, scope: Scope, as_of: AsOf | None = None) -> str | None:
        """Return what a prompt shows of the stored profiles, the user's and the agent's.

        Of several the one of the agent that is called as the application, else the one that was
        changed last. None where nothing is known.
        """
        scope_path(scope)
        storage = await self._handle.storage()
        return await shown_profile(storage, scope, as_of)

    async def undo(self, scope: Scope, run_id: UUID | str) -> bool:
        """Take back what a run wrote about a profile; False if it is no such run."""
        try:
            run = UUID(str(run_id))
        except ValueError as error:
            raise InvalidInput(f"run_id must be a UUID, not {run_id!r}") from error
        storage = await self._handle.storage()
        found = await storage.profiles.profile_of_run(scope, run)
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
        await self.repository(scope).taken_back(found.memory_id, found.version - 1, run)
        return True


async def follow_thread(
    handle: Handle, pipeline: ProfilePipeline, scope: Scope, thread_id: ThreadId
) -> None:
    """Update the user's profile, as the application knows it, from a thread just consolidated."""
    await MemoryRepository(scope, handle, pipeline).follow(scope.app, thread_id)
