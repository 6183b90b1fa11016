"""Session logs on PostgreSQL: a framework's events and states, kept with threads and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from shared_core.core.domain import Event, JsonValue, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import from_path, path_end, scope_path, to_path
from shared_core.errors import Conflict
from shared_core.ports.session_logs import Appended, Seen, SessionRecord, StateChange
from shared_core.ports.storage import Clock
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.marks import AnswerLost, Mark
from shared_core.storage.postgres.connection.pipeline import Rows
from shared_core.storage.postgres.connection.statements import Step, step, steps

UNLIMITED = 2**62
_STALE = "stale"
"""The reason that require_logged gives."""
_State: TypeAlias = Mapping[str, JsonValue]


@dataclass
class PostgresSessions:
    """Session logs. A log is a thread with session_started_at set."""

    _database: PostgresDatabase
    _clock: Clock

    async def load_session(
        self, scope: Scope, thread_id: ThreadId, *, after: datetime | None, limit: int | None
    ) -> SessionRecord | None:
        tenant = scope_path(scope)
        values = {
            "tenant": tenant,
            "thread_id": thread_id,
            "after": after,
            "limit": UNLIMITED if limit is None else limit,
        }
        log, *shared = await self._database.run(
            tenant, step("load_session", values), *_shared_state_steps(scope)
        )
        head = next((row for row in log if row[3] is None), None)
        if head is None:
            return None
        app_state, user_state = _shared_states(shared)
        events = sorted((row[0], row[3]) for row in log if row[3] is not None)
        return SessionRecord(
            scope=scope,
            thread_id=thread_id,
            version=head[0],
            updated_at=head[1],
            state=head[2],
            app_state=app_state,
            user_state=user_state,
            payloads=[payload for _, payload in events],
        )

    async def list_sessions(self, app: str, user: str | None) -> Sequence[SessionRecord]:
        above = to_path((app,))
        tenant = above if user is None else to_path((app, user))
        one = user is not None
        values = {"tenant": tenant, "tenant_end": path_end(tenant)}
        logs, shared, top = await self._database.run(
            tenant,
            step("list_sessions", values, one_tenant=one),
            step("list_shared_state", values, one_tenant=one),
            step("shared_state", {"tenant": above}),
        )
        states = dict([*shared, *top])
        return [
            SessionRecord(
                scope=Scope(*from_path(owner)),
                thread_id=thread_id,
                version=version,
                updated_at=updated_at,
                state=state,
                app_state=states.get(above, {}),
                user_state=states.get(owner, {}),
            )
            for owner, thread_id, version, updated_at, state in logs
        ]

    async def append_session_event(
        self,
        scope: Scope,
        thread_id: ThreadId,
        event: Event,
        payload: str,
        state: StateChange,
        seen: Seen,
    ) -> Appended:
        tenant, now = scope_path(scope), self._clock()
        values = {
            "tenant": tenant,
            "thread_id": thread_id,
            "event_id": event.event_id,
            "author": event.author,
            "role": event.role,
            "text": event.text,
            "occurred_at": event.occurred_at,
            "payload": payload,
            "version": seen.version,
            "seen_event": seen.event_id,
            "seen_at": seen.updated_at,
            "state": to_json(state.session, "session state"),
            "now": now,
        }
        shared = _sharing_steps(scope, state, now)
        names = ("log_event", "require_logged", "move_log") if shared else ("log_event", "move_log")
        sent = [*steps(values, "hold_log", *names), *shared]
        moved: Rows = []
        try:
            answers = await self._database.run(tenant, *sent, mark=Mark(tenant))
            moved = answers.named("move_log")
        except AnswerLost:  # the event is there now, so this tells only the version of the log
            [log] = await self._database.run(tenant, step("hold_log", values))
            stored = log[0][0] if log else None
            version = stored if seen.version is None else seen.version + 1
            return Appended(version, None, seen.version)
        except Conflict as error:
            if str(error) != _STALE:
                raise
        if moved:
            return Appended(moved[0][0], None, answers.named("hold_log")[0][0])
        log, known = await self._database.run(tenant, *steps(values, "hold_log", "logged_event"))
        return Appended(None, known[0][0] if known else None, log[0][0] if log else None)


def _shared_state_steps(scope: Scope) -> list[Step]:
    above = (to_path((scope.app,)), scope_path(scope))
    return [step("shared_state", {"tenant": tenant}) for tenant in above]


def _shared_states(rows: Sequence[Rows]) -> Iterator[_State]:
    """Yield the states that all sessions of the application, and all of the user, share."""
    return (own[0][1] if own else {} for own in rows)


def _sharing_steps(scope: Scope, change: StateChange, now: datetime) -> list[Step]:
    """Return the steps that change shared states. Their one order keeps writers from deadlocks."""
    above = [(to_path((scope.app,)), change.app, "app"), (scope_path(scope), change.user, "user")]
    return [
        step(
            "share_state", {"tenant": tenant, "state": to_json(state, f"{name} state"), "now": now}
        )
        for tenant, state, name in above
        if state
    ]
