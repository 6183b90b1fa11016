"""Forgets turns and memories together with everything derived from them alone.

A forgotten turn leaves a tombstone. With it go the memories and edges without a complete basis
left, and the replaced summaries of its thread. These also go with a deleted summary. Reflections
go with every memory they were derived from. A session log keeps its event, as not remembered.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, grouped, pages
from shared_core.storage.oceanbase.vectors import vector_tables

TurnKey = tuple[str, str]
"""The ids of a thread and of one of its turns."""
Basis = tuple[UUID, int]
"""A memory or an edge, and the number of one of its bases."""
_RELATION = "relation."
_BLANKED = str.maketrans("@:", "  ")


@dataclass(frozen=True, slots=True)
class _BrokenBases:
    """Bases that lose a turn, and the memories or edges without a complete basis left."""

    bases: set[Basis]
    baseless: set[UUID]


def forget_memories(
    tx: Transaction, tenant: str, memory_ids: Iterable[UUID], now: datetime
) -> set[UUID]:
    """Delete memories, the turns they are, and everything derived from them alone.

    Returns the ids of all deleted memories. The tenant is locked.
    """
    named = kinds_of(tx, tenant, memory_ids)
    episodic = [memory_id for memory_id, kind in named.items() if kind == "episodic"]
    return _forget(tx, tenant, turns_of(tx, tenant, episodic), named, now)


def turns_of(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> set[TurnKey]:
    """Return the turns that memories were derived from."""
    return set(tx.select("memory_sources", "thread_id, event_id", tenant, memory_id=memory_ids))


def forget_turns(
    tx: Transaction, tenant: str, thread_id: str, event_ids: Iterable[str], now: datetime
) -> set[UUID]:
    """Forget some turns of a thread, stored or not, and everything derived from them alone.

    Returns the ids of all deleted memories. The tenant is locked.
    """
    turns = {(thread_id, event_id) for event_id in event_ids}
    drawn = {memory_id for memory_id, _ in _drawn_from(tx, "memory", tenant, turns)}
    named = {
        memory_id: kind
        for memory_id, kind in kinds_of(tx, tenant, drawn).items()
        if kind == "episodic"
    }
    return _forget(tx, tenant, turns, named, now)


def forget_thread(tx: Transaction, tenant: str, thread_id: str, now: datetime) -> set[UUID]:
    """Forget all turns of a thread, its summaries, and everything derived from them alone.

    Returns the ids of all deleted memories. The tenant is locked.
    """
    turns = tx.select("events", "event_id", tenant, thread_id=thread_id)
    drawn = tx.select("memory_sources", "memory_id, event_id", tenant, thread_id=thread_id)
    named = {
        memory_id: kind
        for memory_id, kind in kinds_of(tx, tenant, {row[0] for row in drawn}).items()
        if kind in ("episodic", "summary")
    }
    event_ids = {row[0] for row in turns} | {row[1] for row in drawn}
    return _forget(tx, tenant, {(thread_id, event_id) for event_id in event_ids}, named, now)


def kinds_of(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the kinds of stored memories."""
    return dict(tx.select("memories", "memory_id, kind", tenant, memory_id=sorted(set(memory_ids))))


