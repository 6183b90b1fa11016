"""Conditions on memories, as SQL over a table alias: alive, begun, or held at another moment.

They mean the same as {living}, {begun}, {current}, {current_then}, {told_facts} and
{held_of_told} of PostgreSQL's queries. A Condition carries the values of its %s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from shared_core.core.domain import AsOf
from shared_core.core.namespaces import path_end
from shared_core.storage.oceanbase.connection.transactions import Transaction

_DISLIKED = re.compile(r"^((?:relation[.][^.]+[.])?)dislike(?=[:@])")


CLOCKS_APART = timedelta(hours=1)
"""So far ahead of ours the clock of whoever says things may be."""


class Condition(NamedTuple):
    """A condition on rows, and the values of its %s in order."""

    sql: str
    values: tuple[object, ...] = ()


def all_of(*conditions: Condition) -> Condition:
    """Return what holds where each of the conditions does; of none, everywhere."""
    return Condition(
        " AND ".join(one.sql for one in conditions) or "TRUE",
        tuple(value for one in conditions for value in one.values),
    )


def soon(now: datetime) -> datetime:
    """Return what {soon} is: what begins until then holds now."""
    return min(now, datetime.max.replace(tzinfo=now.tzinfo) - CLOCKS_APART) + CLOCKS_APART


def living_sql(alias: str = "m") -> str:
    """Return what {living} is; its one %s is now."""
    return (
        f"{alias}.superseded_at IS NULL AND {alias}.demoted_at IS NULL"
        f" AND ({alias}.expires_at IS NULL OR {alias}.expires_at > %s)"
    )


def begun_sql(alias: str = "m") -> str:
    """Return what {begun} is, of any number of tenants; its two %s are soon(now) and now."""
    return (
        "NOT EXISTS (SELECT 1 FROM facts begun"
        f" WHERE begun.tenant_id = {alias}.tenant_id AND begun.memory_id = {alias}.memory_id"
        " AND (begun.valid_from > %s"
        " OR begun.superseded_at < begun.valid_until AND begun.valid_until <= %s))"
    )


def living(now: datetime, alias: str = "m") -> Condition:
    """Return {living}: neither replaced nor faded nor expired."""
    return Condition(living_sql(alias), (now,))


def begun(now: datetime, alias: str = "m") -> Condition:
    """Return {begun}: no fact that begins later, or whose foreseen end has come."""
    return Condition(begun_sql(alias), (soon(now), now))


def current(now: datetime, alias: str = "m") -> Condition:
    """Return {current}: what lives and has begun to hold."""
    return all_of(living(now, alias), begun(now, alias))


def current_at(
    tx: Transaction, tenant: str, now: datetime, as_of: AsOf | None, alias: str = "m"
) -> Condition:
    """Return {current}, or with as_of {current_then}: what held then, as it was known then.

    What expired, or has faded out of recall since, is gone as of every moment.
    """
    if as_of is None:
        return current(now, alias)
    told = told_facts(tx, tenant, now, as_of)
    return all_of(
        Condition(f"({alias}.expires_at IS NULL OR {alias}.expires_at > %s)", (now,)),
        Condition(f"{alias}.demoted_at IS NULL"),
        _held_or_there(held_of_told(told, as_of.valid or now), as_of, alias),
    )


def _held_or_there(held: Sequence[object], as_of: AsOf, alias: str) -> Condition:
    """Return what is one of the facts that held; or is none, and was known and said by then."""
    is_known = Condition(f"{alias}.superseded_at IS NULL")
    if as_of.known:
        is_known = Condition(
            f"{alias}.updated_at <= %s"
            f" AND ({alias}.superseded_at IS NULL OR {alias}.superseded_at > %s)",
            (as_of.known, as_of.known),
        )
    is_said = Condition(f"{alias}.occurred_at <= %s", (as_of.valid,)) if as_of.valid else None
    there = all_of(
        Condition(
            "NOT EXISTS (SELECT 1 FROM facts known"
            f" WHERE known.tenant_id = {alias}.tenant_id AND known.memory_id = {alias}.memory_id)"
        ),
        is_known,
        *([is_said] if is_said else []),
    )
    return Condition(f"({alias}.memory_id IN %s OR {there.sql})", (list(held), *there.values))


def below(path: str, alias: str = "m") -> Condition:
    """Return {below}: whose namespace starts with a path, as rest_of() gives it."""
    return Condition(f"{alias}.namespace >= %s AND {alias}.namespace < %s", (path, path_end(path)))


def of_kinds(kinds: Sequence[str] | None, alias: str = "m") -> Condition:
    """Return which kinds are asked for; None: every one."""
    return Condition("TRUE") if kinds is None else Condition(f"{alias}.kind IN %s", (list(kinds),))


def between(begin: datetime | None, end: datetime | None, alias: str = "m") -> Condition:
    """Return what occurred from one moment to before the other; None: no bound."""
    bounds = []
    if begin is not None:
        bounds.append(Condition(f"{alias}.occurred_at >= %s", (begin,)))
    if end is not None:
        bounds.append(Condition(f"{alias}.occurred_at < %s", (end,)))
    return all_of(*bounds)


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
