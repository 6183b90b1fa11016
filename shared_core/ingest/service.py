"""Append turns to threads, and enqueue their consolidation."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING

from shared_core.core.domain import Event, Scope, ThreadId
from shared_core.core.namespaces import check_scope, storable
from shared_core.core.telemetry import APPENDED, measured
from shared_core.core.validation import names_of
from shared_core.errors import ModelUnavailable
from shared_core.ingest import events as ingest
from shared_core.ingest.session_log import are_storable
from shared_core.jobs.queue import JobQueue, job_for_turns
from shared_core.jobs.stored_jobs import StoredJobs
from shared_core.ports.jobs import ExtractionStrategy, checked_strategy

if TYPE_CHECKING:
    from shared_core.jobs.worker import Worker
    from shared_core.lifecycle import Handle


class Turns:
    """Turns of threads, with the queue that consolidates them later.

    strategy: default time at which queued turns are consolidated.
    """

    def __init__(
        self, handle: Handle, jobs: JobQueue, worker: Worker, strategy: ExtractionStrategy
    ) -> None:
        self._handle = handle
        self._jobs = jobs
        self._worker = worker
        self._strategy = strategy

    @measured("append", APPENDED, len)
    async def append(
        self,
        scope: Scope,
        thread_id: str,
        events: Sequence[Event],
        *,
        later: bool = False,
        delay_s: float | None = None,
        unseen: bool = False,
        session_end: bool = False,
        strategy: ExtractionStrategy | None = None,
        history: bool = False,
        retry_later: bool = False,
    ) -> ingest.AppendedTurns:
        """Append turns to a thread, with a memory for each that has text; return which were new.

        engine.append_events() explains the arguments.
        """
        strategy = self._strategy if strategy is None else checked_strategy(strategy)
        storage = await self._handle.storage()
        thread = ThreadId(thread_id)
        job = job_for_turns(strategy, self._handle.clock, delay_s=delay_s, session_end=session_end)
        queued = job if later and events else None
        append = partial(
            ingest.append_events, storage, self._handle.embedding, scope, thread, events,
            clock=self._handle.clock, intake=self._handle.sanitizer, unseen=unseen, history=history,
        )  # fmt: skip
        try:
            done = await append(job=queued)
        except ModelUnavailable:
            async with self._jobs.taking_over(scope, thread, job.job_type, retry=retry_later):
                if retry_later:
                    await append(job=job)
                raise
        if queued:
            self._worker.hand_over(scope, thread)
        else:
            self._worker.resume()
        if session_end and not (queued and (done.new or done.edited)):
            await self.end_session(scope, thread_id, strategy)
        return done

    async def leave(self, scope: Scope, thread_id: str, event_ids: Collection[str]) -> Set[str]:
        """Set aside turns that left their thread; return the ids of those that were remembered.

        engine.leave_turns() says what that means.
        """
        check_scope(scope)
        named = sorted(one for one in names_of(event_ids, "event_ids") if storable(one))
        if not named or not are_storable(scope.app, scope.user, thread_id):
            return frozenset()
        storage, handle = await self._handle.storage(), self._handle
        done = await ingest.edit_thread(
            storage, handle.embedding, handle.clock, scope, ThreadId(thread_id), left=named
        )
        return done.left

    async def end_session(
        self, scope: Scope, thread_id: str, strategy: ExtractionStrategy | None = None
    ) -> bool:
        """Enqueue the unread turns of a thread for now; return whether there were any."""
        strategy = self._strategy if strategy is None else checked_strategy(strategy)
        check_scope(scope)
        if not strategy.on_session_end or not are_storable(scope.app, scope.user, thread_id):
            return False
        storage = await self._handle.storage()
        thread = ThreadId(thread_id)
        job = job_for_turns(strategy, self._handle.clock, delay_s=0, session_end=True)
        unread = await StoredJobs(storage, self._handle.clock).end_session(scope, thread, job)
        if unread:
            self._worker.hand_over(scope, thread)
        return unread
