"""Forgetting: what goes with turns and memories, and what stays because it rests on more.

A turn leaves a tombstone. With it go memories and edges of which no basis is whole any more, and
the summaries of its thread that were replaced; these go with a summary that is deleted, too. With
any memory go the reflections drawn from it. A session log keeps its event, as one that is not
remembered.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, pages
from shared_core.storage.oceanbase.vectors import models, table_of

Turn = tuple[str, str]
"""A thread, and an event of it."""

Basis = tuple[UUID, int]
"""A memory or an edge, and the number of one of its bases."""

_RELATION = "relation."
_BLANKED = str.maketrans("@:", "  ")


@dataclass(frozen=True, slots=True)
class _Broken:
    """Bases that a turn is missing of now, and what has no whole one left."""

    bases: set[Basis]
    baseless: set[UUID]


def forget_memories(
    tx: Transaction, tenant: str, memory_ids: Iterable[UUID], now: datetime
) -> set[UUID]:
    """Delete memories, the turns of those that are turns, and what rests on them alone.

    Returns the ids of all memories that went. The tenant is locked.
    """
    named = kinds_of(tx, tenant, memory_ids)
    turns = [memory_id for memory_id, kind in named.items() if kind == "episodic"]
    said = {
        (thread_id, event_id)
        for page in pages(turns)
        for thread_id, event_id in tx.rows(
            "SELECT thread_id, event_id FROM memory_sources"
            " WHERE tenant_id = %s AND memory_id IN %s",
            tenant,
            page,
        )
    }
    return _forget(tx, tenant, said, named, now)


def forget_turns(
    tx: Transaction, tenant: str, thread_id: str, event_ids: Iterable[str], now: datetime
) -> set[UUID]:
    """Forget some turns of a thread, known here or not, and what rests on them alone.

    Returns the ids of all memories that went. The tenant is locked.
    """
    said = {(thread_id, event_id) for event_id in event_ids}
    drawn = {memory_id for memory_id, _ in _drawn_from(tx, "memory", tenant, said)}
    named = {
        memory_id: kind
        for memory_id, kind in kinds_of(tx, tenant, drawn).items()
        if kind == "episodic"
    }
    return _forget(tx, tenant, said, named, now)


def forget_thread(tx: Transaction, tenant: str, thread_id: str, now: datetime) -> set[UUID]:
    """Forget every turn of a thread, its summaries, and what rests on its turns alone.

    Returns the ids of all memories that went. The tenant is locked.
    """
    of_thread = "WHERE tenant_id = %s AND thread_id = %s"
    said = tx.rows(f"SELECT event_id FROM events {of_thread}", tenant, thread_id)
    drawn = tx.rows(
        f"SELECT memory_id, event_id FROM memory_sources {of_thread}", tenant, thread_id
    )
    named = {
        memory_id: kind
        for memory_id, kind in kinds_of(tx, tenant, {row[0] for row in drawn}).items()
        if kind in ("episodic", "summary")
    }
    event_ids = {row[0] for row in said} | {row[1] for row in drawn}
    return _forget(tx, tenant, {(thread_id, event_id) for event_id in event_ids}, named, now)


def kinds_of(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the kinds of those memories that are there."""
    return dict(
        row
        for page in pages(sorted(set(memory_ids)))
        for row in tx.rows(
            "SELECT memory_id, kind FROM memories WHERE tenant_id = %s AND memory_id IN %s",
            tenant,
            page,
        )
    )


