"""OceanBaseStorage: which facts hold or held, and how an ended fact holds again.

Reopening means the same as {reopened}, reopen_told and require_no_opposite of PostgreSQL's queries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from shared_core.core.domain import AsOf, FactType, MemoryId, Scope
from shared_core.core.ids import is_uuid
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path
from shared_core.errors import Conflict
from shared_core.ports.facts import NamedMemory, Restoration
from shared_core.ports.graph import Edge
from shared_core.ports.runs import Fact
from shared_core.storage.oceanbase.base import OceanBasePart, reading
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.edge_rows import EdgeRow, Edges
from shared_core.storage.oceanbase.retention_timing import retime
from shared_core.storage.oceanbase.rows import sources_of
from shared_core.storage.oceanbase.run_changes import require_places
from shared_core.storage.oceanbase.run_reads import shown
from shared_core.storage.oceanbase.run_records import (
    changes_of,
    ends_before,
    insert_caller_run,
    iso,
    note,
)
from shared_core.storage.oceanbase.visibility import (
    OPEN,
    WhereClause,
    facts_holding_at,
    if_set,
    liked_key,
    recorded_facts,
    soon,
)

FACT_COLUMNS = (
    "f.memory_id, f.fact_type, f.slot, f.value, m.text, f.confidence, f.extractor, f.pattern,"
    " f.valid_from, f.valid_until, m.thread_id, f.recorded_at, f.superseded_at, f.`key`"
)
FACTS = "facts f JOIN memories m ON m.tenant_id = f.tenant_id AND m.memory_id = f.memory_id"
ENDED_EDGE = (
    "edge_id, valid_until, superseded_at, subject_key, relation, object_key, functional, fact_id"
)
_TYPE, _SLOT, _FROM, _UNTIL, _RECORDED, _KEY = 1, 2, 8, 9, 11, 13
_NEVER = datetime.max.replace(tzinfo=UTC)


class OceanBaseFacts(OceanBasePart):
    """Facts of one scope, as they hold now or held at a moment."""

    @reading
    def list_facts(
        self,
        tx: Transaction,
        scope: Scope,
        *,
        slot: str | None = None,
        history: bool = False,
        as_of: AsOf | None = None,
    ) -> Sequence[Fact]:
        tenant, now = scope_path(scope), self._clock()
        if as_of is not None:
            return facts_as_of(tx, tenant, slot, as_of, now, history=history)
        rows = in_order(listed(tx, tenant, slot, now, history=history))
        return _facts(tx, tenant, rows)

    @reading
    def named_memory(self, tx: Transaction, scope: Scope, name: str) -> NamedMemory | None:
        tenant, now = scope_path(scope), self._clock()
        query = (
            f"SELECT m.kind, {FACT_COLUMNS} FROM memories m LEFT JOIN facts f"
            " ON f.tenant_id = m.tenant_id AND f.memory_id = m.memory_id"
            " WHERE (m.expires_at IS NULL OR m.expires_at > %s) AND m.tenant_id = %s AND"
        )
        namespace = rest_of(memories_namespace(scope))
        by_key = f"{query} m.namespace = %s AND m.`key` = %s"
        row = tx.one(by_key, [now, tenant, namespace, name])
        if row is None and is_uuid(name):
            row = tx.one(f"{query} m.memory_id = %s", [now, tenant, UUID(name)])
        if row is None:
            return None
        kind, *fact = row
        if fact[0] is None:
            return NamedMemory(kind=kind, fact=None, place="")
        [found] = _facts(tx, tenant, [tuple(fact)])
        return NamedMemory(kind=kind, fact=found, place=fact[-1])

    @reading
    def facts_in_place(
        self, tx: Transaction, scope: Scope, fact_type: FactType, keys: Sequence[str]
    ) -> Sequence[Fact]:
        tenant, now = scope_path(scope), self._clock()
        rows = tx.rows(
            f"SELECT {FACT_COLUMNS} FROM {FACTS} WHERE f.tenant_id = %s AND f.fact_type = %s"
            " AND f.`key` IN %s AND (m.expires_at IS NULL OR m.expires_at > %s)"
            " AND (f.valid_until IS NULL AND f.superseded_at IS NULL"
            " OR f.valid_until > %s AND m.superseded_at IS NULL) ORDER BY f.memory_id",
            [tenant, fact_type, list(keys), now, now],
        )
        return _facts(tx, tenant, not_superseded(tx, tenant, rows, now))

    @reading
    def edges_in_place(self, tx: Transaction, scope: Scope, memory_id: MemoryId) -> Sequence[Edge]:
        tenant, now = scope_path(scope), self._clock()
        edges = Edges(tx, tenant, now, None)
        rivals = rivals_of_edges(tx, edges, tenant, memory_id, now)
        return [found.edge for found in edges.found(rivals)]

    async def restore_fact(self, restoration: Restoration) -> None:
        tenant, now = scope_path(restoration.scope), self._clock()

        try:
            await self._database.write(lambda tx: restore(tx, tenant, restoration, now), tenant)
        except Conflict as error:
            raise Conflict(
                f"another call changed fact {restoration.memory_id}, or a fact that excludes it, at"
                " the same time: try again"
            ) from error


def _facts(tx: Transaction, tenant: str, rows: Sequence[Row]) -> list[Fact]:
    sources = sources_of(tx, tenant, [row[0] for row in rows])
    return [fact_of(row, sources.get(row[0], ())) for row in rows]


def restore(tx: Transaction, tenant: str, restoration: Restoration, now: datetime) -> None:
    """Let a fact hold again, as a run of its own; the tenant is locked.

    Raises Conflict if it has changed since, or if a current fact or edge excludes it.
    """
    insert_caller_run(tx, tenant, restoration.run_id, now, "restoration", {"restored": 1})
    if rivals_of_edges(tx, Edges(tx, tenant, now, None), tenant, restoration.memory_id, now):
        raise Conflict("an edge has taken the place")
    ended = ended_fact(tx, tenant, restoration.memory_id)
    if ended is None or ended.superseded_at != restoration.closed_at:
        raise Conflict("the fact was changed meanwhile")
    if _is_taken(tx, tenant, restoration):
        raise Conflict("the place of the fact was taken meanwhile")
    reopen(tx, tenant, restoration.run_id, [ended], now)
    reopen_derived(tx, tenant, restoration.run_id, restoration.memory_id, restoration.closed_at)
    _reopen_edges(tx, tenant, restoration)
    retime(tx, tenant, [one.target for one in changes_of(tx, tenant, restoration.run_id)])


def _is_taken(tx: Transaction, tenant: str, restoration: Restoration) -> bool:
    return tx.has(
        "SELECT 1 FROM facts f JOIN facts x ON x.tenant_id = f.tenant_id"
        " AND x.fact_type = f.fact_type WHERE f.tenant_id = %s AND f.memory_id = %s"
        " AND x.`key` IN %s AND x.valid_until IS NULL AND x.superseded_at IS NULL LIMIT 1",
        [tenant, restoration.memory_id, list(restoration.keys)],
    )


def _reopen_edges(tx: Transaction, tenant: str, restoration: Restoration) -> None:
    """Let the edges that ended with a fact hold again, unless others took their place."""
    rows = tx.rows(
        f"SELECT {ENDED_EDGE} FROM edges"
        " WHERE tenant_id = %s AND fact_id = %s AND superseded_at = %s",
        [tenant, restoration.memory_id, restoration.closed_at],
    )
    reopen_edges(tx, tenant, restoration.run_id, free_edges(tx, tenant, rows))


def reopen_edges(tx: Transaction, tenant: str, run_id: UUID, rows: Sequence[Row]) -> None:
    """Let edges hold again and note their ends; rows: edge, valid_until, superseded_at, ..."""
    tx.run_in(
        "UPDATE edges SET valid_until = NULL, superseded_at = NULL"
        " WHERE tenant_id = %s AND edge_id IN %s",
        [tenant, [row[0] for row in rows]],
    )
    note(tx, tenant, run_id, "moved", ((row[0], ends_before(row[1], row[2])) for row in rows))


def free_edges(tx: Transaction, tenant: str, rows: Sequence[Row]) -> list[Row]:
    """Return the edges with a place that no current edge has taken; rows: ENDED_EDGE columns."""
    places = sorted({(row[3], row[4]) for row in rows})
    held = tx.rows_in(
        "SELECT subject_key, relation, object_key, functional FROM edges"
        f" WHERE tenant_id = %s AND (subject_key, relation) IN %s AND {OPEN}",
        [tenant, places],
    )

    def is_free(row: Row) -> bool:
        place, object_key, functional = row[3:5], row[5], row[6]
        return not any(
            other[:2] == place and (other[2] == object_key or (functional and other[3]))
            for other in held
        )

    return [row for row in rows if is_free(row)]


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
    """Return rows of facts in order: current ones, then ended ones, each newest first."""
    ordered = sorted(rows, key=lambda row: bytes(row[0].bytes))
    ordered.sort(key=lambda row: row[_FROM], reverse=True)
    ordered.sort(key=lambda row: (row[_TYPE], row[_SLOT]))
    ordered.sort(key=lambda row: (row[_UNTIL] is None, row[_UNTIL] or _NEVER), reverse=True)
    return ordered


def listed(
    tx: Transaction, tenant: str, slot: str | None, now: datetime, *, history: bool
) -> list[Row]:
    """Return the facts that hold now, in no order; history: ended and future ones as well.

    slot: only the facts of this slot.
    """
    of_slot = if_set("f.slot = %s", slot)
    holding = WhereClause(
        "f.valid_from <= %s AND (f.valid_until IS NULL AND f.superseded_at IS NULL"
        " OR f.valid_until > %s AND m.superseded_at IS NULL)",
        (soon(now), now),
    )
    held = WhereClause("TRUE") if history else holding
    rows = tx.rows(
        f"SELECT {FACT_COLUMNS} FROM {FACTS} WHERE f.tenant_id = %s"
        " AND (m.expires_at IS NULL OR m.expires_at > %s) AND m.demoted_at IS NULL"
        f" AND {of_slot.sql} AND {held.sql}",
        [tenant, now, *of_slot.values, *held.values],
    )
    return rows if history else not_superseded(tx, tenant, rows, now)


def not_superseded(tx: Transaction, tenant: str, rows: Sequence[Row], now: datetime) -> list[Row]:
    """Drop facts with a future end that a later value has replaced already."""
    ending = sorted({(row[_TYPE], row[_KEY]) for row in rows if row[_UNTIL] is not None})
    last: dict[tuple[str, str], tuple[datetime, datetime, UUID]] = {}
    for fact_type, key, *began in tx.rows_in(
        "SELECT fact_type, `key`, valid_from, recorded_at, memory_id FROM facts"
        " WHERE tenant_id = %s AND (fact_type, `key`) IN %s AND valid_from <= %s"
        " AND (valid_until IS NULL OR valid_until > %s)",
        [tenant, ending, soon(now), now],
    ):
        place, start = (fact_type, key), (began[0], began[1], began[2])
        last[place] = max(last.get(place, start), start)

    def is_superseded(row: Row) -> bool:
        later = last.get((row[_TYPE], row[_KEY]))
        return later is not None and later > (row[_FROM], row[_RECORDED], row[0])

    return [row for row in rows if row[_UNTIL] is None or not is_superseded(row)]


def facts_as_of(
    tx: Transaction, tenant: str, slot: str | None, as_of: AsOf, now: datetime, *, history: bool
) -> list[Fact]:
    """Return the facts that held at a moment, newest first; history: ended ones as well.

    A like and the dislike of the same thing share a place, even if only one slot is listed.
    """
    recorded = recorded_facts(tx, tenant, now, as_of)
    held = set(facts_holding_at(recorded, as_of.valid or now))
    selected = {
        one.memory_id: one
        for one in recorded
        if (slot is None or one.slot == slot) and (history or one.memory_id in held)
    }
    texts = {
        row[0]: row[1:]
        for row in tx.select("memories", "memory_id, text, thread_id", tenant, memory_id=selected)
    }
    rows: list[Row] = [
        (memory_id, one.fact_type, one.slot, one.value, texts[memory_id][0], one.confidence,
         one.extractor, one.pattern, one.valid_from, one.valid_until, texts[memory_id][1],
         one.recorded_at, one.closed_at, one.key)
        for memory_id, one in selected.items()
    ]  # fmt: skip
    sources = sources_of(tx, tenant, list(selected))
    return [fact_of(row, sources.get(row[0], ())) for row in in_order(rows)]


def rivals_of_edges(
    tx: Transaction, edges: Edges, tenant: str, memory_id: UUID, now: datetime
) -> list[EdgeRow]:
    """Return current edges in the place of functional edges that ended with a fact."""
    ended = tx.rows(
        "SELECT o.subject_key, o.relation, o.object_key FROM edges o"
        " JOIN facts f ON f.tenant_id = o.tenant_id AND f.memory_id = o.fact_id"
        " WHERE o.tenant_id = %s AND o.fact_id = %s AND o.functional = 1"
        " AND o.superseded_at = f.superseded_at",
        [tenant, memory_id],
    )
    if not ended:
        return []
    there = edges.where(
        WhereClause(
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


class EndedFact(NamedTuple):
    """A fact that has ended, and when its memory was retired."""

    memory_id: UUID
    valid_until: datetime
    superseded_at: datetime
    retired_at: datetime | None


def ended_fact(tx: Transaction, tenant: str, memory_id: UUID) -> EndedFact | None:
    """Return a fact that has a known end, or None."""
    row = tx.one(
        "SELECT f.memory_id, f.valid_until, f.superseded_at, m.superseded_at FROM facts f"
        " JOIN memories m ON m.tenant_id = f.tenant_id AND m.memory_id = f.memory_id"
        " WHERE f.tenant_id = %s AND f.memory_id = %s AND f.superseded_at IS NOT NULL",
        [tenant, memory_id],
    )
    return EndedFact(*row) if row else None


def reopen(
    tx: Transaction, tenant: str, run_id: UUID, ended: Sequence[EndedFact], now: datetime
) -> None:
    """Let facts hold again, and keep their ends as once believed (fact_closures, run_changes).

    Raises Conflict if another fact has taken the place of one.
    """
    tx.insert(
        "fact_closures",
        ("tenant_id", "memory_id", "closed_at", "restored_at", "valid_until", "run_id"),
        ((tenant, one.memory_id, one.superseded_at, now, one.valid_until, run_id) for one in ended),
    )
    before = (
        (
            one.memory_id,
            {**ends_before(one.valid_until, one.superseded_at), "retired_at": iso(one.retired_at)},
        )
        for one in ended
    )
    note(tx, tenant, run_id, "moved", before)
    ids = [one.memory_id for one in ended]
    tx.update("facts", {"valid_until": None, "superseded_at": None}, tenant, memory_id=ids)
    tx.update("memories", {"superseded_at": None}, tenant, memory_id=ids)
    require_places(tx, tenant, ids)


def require_no_opposite(tx: Transaction, tenant: str, memory_id: UUID) -> None:
    """Raise Conflict if both a fact and its opposite hold: a like and a dislike."""
    row = tx.one(
        "SELECT fact_type, `key` FROM facts WHERE tenant_id = %s AND memory_id = %s"
        " AND valid_until IS NULL AND superseded_at IS NULL",
        [tenant, memory_id],
    )
    if row is None:
        return
    fact_type, key = row
    others = tx.rows(
        "SELECT `key` FROM facts WHERE tenant_id = %s AND fact_type = %s AND `key` <> %s"
        " AND valid_until IS NULL AND superseded_at IS NULL",
        [tenant, fact_type, key],
    )
    if any(liked_key(other) == liked_key(key) for (other,) in others):
        raise Conflict("the opposite holds now: retract that first")


def reopen_derived(
    tx: Transaction, tenant: str, run_id: UUID, memory_id: UUID, closed_at: datetime
) -> None:
    """Restore the statements and reflections that were retired with a fact.

    A statement stays retired if it contains the value of another ended fact. A reflection stays
    retired if one of its bases does.
    """
    statements = _statements_of(tx, tenant, memory_id, closed_at)
    back = [*statements, *_reflections_on(tx, tenant, closed_at, statements)]
    tx.update("memories", {"superseded_at": None}, tenant, memory_id=back)
    retired = {"retired_at": iso(closed_at)}
    note(tx, tenant, run_id, "moved", ((one, retired) for one in back))


def _statements_of(
    tx: Transaction, tenant: str, memory_id: UUID, closed_at: datetime
) -> list[UUID]:
    fact = tx.select_one("facts", "value", tenant, memory_id=memory_id)
    if fact is None:
        return []
    value = shown(fact[0]).lower()
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
            [tenant, memory_id, closed_at],
        )
        if value in text.lower()
    }
    others = tx.rows(
        "SELECT y.memory_id, x.value FROM memory_sources y"
        " JOIN memory_sources z ON z.tenant_id = y.tenant_id AND z.thread_id = y.thread_id"
        " AND z.event_id = y.event_id"
        " JOIN facts x ON x.tenant_id = z.tenant_id AND x.memory_id = z.memory_id"
        " WHERE y.tenant_id = %s AND y.memory_id IN %s AND x.superseded_at IS NOT NULL",
        [tenant, list(statements)],
    )
    ended = {one for one, other in others if shown(other).lower() in statements[one].lower()}
    return [one for one in statements if one not in ended]


def _reflections_on(
    tx: Transaction, tenant: str, closed_at: datetime, restored: Sequence[UUID]
) -> list[UUID]:
    rows = tx.rows(
        "SELECT m.memory_id, d.basis_id, b.superseded_at FROM memories m"
        " JOIN memory_bases d ON d.tenant_id = m.tenant_id AND d.memory_id = m.memory_id"
        " LEFT JOIN memories b ON b.tenant_id = d.tenant_id AND b.memory_id = d.basis_id"
        " WHERE m.tenant_id = %s AND m.superseded_at = %s",
        [tenant, closed_at],
    )
    retired = {one for one, basis, at in rows if at is not None and basis not in restored}
    return sorted({row[0] for row in rows} - retired - set(restored))
