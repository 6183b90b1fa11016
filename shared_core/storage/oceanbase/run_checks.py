"""What must still be as a run found it, and what there is only one of; Conflict where it is not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Turn
from shared_core.errors import Conflict
from shared_core.ports.runs import RunPlan
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.forgetting import by_thread
from shared_core.storage.oceanbase.run_reads import living_summary
from shared_core.storage.oceanbase.run_records import rows_in
from shared_core.storage.oceanbase.visibility import living


def require_unchanged(
    tx: Transaction, tenant: str, namespace: str, plan: RunPlan, now: datetime
) -> None:
    """Raise Conflict if what a run rests on has changed since it read it; the tenant is locked."""
    _require_turns(tx, tenant, {*plan.drawn_from})
    _require_memories(tx, tenant, {memory_id for _, memory_id in plan.inherited})
    if plan.summary_key is not None:
        summary = living_summary(tx, tenant, namespace, plan.summary_key, now)
        if (summary[1] if summary else None) != plan.summary_run:
            raise Conflict("the summary was changed meanwhile")
    if plan.slots or plan.relations:
        _require_known(tx, tenant, plan)
    lives = living(now)
    if list(
        rows_in(
            tx,
            "SELECT m.memory_id FROM memories m WHERE m.tenant_id = %s AND m.words_key IN %s"
            f" AND m.namespace = %s AND {lives.sql}",
            tenant,
            plan.unsaid,
            namespace,
            *lives.values,
        )
    ):
        raise Conflict("a statement was written by another run")


def _require_turns(tx: Transaction, tenant: str, turns: Collection[Turn]) -> None:
    there = sum(
        len(
            tx.rows(
                "SELECT event_id FROM events WHERE tenant_id = %s AND thread_id = %s"
                " AND event_id IN %s AND memory_seq IS NOT NULL",
                tenant,
                thread_id,
                page,
            )
        )
        for thread_id, event_ids in by_thread(turns).items()
        for page in pages(event_ids)
    )
    if there != len(turns):
        raise Conflict("a turn was forgotten meanwhile")


def _require_memories(tx: Transaction, tenant: str, memory_ids: Collection[UUID]) -> None:
    sql = "SELECT memory_id FROM memories WHERE tenant_id = %s AND memory_id IN %s"
    if len(list(rows_in(tx, sql, tenant, sorted(memory_ids)))) != len(memory_ids):
        raise Conflict("a memory was forgotten meanwhile")


def _require_known(tx: Transaction, tenant: str, plan: RunPlan) -> None:
    """Raise Conflict if a later run changed facts or retractions of the slots, or edges."""
    later = [
        row[0]
        for row in tx.rows(
            "SELECT run_id FROM runs WHERE tenant_id = %s AND number > %s",
            tenant,
            plan.known_number,
        )
    ]
    of_slot = "f.slot IN %s LIMIT 1"
    asked: list[tuple[str, Sequence[object]]] = [
        ("SELECT 1 FROM memories m JOIN facts f ON f.tenant_id = m.tenant_id"
         " AND f.memory_id = m.memory_id WHERE m.tenant_id = %s AND m.run_id IN %s"
         f" AND {of_slot}", plan.slots),
        ("SELECT 1 FROM run_changes c JOIN facts f ON f.tenant_id = c.tenant_id"
         " AND f.memory_id = c.target WHERE c.tenant_id = %s AND c.run_id IN %s"
         f" AND {of_slot}", plan.slots),
        (f"SELECT 1 FROM retractions f WHERE f.tenant_id = %s AND f.run_id IN %s AND {of_slot}",
         plan.slots),
        ("SELECT 1 FROM edges e WHERE e.tenant_id = %s AND e.run_id IN %s"
         " AND (e.subject_key, e.relation) IN %s LIMIT 1", plan.relations),
        ("SELECT 1 FROM run_changes c JOIN edges e ON e.tenant_id = c.tenant_id"
         " AND e.edge_id = c.target WHERE c.tenant_id = %s AND c.run_id IN %s"
         " AND c.`change` IN ('edge', 'moved')"
         " AND (e.subject_key, e.relation) IN %s LIMIT 1", plan.relations),
    ]  # fmt: skip
    for sql, looked_at in asked:
        for page in pages(list(looked_at)):
            if any(True for _ in rows_in(tx, sql, tenant, later, page)):
                raise Conflict("a fact was changed by another run")


def require_places(
    tx: Transaction, tenant: str, facts: Iterable[UUID] = (), edges: Iterable[UUID] = ()
) -> None:
    """Raise Conflict if two facts of a key, or two edges of a place, hold where one of these does.

    There is one current fact of a type and key; one edge of subject, relation and object, and of a
    functional relation one of subject and relation.
    """
    is_open = "{0}.valid_until IS NULL AND {0}.superseded_at IS NULL"
    taken = (
        "SELECT 1 FROM facts f JOIN facts o ON o.tenant_id = f.tenant_id"
        " AND o.fact_type = f.fact_type AND o.`key` = f.`key` AND o.memory_id <> f.memory_id"
        " WHERE f.tenant_id = %s AND f.memory_id IN %s"
        f" AND {is_open.format('f')} AND {is_open.format('o')} LIMIT 1"
    )
    if list(rows_in(tx, taken, tenant, list(facts))):
        raise Conflict("another fact holds in its place")
    taken = (
        "SELECT 1 FROM edges e JOIN edges o ON o.tenant_id = e.tenant_id"
        " AND o.subject_key = e.subject_key AND o.relation = e.relation AND o.edge_id <> e.edge_id"
        " AND (o.object_key = e.object_key OR o.functional = 1 AND e.functional = 1)"
        " WHERE e.tenant_id = %s AND e.edge_id IN %s"
        f" AND {is_open.format('e')} AND {is_open.format('o')} LIMIT 1"
    )
    if list(rows_in(tx, taken, tenant, list(edges))):
        raise Conflict("another edge holds in its place")
