"""Which memories live, have begun to hold, or held at another moment: as SQL over a table alias.

The same as {living}, {begun}, {current} and {current_then} of ../sql/queries. A Condition carries
what its %s stand for. Pure, but for current_at, which reads the facts of the tenant.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from shared_core.core.domain import AsOf
from shared_core.core.namespaces import path_end
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.facts_as_of import held_of_told, told_facts

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