def delete_memories(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> None:
    """Delete memories and all that hangs on their rows, and nothing else."""
    vectors = sorted({table_of(dimensions) for dimensions in models(tx).values()})
    for page in pages(sorted(memory_ids)):
        # What nearly all of them have goes first: by its foreign key it takes twice as long.
        for table in (*vectors, "memory_sources", "memory_access", "memories"):
            tx.run(f"DELETE FROM {table} WHERE tenant_id = %s AND memory_id IN %s", tenant, page)


def by_thread(said: Iterable[Turn]) -> dict[str, list[str]]:
    """Return the ids of turns by their thread, in order."""
    threads: dict[str, list[str]] = {}
    for thread_id, event_id in sorted(said):
        threads.setdefault(thread_id, []).append(event_id)
    return threads


def _forget(
    tx: Transaction, tenant: str, said: Collection[Turn], named: Mapping[UUID, str], now: datetime
) -> set[UUID]:
    broken = _broken(tx, "memory", tenant, said)
    broken_edges = _broken(tx, "edge", tenant, said)
    derived = _derived(tx, tenant, said, named, broken)
    gone = named.keys() | derived
    going = gone | _resting_on(tx, tenant, gone)
    bury_turns(tx, tenant, said, now)
    _unretract(tx, tenant, said, derived)
    _drop_bases(tx, "memory", tenant, (basis for basis in broken.bases if basis[0] not in going))
    _forget_edges(tx, tenant, broken_edges, derived)
    delete_memories(tx, tenant, going)
    return going


def _drawn_from(tx: Transaction, what: str, tenant: str, said: Iterable[Turn]) -> set[Basis]:
    """Return the bases of memories, or of edges, that some turns belong to."""
    return {
        (owner, basis)
        for thread_id, event_ids in by_thread(said).items()
        for page in pages(event_ids)
        for owner, basis in tx.rows(
            f"SELECT {what}_id, basis FROM {what}_sources"
            " WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s",
            tenant,
            thread_id,
            page,
        )
    }


def _broken(tx: Transaction, what: str, tenant: str, said: Iterable[Turn]) -> _Broken:
    bases = _drawn_from(tx, what, tenant, said)
    touched = {owner for owner, _ in bases}
    whole = {owner for owner, basis in _bases_of(tx, what, tenant, touched) - bases}
    return _Broken(bases, touched - whole)


def _bases_of(tx: Transaction, what: str, tenant: str, owners: Iterable[UUID]) -> set[Basis]:
    return {
        (owner, basis)
        for page in pages(sorted(owners))
        for owner, basis in tx.rows(
            f"SELECT {what}_id, basis FROM {what}_sources WHERE tenant_id = %s AND {what}_id IN %s",
            tenant,
            page,
        )
    }


def _derived(
    tx: Transaction,
    tenant: str,
    said: Collection[Turn],
    named: Mapping[UUID, str],
    broken: _Broken,
) -> set[UUID]:
    """Return what goes because it has no basis any more, or sums up what goes."""
    kinds = kinds_of(tx, tenant, broken.baseless)
    derived = {memory_id for memory_id, kind in kinds.items() if kind != "episodic"}
    summaries = [memory_id for memory_id, kind in named.items() if kind == "summary"]
    threads = {thread_id for thread_id, _ in said} | {
        thread_id
        for page in pages(summaries)
        for (thread_id,) in tx.rows(
            "SELECT thread_id FROM memories WHERE tenant_id = %s AND memory_id IN %s"
            " AND superseded_at IS NULL AND thread_id IS NOT NULL",
            tenant,
            page,
        )
    }
    return derived | {
        memory_id
        for page in pages(sorted(threads))
        for (memory_id,) in tx.rows(
            "SELECT memory_id FROM memories WHERE tenant_id = %s AND thread_id IN %s"
            " AND kind = 'summary' AND superseded_at IS NOT NULL",
            tenant,
            page,
        )
    }


def _resting_on(tx: Transaction, tenant: str, gone: Iterable[UUID]) -> set[UUID]:
    """Return the reflections drawn from memories."""
    return {
        memory_id
        for page in pages(sorted(gone))
        for (memory_id,) in tx.rows(
            "SELECT memory_id FROM memory_bases WHERE tenant_id = %s AND basis_id IN %s",
            tenant,
            page,
        )
    }


def bury_turns(tx: Transaction, tenant: str, said: Collection[Turn], now: datetime) -> None:
    """Delete turns, or have only their session log know them, so that nothing brings them back."""
    bury(tx, tenant, said, now)
    for thread_id, page in _paged(said):
        turns = "WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s AND payload IS"
        tx.run(f"DELETE FROM events {turns} NULL", tenant, thread_id, page)
        tx.run(f"UPDATE events SET memory_seq = NULL {turns} NOT NULL", tenant, thread_id, page)


def bury(tx: Transaction, tenant: str, said: Iterable[Turn], now: datetime) -> None:
    """Note turns as forgotten, so that nothing brings them back."""
    tx.insert(
        "tombstones",
        ("tenant_id", "thread_id", "event_id", "deleted_at"),
        ((tenant, thread_id, event_id, now) for thread_id, event_id in sorted(said)),
        update="deleted_at = deleted_at",  # IGNORE would cut an id that is too long
    )


def _paged(said: Iterable[Turn]) -> Iterator[tuple[str, list[str]]]:
    for thread_id, event_ids in by_thread(said).items():
        for page in pages(event_ids):
            yield thread_id, page


def _unretract(
    tx: Transaction, tenant: str, said: Collection[Turn], derived: Collection[UUID]
) -> None:
    """Take back retractions that forgotten turns said, or whose person is forgotten."""
    gone = {
        retraction_id
        for page in pages(sorted({thread_id for thread_id, _ in said}))
        for retraction_id, thread_id, event_ids in tx.rows(
            "SELECT retraction_id, thread_id, event_ids FROM retractions"
            " WHERE tenant_id = %s AND thread_id IN %s",
            tenant,
            page,
        )
        if any((thread_id, event_id) in said for event_id in json.loads(event_ids))
    }
    gone |= _retracted_of_persons(tx, tenant, _persons(tx, tenant, derived))
    for page in pages(sorted(gone)):
        tx.run("DELETE FROM retractions WHERE tenant_id = %s AND retraction_id IN %s", tenant, page)


def _persons(tx: Transaction, tenant: str, derived: Iterable[UUID]) -> list[Row]:
    """Return slot and key of the facts that name somebody."""
    return [
        row
        for page in pages(sorted(derived))
        for row in tx.rows(
            "SELECT slot, `key` FROM facts WHERE tenant_id = %s AND memory_id IN %s", tenant, page
        )
        if row[0].startswith(_RELATION)
    ]


def _retracted_of_persons(tx: Transaction, tenant: str, persons: Collection[Row]) -> set[UUID]:
    if not persons:
        return set()
    retracted = tx.rows(
        "SELECT retraction_id, slot, subject_key FROM retractions"
        " WHERE tenant_id = %s AND slot LIKE %s",
        tenant,
        f"{_RELATION}%",
    )
    return {
        retraction_id
        for retraction_id, slot, subject_key in retracted
        for of_slot, key in persons
        if slot.startswith(f"{of_slot}.")
        and subject_key == f"{slot}@{key[len(of_slot) + 1 :].translate(_BLANKED)}"
    }


def _forget_edges(tx: Transaction, tenant: str, broken: _Broken, derived: Collection[UUID]) -> None:
    """Delete edges without a basis; one whose fact goes lives on by the turns that say it."""
    of_facts = [
        edge_id
        for page in pages(sorted(derived))
        for (edge_id,) in tx.rows(
            "SELECT edge_id FROM edges WHERE tenant_id = %s AND memory_id IN %s", tenant, page
        )
    ]
    alone = {edge_id for edge_id, _ in _bases_of(tx, "edge", tenant, of_facts) - broken.bases}
    for page in pages(sorted(broken.baseless)):
        tx.run(
            "DELETE FROM edges WHERE tenant_id = %s AND edge_id IN %s AND memory_id IS NULL",
            tenant,
            page,
        )
    _drop_bases(tx, "edge", tenant, broken.bases)
    for page in pages(sorted(alone)):
        tx.run(
            "UPDATE edges SET memory_id = NULL WHERE tenant_id = %s AND edge_id IN %s", tenant, page
        )


def _drop_bases(tx: Transaction, what: str, tenant: str, bases: Iterable[Basis]) -> None:
    for page in pages(sorted(bases)):
        tx.run(
            f"DELETE FROM {what}_sources WHERE tenant_id = %s AND ({what}_id, basis) IN %s",
            tenant,
            page,
        )
