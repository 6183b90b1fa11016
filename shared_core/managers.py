"""The documented manager classes: sessions, their consolidation, and retention, each on an engine.

They hold no state of their own. A MemoryEngine does the same work by itself, in its worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from shared_core.core.domain import Event, Scope
from shared_core.core.retention_policy import DECAY_RATE, MIN_AGE_DAYS, THRESHOLD, RetentionPolicy
from shared_core.engine import MemoryEngine
from shared_core.errors import Conflict
from shared_core.ports.conversations import Session, SessionStatus
from shared_core.ports.jobs import JobRecord, JobType


class SessionManager:
    """Opens, continues and ends the sessions of an application's users, in the database.

        sessions = SessionManager(memory, app="my-app")
        await sessions.add_event("alice", "I live in Lisbon")

    Safe in any number of processes: a user has one active session in all of them.
    """

    def __init__(self, memory: MemoryEngine, *, app: str | None = None) -> None:
        self._memory = memory
        self._app = app

    async def get_or_create_session(self, user_id: str) -> Session:
        """Return the active session of a user, or a new one, without its events."""
        return await self._memory.conversations.open(self._scope(user_id))

    async def add_event(self, user_id: str, event: Event | str) -> Session:
        """Append an event, or a text of the user, to the active session, or to a new one.

        Returns the session with its last events before this one. An event id that the session
        already has changes nothing.
        """
        return await self._memory.conversations.add(self._scope(user_id), event)

    async def end_session(self, user_id: str) -> Session | None:
        """End the active session and queue its consolidation; return it, or None without one."""
        return await self._memory.conversations.end(self._scope(user_id))

    async def get_session_events(self, user_id: str, limit: int = 20) -> Sequence[Event]:
        """Return the last events of the active session, oldest first; none without a session."""
        return await self._memory.conversations.events(self._scope(user_id), limit)

    async def check_timeouts(self) -> int:
        """End the expired sessions of all users; return how many ended.

        The worker does the same periodically, in one process at a time. While another process is
        doing it, this returns 0.
        """
        return await self._memory.conversations.expiry.run()

    def _scope(self, user_id: str) -> Scope:
        return self._memory.conversations.scope(user_id, self._app)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationResult:
    """The outcome of a session's consolidation.

    Attributes:
        stored_count: statements that were stored.
        skipped: nothing was done, for this reason.
    """

    stored_count: int = 0
    total_events: int = 0
    skipped: bool = False
    reason: str = ""


class SessionConsolidator:
    """Consolidates a session that has ended now, in this process, instead of in the worker."""

    def __init__(self, memory: MemoryEngine) -> None:
        self._memory = memory

    async def consolidate(self, session: Session) -> ConsolidationResult:
        """Group, resolve, filter and store the turns of a session that has ended.

        A second call stores nothing twice.

        Raises:
            Conflict: for an active session.
        """
        if session.event_count == 0:
            return ConsolidationResult(skipped=True, reason="empty_session")
        if session.status is SessionStatus.ACTIVE:
            raise Conflict(
                f"the session of {session.user_id!r} is active: end it first with end_session()"
            )
        report = await self._memory.consolidate(
            session.scope, session.session_id, job_type=JobType.DEEP_REFLECTION
        )
        if report.events == 0:
            return ConsolidationResult(
                total_events=session.event_count, skipped=True, reason="consolidated_already"
            )
        return ConsolidationResult(stored_count=report.statements, total_events=session.event_count)


class MemoryConsolidationWorker:
    """Consolidates threads of a scope on demand, as jobs of the queue.

    worker = MemoryConsolidationWorker(memory, Scope("my-app", "alice"))
    job = await worker.consolidate("monday", JobType.FAST_REPLAY)
    print(job.status, job.result, job.error)
    """

    def __init__(self, memory: MemoryEngine, scope: Scope) -> None:
        self._memory = memory
        self._scope = scope

    async def consolidate(
        self, thread_id: str, job_type: JobType = JobType.FULL_CONSOLIDATION
    ) -> JobRecord:
        """Consolidate a thread now, in this process, and return the finished job.

        FAST_REPLAY writes a summary, DEEP_REFLECTION extracts facts from new turns,
        FULL_CONSOLIDATION does both. It waits for a running job of the thread. A failed job is not
        retried; its error says why.

        Raises:
            NotFound: for an unknown thread.
        """
        return await self._memory.jobs.run(self._scope, thread_id, job_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats:
    """The memories of a user after a cleanup, or before one in a dry run.

    Attributes:
        high_value_count: scores from 0.7.
        medium_value_count: scores from 0.3 to 0.7.
        avg_retention_score: 0 without memories.
        cleaned_count: memories that were, or would be, erased.
    """

    total_memories: int
    high_value_count: int
    medium_value_count: int
    low_value_count: int
    avg_retention_score: float
    cleaned_count: int


class MemoryRetentionManager:
    """Records reads, counts memories by value, and erases faded ones, for one user.

    The engine applies its policies by itself, in stages that can be undone. Use this class to
    choose the moment and to erase immediately. decay_rate applies to cleanups only; reported scores
    follow the stored policy.
    """

    def __init__(
        self,
        engine: MemoryEngine,
        scope: Scope,
        *,
        decay_rate: float = DECAY_RATE,
        cleanup_threshold: float = THRESHOLD,
        min_age_days: float = MIN_AGE_DAYS,
    ) -> None:
        self._engine = engine
        self._scope = scope
        self._policy = RetentionPolicy(
            decay_rate=decay_rate, threshold=cleanup_threshold, min_age_days=min_age_days
        )

    async def record_access(self, memory_id: UUID | str) -> None:
        """Record a read of a memory now."""
        await self.record_batch_access([memory_id])

    async def record_batch_access(self, memory_ids: Sequence[UUID | str]) -> None:
        """Record reads of memories now, in one round trip; unknown ids are ignored."""
        await self._engine.accesses.record_now(self._scope, memory_ids)

    async def get_retention_distribution(self) -> dict[str, int]:
        """Return the numbers of memories of high (from 0.7), medium (from 0.3) and low value."""
        stats = await self._engine.retention.stats(self._scope)
        return {"high": stats.high, "medium": stats.medium, "low": stats.low}

    async def cleanup_low_value_memories(
        self,
        threshold: float | None = None,
        min_age_days: float | None = None,
        dry_run: bool = False,
    ) -> MemoryStats:
        """Erase memories below a score and above an age; facts and pinned memories stay."""
        policy = RetentionPolicy(
            decay_rate=self._policy.decay_rate,
            threshold=self._policy.threshold if threshold is None else threshold,
            min_age_days=self._policy.min_age_days if min_age_days is None else min_age_days,
        )
        report = await self._engine.cleanup(self._scope, policy, dry_run=dry_run)
        stats = await self._engine.retention.stats(self._scope)
        return MemoryStats(
            total_memories=stats.total.count,
            high_value_count=stats.high,
            medium_value_count=stats.medium,
            low_value_count=stats.low,
            avg_retention_score=stats.total.average_score or 0.0,
            cleaned_count=len(report.forgotten),
        )
