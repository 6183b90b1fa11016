"""Policies of jobs and conversations, as calls of a storage under test."""

from functools import partial
from typing import Any

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.namespaces import scope_path
from shared_core.errors import Conflict
from shared_core.ingest.session_log import SessionLogs
from shared_core.jobs.stored_jobs import StoredJobs
from shared_core.policies import conversations as policies
from shared_core.policies.session_logs import SHARED_STATE
from shared_core.ports.conversations import Session, SessionRules
from shared_core.ports.jobs import NewJob
from shared_core.ports.operations import Select
from shared_core.ports.session_logs import SessionRecord, StateChange


def stored_jobs(storage: Any) -> StoredJobs:
    """Return the changes of jobs, by the clock of the storage."""
    return StoredJobs(storage, storage.jobs._clock)


async def open_conversation(
    storage: Any, scope: Scope, new_id: ThreadId, rules: SessionRules
) -> Session:
    """Return the active session, or a new one."""
    now = storage.conversations._clock()
    opening = partial(policies.open_conversation, scope, new_id, rules, now)
    session: Session = await storage.transact(scope_path(scope), opening)
    return session


async def end_conversation(
    storage: Any, scope: Scope, job: NewJob, rules: SessionRules, *, if_over: bool = False
) -> Session | None:
    """End the active session and return it."""
    now = storage.conversations._clock()
    ending = partial(policies.end_conversation, scope, job, rules, now, if_over=if_over)
    session: Session | None = await storage.transact(scope_path(scope), ending)
    return session


async def finish_conversation(storage: Any, scope: Scope, thread_id: ThreadId) -> None:
    """Mark an ended session as consolidated, if it is."""
    finishing = partial(policies.finish_conversation, thread_id)
    await storage.transact(scope_path(scope), finishing, lock="none")


async def active_conversation(storage: Any, scope: Scope) -> Session | None:
    """Return the active session, also if it is over."""
    return await _session(storage, scope, policies.active_conversation())


async def conversation_of_thread(storage: Any, scope: Scope, thread_id: ThreadId) -> Session | None:
    """Return the session of a thread."""
    return await _session(storage, scope, policies.conversation_of_thread(thread_id))


async def _session(storage: Any, scope: Scope, reading: Select) -> Session | None:
    [rows] = await storage.read(scope_path(scope), [reading])
    return policies.session_of(scope, rows[0]) if rows else None


async def user_state(storage: Any, scope: Scope) -> Any:
    """Return the state that all sessions of a user share."""
    [rows] = await storage.read(scope_path(scope), [SHARED_STATE])
    return rows[0][0] if rows else {}


class _Opened:
    """A memory that is open, as the service of session logs sees it."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.clock = storage.session_logs._clock

    async def storage(self) -> Any:
        return self._storage


async def open_session(
    storage: Any, scope: Scope, thread_id: ThreadId, change: StateChange
) -> SessionRecord | None:
    """Open the log of a thread; return None if it is open already."""
    handle: Any = _Opened(storage)
    try:
        return await SessionLogs(handle).create(scope, thread_id, change)
    except Conflict:
        return None
