"""OceanBaseStorage: session logs, a framework's events and states on threads and events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from shared_core.core.domain import Event, JsonValue, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import from_path, path_end, scope_path, to_path
from shared_core.ports.session_logs import Appended, Seen, SessionRecord, StateChange
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.erasure_steps import drop_empty_threads, erase
from shared_core.storage.oceanbase.session_steps import (
    add_shared,
    append_logged,
    close_log,
    open_log,
    shared_states,
)


class OceanBaseSessions(OceanBasePart):
    """Session logs. A log is a thread whose session_started_at is set."""

    async def open_session(
        self, scope: Scope, thread_id: ThreadId, state: StateChange
    ) -> SessionRecord | None:
        tenant, app, now = scope_path(scope), to_path((scope.app,)), self._clock()
        stored, shared = to_json(state.session, "session state"), _shared(scope, state)

        def work(tx: Transaction) -> SessionRecord | None:
            tx.lock(tenant, *shared)
            version = open_log(tx, tenant, thread_id, stored, now)
            if version is None:
                return None
            add_shared(tx, shared, now)
            states = shared_states(tx, (app, tenant))
            return SessionRecord(
                scope=scope,
                thread_id=thread_id,
                version=version,
                updated_at=now,
                state=state.session,
                app_state=states.get(app, {}),
                user_state=states.get(tenant, {}),
            )

        return await self._database.write(work)

    async def load_session(
        self, scope: Scope, thread_id: ThreadId, *, after: datetime | None, limit: int | None
    ) -> SessionRecord | None:
        tenant, app = scope_path(scope), to_path((scope.app,))

        def work(tx: Transaction) -> SessionRecord | None:
            head = tx.one(
                "SELECT version, session_updated_at, state FROM threads"
                " WHERE tenant_id = %s AND thread_id = %s AND session_started_at IS NOT NULL",
                tenant,
                thread_id,
            )
            if head is None:
                return None
            newest = tx.rows(
                "SELECT payload FROM events"
                " WHERE tenant_id = %s AND thread_id = %s AND payload IS NOT NULL"
                + ("" if after is None else " AND occurred_at >= %s")
                + " ORDER BY seq DESC"
                + ("" if limit is None else " LIMIT %s"),
                tenant,
                thread_id,
                *(given for given in (after, limit) if given is not None),
            )
            states = shared_states(tx, (app, tenant))
            return SessionRecord(
                scope=scope,
                thread_id=thread_id,
                version=head[0],
                updated_at=head[1],
                state=json.loads(head[2]),
                app_state=states.get(app, {}),
                user_state=states.get(tenant, {}),
                payloads=[row[0] for row in reversed(newest)],
            )

        return await self._database.read(work)

    async def list_sessions(self, app: str, user: str | None) -> Sequence[SessionRecord]:
        above = to_path((app,))
        of_user = None if user is None else to_path((app, user))
        tenants = "tenant_id = %s" if of_user else "tenant_id >= %s AND tenant_id < %s"
        values = [of_user] if of_user else [above, path_end(above)]

        def work(tx: Transaction) -> list[SessionRecord]:
            states = shared_states(tx, (above,)) | {
                tenant: json.loads(state)
                for tenant, state in tx.rows(
                    f"SELECT tenant_id, state FROM shared_state WHERE {tenants}", *values
                )
            }
            logs = tx.rows(
                "SELECT tenant_id, thread_id, version, session_updated_at, state FROM threads"
                f" WHERE {tenants} AND session_started_at IS NOT NULL"
                " ORDER BY session_updated_at, tenant_id, thread_id",
                *values,
            )
            return [
                SessionRecord(
                    scope=Scope(*from_path(owner)),
                    thread_id=thread_id,
                    version=version,
                    updated_at=updated_at,
                    state=json.loads(state),
                    app_state=states.get(above, {}),
                    user_state=states.get(owner, {}),
                )
                for owner, thread_id, version, updated_at, state in logs
            ]

        return await self._database.read(work)

    async def user_state(self, scope: Scope) -> Mapping[str, JsonValue]:
        tenant = scope_path(scope)
        states = await self._database.read(lambda tx: shared_states(tx, (tenant,)))
        return states.get(tenant, {})

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
        shared = _shared(scope, state)
        to_json(state.session, "session state")

        def work(tx: Transaction) -> Appended:
            tx.lock(tenant, *shared)
            done = append_logged(tx, tenant, thread_id, event, payload, state.session, seen, now)
            if done.version is not None:
                add_shared(tx, shared, now)
            return done

        return await self._database.write(work)

    async def close_session(self, scope: Scope, thread_id: ThreadId, *, forget: bool) -> None:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> None:
            tx.lock(tenant)
            if forget:
                erase(tx, tenant, thread_id, now)
            close_log(tx, tenant, thread_id, now)
            drop_empty_threads(tx, tenant, thread_id)

        await self._database.write(work)


def _shared(scope: Scope, change: StateChange) -> dict[str, Mapping[str, JsonValue]]:
    """Return what changes in the states above those of a session, by whose they are."""
    above = ((to_path((scope.app,)), change.app, "app"), (scope_path(scope), change.user, "user"))
    return {
        tenant: json.loads(to_json(state, f"{name} state"))
        for tenant, state, name in above
        if state
    }
