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
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path
from shared_core.errors import Conflict
from shared_core.ports.facts import NamedMemory, Restoration
from shared_core.ports.graph import Edge
from shared_core.ports.runs import Fact
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, pages
from shared_core.storage.oceanbase.edge_rows import EdgeRow, Edges
from shared_core.storage.oceanbase.retention_timing import retime
from shared_core.storage.oceanbase.rows import sources_of
from shared_core.storage.oceanbase.run_records import changes_of, last_number, rows_in
from shared_core.storage.oceanbase.visibility import (
    Condition,
    held_of_told,
    liked_key,
    soon,
    told_facts,
)

FACT_COLUMNS = (
    "f.memory_id, f.fact_type, f.slot, f.value, m.text, f.confidence, f.extractor, f.pattern,"
    " f.valid_from, f.valid_until, m.thread_id, f.recorded_at, f.superseded_at, f.`key`"
)
FACTS = "facts f JOIN memories m ON m.tenant_id = f.tenant_id AND m.memory_id = f.memory_id"
_TYPE, _SLOT, _FROM, _UNTIL, _RECORDED, _KEY = 1, 2, 8, 9, 11, 13

_NEVER = datetime.max.replace(tzinfo=UTC)


_IS_OPEN = "valid_until IS NULL AND superseded_at IS NULL"


class OceanBaseFacts(OceanBasePart):
    """The facts of one scope at a time."""

    async def list_facts(
        self,
        scope: Scope,
        *,
        slot: str | None = None,
        history: bool = False,
        as_of: AsOf | None = None,
    ) -> Sequence[Fact]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> list[Fact]:
            if as_of is not None:
                return facts_as_of(tx, tenant, slot, as_of, now, history=history)
            rows = in_order(listed(tx, tenant, slot, now, history=history))
            return _facts(tx, tenant, rows)

        return await self._database.read(work)

    async def named_memory(self, scope: Scope, name: str) -> NamedMemory | None:
        tenant, now = scope_path(scope), self._clock()
        columns = f"m.kind, {FACT_COLUMNS}, m.memory_id"
        source = (
            "memories m LEFT JOIN facts f"
            " ON f.tenant_id = m.tenant_id AND f.memory_id = m.memory_id"
        )
        living = "(m.expires_at IS NULL OR m.expires_at > %s)"

        def work(tx: Transaction) -> NamedMemory | None:
            row = tx.one(
                f"SELECT {columns} FROM {source} WHERE m.tenant_id = %s AND m.namespace = %s"
                f" AND m.`key` = %s AND {living}",
                tenant,
                rest_of(memories_namespace(scope)),
                name,
                now,
            )
            if row is None and is_uuid(name):
                row = tx.one(
                    f"SELECT {columns} FROM {source} WHERE m.tenant_id = %s AND m.memory_id = %s"
                    f" AND {living}",
                    tenant,
                    UUID(name),
                    now,
                )
            if row is None:
                return None
            kind, *fact, _ = row
            if fact[0] is None:
                return NamedMemory(kind=kind, fact=None, place="")
            [found] = _facts(tx, tenant, [tuple(fact)])
            return NamedMemory(kind=kind, fact=found, place=fact[-1])

        return await self._database.read(work)

    async def facts_in_place(
        self, scope: Scope, fact_type: FactType, keys: Sequence[str]
    ) -> Sequence[Fact]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> list[Fact]:
            rows = tx.rows(
                f"SELECT {FACT_COLUMNS} FROM {FACTS} WHERE f.tenant_id = %s AND f.fact_type = %s"
                " AND f.`key` IN %s AND (m.expires_at IS NULL OR m.expires_at > %s)"
                " AND (f.valid_until IS NULL AND f.superseded_at IS NULL"
                " OR f.valid_until > %s AND m.superseded_at IS NULL) ORDER BY f.memory_id",
                tenant,
                fact_type,
                list(keys),
                now,
                now,
            )
            return _facts(tx, tenant, not_overtaken(tx, tenant, rows, now))

        return await self._database.read(work)

    async def edges_in_place(self, scope: Scope, memory_id: MemoryId) -> Sequence[Edge]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> list[Edge]:
            edges = Edges(tx, tenant, now, None)
            rivals = rivals_of_edges(tx, edges, tenant, memory_id, now)
            return [found.edge for found in edges.found(rivals)]

        return await self._database.read(work)

    async def restore_fact(self, restoration: Restoration) -> None:
        tenant, now = scope_path(restoration.scope), self._clock()

        def work(tx: Transaction) -> None:
            tx.lock(tenant)
            restore(tx, tenant, restoration, now)

        try:
            await self._database.write(work)
        except Conflict as error:
            raise Conflict(
                f"another call changed fact {restoration.memory_id}, or a fact that excludes it, at"
                " the same time: try again"
            ) from error


