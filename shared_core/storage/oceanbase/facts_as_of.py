"""Facts as they had been told at a moment, and which of them held: {told_facts}, {held_of_told}."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import AsOf
from shared_core.storage.oceanbase.connection.transactions import Transaction

_DISLIKED = re.compile(r"^((?:relation[.][^.]+[.])?)dislike(?=[:@])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A fact that had been recorded and had begun, with its end as it was known then.

    value: JSON text. valid_until: None while no end was known. closed_at: since when its end was.
    """

    memory_id: UUID
    fact_type: str
    slot: str
    key: str
    value: str
    confidence: float
    extractor: str
    pattern: str
    valid_from: datetime
    recorded_at: datetime
    valid_until: datetime | None
    closed_at: datetime | None


def liked_key(key: str) -> str:
    """Return the place of a fact's key: that of a dislike is that of the like of the same."""
    return _DISLIKED.sub(r"\1like", key)


def told_facts(
    tx: Transaction, tenant: str, now: datetime, as_of: AsOf | None, *, slot: str | None = None
) -> list[Told]:
    """Return the facts that had been recorded and had begun, in no order; slot: those of one."""
    valid, known = (as_of.valid, as_of.known) if as_of else (None, None)
    rows = tx.rows(
        "SELECT f.memory_id, f.fact_type, f.slot, f.`key`, f.value, f.confidence, f.extractor,"
        " f.pattern, f.valid_from, f.recorded_at, f.valid_until, f.superseded_at"
        " FROM facts f JOIN memories m ON m.tenant_id = f.tenant_id AND m.memory_id = f.memory_id"
        " WHERE f.tenant_id = %s AND f.valid_from <= %s"
        " AND (m.expires_at IS NULL OR m.expires_at > %s)"
        + (" AND f.recorded_at <= %s" if known else "")
        + (" AND f.slot = %s" if slot is not None else ""),
        tenant,
        valid or now,
        now,
        *([known] if known else []),
        *([slot] if slot is not None else []),
    )
    told = [
        Told(
            memory_id=row[0],
            fact_type=row[1],
            slot=row[2],
            key=row[3],
            value=row[4],
            confidence=row[5],
            extractor=row[6],
            pattern=row[7],
            valid_from=row[8],
            recorded_at=row[9],
            # Of facts that are open superseded_at alone may not be there: then no end is known.
            valid_until=row[10] if row[11] else None,
            closed_at=row[11],
        )
        for row in rows
    ]
    return _as_known(tx, tenant, told, known) if known else told


def _as_known(tx: Transaction, tenant: str, told: list[Told], known: datetime) -> list[Told]:
    """Return facts with the ends that were believed at a moment, be they taken back since or not.

    Of several the one that was known last counts.
    """
    taken_back: dict[UUID, list[tuple[datetime, datetime]]] = {}
    for memory_id, closed_at, valid_until in tx.rows(
        "SELECT memory_id, closed_at, valid_until FROM fact_closures"
        " WHERE tenant_id = %s AND closed_at <= %s AND restored_at > %s",
        tenant,
        known,
        known,
    ):
        taken_back.setdefault(memory_id, []).append((closed_at, valid_until))
    found = []
    for one in told:
        ends: list[tuple[datetime, datetime | None]] = [*taken_back.get(one.memory_id, ())]
        if one.closed_at is not None and one.closed_at <= known:
            ends.append((one.closed_at, one.valid_until))
        closed_at, valid_until = max(ends, key=lambda end: end[0]) if ends else (None, None)
        found.append(replace(one, valid_until=valid_until, closed_at=closed_at))
    return found


def held_of_told(told: Iterable[Told], valid: datetime) -> list[UUID]:
    """Return the facts that held at a moment, one of each place.

    A place is a key, and of a like and the dislike of the same it is one; of several that cover
    the moment the one that began last holds.
    """
    held: dict[tuple[str, str], Told] = {}
    for one in told:
        if one.valid_until is not None and one.valid_until <= valid:
            continue
        place = (one.fact_type, liked_key(one.key))
        there = held.get(place)
        if there is None or _began(one) > _began(there):
            held[place] = one
    return [one.memory_id for one in held.values()]


def _began(one: Told) -> tuple[datetime, datetime, UUID]:
    return one.valid_from, one.recorded_at, one.memory_id