def delete_memories(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> None:
    """Delete memories with the rows that depend on them, and nothing else."""
    vectors = vector_tables(tx)
    for page in pages(sorted(memory_ids)):
        # Deleting these rows first halves the time that their foreign keys would take.
        for table in (*vectors, "memory_sources", "memory_access", "memories"):
            tx.run(f"DELETE FROM {table} WHERE tenant_id = %s AND memory_id IN %s", [tenant, page])


def by_thread(turns: Iterable[TurnKey]) -> dict[str, list[str]]:
    """Return the ids of turns by their thread, in order."""
    return grouped(sorted(turns))


def _forget(
    tx: Transaction,
    tenant: str,
    turns: Collection[TurnKey],
    named: Mapping[UUID, str],
    now: datetime,
) -> set[UUID]:
    broken = _broken(tx, "memory", tenant, turns)
    broken_edges = _broken(tx, "edge", tenant, turns)
    derived = _derived(tx, tenant, turns, named, broken)
    gone = named.keys() | derived
    going = gone | _resting_on(tx, tenant, gone)
    bury_turns(tx, tenant, turns, now)
    _unretract(tx, tenant, turns, derived)
    drop_bases(tx, "memory", tenant, (basis for basis in broken.bases if basis[0] not in going))
    _forget_edges(tx, tenant, broken_edges, derived)
    delete_memories(tx, tenant, going)
    return going


def _drawn_from(tx: Transaction, what: str, tenant: str, turns: Iterable[TurnKey]) -> set[Basis]:
    """Return the bases of memories or edges that contain some turns."""
    return {
        (owner, basis)
        for thread_id, event_ids in by_thread(turns).items()
        for owner, basis in tx.rows_in(
            f"SELECT {what}_id, basis FROM {what}_sources"
            " WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s",
            [tenant, thread_id, event_ids],
        )
    }


def _broken(tx: Transaction, what: str, tenant: str, turns: Iterable[TurnKey]) -> _BrokenBases:
    bases = _drawn_from(tx, what, tenant, turns)
    touched = {owner for owner, _ in bases}
    whole = {owner for owner, basis in _bases_of(tx, what, tenant, touched) - bases}
    return _BrokenBases(bases, touched - whole)


def _bases_of(tx: Transaction, what: str, tenant: str, owners: Iterable[UUID]) -> set[Basis]:
    sql = f"SELECT {what}_id, basis FROM {what}_sources WHERE tenant_id = %s AND {what}_id IN %s"
    return set(tx.rows_in(sql, [tenant, sorted(owners)]))


def _derived(
    tx: Transaction,
    tenant: str,
    turns: Collection[TurnKey],
    named: Mapping[UUID, str],
    broken: _BrokenBases,
) -> set[UUID]:
    """Return the memories that go without a basis, and the replaced summaries that go along."""
    kinds = kinds_of(tx, tenant, broken.baseless)
    derived = {memory_id for memory_id, kind in kinds.items() if kind != "episodic"}
    summaries = [memory_id for memory_id, kind in named.items() if kind == "summary"]
    threads = {thread_id for thread_id, _ in turns} | set(
        tx.column_in(
            "SELECT thread_id FROM memories WHERE tenant_id = %s AND memory_id IN %s"
            " AND superseded_at IS NULL AND thread_id IS NOT NULL",
            [tenant, summaries],
        )
    )
    return derived | set(
        tx.column_in(
            "SELECT memory_id FROM memories WHERE tenant_id = %s AND thread_id IN %s"
            " AND kind = 'summary' AND superseded_at IS NOT NULL",
            [tenant, sorted(threads)],
        )
    )


def _resting_on(tx: Transaction, tenant: str, gone: Iterable[UUID]) -> set[UUID]:
    """Return the reflections derived from memories."""
    return {row[0] for row in tx.select("memory_bases", "memory_id", tenant, basis_id=sorted(gone))}


def bury_turns(tx: Transaction, tenant: str, turns: Collection[TurnKey], now: datetime) -> None:
    """Bury turns, and delete them unless a session log holds them."""
    bury(tx, tenant, turns, now)
    where = "WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s AND payload IS"
    for thread_id, event_ids in by_thread(turns).items():
        tx.run_in(f"DELETE FROM events {where} NULL", [tenant, thread_id, event_ids])
        tx.run_in(
            f"UPDATE events SET memory_seq = NULL {where} NOT NULL", [tenant, thread_id, event_ids]
        )


def bury(tx: Transaction, tenant: str, turns: Iterable[TurnKey], now: datetime) -> None:
    """Note turns as forgotten, so that they cannot be appended again."""
    tx.insert(
        "tombstones",
        ("tenant_id", "thread_id", "event_id", "deleted_at"),
        ((tenant, thread_id, event_id, now) for thread_id, event_id in sorted(turns)),
        ignore=True,
    )


def _unretract(
    tx: Transaction, tenant: str, turns: Collection[TurnKey], derived: Collection[UUID]
) -> None:
    """Delete retractions made by forgotten turns, or about forgotten people."""
    gone = {
        retraction_id
        for retraction_id, thread_id, event_ids in tx.rows_in(
            "SELECT retraction_id, thread_id, event_ids FROM retractions"
            " WHERE tenant_id = %s AND thread_id IN %s",
            [tenant, sorted({thread_id for thread_id, _ in turns})],
        )
        if any((thread_id, event_id) in turns for event_id in json.loads(event_ids))
    }
    gone |= _retracted_of_persons(tx, tenant, _persons(tx, tenant, derived))
    tx.delete("retractions", tenant, retraction_id=sorted(gone))


def _persons(tx: Transaction, tenant: str, derived: Iterable[UUID]) -> list[Row]:
    """Return slot and key of facts that name a person."""
    return [
        row
        for row in tx.select("facts", "slot, `key`", tenant, memory_id=sorted(derived))
        if row[0].startswith(_RELATION)
    ]


def _retracted_of_persons(tx: Transaction, tenant: str, persons: Collection[Row]) -> set[UUID]:
    if not persons:
        return set()
    retracted = tx.rows(
        "SELECT retraction_id, slot, subject_key FROM retractions"
        " WHERE tenant_id = %s AND slot LIKE %s",
        [tenant, f"{_RELATION}%"],
    )
    return {
        retraction_id
        for retraction_id, slot, subject_key in retracted
        for of_slot, key in persons
        if slot.startswith(f"{of_slot}.")
        and subject_key == f"{slot}@{key[len(of_slot) + 1 :].translate(_BLANKED)}"
    }


def _forget_edges(
    tx: Transaction, tenant: str, broken: _BrokenBases, derived: Collection[UUID]
) -> None:
    """Delete edges without a basis; an edge keeps its own turns when its fact goes."""
    of_facts = [row[0] for row in tx.select("edges", "edge_id", tenant, memory_id=sorted(derived))]
    alone = {edge_id for edge_id, _ in _bases_of(tx, "edge", tenant, of_facts) - broken.bases}
    tx.run_in(
        "DELETE FROM edges WHERE tenant_id = %s AND edge_id IN %s AND memory_id IS NULL",
        [tenant, sorted(broken.baseless)],
    )
    drop_bases(tx, "edge", tenant, broken.bases)
    tx.update("edges", {"memory_id": None}, tenant, edge_id=sorted(alone))


def drop_bases(tx: Transaction, what: str, tenant: str, bases: Iterable[Basis]) -> None:
    """Delete bases of memories or edges; what: "memory" or "edge"."""
    tx.run_in(
        f"DELETE FROM {what}_sources WHERE tenant_id = %s AND ({what}_id, basis) IN %s",
        [tenant, sorted(bases)],
    )
