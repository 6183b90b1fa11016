"""The part of PostgresStorage that keeps conversations: one active at a time for a user."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from shared_core.core.domain import USER, Event, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import ROOT, from_path, scope_path
from shared_core.ports.conversations import Around, Heard, Session, SessionRules, SessionStatus
from shared_core.ports.jobs import NewJob
from shared_core.ports.storage import Clock
from shared_core.storage._rows import event_from_row, utc
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.sql_files import statement

SESSION_COLUMNS = 7
NAME = "is_called"


class PostgresConversations:
    """Conversations. Whoever writes one holds a lock of its user for that transaction."""

    _database: PostgresDatabase
    _clock: Clock

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
        values = self._rules_and_now(scope, rules) | {
            "thread_id": new_id,
            "event_id": turn.event_id,
            "author": turn.author,
            "role": turn.role,
            "text": turn.text,
            "metadata": to_json(turn.metadata, "event metadata"),
            "occurred_at": turn.occurred_at,
            "importance": float(turn.importance),
            "expires_at": turn.expires_at,
            "context": context,
            "once": once,
        }
        whom = _whom(scope, kin)
        rows, known = await self._in_line(scope, ("hear_turn", values), ("kin_of_user", whom))
        before = [row[SESSION_COLUMNS + 2 :] for row in reversed(rows)]
        events = [event_from_row(row[1:]) for row in before if row[0] is not None]
        return Heard(
            stored=rows[0][0],
            forgotten=rows[0][1],
            session=_session(scope, rows[0][2:], events),
            user_name=_name(known),
            kin=_kin(known),
        )

    async def around_input(
        self, scope: Scope, thread_id: ThreadId | None, context: int, kin: Sequence[str]
    ) -> Around:
        tenant = scope_path(scope)
        turns = {"tenant": tenant, "thread_id": thread_id, "limit": context, "now": self._clock()}
        rows, known = await self._database.run(
            tenant,
            (statement("thread_events"), turns),
            (statement("kin_of_user"), _whom(scope, kin)),
        )
        said = [event_from_row(row[1:]) for row in reversed(rows)]
        return Around(said=said, user_name=_name(known), kin=_kin(known))

    async def open_conversation(
        self, scope: Scope, new_id: ThreadId, rules: SessionRules
    ) -> Session:
        values = self._rules_and_now(scope, rules) | {"thread_id": new_id}
        rows = await self._in_line(
            scope, ("open_conversation", values), ("active_conversation", values)
        )
        return _session(scope, rows[1][0])

    async def active_conversation(self, scope: Scope) -> Session | None:
        tenant = scope_path(scope)
        [rows] = await self._database.run(
            tenant, (statement("active_conversation"), {"tenant": tenant})
        )
        return _session(scope, rows[0]) if rows else None

    async def conversation_of_thread(self, scope: Scope, thread_id: ThreadId) -> Session | None:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "thread_id": thread_id}
        [rows] = await self._database.run(tenant, (statement("conversation_of_thread"), values))
        return _session(scope, rows[0]) if rows else None

    async def end_conversation(
        self, scope: Scope, job: NewJob, rules: SessionRules, *, if_over: bool
    ) -> Session | None:
        values = self._rules_and_now(scope, rules) | {
            "if_over": if_over,
            "job_id": job.job_id,
            "job_type": str(job.job_type),
            "priority": int(job.priority),
        }
        rows = (await self._in_line(scope, ("end_conversation", values)))[0]
        return _session(scope, rows[0]) if rows else None

    async def finish_conversation(self, scope: Scope, thread_id: ThreadId) -> None:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "thread_id": thread_id}
        await self._in_line(scope, ("finish_conversation", values))

    async def conversations_over(self, limit: int) -> tuple[Sequence[Scope], datetime | None]:
        values = {"now": self._clock(), "limit": limit}
        over, [[next_end]] = await self._database.run(
            ROOT, (statement("conversations_over"), values), (statement("next_end"), {})
        )
        scopes = [Scope(*from_path(row[0])) for row in over]
        return scopes, next_end and utc(next_end)

    def _rules_and_now(self, scope: Scope, rules: SessionRules) -> dict[str, object]:
        return {
            "tenant": scope_path(scope),
            "now": self._clock(),
            "timeout": rules.timeout,
            "max_duration": rules.max_duration,
            "max_events": rules.max_events,
        }

    async def _in_line(self, scope: Scope, *steps: tuple[str, dict[str, Any]]) -> list[Any]:
        tenant = scope_path(scope)
        lock = (statement("lock_conversation"), {"tenant": tenant})
        sent = [(statement(name), values) for name, values in steps]
        return (await self._database.run(tenant, lock, *sent))[1:]


def _whom(scope: Scope, kin: Sequence[str]) -> dict[str, object]:
    return {"tenant": scope_path(scope), "user": USER, "relations": [NAME, *kin]}


def _name(known: Sequence[Sequence[str]]) -> str:
    return next((name for relation, name, _ in known if relation == NAME), "")


def _kin(known: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(key for relation, _, key in known if relation != NAME)


def _session(scope: Scope, row: Sequence[Any], events: Sequence[Event] = ()) -> Session:
    thread_id, status, event_count, created_at, last_active_at, ends_at, ended_at = row[
        :SESSION_COLUMNS
    ]
    return Session(
        session_id=ThreadId(thread_id),
        scope=scope,
        status=SessionStatus(status),
        event_count=event_count,
        created_at=utc(created_at),
        last_active_at=utc(last_active_at),
        ends_at=utc(ends_at),
        ended_at=ended_at and utc(ended_at),
        events=events,
    )
