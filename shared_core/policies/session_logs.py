"""Session logs: threads with the events of a framework, and the states that sessions share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, TypeAlias

from shared_core.core.domain import JsonValue, Scope, ThreadId
from shared_core.core.namespaces import scope_path, to_path
from shared_core.errors import Conflict
from shared_core.ports.operations import Insert, Last, Operation, Policy, Select, Update, equal

State: TypeAlias = Mapping[str, JsonValue]
SHARED_STATE = Select("shared_state", ("state",))
"""Reads the state that all sessions of a user or of an application share, if there is one."""


class OpenedLog(NamedTuple):
    """A log that was opened, and the states that it shares with others."""

    version: int
    user_state: State
    app_state: State


def open_session(
    scope: Scope, thread_id: ThreadId, state: State, user_change: State, now: datetime
) -> Policy[OpenedLog]:
    """Open the log of a thread. Memories of the thread stay.

    A version is never used again, not even by a later log of the same thread. Raises Conflict if a
    log is open, unless this call opened it and its answer was lost.
    """
    version, tenant = int(now.timestamp() * 1e6), scope_path(scope)
    named = (equal("thread_id", thread_id),)
    threads, *_, shared = yield [
        Select("threads", ("version", "session_started_at"), named, lock="update"),
        *(_held(now) if user_change else ()),
        Select("shared_state", ("tenant_id", "state"), above=True),
    ]
    for last_version, started_at in threads:
        if started_at is None:
            version = max(last_version + 1, version)
        elif (last_version, started_at) != (version, now):
            raise Conflict(f"session {thread_id!r} exists already")
    opened = {
        "state": state, "version": version, "updated_at": now, "session_started_at": now,
        "session_updated_at": now,
    }  # fmt: skip
    row = {"thread_id": thread_id, "created_at": now, **opened}
    writes: list[Operation] = [
        Insert("threads", tuple(row), [tuple(row.values())], "update", tuple(opened))
    ]
    states: dict[str, State] = dict(shared)
    user_state = {**states.get(tenant, {}), **user_change}
    if user_change:
        writes.append(Update("shared_state", {"state": user_state, "updated_at": now}, ()))
    yield Last(writes)
    return OpenedLog(version, user_state, states.get(to_path((scope.app,)), {}))


def change_shared_state(change: State, now: datetime) -> Policy[State]:
    """Change keys of the state that all sessions of an application share; return the state."""
    _, [(state,)] = yield _held(now)
    changed = {**state, **change}
    yield Last([Update("shared_state", {"state": changed, "updated_at": now}, ())])
    return changed


def _held(now: datetime) -> list[Operation]:
    """Return what reads a shared state, and holds it: appended events change it as well."""
    missing = Insert("shared_state", ("state", "updated_at"), [({}, now)], "keep")
    return [missing, Select("shared_state", ("state",), lock="update")]
