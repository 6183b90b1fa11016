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
    Condition,
    Delete,
    Insert,
    Join,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    Verb,
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
NO_APPENDS = Verb("exclude_appends", ())
"""Keeps turns out until the transaction ends. Without it, an append that began earlier would
remember a turn that is buried at this moment: a single statement sees the past while it waits."""
_RELATION = "relation."
_BLANKED = str.maketrans("@:", "  ")


def forget_turns(thread_id: str, event_ids: Iterable[str], now: datetime) -> Policy[int]:
    """Forget turns of a thread, stored or not, and what rests on them; return how many go."""
    turns = {(thread_id, event_id) for event_id in event_ids}
    if not turns:
        return 0
    named_now = _select_named(turns)
    _, versions, named = yield [NO_APPENDS, _select_versions(thread_id, turns), named_now]
    if versions:
        turns |= {(thread_id, str(version)) for (version,) in versions}
        [named] = yield [_select_named(turns)]
    return (yield from forget_named(named, turns, now))


def _select_named(turns: Iterable[TurnKey]) -> Select:
    """Return what reads the memories that are turns (NAMED)."""
    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    columns = tuple(f"m.{column}" for column in NAMED)
    where = (*_of(turns), equal("m.kind", "episodic"))
    return Select("memory_sources", columns, where, (memories,), is_distinct=True)


def _select_versions(thread_id: str, turns: Iterable[TurnKey]) -> Select:
    """Return what reads the names of the versions that edits made of turns (decision 34)."""
    changes = Join("run_changes", "c", (("run_id", "run_id"),))
    ids = sorted(event_id for _, event_id in turns)
    where = (
        equal("thread_id", thread_id), equal("c.change", "edited"), one_of("c.event_id", ids),
    )  # fmt: skip
    return Select("runs", ("c.target",), where, (changes,))


def forget_named(
    named: Sequence[Row], turns: set[TurnKey], now: datetime, also: Sequence[Operation] = ()
) -> Policy[int]:
    """Delete memories (rows of NAMED), bury turns, and take along what rests on either alone."""
    operations, gone = yield from forgetting(named, turns, now)
    yield Last([*also, *operations])
    return len(gone)


def forgetting(
    named: Sequence[Row],
    turns: set[TurnKey],
    now: datetime,
    where: tuple[Condition, ...] | None = None,
) -> Policy[tuple[list[Operation], set[UUID]]]:
    """Return what forgets memories (rows of NAMED) and turns, and the ids of all that go.

    It only reads. where: conditions on thread_id and event_id that hold for these turns alone.
    """
    threads = {thread for thread, _ in turns} | {
        thread
        for _, kind, thread, superseded_at in named
        if kind == "summary" and superseded_at is None and thread
    }
    said = _of(turns) if where is None else where
    rows: list[list[Row]] = [[]] * 5
    if turns or threads:
        rows = yield _of_turns(said, threads)
    bases, edge_bases, kinds, summaries, retractions = rows
    lost, edges_lost = broken(bases, turns), broken(edge_bases, turns)
    kind_of: dict[UUID, str] = dict(kinds)
    derived = {one for one in lost.baseless if kind_of.get(one, "episodic") != "episodic"}
    derived |= {row[0] for row in summaries}
    gone = {row[0] for row in named} | derived
    resting, people, of_people, edges = yield _of_derived(gone, derived)
    unretracted = made_by(retractions, turns) | _about(of_people, people)
    alone = {edge for edge, basis in edges if (edge, basis) not in edges_lost.bases}
    going = gone | {row[0] for row in resting}
    operations = buried(turns, now, where)
    if unretracted:
        operations.append(Delete("retractions", (one_of("retraction_id", sorted(unretracted)),)))
    if edges_lost.baseless:
        baseless = one_of("edge_id", sorted(edges_lost.baseless))
        operations.append(Delete("edges", (baseless, is_null("memory_id"))))
    kept = {basis for basis in lost.bases if basis[0] not in going}
    operations += dropped("memory", kept) + dropped("edge", edges_lost.bases)
    if alone:
        unbound = one_of("edge_id", sorted(alone))
        operations.append(Update("edges", {"memory_id": None}, (unbound,)))
    if going:
        operations.append(Delete("memories", (one_of("memory_id", sorted(going)),)))
    return operations, going


def select_turns(where: Condition) -> Select:
    """Return what reads the turns that episodic memories are; where: a condition on memories."""
    sources = Join("memory_sources", "s", (("memory_id", "memory_id"),))
    turns, episodic = ("s.thread_id", "s.event_id"), equal("kind", "episodic")
    return Select("memories", turns, (where, episodic), (sources,), is_distinct=True)


def buried(
    turns: Iterable[TurnKey], now: datetime, where: tuple[Condition, ...] | None = None
) -> list[Operation]:
    """Return what buries turns, and deletes them unless a session log holds them.

    where: conditions on thread_id and event_id that hold for these turns alone.
    """
    rows = sorted(set(turns))
    if not rows:
        return []
    said = _of(rows) if where is None else where
    rows_of = [(*turn, now) for turn in rows]
    return [
        Insert("tombstones", ("thread_id", "event_id", "deleted_at"), rows_of, "keep"),
        Delete("events", (*said, is_null("payload"))),
        Update(
            "events",
            {"memory_seq": None},
            (*said, is_not_null("payload"), is_not_null("memory_seq")),
        ),
    ]


def _of(turns: Iterable[TurnKey]) -> tuple[Condition, ...]:
    return (one_of_rows(("thread_id", "event_id"), sorted(turns)),)


@dataclass(frozen=True, slots=True)
class Broken:
    """Bases that lose a turn, and the memories or edges without a complete basis left."""

    bases: set[Basis]
    baseless: set[UUID]


def broken(rows: Iterable[Row], turns: set[TurnKey]) -> Broken:
    """Return the bases that lose one of the turns; rows: as select_bases() reads them."""
    every = list(rows)
    bases = {(row[0], row[1]) for row in every if (row[2], row[3]) in turns}
    whole = {(row[0], row[1]) for row in every} - bases
    return Broken(bases, {owner for owner, _ in bases} - {owner for owner, _ in whole})


def select_bases(what: str, said: tuple[Condition, ...]) -> Select:
    """Return what reads the bases of the memories or edges that turns are sources of.

    what: "memory" or "edge". Rows of its id, a basis, and a turn of that.
    """
    table, key = f"{what}_sources", f"{what}_id"
    columns = (f"x.{key}", "x.basis", "x.thread_id", "x.event_id")
    every = Join(table, "x", ((key, key),))
    return Select(table, columns, said, (every,), is_distinct=True)


def _of_turns(said: tuple[Condition, ...], threads: set[str]) -> list[Operation]:
    """Return what reads the bases that turns stand in, and what their threads hold."""
    of_threads = one_of("thread_id", sorted(threads))

    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    replaced = (of_threads, equal("kind", "summary"), is_not_null("superseded_at"))
    return [
        select_bases("memory", said),
        select_bases("edge", said),
        Select("memory_sources", ("m.memory_id", "m.kind"), said, (memories,), is_distinct=True),
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


def made_by(retractions: Iterable[Row], turns: set[TurnKey]) -> set[UUID]:
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


def dropped(what: str, bases: Iterable[Basis]) -> list[Operation]:
    """Return what deletes bases of memories or edges; what: "memory" or "edge"."""
    rows = sorted(bases)
    where = one_of_rows((f"{what}_id", "basis"), rows)
    return [Delete(f"{what}_sources", (where,))] if rows else []
