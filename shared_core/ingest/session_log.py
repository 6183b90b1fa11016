"""engine.sessions: session logs, from which a framework resumes a conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from shared_core.core.domain import Event, JsonValue, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import check_label, scope_path, storable, to_path
from shared_core.core.timestamps import check_moment
from shared_core.errors import Conflict, InvalidInput, NotFound
from shared_core.ingest.events import turns_before
from shared_core.lifecycle import Handle
from shared_core.policies.erasing import close_session
from shared_core.policies.session_logs import (
    SHARED_STATE,
    OpenedLog,
    change_shared_state,
    open_session,
)
from shared_core.ports.conversations import check_thread
from shared_core.ports.operations import PolicyFactory
from shared_core.ports.session_logs import NO_CHANGE, Seen, SessionRecord, StateChange
from shared_core.privacy.sanitizing import off_loop


class SessionLogs:
    """The session logs of a memory: engine.sessions. Appending and loading are one round trip.

    A log shares the rows of a thread, so a text is stored once: remembering a turn marks its row.
    Deleting a log keeps its remembered turns by default.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def create(
        self, scope: Scope, session_id: str, state: StateChange = NO_CHANGE
    ) -> SessionRecord:
        """Open a log. Raises Conflict if one with this id exists."""
        scope_path(scope)
        check_thread(session_id, "session_id")
        tenant, app, now = scope_path(scope), to_path((scope.app,)), self._handle.clock()
        own, user, shared = (
            json.loads(to_json(change, f"{name} state"))
            for name, change in (
                ("session", state.session),
                ("user", state.user),
                ("app", state.app),
            )
        )
        thread = ThreadId(session_id)
        policies: dict[str, PolicyFactory[Any]] = {
            tenant: partial(open_session, scope, thread, own, user, now)
        }
        if shared:
            policies[app] = partial(change_shared_state, shared, now)
        storage = await self._handle.storage()
        done = await storage.transact_all(policies)
        opened: OpenedLog = done[tenant]
        return SessionRecord(
            scope=scope,
            thread_id=thread,
            version=opened.version,
            updated_at=now,
            state=state.session,
            app_state=done.get(app, opened.app_state),
            user_state=opened.user_state,
        )

    async def load(
        self,
        scope: Scope,
        session_id: str,
        *,
        after: datetime | None = None,
        limit: int | None = None,
    ) -> SessionRecord | None:
        """Return a log with its newest events, by default all; None if no log has this id.

        after: only events at or after this moment. limit: maximum number of events.
        """
        if not are_storable(scope.app, scope.user, session_id):
            return None
        storage = await self._handle.storage()
        return await storage.session_logs.load_session(
            scope, ThreadId(session_id), after=after, limit=limit
        )

    async def list(self, app: str, user: str | None = None) -> Sequence[SessionRecord]:
        """Return the logs of a user, or of all users, without events, latest change last."""
        if not are_storable(app, "-" if user is None else user):
            return []
        storage = await self._handle.storage()
        return await storage.session_logs.list_sessions(app, user)

    async def append(
        self,
        scope: Scope,
        session_id: str,
        event: Event,
        payload: str,
        *,
        state: StateChange = NO_CHANGE,
        seen: Seen,
    ) -> int | None:
        """Append an event; return the new version of the log, or None if the event is known.

        payload: the whole event as JSON text. Raises NotFound if no log has this id. Raises
        InvalidInput if a different event has this id, and Conflict if the log has events that the
        writer has not seen.
        """
        check_label(event.event_id, "event_id")
        if not are_storable(scope.app, scope.user, session_id):
            raise NotFound(f"there is no session {session_id!r}")
        check_moment(event.occurred_at, f"the timestamp of event {event.event_id!r}")
        storage, sanitizer = await self._handle.storage(), self._handle.sanitizer
        earlier: Sequence[Event] = ()
        if sanitizer.privacy.session_logs:
            earlier = await turns_before(storage, scope, ThreadId(session_id), [event])
        logged = partial(sanitizer.logged, event, payload, earlier)
        event, payload = await off_loop([payload], logged)
        done = await storage.session_logs.append_session_event(
            scope, ThreadId(session_id), event, payload, state, seen
        )
        if done.version is not None:
            return done.version
        if done.stored_version is None:
            raise NotFound(f"there is no session {session_id!r}")
        if done.known:
            return None
        if done.known is False:
            raise InvalidInput(f"session {session_id!r} has a different event {event.event_id!r}")
        raise Conflict(f"session {session_id!r} has events that the writer has not seen: reload it")

    async def delete(self, scope: Scope, session_id: str, *, forget: bool = False) -> None:
        """Delete a log, if it exists. forget: also forget its remembered turns."""
        if are_storable(scope.app, scope.user, session_id):
            storage = await self._handle.storage()
            now = self._handle.clock()
            closing = partial(close_session, ThreadId(session_id), now, forget=forget)
            await storage.transact(scope_path(scope), closing)

    async def user_state(self, scope: Scope) -> Mapping[str, JsonValue]:
        """Return the state that all sessions of a user share."""
        if not are_storable(scope.app, scope.user):
            return {}
        storage = await self._handle.storage()
        [rows] = await storage.read(scope_path(scope), [SHARED_STATE])
        return rows[0][0] if rows else {}


def are_storable(*labels: str) -> bool:
    """Return whether the storage accepts these labels."""
    return all(isinstance(label, str) and label and storable(label) for label in labels)
