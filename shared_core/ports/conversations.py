"""Sessions of the conversation layer, which open and end automatically, and their storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol

from shared_core.core.domain import Event, Scope, ThreadId
from shared_core.core.namespaces import check_label
from shared_core.errors import InvalidInput

CONVERSATION: Final = "conversation:"
"""Prefix of the ids of threads that belong to sessions."""


def check_thread(thread_id: object, what: str = "thread_id") -> ThreadId:
    """Return the id of a thread that a caller may write to.

    Raises InvalidInput, naming what, for an invalid label and for a label with the prefix of
    sessions.
    """
    if check_label(thread_id, what).startswith(CONVERSATION):
        raise InvalidInput(
            f"{what} must not begin with {CONVERSATION!r}, as {thread_id!r} does: those are the"
            " threads of sessions, which process_memory() writes; take another name"
        )
    return ThreadId(str(thread_id))


class SessionStatus(StrEnum):
    """The state of a session."""

    ACTIVE = "active"
    ENDING = "ending"
    """Closed to new turns; its turns are being consolidated."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session of a user: consecutive turns. session_id is the internal id of its thread.


    Times are aware, in UTC.

    Attributes:
        events: oldest first, where requested.
        event_count: of all events.
        ends_at: when it ends unless another turn comes first.
        ended_at: None while it is active.
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
    """Limits that end a session: idle time, duration, and number of events."""

    timeout: timedelta
    max_duration: timedelta
    max_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """The user behind an input. user_name: "" if unknown.

    kin: entity keys of the people in the requested relations to the user.
    """

    user_name: str = ""
    kin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(Speaker):
    """The result of appending a turn.

    stored: False if the active session is over; then nothing was written. session: the active
    session, with the events before the turn; for a turn known from an earlier session, that ended
    session with the same events. forgotten: a turn with this id was forgotten, so this one is not
    stored.
    """

    stored: bool
    session: Session
    forgotten: bool = False

    @property
    def earlier(self) -> ThreadId | None:
        """The ended session that holds this turn already, or None."""
        is_active = self.session.status is SessionStatus.ACTIVE
        return None if is_active or not self.stored else self.session.session_id


@dataclass(frozen=True, slots=True, kw_only=True)
class InputContext(Speaker):
    """The context of an input. turns: the turns before it, oldest first."""

    turns: Sequence[Event] = ()


class ConversationStorage(Protocol):
    """Sessions on threads. The policies of shared_core.policies.conversations open and end them."""

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
        """Append a turn to the active session, or to a new session with id new_id.

        context: number of preceding turns to return with the session. kin: relations to the user,
        as named in the knowledge graph. once: do not append a turn that was forgotten, or whose id
        and text an earlier session has.
        """

    async def around_input(
        self, scope: Scope, thread_id: ThreadId | None, context: int, kin: Sequence[str]
    ) -> InputContext:
        """Return the context hear_turn() would give. thread_id: of the active session."""

    async def conversations_over(self, limit: int) -> tuple[Sequence[Scope], datetime | None]:
        """Return users whose session is over, and when the next session ends, or None."""
