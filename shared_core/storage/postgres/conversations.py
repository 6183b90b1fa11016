"""Conversations on PostgreSQL: at most one of a user is active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from shared_core.core.domain import USER, Event, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import ROOT, scope_path
from shared_core.core.time_zones import zone_name
from shared_core.errors import Conflict
from shared_core.policies.conversations import SESSION_COLUMNS, session_of
from shared_core.ports.conversations import Heard, InputContext, SessionRules
from shared_core.ports.storage import Clock
from shared_core.storage._rows import event_from_row, scopes_of
from shared_core.storage.postgres.connection.database import Answers, PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Rows
from shared_core.storage.postgres.connection.statements import Step, step, steps

NAME = "is_called"
"""The relation that tells a person's name."""
_HEARD = "heard"
"""The reason that require_unheard gives."""


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
            "time_zone": zone_name(turn.occurred_at),
            "importance": float(turn.importance),
            "expires_at": turn.expires_at,
            "context": context,
            "once": once,
        }
        while True:
            if heard := await self._heard(scope, values, kin):
                return heard
            [_, rows, known] = await self._locked(
                scope, step("heard_turn", values), _kin_step(scope, kin)
            )
            if rows:  # else another writer has ended its conversation meanwhile
                return _shown(scope, rows, known)

    async def _heard(
        self, scope: Scope, values: Mapping[str, object], kin: Sequence[str]
    ) -> Heard | None:
        """Append a turn; return None if it is known, or if its conversation is over."""
        names = ("require_unheard", "go_on", "grow_conversation", "hear_turn", "context_of_turn")
        try:
            answers = await self._locked(scope, *steps(values, *names), _kin_step(scope, kin))
        except Conflict as error:
            if str(error) != _HEARD:
                raise
            return None
        [head] = answers.named("go_on")
        turns = answers.named("context_of_turn") or [(None,)]
        rows = [(True, False, *head, *turn) for turn in turns]
        return _shown(scope, rows, answers.named("kin_of_user"))

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


def _shown(scope: Scope, rows: Rows, known: Rows) -> Heard:
    """Return a turn from its state, its conversation and each of the turns before it."""
    stored, forgotten, *head = rows[0]
    width = len(SESSION_COLUMNS)
    before = [row[width + 2 :] for row in reversed(rows)]
    events = [event_from_row(row[1:]) for row in before if row[0] is not None]
    return Heard(
        stored=stored,
        forgotten=forgotten,
        session=replace(session_of(scope, tuple(head[:width])), events=events),
        user_name=_name(known),
        kin=_kin(known),
    )


def _kin_step(scope: Scope, kin: Sequence[str]) -> Step:
    values = {"tenant": scope_path(scope), "user": USER, "relations": [NAME, *kin]}
    return step("kin_of_user", values)


def _name(known: Sequence[Sequence[str]]) -> str:
    return next((name for relation, name, _ in known if relation == NAME), "")


def _kin(known: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(key for relation, _, key in known if relation != NAME)
