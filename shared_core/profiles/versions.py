"""What repositories of profiles share: reads and writes of versions, one onto the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, get_args
from uuid import UUID

from shared_core.core.domain import JsonValue, Scope
from shared_core.core.ids import uuid7
from shared_core.errors import Conflict, InvalidInput, NotFound
from shared_core.ingest.events import texts_of
from shared_core.ports.profiles import ProfileRun, StoredProfile
from shared_core.profiles.memory import Memory, checked_id
from shared_core.profiles.parts import Subject
from shared_core.profiles.pipeline import ProfilePipeline
from shared_core.profiles.rows import memory_of, parts_of, redacted, version_draft, without

if TYPE_CHECKING:
    from shared_core.models.embedding import Embedding
    from shared_core.ports.events import EventRow
    from shared_core.ports.storage import Clock, Storage
    from shared_core.privacy.sanitizing import Intake

MAX_VERSIONS = 1_000
KEEP_VERSIONS = 100
"""So many versions of a profile are kept; with a new one the oldest go."""


class ProfileStore:
    """Profiles of one scope as versions. Every method opens the memory first."""

    def __init__(
        self,
        scope: Scope,
        storage: Storage,
        embedding: Embedding,
        intake: Intake,
        clock: Clock,
        pipeline: ProfilePipeline,
        open_memory: Callable[[], Awaitable[None]],
        keep_versions: int = KEEP_VERSIONS,
    ) -> None:
        whole = isinstance(keep_versions, int) and not isinstance(keep_versions, bool)
        if not (whole and 2 <= keep_versions <= MAX_VERSIONS):
            raise InvalidInput(
                f"keep_versions must be from 2, for there to be one to go back to, to"
                f" {MAX_VERSIONS:,}, not {keep_versions!r}"
            )
        self.scope = scope
        self.keep_versions = keep_versions
        self.pipeline = pipeline
        self._storage = storage
        self._embedding = embedding
        self._intake = intake
        self._clock = clock
        self._open = open_memory

    async def _written(
        self, memory: Memory, run: ProfileRun, *, known: StoredProfile | None = None
    ) -> Memory:
        stored, _ = await self._written_with(memory, run, (), known=known)
        return stored

    async def _written_with(
        self,
        memory: Memory,
        run: ProfileRun,
        turns: Sequence[EventRow],
        *,
        known: StoredProfile | None = None,
    ) -> tuple[Memory, set[str]]:
        """Write the version after memory.version, if it says something else than that one."""
        stored = await self._of(memory.agent_id, memory.subject)
        self._check_version(memory, stored)
        gone = stored.forgotten if stored else frozenset()
        memory = redacted(without(memory, gone), self._intake)
        same = stored is not None and stored.version.content_hash == memory.content_hash()
        parts = {**(parts_of(known) if known else {}), **(parts_of(stored) if stored else {})}
        required = [(run.thread_id, row.event.event_id) for row in turns if run.thread_id]
        draft = version_draft(
            self.scope, memory, parts, run.run_id, required, keep=self.keep_versions, revises=same
        )
        version = draft.version
        vectors = await self._embedding.rows([*texts_of(self.scope, turns), *draft.texts])
        if version is None and not turns and not run.stages and run.undoes is None:
            return self._bound_to(memory), set()
        new = await self._storage.save_profile(
            self.scope, memory.memory_id, run, version, vectors, turns
        )
        if version is not None:
            memory.version += not same
            memory.revision = memory.revision + 1 if same else 0
        memory.stored_hash = memory.content_hash()
        return self._bound_to(memory), new

    def _check_version(self, memory: Memory, stored: StoredProfile | None) -> None:
        there = stored.version if stored else None
        if there is None and memory.version == 0:
            return
        is_newest = there is not None and (there.memory_id, there.version, there.revision) == (
            memory.memory_id, memory.version, memory.revision,
        )  # fmt: skip
        if not is_newest:
            raise Conflict(
                f"the {memory.subject} profile of {memory.agent_id!r} is at version"
                f" {there.version if there else 0}, and was changed since this memory was loaded"
                f" from version {memory.version}: load it again with"
                f" load_memory_by_agent({memory.agent_id!r}), and repeat the change"
            )

    async def _of(self, agent_id: str, subject: Subject) -> StoredProfile | None:
        if subject not in get_args(Subject):
            raise InvalidInput(f"subject must be 'user' or 'agent', not {subject!r}")
        await self._open()
        return await self._storage.profile_of(self.scope, subject, agent_id)

    async def _stored(self, memory_id: UUID | str, version: int | None = None) -> StoredProfile:
        found = checked_id(memory_id)
        whole = version is None or (isinstance(version, int) and not isinstance(version, bool))
        if not whole or (version is not None and not 0 < version < 2**31):
            raise InvalidInput(f"version must be a whole number from 1, not {version!r}")
        await self._open()
        stored = await self._storage.profile_by_id(self.scope, found, version)
        if stored is not None:
            return stored
        known = await self._storage.profile_versions(self.scope, found, MAX_VERSIONS)
        if known:
            raise NotFound(
                f"memory {found} has no version {version}: there are versions"
                f" {known[-1].version} to {known[0].version}"
            )
        raise NotFound(
            f"there is no memory {found} in {self.scope}: load_memory_by_agent() finds one by its"
            " agent, save_memory() stores a new one"
        )

    def _run(self, counts: Mapping[str, JsonValue]) -> ProfileRun:
        return ProfileRun(
            run_id=uuid7(), extractor=self.pipeline.name, started_at=self._clock(), counts=counts
        )

    def _bound(self, stored: StoredProfile) -> Memory:
        return self._bound_to(memory_of(stored))

    def _bound_to(self, memory: Memory) -> Memory:
        return memory


def checked_limit(limit: int) -> int:
    """Return how many of something to list. Raises InvalidInput for less than 1, or too many."""
    whole = isinstance(limit, int) and not isinstance(limit, bool)
    if not (whole and 0 < limit <= MAX_VERSIONS):
        raise InvalidInput(f"limit must be from 1 to {MAX_VERSIONS:,}, not {limit!r}")
    return limit
