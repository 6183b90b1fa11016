"""Conversations that open and end by themselves, and what the core asks of a storage for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol

from shared_core.core.domain import Event, Scope, ThreadId
from shared_core.core.namespaces import check_label
from shared_core.errors import InvalidInput
from shared_core.ports.jobs import NewJob

CONVERSATION: Final = "conversation:"
"""How the ids of threads of sessions begin."""


def check_thread(thread_id: object, what: str = "thread_id") -> ThreadId:
    """Return the id of a thread that a caller writes to.

    Raises InvalidInput, naming it by what, for no label and for one that begins as those of
    sessions do.
    """
    if check_label(thread_id, what).startswith(CONVERSATION):
        raise InvalidInput(
            f"{what} must not begin with {CONVERSATION!r}, as {thread_id!r} does: those are the"
            " threads of sessions, which process_memory() writes; take another name"
        )
    return ThreadId(str(thread_id))


class SessionStatus(StrEnum):
    """Where a session stands."""

    ACTIVE = "active"
    ENDING = "ending"
    """Over; what was said is being consolidated."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session of a user: what was said in a row. Its id is that of its thread, and internal.

    events: where they were asked for, oldest first. event_count: of all. ends_at: when it is over,
    unless something is said before. ended_at: None while it is active. Times are aware, in UTC.
    """

    session_id: ThreadId
    scope: Scope
    status: SessionStatus
    event_count: int
    created_at: datetime
    last_active_at: datetime
    ends_at: datetime
    ended_at: datetime | None = None
    events: Sequence[Event] = field(default=(), compare=False)

    @property
    def user_id(self) -> str:
        return self.scope.user


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRules:
    """When a session is over: idle for so long, lasted so long, or so many events."""

    timeout: timedelta
    max_duration: timedelta
    max_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoAsks:
    """Of whom an input is. user_name: as the user is called, "" if that is not known.

    kin: keys of those who stand in the relations that were asked for.
    """

    user_name: str = ""
    kin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(WhoAsks):
    """What became of a turn. stored: False where the active session was over, and nothing is.

    session: the active one, its events those before the turn. Where the turn was known from an
    earlier one, that one as ended, with its id and those events alone. forgotten: one of this id
    was, so this one is not kept, whatever it says.
    """

    stored: bool
    session: Session
    forgotten: bool = False

    @property
    def earlier(self) -> ThreadId | None:
        """The session that ended and had this turn already; None if it is of the active one."""
        is_active = self.session.status is SessionStatus.ACTIVE
        return None if is_active or not self.stored else self.session.session_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Around(WhoAsks):
    """What an input would be read with. said: the turns before it, oldest first."""

    said: Sequence[Event] = ()


class ConversationStorage(Protocol):
    """Sessions on threads. Every method is one transaction; those of a user go one by one."""

    async def hear_turn(
        self,
        scope: Scope,
        new_id: ThreadId,
        turn: Event,
        rules: SessionRules,
        context: int,
        kin: Sequence[str],
        *,
        once: bool,
    ) -> Heard:
        """Append a turn to the active session, or to a new one of this id if there is none.

        context: so many turns before it come back with the session. kin: relations of the user,
        as the knowledge graph calls them. once: a turn that an earlier session had with this id
        and text, or that was forgotten, is not appended.
        """

    async def around_input(
        self, scope: Scope, thread_id: ThreadId | None, context: int, kin: Sequence[str]
    ) -> Around:
        """Return what hear_turn() would read an input with. thread_id: of the active session."""

    async def open_conversation(
        self, scope: Scope, new_id: ThreadId, rules: SessionRules
    ) -> Session:
        """Return the active session; a new one of this id if there is none."""

    async def active_conversation(self, scope: Scope) -> Session | None:
        """Return the session that is active, or was left so and is over."""

    async def conversation_of_thread(self, scope: Scope, thread_id: ThreadId) -> Session | None: ...

    async def end_conversation(
        self, scope: Scope, job: NewJob, rules: SessionRules, *, if_over: bool
    ) -> Session | None:
        """End the active session and ask for a job on it; None if there is none to end.

        if_over: only one that is over. One in which nothing was said goes, without a job.
        """

    async def finish_conversation(self, scope: Scope, thread_id: ThreadId) -> None:
        """Note that a session that ended is consolidated, if every turn of it was read."""

    async def conversations_over(self, limit: int) -> tuple[Sequence[Scope], datetime | None]:
        """Return users whose session is over, and when the next one is to end; None for never."""
