"""Notes when memories leave their stage, by the rules of shared_core.policies.timing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from shared_core.policies.timing import (
    RULES,
    RuleOf,
    TimedMemory,
    retimed,
    rules_of,
    select_timed,
    timed_of,
)
from shared_core.ports.operations import Insert
from shared_core.storage.oceanbase.connection.operations import Operations, selected
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.vectors import vector_tables

_OPERATIONS = Operations({}, vector_tables)


def policies(tx: Transaction, tenant: str) -> RuleOf:
    """Return how each kind of memory fades in a tenant."""
    return rules_of(selected(tx, tenant, RULES), tenant)


def counters(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> dict[UUID, TimedMemory]:
    """Return stored memories with their counters, by id."""
    rows = selected(tx, tenant, select_timed(list(dict.fromkeys(memory_ids))))
    return {row[0]: timed_of(row) for row in rows}


def timed(
    tx: Transaction,
    tenant: str,
    memory_ids: Iterable[UUID],
    strengths: Mapping[UUID, float | None] | None = None,
) -> None:
    """Put written memories into their first stage, and note when they leave it.

    strengths: from the caller's function, by id.
    """
    rule_of, strengths = policies(tx, tenant), strengths or {}
    rows = []
    for memory_id, one in counters(tx, tenant, memory_ids).items():
        rule = rule_of(one.kind)
        if one.superseded_at is None and (rule is not None or one.stage > 0):
            fresh = replace(one, stage=0, staged_at=None, strength=strengths.get(memory_id))
            rows.append((memory_id, 0, None, fresh.strength, fresh.leaves_at(rule)))
    columns = ("memory_id", "stage", "staged_at", "strength", "forget_at")
    _OPERATIONS.run(tx, tenant, Insert("memory_access", columns, rows, "update", columns[1:]))


def retime(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> None:
    """Recompute when fading memories leave their stage."""
    rule_of = policies(tx, tenant)
    for operation in retimed(counters(tx, tenant, memory_ids).values(), rule_of):
        _OPERATIONS.run(tx, tenant, operation)
