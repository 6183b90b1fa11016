"""Conditions on memories m, as SQL: alive, begun, or held at another moment.

They mean the same as {living}, {begun}, {current}, {current_then}, {told_facts} and
{held_of_told} of PostgreSQL's queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from shared_core.core.domain import AsOf
from shared_core.core.namespaces import path_end
from shared_core.core.timestamps import soon
from shared_core.policies.facts import holding_at, recorded_facts, select_recorded
from shared_core.storage.oceanbase.connection.operations import selected
from shared_core.storage.oceanbase.connection.transactions import Transaction


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


def living(now: datetime, *, with_expired: bool = False) -> WhereClause:
    """Return {living}: neither replaced nor faded nor expired; with_expired: {listed}."""
    return all_of(
        WhereClause("m.superseded_at IS NULL AND m.demoted_at IS NULL"),
        still_read(now, with_expired=with_expired),
    )


def still_read(now: datetime, *, with_expired: bool) -> WhereClause:
    """Return {still_read}; with_expired: items count also after they expired."""
    items_too = " OR (m.kind = 'item' AND SUBSTR(m.namespace, 1, 10) <> '/memories/')"
    items_too = items_too if with_expired else ""
    return WhereClause(f"(m.expires_at IS NULL OR m.expires_at > %s{items_too})", (now,))


def current(now: datetime, *, with_expired: bool = False) -> WhereClause:
    """Return {current}: alive ({living}) and begun ({begun}).

    A fact has begun unless it begins later or its foreseen end has come. with_expired: as of
    still_read().
    """
    begun = (
        "NOT EXISTS (SELECT 1 FROM facts begun"
        " WHERE begun.tenant_id = m.tenant_id AND begun.memory_id = m.memory_id"
        " AND (begun.valid_from > %s"
        " OR begun.superseded_at < begun.valid_until AND begun.valid_until <= %s))"
    )
    alive = living(now, with_expired=with_expired)
    return all_of(alive, WhereClause(begun, (soon(now), now)))


def current_at(tx: Transaction, tenant: str, now: datetime, as_of: AsOf | None) -> WhereClause:
    """Return {current}, or {current_then}: the memories that held then, as it was known then.

    Memories that have expired or faded since are gone as of every moment.
    """
    if as_of is None:
        return current(now)
    facts, closures = (selected(tx, tenant, one) for one in select_recorded(now, as_of))
    recorded = recorded_facts(facts, closures, now, as_of)
    held = [one.memory_id for one in holding_at(recorded, as_of.valid or now)]
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


def of_thread(tenant: str, thread_id: str | None) -> WhereClause:
    """Return the condition that a memory has a turn of a thread among its sources; None: any."""
    if thread_id is None:
        return all_of()
    sources = "SELECT s.memory_id FROM memory_sources s WHERE s.tenant_id = %s AND s.thread_id = %s"
    return WhereClause(f"m.memory_id IN ({sources})", (tenant, thread_id))


def between(begin: datetime | None, end: datetime | None) -> WhereClause:
    """Return the condition begin <= occurred_at < end; None: no bound."""
    return all_of(if_set("m.occurred_at >= %s", begin), if_set("m.occurred_at < %s", end))
