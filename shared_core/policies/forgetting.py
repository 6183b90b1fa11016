"""Forgetting turns and memories together with everything derived from them alone.

A forgotten turn leaves a tombstone. With it go the memories and edges without a complete basis
left, and the replaced summaries of its thread. These also go with a deleted summary. Reflections
go with every memory they were derived from. A session log keeps its event, as not remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from shared_core.ports.operations import (
    Delete,
    Insert,
    Join,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    begins_with,
    equal,
    is_not_null,
    is_null,
    one_of,
    one_of_rows,
)

TurnKey: TypeAlias = tuple[str, str]
"""The ids of a thread and of one of its turns."""
Basis: TypeAlias = tuple[UUID, int]
"""A memory or an edge, and the number of one of its bases."""
NAMED = ("memory_id", "kind", "thread_id", "superseded_at")
"""The columns of memories that forget_named() takes."""
_RELATION = "relation."
_BLANKED = str.maketrans("@:", "  ")


def forget_items(
    addresses: Sequence[tuple[str, str]], now: datetime, also: Sequence[Operation] = ()
) -> Policy[int]:
    """Delete memories by (namespace path, key), and what rests on them; return how many go.

    also: operations that belong to the same transaction.
    """
    here = one_of_rows(("namespace", "key"), sorted(set(addresses)))
    sources = Join("memory_sources", "s", (("memory_id", "memory_id"),))
    named, turns = yield [
        Select("memories", NAMED, (here,)),
        Select(
            "memories",
            ("s.thread_id", "s.event_id"),
            (here, equal("kind", "episodic")),
            (sources,),
            is_distinct=True,
        ),
    ]
    if not named:
        yield Last(also)
        return 0
    return (yield from forget_named(named, set(turns), now, also))


def forget_turns(thread_id: str, event_ids: Iterable[str], now: datetime) -> Policy[int]:
    """Forget turns of a thread, stored or not, and what rests on them; return how many go."""
    turns = {(thread_id, event_id) for event_id in event_ids}
    if not turns:
        return 0
    of_memories = Join("memories", "m", (("memory_id", "memory_id"),))
    [named] = yield [
        Select(
            "memory_sources",
            tuple(f"m.{column}" for column in NAMED),
            (one_of_rows(("thread_id", "event_id"), sorted(turns)), equal("m.kind", "episodic")),
            (of_memories,),
            is_distinct=True,
        )
    ]
    return (yield from forget_named(named, turns, now))


def forget_named(
    named: Sequence[Row], turns: set[TurnKey], now: datetime, also: Sequence[Operation] = ()
) -> Policy[int]:
    """Delete memories (rows of NAMED), bury turns, and take along what rests on either alone."""
    threads = {thread for thread, _ in turns} | {
        thread
        for _, kind, thread, superseded_at in named
        if kind == "summary" and superseded_at is None and thread
    }
    rows = yield _of_turns(turns, threads)
    bases, edge_bases, kinds, summaries, retractions = rows
    broken, edges_broken = _broken(bases, turns), _broken(edge_bases, turns)
    kind_of: dict[UUID, str] = dict(kinds)
    derived = {one for one in broken.baseless if kind_of.get(one, "episodic") != "episodic"}
    derived |= {row[0] for row in summaries}
    gone = {row[0] for row in named} | derived
    resting, people, of_people, edges = yield _of_derived(gone, derived)
    unretracted = _made_by(retractions, turns) | _about(of_people, people)
    alone = {edge for edge, basis in edges if (edge, basis) not in edges_broken.bases}
    going = gone | {row[0] for row in resting}
    operations = [*also, *buried(turns, now)]
    if unretracted:
        operations.append(Delete("retractions", (one_of("retraction_id", sorted(unretracted)),)))
    if edges_broken.baseless:
        baseless = one_of("edge_id", sorted(edges_broken.baseless))
        operations.append(Delete("edges", (baseless, is_null("memory_id"))))
    kept = {basis for basis in broken.bases if basis[0] not in going}
    operations += _dropped("memory", kept) + _dropped("edge", edges_broken.bases)
    if alone:
        unbound = one_of("edge_id", sorted(alone))
        operations.append(Update("edges", {"memory_id": None}, (unbound,)))
    operations.append(Delete("memories", (one_of("memory_id", sorted(going)),)))
    yield Last(operations)
    return len(going)


@dataclass(frozen=True, slots=True)
class _Broken:
    """Bases that lose a turn, and the memories or edges without a complete basis left."""

    bases: set[Basis]
    baseless: set[UUID]


def _broken(rows: Iterable[Row], turns: set[TurnKey]) -> _Broken:
    every = list(rows)
    bases = {(row[0], row[1]) for row in every if (row[2], row[3]) in turns}
    whole = {(row[0], row[1]) for row in every} - bases
    return _Broken(bases, {owner for owner, _ in bases} - {owner for owner, _ in whole})


def _of_turns(turns: set[TurnKey], threads: set[str]) -> list[Operation]:
    """Return what reads the bases that turns stand in, and what their threads hold."""
    said = one_of_rows(("thread_id", "event_id"), sorted(turns))
    of_threads = one_of("thread_id", sorted(threads))

    def bases(what: str) -> Select:
        table, key = f"{what}_sources", f"{what}_id"
        columns = (f"x.{key}", "x.basis", "x.thread_id", "x.event_id")
        every = Join(table, "x", ((key, key),))
        return Select(table, columns, (said,), (every,), is_distinct=True)

    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    replaced = (of_threads, equal("kind", "summary"), is_not_null("superseded_at"))
    return [
        bases("memory"),
        bases("edge"),
        Select("memory_sources", ("m.memory_id", "m.kind"), (said,), (memories,), is_distinct=True),
        Select("memories", ("memory_id",), replaced),
        Select("retractions", ("retraction_id", "thread_id", "event_ids"), (of_threads,)),
    ]


def _of_derived(gone: set[UUID], derived: set[UUID]) -> list[Operation]:
    """Return what reads reflections on memories, and the people and edges of derived ones."""
    of_derived = one_of("memory_id", sorted(derived))
    edge_sources = Join("edge_sources", "s", (("edge_id", "edge_id"),))
    return [
        Select(
            "memory_bases", ("memory_id",), (one_of("basis_id", sorted(gone)),), is_distinct=True
        ),
        Select("facts", ("slot", "key"), (of_derived, begins_with("slot", _RELATION))),
        Select(
            "retractions",
            ("retraction_id", "slot", "subject_key"),
            (begins_with("slot", _RELATION),),
        ),
        Select("edges", ("edge_id", "s.basis"), (of_derived,), (edge_sources,), is_distinct=True),
    ]


def _made_by(retractions: Iterable[Row], turns: set[TurnKey]) -> set[UUID]:
    """Return the retractions that one of the turns made."""
    return {
        retraction_id
        for retraction_id, thread_id, event_ids in retractions
        if any((thread_id, event_id) in turns for event_id in event_ids)
    }


def _about(retractions: Iterable[Row], people: Sequence[Row]) -> set[UUID]:
    """Return the retractions about people, who are rows of slot and key."""
    return {
        retraction_id
        for retraction_id, slot, subject_key in retractions
        for of_slot, key in people
        if slot.startswith(f"{of_slot}.")
        and subject_key == f"{slot}@{key[len(of_slot) + 1 :].translate(_BLANKED)}"
    }


def buried(turns: set[TurnKey], now: datetime) -> list[Operation]:
    """Return what buries turns, and deletes them unless a session log holds them."""
    if not turns:
        return []
    named = one_of_rows(("thread_id", "event_id"), sorted(turns))
    rows = [(*turn, now) for turn in sorted(turns)]
    return [
        Insert("tombstones", ("thread_id", "event_id", "deleted_at"), rows, "keep"),
        Delete("events", (named, is_null("payload"))),
        Update("events", {"memory_seq": None}, (named, is_not_null("payload"))),
    ]


def _dropped(what: str, bases: Iterable[Basis]) -> list[Operation]:
    """Return what deletes bases of memories or edges; what: "memory" or "edge"."""
    rows = sorted(bases)
    where = one_of_rows((f"{what}_id", "basis"), rows)
    return [Delete(f"{what}_sources", (where,))] if rows else []