def _facts(tx: Transaction, tenant: str, rows: Sequence[Row]) -> list[Fact]:
    sources = sources_of(tx, tenant, [row[0] for row in rows])
    return [fact_of(row, sources.get(row[0], ())) for row in rows]


def restore(tx: Transaction, tenant: str, wanted: Restoration, now: datetime) -> None:
    """Let a fact hold again, as a run of its own; the tenant is locked.

    Raises Conflict if it was changed since, or something that cannot hold beside it is current.
    """
    _add_run(tx, tenant, wanted.run_id, now)
    if rivals_of_edges(tx, Edges(tx, tenant, now, None), tenant, wanted.memory_id, now):
        raise Conflict("an edge has taken the place")
    ended = ended_fact(tx, tenant, wanted.memory_id)
    if ended is None or ended.superseded_at != wanted.closed_at:
        raise Conflict("the fact was changed meanwhile")
    if _is_taken(tx, tenant, wanted):
        raise Conflict("the place of the fact was taken meanwhile")
    reopen(tx, tenant, wanted.run_id, [ended], now)
    reopen_told(tx, tenant, wanted.run_id, wanted.memory_id, wanted.closed_at)
    _reopen_edges(tx, tenant, wanted)
    retime(tx, tenant, [one.target for one in changes_of(tx, tenant, wanted.run_id)])


def _add_run(tx: Transaction, tenant: str, run_id: UUID, now: datetime) -> None:
    tx.insert(
        "runs",
        ("tenant_id", "run_id", "kind", "extractor", "counts", "started_at", "finished_at",
         "number"),
        [(tenant, run_id, "restoration", "caller", to_json({"restored": 1}), now, now,
          last_number(tx, tenant) + 1)],
    )  # fmt: skip


def _is_taken(tx: Transaction, tenant: str, wanted: Restoration) -> bool:
    return bool(
        tx.rows(
            "SELECT 1 FROM facts f JOIN facts x ON x.tenant_id = f.tenant_id"
            " AND x.fact_type = f.fact_type WHERE f.tenant_id = %s AND f.memory_id = %s"
            " AND x.`key` IN %s AND x.valid_until IS NULL AND x.superseded_at IS NULL LIMIT 1",
            tenant,
            wanted.memory_id,
            list(wanted.keys),
        )
    )


def _reopen_edges(tx: Transaction, tenant: str, wanted: Restoration) -> None:
    """With a fact come back the edges that ended with it, unless others took their place."""
    rows = tx.rows(
        "SELECT edge_id, valid_until, superseded_at, subject_key, relation, object_key, functional"
        " FROM edges WHERE tenant_id = %s AND fact_id = %s AND superseded_at = %s",
        tenant,
        wanted.memory_id,
        wanted.closed_at,
    )
    free = _free(tx, tenant, rows)
    for page in pages([row[0] for row in free]):
        tx.run(
            "UPDATE edges SET valid_until = NULL, superseded_at = NULL"
            " WHERE tenant_id = %s AND edge_id IN %s",
            tenant,
            page,
        )
    before = (
        (row[0], {"valid_until": moment(row[1]), "superseded_at": moment(row[2])}) for row in free
    )
    note_moves(tx, tenant, wanted.run_id, before)


def _free(tx: Transaction, tenant: str, rows: list[Row]) -> list[Row]:
    """Return those edges in whose place no current one stands."""
    places = sorted({(row[3], row[4]) for row in rows})
    held = [
        row
        for page in pages(places)
        for row in tx.rows(
            "SELECT subject_key, relation, object_key, functional FROM edges"
            f" WHERE tenant_id = %s AND (subject_key, relation) IN %s AND {_IS_OPEN}",
            tenant,
            page,
        )
    ]

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
