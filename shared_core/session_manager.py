"""SessionManager and SessionConsolidator: the parts of process_memory, for who needs one alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.core.domain import Event, Scope
from shared_core.engine import MemoryEngine
from shared_core.errors import Conflict
from shared_core.ports.conversations import Session, SessionStatus
from shared_core.ports.jobs import JobType


class SessionManager:
    """Sessions of the users of one application: opened, continued and ended, in the database.

    sessions = SessionManager(memory, app="my-app")
    await sessions.add_event("alice", "I live in Lisbon")

    Any number of processes may do so at once: a user has one active session in all of them.
    """

    def __init__(self, memory: MemoryEngine, *, app: str | None = None) -> None:
        self._memory = memory
        self._app = app

    async def get_or_create_session(self, user_id: str) -> Session:
        """Return the active session of a user, without its events; a new one if there is none."""
        return await self._memory.conversations.open(self._scope(user_id))

    async def add_event(self, user_id: str, event: Event | str) -> Session:
        """Append an event, or a text of the user, to the active session, or to a new one.

        Returns the session, its events the last ones before this one. An event whose id the
        session has already changes nothing.
        """
        return await self._memory.conversations.add(self._scope(user_id), event)

    async def end_session(self, user_id: str) -> Session | None:
        """End the active session and leave it to be consolidated; None if there is none."""
        return await self._memory.conversations.end(self._scope(user_id))

    async def get_session_events(self, user_id: str, limit: int = 20) -> Sequence[Event]:
        """Return the last events of the active session, oldest first; none without a session."""
        return await self._memory.conversations.events(self._scope(user_id), limit)

    async def check_timeouts(self) -> int:
        """End the sessions of all users that are over; return how many went.

        A worker does so by itself, one of all processes at a time; 0 while another one is at it.
        """
        return await self._memory.conversations.expiry.run()

    def _scope(self, user_id: str) -> Scope:
        return self._memory.conversations.scope(user_id, self._app)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationResult:
    """What became of a session. stored_count: statements that are remembered of it.

    skipped: nothing was done, for this reason.
    """

    stored_count: int = 0
    total_events: int = 0
    skipped: bool = False
    reason: str = ""


class SessionConsolidator:
    """Consolidates a session that has ended, now, in this process; the worker does it otherwise."""

    def __init__(self, memory: MemoryEngine) -> None:
        self._memory = memory

    async def consolidate(self, session: Session) -> ConsolidationResult:
        """Group, resolve, filter and store what was said in a session that has ended.

        Doing so twice stores nothing twice. Raises Conflict for a session that is still active.
        """
        if session.event_count == 0:
            return ConsolidationResult(skipped=True, reason="empty_session")
        if session.status is SessionStatus.ACTIVE:
            raise Conflict(
                f"the session of {session.user_id!r} is active: end it first, by end_session()"
            )
        report = await self._memory.consolidate(
            session.scope, session.session_id, job_type=JobType.DEEP_REFLECTION
        )
        if report.events == 0:
            return ConsolidationResult(
                total_events=session.event_count, skipped=True, reason="consolidated_already"
            )
        return ConsolidationResult(stored_count=report.statements, total_events=session.event_count)
