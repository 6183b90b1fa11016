"""Conditions on memories m, as SQL: alive, begun, or held at another moment.

They mean the same as {living}, {begun}, {current}, {current_then}, {told_facts} and
{held_of_told} of PostgreSQL's queries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from shared_core.core.domain import AsOf
from shared_core.core.namespaces import path_end
from shared_core.storage.oceanbase.connection.transactions import Transaction, grouped

CLOCKS_APART = timedelta(hours=1)
"""Maximum lead of a caller's clock over ours."""
OPEN = "valid_until IS NULL AND superseded_at IS NULL"
"""The condition that a fact or an edge has no known end."""
_DISLIKED = re.compile(r"^((?:relation[.][^.]+[.])?)dislike(?=[:@])")


class WhereClause(NamedTuple):
    """A condition on rows, and the values of its %s in order."""

    sql: str
    values: tuple[object, ...] = ()


def all_of(*conditions: WhereClause) -> WhereClause:
    """Return the conjunction of conditions; TRUE without any."""
    return WhereClause(
        " AND ".join(one.sql for one in conditions) or "TRUE",
        tuple(value for one in conditions for value in one.values),
    )


def if_set(sql: str, value: object) -> WhereClause:
    """Return a condition with one value, or TRUE if the value is None."""
    return WhereClause("TRUE") if value is None else WhereClause(sql, (value,))


def soon(now: datetime) -> datetime:
    """Return the moment up to which a beginning counts as past ({soon})."""
    return min(now, datetime.max.replace(tzinfo=now.tzinfo) - CLOCKS_APART) + CLOCKS_APART


def living(now: datetime) -> WhereClause:
    """Return {living}: neither replaced nor faded nor expired."""
    return WhereClause(
        "m.superseded_at IS NULL AND m.demoted_at IS NULL"
        " AND (m.expires_at IS NULL OR m.expires_at > %s)",
        (now,),
    )


def current(now: datetime) -> WhereClause:
    """Return {current}: alive ({living}) and begun ({begun}).

    A fact has begun unless it begins later or its foreseen end has come.
    """
    begun = (
        "NOT EXISTS (SELECT 1 FROM facts begun"
        " WHERE begun.tenant_id = m.tenant_id AND begun.memory_id = m.memory_id"
        " AND (begun.valid_from > %s"
        " OR begun.superseded_at < begun.valid_until AND begun.valid_until <= %s))"
    )
    return all_of(living(now), WhereClause(begun, (soon(now), now)))


def current_at(tx: Transaction, tenant: str, now: datetime, as_of: AsOf | None) -> WhereClause:
    """Return {current}, or {current_then}: the memories that held then, as it was known then.

    Memories that have expired or faded since are gone as of every moment.
    """
    if as_of is None:
        return current(now)
    held = facts_holding_at(recorded_facts(tx, tenant, now, as_of), as_of.valid or now)
    is_known = WhereClause("m.superseded_at IS NULL")
    if as_of.known:
        is_known = WhereClause(
            "m.updated_at <= %s AND (m.superseded_at IS NULL OR m.superseded_at > %s)",
            (as_of.known, as_of.known),
        )
    no_fact = all_of(
        WhereClause(
            "NOT EXISTS (SELECT 1 FROM facts known"
            " WHERE known.tenant_id = m.tenant_id AND known.memory_id = m.memory_id)"
        ),
        is_known,
        if_set("m.occurred_at <= %s", as_of.valid),
    )
    return all_of(
        WhereClause("(m.expires_at IS NULL OR m.expires_at > %s) AND m.demoted_at IS NULL", (now,)),
        WhereClause(f"(m.memory_id IN %s OR {no_fact.sql})", (held, *no_fact.values)),
    )


def below(path: str) -> WhereClause:
    """Return {below}: the namespace starts with a path, as rest_of() returns it."""
    return WhereClause("m.namespace >= %s AND m.namespace < %s", (path, path_end(path)))


def of_kinds(kinds: Sequence[str] | None) -> WhereClause:
    """Return the condition that a memory is of some kinds; None: of any."""
    return if_set("m.kind IN %s", kinds and list(kinds))


def between(begin: datetime | None, end: datetime | None) -> WhereClause:
    """Return the condition begin <= occurred_at < end; None: no bound."""
    return all_of(if_set("m.occurred_at >= %s", begin), if_set("m.occurred_at < %s", end))


class FactAsOf(NamedTuple):
    """A fact that had been recorded and had begun, with its end as it was known then.

    value: JSON text. valid_until: None while no end was known. closed_at: when the end was
    recorded.
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

    @property
    def began(self) -> tuple[datetime, datetime, UUID]:
        """Sorts facts of one place by when they began."""
        return self.valid_from, self.recorded_at, self.memory_id


def liked_key(key: str) -> str:
    """Return the place of a fact's key: a like and the dislike of the same thing share one."""
    return _DISLIKED.sub(r"\1like", key)


def recorded_facts(tx: Transaction, tenant: str, now: datetime, as_of: AsOf) -> list[FactAsOf]:
    """Return the facts that had been recorded and had begun by a moment, in no order."""
    recorded = if_set("f.recorded_at <= %s", as_of.known)
    rows = tx.rows(
        "SELECT f.memory_id, f.fact_type, f.slot, f.`key`, f.value, f.confidence, f.extractor,"
        " f.pattern, f.valid_from, f.recorded_at, f.valid_until, f.superseded_at"
        " FROM facts f JOIN memories m ON m.tenant_id = f.tenant_id AND m.memory_id = f.memory_id"
        " WHERE f.tenant_id = %s AND f.valid_from <= %s"
        f" AND (m.expires_at IS NULL OR m.expires_at > %s) AND {recorded.sql}",
        [tenant, as_of.valid or now, now, *recorded.values],
    )
    # Without superseded_at no end is known yet, whatever valid_until says.
    facts = [FactAsOf._make([*row[:10], row[10] if row[11] else None, row[11]]) for row in rows]
    return _as_known(tx, tenant, facts, as_of.known) if as_of.known else facts


def _as_known(
    tx: Transaction, tenant: str, facts: list[FactAsOf], known: datetime
) -> list[FactAsOf]:
    """Return facts with the last end that was believed at a moment, even if restored since."""
    closures = tx.rows(
        "SELECT memory_id, closed_at, valid_until FROM fact_closures"
        " WHERE tenant_id = %s AND closed_at <= %s AND restored_at > %s",
        [tenant, known, known],
    )
    restored = grouped((row[0], (row[1], row[2])) for row in closures)
    found = []
    for one in facts:
        ends: list[tuple[datetime, datetime | None]] = [*restored.get(one.memory_id, ())]
        if one.closed_at is not None and one.closed_at <= known:
            ends.append((one.closed_at, one.valid_until))
        closed_at, valid_until = max(ends, key=lambda end: end[0]) if ends else (None, None)
        found.append(one._replace(valid_until=valid_until, closed_at=closed_at))
    return found


def facts_holding_at(facts: Iterable[FactAsOf], valid: datetime) -> list[UUID]:
    """Return the facts that held at a moment: of each place, the one that began last."""
    held: dict[tuple[str, str], FactAsOf] = {}
    for one in facts:
        if one.valid_until is None or one.valid_until > valid:
            place = (one.fact_type, liked_key(one.key))
            held[place] = max(held.get(place, one), one, key=lambda fact: fact.began)
    return [one.memory_id for one in held.values()]
