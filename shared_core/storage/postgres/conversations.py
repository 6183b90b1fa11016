"""Conversations on PostgreSQL: at most one of a user is active."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared_core.core.domain import USER, Event, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import ROOT, scope_path
from shared_core.ports.conversations import (
    Heard,
    InputContext,
    Session,
    SessionRules,
    SessionStatus,
)
from shared_core.ports.jobs import NewJob
from shared_core.ports.storage import Clock
from shared_core.storage._rows import event_from_row, record, scopes_of
from shared_core.storage.postgres.connection.database import Answers, PostgresDatabase
from shared_core.storage.postgres.connection.statements import Step, step, steps

SESSION_COLUMNS = 7
NAME = "is_called"
"""The relation that tells a person's name."""


@dataclass
class PostgresConversations:
    """Conversations. A transaction that writes one holds a lock of its user."""

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
        answers = await self._locked(scope, step("hear_turn", values), _kin_step(scope, kin))
        rows, known = answers.named("hear_turn"), answers.named("kin_of_user")
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
    ) -> InputContext:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "thread_id": thread_id, "limit": context, "now": self._clock()}
        rows, known = await self._database.run(
            tenant, step("thread_events", values), _kin_step(scope, kin)
        )
        turns = [event_from_row(row[1:]) for row in reversed(rows)]
        return InputContext(turns=turns, user_name=_name(known), kin=_kin(known))

    async def open_conversation(
        self, scope: Scope, new_id: ThreadId, rules: SessionRules
    ) -> Session:
        values = self._rules_and_now(scope, rules) | {"thread_id": new_id}
        opening, reading = steps(values, "open_conversation", "active_conversation")
        answers = await self._locked(scope, opening, reading)
        return _session(scope, answers.named("active_conversation")[0])

    async def active_conversation(self, scope: Scope) -> Session | None:
        rows = await self._database.rows(scope_path(scope), "active_conversation")
        return _session(scope, rows[0]) if rows else None

    async def conversation_of_thread(self, scope: Scope, thread_id: ThreadId) -> Session | None:
        rows = await self._database.rows(
            scope_path(scope), "conversation_of_thread", thread_id=thread_id
        )
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
        answers = await self._locked(scope, step("end_conversation", values))
        rows = answers.named("end_conversation")
        return _session(scope, rows[0]) if rows else None

    async def finish_conversation(self, scope: Scope, thread_id: ThreadId) -> None:
        values = {"tenant": scope_path(scope), "thread_id": thread_id}
        await self._locked(scope, step("finish_conversation", values))

    async def conversations_over(self, limit: int) -> tuple[Sequence[Scope], datetime | None]:
        values = {"now": self._clock(), "limit": limit}
        over, [[next_end]] = await self._database.run(
            ROOT, step("conversations_over", values), step("next_end")
        )
        return scopes_of((row[0] for row in over), "a conversation that is over"), next_end

    def _rules_and_now(self, scope: Scope, rules: SessionRules) -> dict[str, object]:
        return {
            "tenant": scope_path(scope),
            "now": self._clock(),
            "timeout": rules.timeout,
            "max_duration": rules.max_duration,
            "max_events": rules.max_events,
        }

    async def _locked(self, scope: Scope, *sent: Step) -> Answers:
        """Run steps as one transaction that holds the lock of the user."""
        lock = step("lock_conversation", {"tenant": scope_path(scope)})
        return await self._database.run(scope_path(scope), lock, *sent)


def _kin_step(scope: Scope, kin: Sequence[str]) -> Step:
    values = {"tenant": scope_path(scope), "user": USER, "relations": [NAME, *kin]}
    return step("kin_of_user", values)


def _name(known: Sequence[Sequence[str]]) -> str:
    return next((name for relation, name, _ in known if relation == NAME), "")


def _kin(known: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(key for relation, _, key in known if relation != NAME)


def _session(scope: Scope, row: Sequence[Any], events: Sequence[Event] = ()) -> Session:
    values = [row[0], *row[2:SESSION_COLUMNS]]
    return record(Session, values, scope=scope, status=SessionStatus(row[1]), events=events)
