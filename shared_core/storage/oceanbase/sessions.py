"""OceanBaseStorage: session logs, a framework's events and states on threads and events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from shared_core.core.domain import Event, JsonValue, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import from_path, path_end, scope_path, to_path
from shared_core.ports.session_logs import Appended, Seen, SessionRecord, StateChange
from shared_core.storage.oceanbase.base import OceanBasePart, reading, writing
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.visibility import if_set

_LOG_COLUMNS = "thread_id, version, session_updated_at, state"
_THREAD = "WHERE tenant_id = %s AND thread_id = %s"


class OceanBaseSessions(OceanBasePart):
    """Session logs: threads with session_started_at set."""

    async def load_session(
        self, scope: Scope, thread_id: ThreadId, *, after: datetime | None, limit: int | None
    ) -> SessionRecord | None:
        tenant, app = scope_path(scope), to_path((scope.app,))

        def work(tx: Transaction) -> SessionRecord | None:
            head = tx.one(
                f"SELECT {_LOG_COLUMNS} FROM threads"
                " WHERE tenant_id = %s AND thread_id = %s AND session_started_at IS NOT NULL",
                [tenant, thread_id],
            )
            if head is None:
                return None
            since = if_set("occurred_at >= %s", after)
            newest = tx.rows(
                "SELECT payload FROM events"
                " WHERE tenant_id = %s AND thread_id = %s AND payload IS NOT NULL"
                f" AND {since.sql} ORDER BY seq DESC{'' if limit is None else ' LIMIT %s'}",
                [tenant, thread_id, *since.values, *([] if limit is None else [limit])],
            )
            payloads = [row[0] for row in reversed(newest)]
            return _record(scope, head, shared_states(tx, (app, tenant)), payloads)

        return await self._database.read(work)

    @reading
    def list_sessions(self, tx: Transaction, app: str, user: str | None) -> Sequence[SessionRecord]:
        above = to_path((app,))
        of_user = None if user is None else to_path((app, user))
        tenants = "tenant_id = %s" if of_user else "tenant_id >= %s AND tenant_id < %s"
        values = [of_user] if of_user else [above, path_end(above)]
        states = shared_states(tx, (above,)) | {
            tenant: json.loads(state)
            for tenant, state in tx.rows(
                f"SELECT tenant_id, state FROM shared_state WHERE {tenants}", values
            )
        }
        logs = tx.rows(
            f"SELECT tenant_id, {_LOG_COLUMNS} FROM threads"
            f" WHERE {tenants} AND session_started_at IS NOT NULL"
            " ORDER BY session_updated_at, tenant_id, thread_id",
            values,
        )
        return [_record(Scope(*from_path(owner)), log, states) for owner, *log in logs]

    @writing
    def append_session_event(
        self,
        tx: Transaction,
        scope: Scope,
        thread_id: ThreadId,
        event: Event,
        payload: str,
        state: StateChange,
        seen: Seen,
    ) -> Appended:
        tenant, now = scope_path(scope), self._clock()
        shared = _shared(scope, state)
        to_json(state.session, "session state")
        tx.lock(tenant, *shared)
        done = append_logged(tx, tenant, thread_id, event, payload, state.session, seen, now)
        if done.version is not None:
            add_shared(tx, shared, now)
        return done


def _record(
    scope: Scope,
    log: Sequence[Any],
    states: Mapping[str, Mapping[str, JsonValue]],
    payloads: Sequence[str] = (),
) -> SessionRecord:
    """Return a session; log: _LOG_COLUMNS. states: of the application and the user, by tenant."""
    thread_id, version, updated_at, state = log
    return SessionRecord(
        scope=scope,
        thread_id=thread_id,
        version=version,
        updated_at=updated_at,
        state=json.loads(state),
        app_state=states.get(to_path((scope.app,)), {}),
        user_state=states.get(scope_path(scope), {}),
        payloads=payloads,
    )


def _shared(scope: Scope, change: StateChange) -> dict[str, Mapping[str, JsonValue]]:
    """Return the changes of the application's and the user's state, by tenant."""
    above = ((to_path((scope.app,)), change.app, "app"), (scope_path(scope), change.user, "user"))
    return {
        tenant: json.loads(to_json(state, f"{name} state"))
        for tenant, state, name in above
        if state
    }


def append_logged(
    tx: Transaction,
    tenant: str,
    thread_id: ThreadId,
    event: Event,
    payload: str,
    change: Mapping[str, JsonValue],
    seen: Seen,
    now: datetime,
) -> Appended:
    """Append an event to a log if the writer has seen all events before.

    The writer proves that by the version, the last event or the time of the last change.
    """
    log = tx.one(
        "SELECT version, session_updated_at, last_event_id, last_seq, state FROM threads"
        f" {_THREAD} AND session_started_at IS NOT NULL",
        [tenant, thread_id],
    )
    there = tx.one(
        f"SELECT payload FROM events {_THREAD} AND event_id = %s",
        [tenant, thread_id, event.event_id],
    )
    known = None if there is None or there[0] is None else bool(there[0] == payload)
    if log is None or known is not None or not _has_seen_all(seen, log):
        return Appended(None, known, log[0] if log else None)
    version, _, _, last_seq, state = log
    tx.run(
        "UPDATE threads SET last_seq = %s, version = %s, state = %s, session_updated_at = %s,"
        f" last_event_id = %s, updated_at = %s {_THREAD}",
        [
            last_seq + 1,
            version + 1,
            merged(state, change),
            event.occurred_at,
            event.event_id,
            now,
            tenant,
            thread_id,
        ],
    )
    _log(tx, tenant, thread_id, last_seq + 1, event, payload, now, is_there=there is not None)
    return Appended(version + 1, None, version)


def _has_seen_all(seen: Seen, log: Row) -> bool:
    version, updated_at, last_event_id = log[:3]
    if seen.version is not None:
        return bool(version == seen.version)
    return bool(
        (seen.updated_at is not None and updated_at <= seen.updated_at)
        or last_event_id == seen.event_id
    )


def _log(
    tx: Transaction,
    tenant: str,
    thread_id: ThreadId,
    seq: int,
    event: Event,
    payload: str,
    now: datetime,
    *,
    is_there: bool,
) -> None:
    """Write an event; one that is remembered already gets a place in the log."""
    if is_there:
        tx.run(
            f"UPDATE events SET payload = %s, seq = %s {_THREAD} AND event_id = %s",
            [payload, seq, tenant, thread_id, event.event_id],
        )
        return
    tx.insert(
        "events",
        ("tenant_id", "thread_id", "seq", "event_id", "author", "role", "text", "metadata",
         "occurred_at", "recorded_at", "payload"),
        [(tenant, thread_id, seq, event.event_id, event.author, event.role, event.text, "{}",
          event.occurred_at, now, payload)],
    )  # fmt: skip


def shared_states(tx: Transaction, tenants: Sequence[str]) -> dict[str, Mapping[str, JsonValue]]:
    """Return the stored states of applications and users."""
    return {
        tenant: json.loads(state)
        for tenant, state in tx.rows(
            "SELECT tenant_id, state FROM shared_state WHERE tenant_id IN %s", [list(tenants)]
        )
    }


def add_shared(
    tx: Transaction, changes: Mapping[str, Mapping[str, JsonValue]], now: datetime
) -> None:
    """Change keys in the states of applications and users; all are locked."""
    if not changes:
        return
    states = shared_states(tx, list(changes))
    tx.insert(
        "shared_state",
        ("tenant_id", "state", "updated_at"),
        [
            (tenant, to_json({**states.get(tenant, {}), **change}), now)
            for tenant, change in changes.items()
        ],
        update=("state", "updated_at"),
    )


def merged(state: str, change: Mapping[str, JsonValue]) -> str:
    """Return a state as JSON text, updated with the keys of a change."""
    return to_json({**json.loads(state), **change}, "session state") if change else state
