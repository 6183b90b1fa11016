"""Facts that hold again: {reopened}, reopen_told and require_no_opposite of ../sql/queries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from shared_core.core.json_text import to_json
from shared_core.errors import Conflict
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.facts_as_of import liked_key


class Ended(NamedTuple):
    """A fact that has ended, and when its memory was retired."""

    memory_id: UUID
    valid_until: datetime
    superseded_at: datetime
    retired_at: datetime | None


def ended_fact(tx: Transaction, tenant: str, memory_id: UUID) -> Ended | None:
    """Return a fact of which an end is known, None if there is none."""
    row = tx.one(
        "SELECT f.memory_id, f.valid_until, f.superseded_at, m.superseded_at FROM facts f"
        " JOIN memories m ON m.tenant_id = f.tenant_id AND m.memory_id = f.memory_id"
        " WHERE f.tenant_id = %s AND f.memory_id = %s AND f.superseded_at IS NOT NULL",
        tenant,
        memory_id,
    )
    return Ended(*row) if row else None


def moment(value: datetime | None) -> str | None:
    """Return a moment as run_changes keeps it."""
    return value.isoformat() if value is not None else None


def note_moves(
    tx: Transaction, tenant: str, run_id: UUID, moves: Iterable[tuple[UUID, dict[str, str | None]]]
) -> None:
    """Note what was before a run moved it: (what, how it was)."""
    tx.insert(
        "run_changes",
        ("tenant_id", "run_id", "`change`", "target", "`before`"),
        ((tenant, run_id, "moved", target, to_json(before)) for target, before in moves),
    )


def reopen(
    tx: Transaction, tenant: str, run_id: UUID, ended: Sequence[Ended], now: datetime
) -> None:
    """Let facts hold again; their ends are kept as ones that were believed, and noted.

    Raises Conflict where another one has taken the place of a key.
    """
    tx.insert(
        "fact_closures",
        ("tenant_id", "memory_id", "closed_at", "restored_at", "valid_until", "run_id"),
        ((tenant, one.memory_id, one.superseded_at, now, one.valid_until, run_id) for one in ended),
    )
    note_moves(
        tx,
        tenant,
        run_id,
        (
            (
                one.memory_id,
                {
                    "valid_until": moment(one.valid_until),
                    "superseded_at": moment(one.superseded_at),
                    "retired_at": moment(one.retired_at),
                },
            )
            for one in ended
        ),
    )
    ids = [one.memory_id for one in ended]
    tx.run(
        "UPDATE facts SET valid_until = NULL, superseded_at = NULL"
        " WHERE tenant_id = %s AND memory_id IN %s",
        tenant,
        ids,
    )
    tx.run(
        "UPDATE memories SET superseded_at = NULL WHERE tenant_id = %s AND memory_id IN %s",
        tenant,
        ids,
    )
    _require_alone(tx, tenant, ids)


def _require_alone(tx: Transaction, tenant: str, memory_ids: Sequence[UUID]) -> None:
    """Raise Conflict if another fact of the same key is current: there is one of each."""
    if tx.rows(
        "SELECT 1 FROM facts f JOIN facts o ON o.tenant_id = f.tenant_id"
        " AND o.fact_type = f.fact_type AND o.`key` = f.`key` AND o.memory_id <> f.memory_id"
        " AND o.valid_until IS NULL AND o.superseded_at IS NULL"
        " WHERE f.tenant_id = %s AND f.memory_id IN %s AND f.valid_until IS NULL"
        " AND f.superseded_at IS NULL LIMIT 1",
        tenant,
        list(memory_ids),
    ):
        raise Conflict("another fact has taken the place of the key")


def require_no_opposite(tx: Transaction, tenant: str, memory_id: UUID) -> None:
    """Raise Conflict if a fact holds, and so does the opposite of it: a like and a dislike."""
    row = tx.one(
        "SELECT fact_type, `key` FROM facts WHERE tenant_id = %s AND memory_id = %s"
        " AND valid_until IS NULL AND superseded_at IS NULL",
        tenant,
        memory_id,
    )
    if row is None:
        return
    fact_type, key = row
    others = tx.rows(
        "SELECT `key` FROM facts WHERE tenant_id = %s AND fact_type = %s AND `key` <> %s"
        " AND valid_until IS NULL AND superseded_at IS NULL",
        tenant,
        fact_type,
        key,
    )
    if any(liked_key(other) == liked_key(key) for (other,) in others):
        raise Conflict("the opposite holds now: retract that first")


def reopen_told(
    tx: Transaction, tenant: str, run_id: UUID, memory_id: UUID, closed_at: datetime
) -> None:
    """Bring back what was retired with a fact: statements of its turns, and reflections.

    A statement stays retired if it holds the value of another fact that has ended; a reflection if
    it rests on anything that does.
    """
    told = _told_with(tx, tenant, memory_id, closed_at)
    back = [*told, *_drawn(tx, tenant, closed_at, told)]
    tx.run(
        "UPDATE memories SET superseded_at = NULL WHERE tenant_id = %s AND memory_id IN %s",
        tenant,
        back,
    )
    note_moves(tx, tenant, run_id, ((one, {"retired_at": moment(closed_at)}) for one in back))


def _told_with(tx: Transaction, tenant: str, memory_id: UUID, closed_at: datetime) -> list[UUID]:
    fact = tx.one(
        "SELECT value FROM facts WHERE tenant_id = %s AND memory_id = %s", tenant, memory_id
    )
    if fact is None:
        return []
    value = _shown(fact[0])
    statements = {
        statement: text
        for statement, text in tx.rows(
            "SELECT m.memory_id, m.text FROM memory_sources s"
            " JOIN memory_sources o ON o.tenant_id = s.tenant_id AND o.thread_id = s.thread_id"
            " AND o.event_id = s.event_id"
            " JOIN memories m ON m.tenant_id = o.tenant_id AND m.memory_id = o.memory_id"
            " LEFT JOIN facts x ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id"
            " WHERE s.tenant_id = %s AND s.memory_id = %s AND m.kind = 'semantic'"
            " AND m.superseded_at = %s AND x.memory_id IS NULL",
            tenant,
            memory_id,
            closed_at,
        )
        if value in text.lower()
    }
    past = tx.rows(
        "SELECT y.memory_id, x.value FROM memory_sources y"
        " JOIN memory_sources z ON z.tenant_id = y.tenant_id AND z.thread_id = y.thread_id"
        " AND z.event_id = y.event_id"
        " JOIN facts x ON x.tenant_id = z.tenant_id AND x.memory_id = z.memory_id"
        " WHERE y.tenant_id = %s AND y.memory_id IN %s AND x.superseded_at IS NOT NULL",
        tenant,
        list(statements),
    )
    ended = {one for one, other in past if _shown(other) in statements[one].lower()}
    return [one for one in statements if one not in ended]


def _shown(value: str) -> str:
    """Return the value of a fact, JSON text, as a statement holds it, in lower case."""
    held = json.loads(value)
    return (held if isinstance(held, str) else value).lower()


def _drawn(tx: Transaction, tenant: str, closed_at: datetime, told: Sequence[UUID]) -> list[UUID]:
    rows = tx.rows(
        "SELECT m.memory_id, d.basis_id, b.superseded_at FROM memories m"
        " JOIN memory_bases d ON d.tenant_id = m.tenant_id AND d.memory_id = m.memory_id"
        " LEFT JOIN memories b ON b.tenant_id = d.tenant_id AND b.memory_id = d.basis_id"
        " WHERE m.tenant_id = %s AND m.superseded_at = %s",
        tenant,
        closed_at,
    )
    resting = {one for one, basis, retired in rows if retired is not None and basis not in told}
    return sorted({row[0] for row in rows} - resting - set(told))
