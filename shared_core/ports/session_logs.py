"""What the core asks of a storage for session logs; ports.Storage joins it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from shared_core.core.domain import Event, JsonValue, Scope, ThreadId


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """What changes in the states of an application, of a user of it, and of one session."""

    app: Mapping[str, JsonValue] = field(default_factory=dict)
    user: Mapping[str, JsonValue] = field(default_factory=dict)
    session: Mapping[str, JsonValue] = field(default_factory=dict)


NO_CHANGE = StateChange()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session log as it stands. payloads: the JSON texts of its events, oldest first.

    version changes with every event; updated_at is the moment of the last event.
    """

    scope: Scope
    thread_id: ThreadId
    version: int
    updated_at: datetime
    state: Mapping[str, JsonValue]
    app_state: Mapping[str, JsonValue]
    user_state: Mapping[str, JsonValue]
    payloads: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a writer has seen of a log: its version, or else its last event and last change."""

    version: int | None
    event_id: str | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """What came of appending an event. version: after it, or None when nothing was appended.

    known: the event was there, True if it is the same; None if it was not there. stored_version:
    of the log before, None when no log is open.
    """

    version: int | None
    known: bool | None
    stored_version: int | None


class SessionStorage(Protocol):
    """Session logs. Every method is one transaction and one round trip."""

    async def open_session(
        self, scope: Scope, thread_id: ThreadId, state: StateChange
    ) -> SessionRecord | None:
        """Open the log of a thread; None when it is open already."""

    async def load_session(
        self, scope: Scope, thread_id: ThreadId, *, after: datetime | None, limit: int | None
    ) -> SessionRecord | None:
        """Return a log with its newest events; None when there is none."""

    async def list_sessions(self, app: str, user: str | None) -> Sequence[SessionRecord]:
        """Return logs without their events, the one that changed last at the end."""

    async def user_state(self, scope: Scope) -> Mapping[str, JsonValue]: ...

    async def append_session_event(
        self,
        scope: Scope,
        thread_id: ThreadId,
        event: Event,
        payload: str,
        state: StateChange,
        seen: Seen,
    ) -> Appended: ...

    async def close_session(self, scope: Scope, thread_id: ThreadId, *, forget: bool) -> None:
        """End a log; with forget, erase what is remembered of the thread as well."""
