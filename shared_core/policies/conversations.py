"""Conversations of a user: at most one is active, and the end of one enqueues its consolidation.

Turns that come in are appended under the row of the active conversation. So a policy that ends it
holds this row.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.ids import uuid7
from shared_core.policies.jobs import JOBS
from shared_core.ports.conversations import Session, SessionRules, SessionStatus
from shared_core.ports.jobs import JobPriority, JobType, NewJob
from shared_core.ports.operations import (
    Delete,
    Insert,
    Join,
    Last,
    Policy,
    Row,
    Select,
    Update,
    Verb,
    compare,
    equal,
)

TABLE = "conversations"
SESSION_COLUMNS = (
    "thread_id", "status", "event_count", "created_at", "last_active_at", "ends_at", "ended_at",
)  # fmt: skip
_ACTIVE = Select(TABLE, SESSION_COLUMNS, (equal("status", str(SessionStatus.ACTIVE)),))


def active_conversation() -> Select:
    """Return the read of the active session, also if it is over but not ended yet."""
    return _ACTIVE


def conversation_of_thread(thread_id: ThreadId) -> Select:
    """Return the read of the session of a thread."""
    return Select(TABLE, SESSION_COLUMNS, (equal("thread_id", thread_id),))


def session_of(scope: Scope, row: Row) -> Session:
    """Return the session in SESSION_COLUMNS."""
    thread_id, status, event_count, created_at, last_active_at, ends_at, ended_at = row
    return Session(
        session_id=ThreadId(thread_id),
        scope=scope,
        status=SessionStatus(status),
        event_count=event_count,
        created_at=created_at,
        last_active_at=last_active_at,
        ends_at=ends_at,
        ended_at=ended_at,
    )


def is_over(session: Session, rules: SessionRules, now: datetime) -> bool:
    """Return whether an active session takes no more turns."""
    return session.ends_at <= now or session.event_count >= rules.max_events


def new_session(
    scope: Scope, new_id: ThreadId, event_count: int, rules: SessionRules, now: datetime
) -> Session:
    """Return a session that begins now; event_count: 1 if a turn begins it."""
    is_full = 0 < rules.max_events <= event_count
    ends_at = now if is_full else now + min(rules.timeout, rules.max_duration)
    return session_of(scope, (new_id, SessionStatus.ACTIVE, event_count, now, now, ends_at, None))


def open_conversation(
    scope: Scope, new_id: ThreadId, rules: SessionRules, now: datetime
) -> Policy[Session]:
    """Return the active session, or a new one with id new_id.

    Raises Conflict if a turn opened another one meanwhile.
    """
    [rows] = yield [_ACTIVE]
    if rows:
        return session_of(scope, rows[0])
    new = new_session(scope, new_id, 0, rules, now)
    columns = ("thread_id", "status", "created_at", "last_active_at", "ends_at")
    yield Last([Insert(TABLE, columns, [(new_id, str(new.status), now, now, new.ends_at)])])
    return new


def end_conversation(
    scope: Scope, job: NewJob, rules: SessionRules, now: datetime, *, if_over: bool
) -> Policy[Session | None]:
    """End the active session and enqueue a job on it; return it, or None if there is none.

    if_over: end it only if it is over. A session without turns is deleted, without a job. A pending
    job of the same type becomes due now.
    """
    [rows] = yield [replace(_ACTIVE, lock="update")]
    if not rows:
        return None
    session = session_of(scope, rows[0])
    if if_over and not is_over(session, rules, now):
        return None
    thread_id = session.session_id
    named = (equal("thread_id", thread_id),)
    if session.event_count == 0:
        yield Last([Delete(TABLE, named)])
        return session
    waits = (
        *named,
        equal("job_type", str(job.job_type)),
        equal("status", "pending"),
        compare("run_after", ">", now),
    )
    yield Last(
        [
            Update(TABLE, {"status": str(SessionStatus.ENDING), "ended_at": now}, named),
            Verb("enqueue", (thread_id, replace(job, run_after=now))),
            Update(JOBS, {"run_after": now}, waits),
        ]
    )
    return replace(session, status=SessionStatus.ENDING, ended_at=now)


def finish_conversation(thread_id: ThreadId) -> Policy[None]:
    """Mark an ended session as consolidated, if every turn of it was read."""
    named = (equal("thread_id", thread_id),)
    [threads] = yield [Select("threads", ("last_memory_seq", "consolidated_seq"), named)]
    if all(last > read for last, read in threads):
        return
    ending = (*named, equal("status", str(SessionStatus.ENDING)))
    yield Last([Update(TABLE, {"status": str(SessionStatus.ENDED)}, ending)])


def ask_for_ends(now: datetime) -> Policy[None]:
    """Enqueue the consolidation of ended sessions that never had one, as after an import."""
    kind = str(JobType.DEEP_REFLECTION)
    threads = Join("threads", "h", (("thread_id", "thread_id"),))
    ending = (equal("status", str(SessionStatus.ENDING)),)
    ended, asked = yield [
        Select(TABLE, ("thread_id",), ending, (threads,)),
        Select(JOBS, ("thread_id",), (equal("job_type", kind),), is_distinct=True),
    ]
    columns = ("job_id", "thread_id", "job_type", "priority", "run_after", "created_at")
    rows = [
        (uuid7(), thread_id, kind, int(JobPriority.SESSION_END), now, now)
        for (thread_id,) in sorted({*ended} - {*asked})
    ]
    if rows:
        yield Last([Insert(JOBS, columns, rows, exists="keep")])
