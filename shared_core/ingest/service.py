"""Everything that brings new memories: turns of threads, and what is remembered outright."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from shared_core.core.domain import Event, NewMemory, Scope, ThreadId
from shared_core.core.namespaces import check_scope
from shared_core.errors import ModelUnavailable
from shared_core.ingest import events as ingest
from shared_core.ingest.session_log import possible
from shared_core.jobs.queue import JobQueue, job_for_turns

if TYPE_CHECKING:
    from shared_core.jobs.worker import Worker
    from shared_core.models.embedding import Embedding
    from shared_core.ports.jobs import ExtractionStrategy
    from shared_core.ports.storage import Clock, Storage
    from shared_core.privacy.sanitizing import Intake


class Remembering:
    """Writes of one storage, with the queue that reads them later. Every verb opens the memory."""

    def __init__(
        self,
        storage: Storage,
        embedding: Embedding,
        intake: Intake,
        clock: Clock,
        open_memory: Callable[[], Awaitable[None]],
        jobs: JobQueue,
        worker: Worker,
    ) -> None:
        self._storage = storage
        self._embedding = embedding
        self._intake = intake
        self._clock = clock
        self._open = open_memory
        self._jobs = jobs
        self._worker = worker

    async def append_events(
        self,
        scope: Scope,
        thread_id: str,
        events: Sequence[Event],
        *,
        later: bool,
        delay_s: float | None,
        unseen: bool,
        session_end: bool,
        strategy: ExtractionStrategy,
        history: bool,
        retry_later: bool,
    ) -> set[str]:
        """Append turns to a thread and remember each that has text; return the ids that were new.

        engine.append_events says what the arguments are.
        """
        await self._open()
        thread = ThreadId(thread_id)
        job = job_for_turns(strategy, self._clock, delay_s=delay_s, session_end=session_end)
        asked = job if later and events else None
        append = partial(
            ingest.append_events, self._storage, self._embedding, scope, thread, events,
            intake=self._intake, unseen=unseen, history=history,
        )  # fmt: skip
        try:
            new = await append(job=asked)
        except ModelUnavailable:
            async with self._jobs.taking_over(scope, thread, job.job_type, wanted=retry_later):
                if retry_later:
                    await append(job=job)
                raise
        if asked:
            self._worker.hand_over(scope, thread)
        else:
            self._worker.resume()
        if later and session_end and not new:
            await self.end_session(scope, thread_id, strategy)
        return new

    async def end_session(self, scope: Scope, thread_id: str, strategy: ExtractionStrategy) -> bool:
        """Have the unread turns of a thread worked on now; return whether there were any."""
        check_scope(scope)
        if not strategy.on_session_end or not possible(scope.app, scope.user, thread_id):
            return False
        await self._open()
        thread = ThreadId(thread_id)
        job = job_for_turns(strategy, self._clock, delay_s=0, session_end=True)
        unread = await self._storage.end_session(scope, thread, job)
        if unread:
            self._worker.hand_over(scope, thread)
        return unread

    async def remember(
        self, scope: Scope, memories: str | NewMemory | Sequence[str | NewMemory]
    ) -> list[str]:
        """Remember texts or NewMemory objects; return their keys."""
        await self._open()
        if isinstance(memories, str | NewMemory):
            memories = [memories]
        new = [NewMemory(text=memory) if isinstance(memory, str) else memory for memory in memories]
        return await ingest.remember(
            self._storage, self._embedding, self._clock, self._intake, scope, new
        )
