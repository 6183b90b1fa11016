"""Facts as rows: which hold, which are overtaken, and what stands in the place of one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import UUID

from shared_core.core.domain import AsOf, MemoryId
from shared_core.ports.runs import Fact
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.edge_rows import EdgeRow, Edges
from shared_core.storage.oceanbase.facts_as_of import held_of_told, told_facts
from shared_core.storage.oceanbase.rows import sources_of
from shared_core.storage.oceanbase.run_records import rows_in
from shared_core.storage.oceanbase.visibility import Condition, soon

FACT_COLUMNS = (
    "f.memory_id, f.fact_type, f.slot, f.value, m.text, f.confidence, f.extractor, f.pattern,"
    " f.valid_from, f.valid_until, m.thread_id, f.recorded_at, f.superseded_at, f.`key`"
)
FACTS = "facts f JOIN memories m ON m.tenant_id = f.tenant_id AND m.memory_id = f.memory_id"
_TYPE, _SLOT, _FROM, _UNTIL, _RECORDED, _KEY = 1, 2, 8, 9, 11, 13

_NEVER = datetime.max.replace(tzinfo=UTC)


def fact_of(row: Row, sources: Sequence[str]) -> Fact:
    """Return the fact in FACT_COLUMNS."""
    return Fact(
        memory_id=MemoryId(row[0]),
        fact_type=row[1],
        slot=row[2],
        value=json.loads(row[3]),
        statement=row[4],
        confidence=row[5],
        extractor=row[6],
        pattern=row[7],
        valid_from=row[8],
        valid_until=row[9],
        thread_id=row[10],
        source_event_ids=tuple(sources),
        recorded_at=row[11],
        superseded_at=row[12],
    )


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Return rows of facts: current ones first, then those that ended, newest first."""
    ordered = sorted(rows, key=lambda row: bytes(row[0].bytes))
    ordered.sort(key=lambda row: row[_FROM], reverse=True)
    ordered.sort(key=lambda row: (row[_TYPE], row[_SLOT]))
    ordered.sort(key=lambda row: (row[_UNTIL] is None, row[_UNTIL] or _NEVER), reverse=True)
    return ordered


def listed(
    tx: Transaction, tenant: str, slot: str | None, now: datetime, *, history: bool
) -> list[Row]:
    """Return the facts that hold now, of a slot or all; history: what had ended, and begins later.

    In no order.
    """
    wanted = Condition("TRUE") if slot is None else Condition("f.slot = %s", (slot,))
    holding = Condition(
        "f.valid_from <= %s AND (f.valid_until IS NULL AND f.superseded_at IS NULL"
        " OR f.valid_until > %s AND m.superseded_at IS NULL)",
        (soon(now), now),
    )
    held = Condition("TRUE") if history else holding
    rows = tx.rows(
        f"SELECT {FACT_COLUMNS} FROM {FACTS} WHERE f.tenant_id = %s"
        " AND (m.expires_at IS NULL OR m.expires_at > %s) AND m.demoted_at IS NULL"
        f" AND {wanted.sql} AND {held.sql}",
        tenant,
        now,
        *wanted.values,
        *held.values,
    )
    return rows if history else not_overtaken(tx, tenant, rows, now)


def not_overtaken(tx: Transaction, tenant: str, rows: Sequence[Row], now: datetime) -> list[Row]:
    """Return facts without those with an end to come before which another value has come."""
    ending = sorted({(row[_TYPE], row[_KEY]) for row in rows if row[_UNTIL] is not None})
    last: dict[tuple[str, str], tuple[datetime, datetime, UUID]] = {}
    for page in pages(ending):
        for fact_type, key, *began in tx.rows(
            "SELECT fact_type, `key`, valid_from, recorded_at, memory_id FROM facts"
            " WHERE tenant_id = %s AND (fact_type, `key`) IN %s AND valid_from <= %s"
            " AND (valid_until IS NULL OR valid_until > %s)",
            tenant,
            page,
            soon(now),
            now,
        ):
            place, start = (fact_type, key), (began[0], began[1], began[2])
            last[place] = max(last.get(place, start), start)

    def is_overtaken(row: Row) -> bool:
        later = last.get((row[_TYPE], row[_KEY]))
        return later is not None and later > (row[_FROM], row[_RECORDED], row[0])

    return [row for row in rows if row[_UNTIL] is None or not is_overtaken(row)]


def facts_as_of(
    tx: Transaction, tenant: str, slot: str | None, as_of: AsOf, now: datetime, *, history: bool
) -> list[Fact]:
    """Return the facts that held at a moment; history: those that had ended as well.

    Newest first. A like and the dislike of the same stand in one place, whatever slot is asked for.
    """
    told = told_facts(tx, tenant, now, as_of)
    held = set(held_of_told(told, as_of.valid or now))
    wanted = {
        one.memory_id: one
        for one in told
        if (slot is None or one.slot == slot) and (history or one.memory_id in held)
    }
    texts = {
        row[0]: row[1:]
        for row in rows_in(
            tx,
            "SELECT memory_id, text, thread_id FROM memories"
            " WHERE tenant_id = %s AND memory_id IN %s",
            tenant,
            list(wanted),
        )
    }
    rows: list[Row] = [
        (memory_id, one.fact_type, one.slot, one.value, texts[memory_id][0], one.confidence,
         one.extractor, one.pattern, one.valid_from, one.valid_until, texts[memory_id][1],
         one.recorded_at, one.closed_at, one.key)
        for memory_id, one in wanted.items()
    ]  # fmt: skip
    sources = sources_of(tx, tenant, list(wanted))
    return [fact_of(row, sources.get(row[0], ())) for row in in_order(rows)]


def rivals_of_edges(
    tx: Transaction, edges: Edges, tenant: str, memory_id: UUID, now: datetime
) -> list[EdgeRow]:
    """Return current edges in the place of those that ended with a fact.

    Of relations with one object.
    """
    ended = tx.rows(
        "SELECT o.subject_key, o.relation, o.object_key FROM edges o"
        " JOIN facts f ON f.tenant_id = o.tenant_id AND f.memory_id = o.fact_id"
        " WHERE o.tenant_id = %s AND o.fact_id = %s AND o.functional = 1"
        " AND o.superseded_at = f.superseded_at",
        tenant,
        memory_id,
    )
    if not ended:
        return []
    there = edges.where(
        Condition(
            "(e.subject_key, e.relation) IN %s AND e.functional = 1 AND e.valid_from <= %s"
            " AND (e.valid_until IS NULL AND e.superseded_at IS NULL OR e.valid_until > %s)",
            (sorted({row[:2] for row in ended}), soon(now), now),
        )
    )
    return [
        one
        for one in there
        if any(
            (one.subject_key, one.relation) == (subject, relation) and one.object_key != object_
            for subject, relation, object_ in ended
        )
    ]
