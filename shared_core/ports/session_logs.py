"""Session logs of ADK and their storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from shared_core.core.domain import Event, JsonValue, Scope, ThreadId


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """Changes to the state of an application, of a user, and of one session."""

    app: Mapping[str, JsonValue] = field(default_factory=dict)
    user: Mapping[str, JsonValue] = field(default_factory=dict)
    session: Mapping[str, JsonValue] = field(default_factory=dict)


NO_CHANGE = StateChange()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session log. payloads: the JSON texts of its events, oldest first.

    version: changes with every event. updated_at: time of the last event.
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
    """The state of a log that a writer knows: its version, or its last event and change."""

    version: int | None
    event_id: str | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of appending an event. version: the new one, or None if nothing was appended.

    known: None if the event is new, True if the same event exists, False if a different one has its
    id. stored_version: of the log before; None if no log is open.
    """

    version: int | None
    known: bool | None
    stored_version: int | None


class SessionStorage(Protocol):
    """Session logs. Every method is one transaction and one round trip.

    The policies of shared_core.policies.session_logs open them.
    """

    async def load_session(
        self, scope: Scope, thread_id: ThreadId, *, after: datetime | None, limit: int | None
    ) -> SessionRecord | None:
        """Return a log with its newest events, or None."""

    async def list_sessions(self, app: str, user: str | None) -> Sequence[SessionRecord]:
        """Return logs without events, in the order of their last change."""

    async def append_session_event(
        self,
        scope: Scope,
        thread_id: ThreadId,
        event: Event,
        payload: str,
        state: StateChange,
        seen: Seen,
    ) -> Appended: ...
