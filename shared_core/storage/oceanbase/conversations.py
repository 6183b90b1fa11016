"""OceanBaseStorage: conversations, opened and ended automatically, one active per user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from shared_core.core.domain import USER, Event, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import scope_path
from shared_core.core.time_zones import zone_name
from shared_core.policies.conversations import SESSION_COLUMNS, is_over, new_session, session_of
from shared_core.ports.conversations import (
    Heard,
    InputContext,
    Session,
    SessionRules,
    SessionStatus,
)
from shared_core.storage._rows import scopes_of
from shared_core.storage.oceanbase.base import OceanBasePart, writing
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.events import EVENT_COLUMNS, event_of, grow_thread, last_turns

NAME = "is_called"
KIN_AT_MOST = 20
"""Maximum number of relatives that are returned."""
_OF_CONVERSATION = "LEFT(thread_id, 13) = 'conversation:'"
_COLUMNS = ", ".join(SESSION_COLUMNS)


class OceanBaseConversations(OceanBasePart):
    """Conversations; a writer has locked their user."""

    @writing
    def hear_turn(
        self,
        tx: Transaction,
        scope: Scope,
        new_id: ThreadId,
        turn: Event,
        rules: SessionRules,
        context: int,
        kin: Sequence[str],
        *,
        once: bool,
    ) -> Heard:
        tenant, now = scope_path(scope), self._clock()
        metadata = to_json(turn.metadata, "event metadata")
        tx.lock(tenant)
        session = _active(tx, scope)
        forgotten = session is not None and _has_row(tx, "tombstones", tenant, session, turn)
        stored = forgotten or (
            session is not None and _has_row(tx, "events", tenant, session, turn)
        )
        known = _known(tx, tenant, turn) if once and not stored else None
        before_seq = None
        if known is not None:
            (thread_id, before_seq), stored = known, True
            forgotten = before_seq == 0
            session = _earlier(scope, ThreadId(thread_id), now)
        elif session is None or not (stored or is_over(session, rules, now)):
            session = _extended(tx, scope, session, new_id, rules, now)
            _append_turn(tx, tenant, session, turn, metadata, now)
            stored = True
        earlier = _turns_before(tx, tenant, session, turn, before_seq, context, now)
        name, keys = _user_and_kin(tx, tenant, kin)
        return Heard(
            stored=stored,
            forgotten=forgotten,
            session=replace(session, events=earlier),
            user_name=name,
            kin=keys,
        )

    async def around_input(
        self, scope: Scope, thread_id: ThreadId | None, context: int, kin: Sequence[str]
    ) -> InputContext:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> InputContext:
            turns = [] if thread_id is None else last_turns(tx, tenant, thread_id, context, now)
            name, keys = _user_and_kin(tx, tenant, kin)
            return InputContext(turns=turns, user_name=name, kin=keys)

        return await self._database.read(work)

    async def conversations_over(self, limit: int) -> tuple[Sequence[Scope], datetime | None]:
        now = self._clock()

        def work(tx: Transaction) -> tuple[list[Row], Row | None]:
            over = tx.rows(
                "SELECT tenant_id FROM conversations WHERE status = 'active' AND ends_at <= %s"
                " ORDER BY ends_at, tenant_id LIMIT %s",
                [now, limit],
            )
            first = "SELECT ends_at FROM conversations WHERE status = 'active' ORDER BY ends_at"
            return over, tx.one(f"{first} LIMIT 1")

        over, first = await self._database.read(work)
        scopes = scopes_of((row[0] for row in over), "a conversation that is over")
        return scopes, first[0] if first else None


def _active(tx: Transaction, scope: Scope) -> Session | None:
    row = tx.one(
        f"SELECT {_COLUMNS} FROM conversations WHERE tenant_id = %s AND status = 'active'",
        [scope_path(scope)],
    )
    return session_of(scope, row) if row else None


def _has_row(tx: Transaction, table: str, tenant: str, session: Session, turn: Event) -> bool:
    """Return whether a table holds a turn of a conversation."""
    return tx.has(
        f"SELECT 1 FROM {table} WHERE tenant_id = %s AND thread_id = %s AND event_id = %s",
        [tenant, session.session_id, turn.event_id],
    )


def _known(tx: Transaction, tenant: str, turn: Event) -> tuple[str, int] | None:
    """Return thread and seq of an earlier turn of this id and text; seq 0: it was forgotten."""
    rows = tx.rows(
        "SELECT thread_id, seq, text FROM events WHERE tenant_id = %s AND event_id = %s"
        f" AND {_OF_CONVERSATION} ORDER BY seq DESC",
        [tenant, turn.event_id],
    )
    # Compared here, because the server ignores spaces at the end of texts.
    for thread_id, seq, text in rows:
        if text == turn.text:
            return thread_id, seq
    forgotten = tx.one(
        "SELECT thread_id FROM tombstones WHERE tenant_id = %s AND event_id = %s"
        f" AND {_OF_CONVERSATION} LIMIT 1",
        [tenant, turn.event_id],
    )
    return None if forgotten is None else (forgotten[0], 0)


def _earlier(scope: Scope, thread_id: ThreadId, now: datetime) -> Session:
    """Return an ended conversation known only by its id."""
    return session_of(scope, (thread_id, SessionStatus.ENDED, 0, now, now, now, now))


def _extended(
    tx: Transaction,
    scope: Scope,
    session: Session | None,
    new_id: ThreadId,
    rules: SessionRules,
    now: datetime,
) -> Session:
    """Count one more turn in the active conversation, or in a new one."""
    if session is None:
        session = new_session(scope, new_id, 1, rules, now)
    else:
        active_at, count = max(session.last_active_at, now), session.event_count + 1
        ends_at = min(active_at + rules.timeout, session.created_at + rules.max_duration)
        session = replace(
            session,
            event_count=count,
            last_active_at=active_at,
            ends_at=now if count >= rules.max_events else ends_at,
        )
    _write(tx, scope_path(scope), session)
    return session


def _write(tx: Transaction, tenant: str, session: Session) -> None:
    tx.insert(
        "conversations",
        ("tenant_id", "thread_id", "status", "event_count", "created_at", "last_active_at",
         "ends_at", "ended_at"),
        [(tenant, session.session_id, session.status, session.event_count, session.created_at,
          session.last_active_at, session.ends_at, session.ended_at)],
        update=("status", "event_count", "last_active_at", "ends_at", "ended_at"),
    )  # fmt: skip


def _append_turn(
    tx: Transaction, tenant: str, session: Session, turn: Event, metadata: str, now: datetime
) -> None:
    """Append a turn to the thread of a conversation."""
    thread_id = session.session_id
    seq, memory_seq = grow_thread(tx, tenant, thread_id, now, 1, 1, len(turn.text.encode()))
    tx.insert(
        "events",
        ("tenant_id", "thread_id", "seq", "event_id", "author", "role", "text", "metadata",
         "occurred_at", "time_zone", "recorded_at", "memory_seq", "importance", "expires_at"),
        [(tenant, thread_id, seq + 1, turn.event_id, turn.author, turn.role, turn.text, metadata,
          turn.occurred_at, zone_name(turn.occurred_at), now, memory_seq + 1,
          float(turn.importance), turn.expires_at)],
    )  # fmt: skip


def _turns_before(
    tx: Transaction,
    tenant: str,
    session: Session,
    turn: Event,
    before_seq: int | None,
    context: int,
    now: datetime,
) -> list[Event]:
    """Return the last turns of a conversation before a turn, oldest first.

    before_seq: the place of that turn; None: it is the last.
    """
    condition, values = ("", ()) if before_seq is None else (" AND seq < %s", (before_seq,))
    newest = tx.rows(
        f"SELECT {EVENT_COLUMNS}, memory_seq FROM events"
        f" WHERE tenant_id = %s AND thread_id = %s AND event_id <> %s{condition}"
        " AND (expires_at IS NULL OR expires_at > %s) ORDER BY seq DESC LIMIT %s",
        [tenant, session.session_id, turn.event_id, *values, now, context],
    )
    return [event_of(row[:-1]) for row in reversed(newest) if row[-1] is not None]


def _user_and_kin(tx: Transaction, tenant: str, kin: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the name of the user, or "", and the keys of their relatives of some relations."""
    known = _kin_of_user(tx, tenant, [NAME, *kin])
    return (
        next((name for relation, name, _ in known if relation == NAME), ""),
        tuple(key for relation, _, key in known if relation != NAME),
    )


def _kin_of_user(tx: Transaction, tenant: str, relations: Sequence[str]) -> list[Row]:
    """Return relation, name and key of the people in some relations to the user, newest first."""
    return tx.rows(
        "SELECT relation, object, object_key FROM edges"
        " WHERE tenant_id = %s AND subject_key = %s AND relation IN %s"
        " AND valid_until IS NULL AND superseded_at IS NULL"
        " ORDER BY valid_from DESC, edge_id LIMIT %s",
        [tenant, USER, list(relations), KIN_AT_MOST],
    )
