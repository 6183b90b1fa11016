"""What is known of the slots and relations of drafts, and the records of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import USER, Event, HeldFact, MemoryId, ThreadId, Turn
from shared_core.core.doubts import doubted_at
from shared_core.core.timestamps import soon
from shared_core.policies.run_records import LAST_NUMBER, last_number
from shared_core.ports.operations import (
    Aggregate,
    Condition,
    Join,
    Policy,
    Row,
    Select,
    compare,
    equal,
    is_not_null,
    one_of,
    one_of_rows,
    open_after,
)
from shared_core.ports.runs import Known, KnownEdge, KnownFact, Retraction, RunRecord

_RECORD = tuple(field.name for field in fields(RunRecord))
_RETRACTION = tuple(field.name for field in fields(Retraction))
_FACT = (
    "memory_id", "fact_type", "key", "value", "valid_from", "valid_until", "recorded_at",
    "m.demoted_at", "m.value", "x.value",
)  # fmt: skip
_HELD = (
    "memory_id", "fact_type", "slot", "key", "value", "functional", "recorded_at", "valid_from",
    "valid_until", "m.text", "m.value", "m.thread_id", "m.expires_at", "superseded_at",
    "m.superseded_at",
)  # fmt: skip
_EDGE = (
    "edge_id", "memory_id", "subject", "relation", "object", "valid_from", "valid_until",
    "recorded_at", "fact_id",
)  # fmt: skip
_EVENT = Join("events", "e", (("thread_id", "thread_id"), ("event_id", "event_id")))


def select_runs(thread_id: ThreadId | None, limit: int) -> Select:
    """Return what reads the runs of one thread, or all, newest first; run_of() takes the rows."""
    where = () if thread_id is None else (equal("thread_id", thread_id),)
    return Select("runs", _RECORD, where, order=("-number",), limit=limit)


def run_of(row: Row) -> RunRecord:
    """Return the run in a row of select_runs()."""
    return RunRecord(**dict(zip(_RECORD, row, strict=True)))


def known_of(
    slots: Sequence[str], relations: Sequence[tuple[str, str]], since: datetime
) -> Policy[Known]:
    """Return facts and retractions of some slots, and edges of some relations.

    Includes what holds now or ended after since, faded facts as well. relations: pairs of
    subject_key and relation.
    """
    of_slots = one_of("slot", slots)
    of_relations = one_of_rows(("subject_key", "relation"), relations)
    archive = Join("memory_archive", "x", (("memory_id", "memory_id"),), is_left=True)
    memories = (Join("memories", "m", (("memory_id", "memory_id"),)), archive)
    last, retractions, *held = yield [
        LAST_NUMBER,
        Select("retractions", _RETRACTION, (of_slots, compare("said_at", ">", since))),
        *(Select("facts", _FACT, (of_slots, ends), memories) for ends in _ending_after(since)),
        *(Select("edges", _EDGE, (of_relations, ends)) for ends in _ending_after(since)),
    ]
    facts, edges = _by_id(*held[:2]), _by_id(*held[2:])
    times, edge_times = yield [
        _select_times("memory", {*facts, *(row[1] for row in edges.values() if row[1])}),
        _select_times("edge", edges.keys()),
    ]
    said, edges_said = _times(times), _times(edge_times)
    unsaid = _unsaid(times) | _unsaid(edge_times)
    return Known(
        number=last_number(last),
        facts=[_fact(row, said[one]) for one, row in facts.items() if one not in unsaid],
        retractions=[Retraction(**dict(zip(_RETRACTION, row, strict=True)))
                     for row in sorted(retractions)],
        edges=[_edge(row, edges_said[one] | said[row[1]])
               for one, row in edges.items() if unsaid.isdisjoint((one, row[8]))],
    )  # fmt: skip


def held_facts(limit: int, now: datetime) -> Policy[list[HeldFact]]:
    """Return the newest facts that hold now or later, then the newest that ended.

    limit: of each.
    """
    memories = (Join("memories", "m", (("memory_id", "memory_id"),)),)
    order = ("-recorded_at", "-memory_id")
    ends = open_after("valid_until", now), compare("valid_until", "<=", now)
    held, ended = yield [
        Select("facts", _HELD, (end,), memories, order=order, limit=limit) for end in ends
    ]
    ended = [row for row in ended if row[12] is None]  # others were set aside, and will expire
    held = [row for row in held if row[-1] is None]  # likewise
    held = [row for row in held if row[8] is None or row[8] > row[7]]  # others fell through
    ids = sorted(row[0] for row in [*held, *ended])
    [sources] = yield [
        Select("memory_sources", ("memory_id", "thread_id", "event_id", "basis"),
               (one_of("memory_id", ids),))
    ]  # fmt: skip
    turns: defaultdict[UUID, set[tuple[int, Turn]]] = defaultdict(set)
    for memory_id, thread_id, event_id, basis in sources:
        turns[memory_id].add((basis, (thread_id, event_id)))
    found = [*((row, None) for row in held), *((row, row[8]) for row in ended)]
    return [_held(row, sorted(turns[row[0]]), end) for row, end in found]


def last_turn(thread_id: ThreadId, but: Sequence[str]) -> Policy[str | None]:
    """Return the id of the newest remembered turn of the user in a thread, but for some turns."""
    where = (equal("thread_id", thread_id), equal("role", "user"), is_not_null("memory_seq"))
    order, limit = ("-memory_seq",), len(but) + 1
    [rows] = yield [Select("events", ("event_id",), where, order=order, limit=limit)]
    return next((row[0] for row in rows if row[0] not in but), None)


def unread_turns(threads: int, limit: int) -> Policy[dict[ThreadId, list[Event]]]:
    """Return turns of the user that no consolidation has read, oldest first, by thread.

    threads: maximum number of threads, newest first. limit: of turns of each.
    """
    unread = (compare("unread_bytes", ">", 0),)
    marks = Select(
        "threads", ("thread_id", "consolidated_seq"), unread, order=("-updated_at", "thread_id"),
        limit=threads,
    )  # fmt: skip
    [found] = yield [marks]
    if not found:
        return {}
    columns = ("event_id", "author", "role", "text", "occurred_at")
    rows = yield [
        Select("events", columns, (equal("thread_id", thread_id), compare("memory_seq", ">", read)),
               order=("-memory_seq",), limit=limit)
        for thread_id, read in found
    ]  # fmt: skip
    return {
        thread[0]: [Event(**dict(zip(columns, row, strict=True))) for row in reversed(turns)]
        for thread, turns in zip(found, rows, strict=True)
    }


def _held(row: Row, turns: Sequence[tuple[int, Turn]], ended_at: datetime | None) -> HeldFact:
    (
        memory_id, fact_type, slot, key, value, functional, recorded_at, begins, ends, text, shown,
        thread_id, expires_at, superseded_at, _,
    ) = row  # fmt: skip
    about = key.removeprefix(slot)
    subject = about[1:].partition(":")[0] if about.startswith("@") else USER
    return HeldFact(
        memory_id=MemoryId(memory_id),
        fact_type=fact_type,
        slot=slot,
        subject=subject,
        value=str(value),
        statement=text,
        functional=functional,
        stated_at=recorded_at,
        thread_id=thread_id,
        event_ids=tuple(sorted({event for _, (thread, event) in turns if thread == thread_id})),
        turns=tuple(turn for basis, turn in turns if basis == turns[0][0]),
        is_doubted=doubted_at(shown) is not None,
        ended_at=ended_at,
        begins_at=begins if begins > soon(recorded_at) else None,
        ends_at=ends if ended_at is None else None,
        valid_from=begins,
        expires_at=expires_at,
        is_ending=ended_at is None and bool(ends and superseded_at and superseded_at > recorded_at),
    )


def _ending_after(since: datetime) -> tuple[Condition, Condition]:
    """Return two conditions; what ends after a moment, or was ended since, meets one of them."""
    return open_after("valid_until", since), compare("superseded_at", ">", since)


def _by_id(*some: Sequence[Row]) -> dict[UUID, Row]:
    return dict(sorted((row[0], row) for rows in some for row in rows))


def _select_times(what: str, ids: Iterable[UUID]) -> Select:
    """Return what reads the last turn of each basis: its time, and its number while remembered.

    what: "memory" or "edge".
    """
    key = f"{what}_id"
    columns = (key, "basis", Aggregate("max", "e.occurred_at"), Aggregate("max", "e.memory_seq"))
    return Select(f"{what}_sources", columns, (one_of(key, sorted(ids)),), (_EVENT,))


def _times(rows: Iterable[Row]) -> defaultdict[UUID, set[datetime]]:
    times: defaultdict[UUID, set[datetime]] = defaultdict(set)
    for one, _, at, _ in rows:
        times[one].add(at)
    return times


def _unsaid(rows: Iterable[Row]) -> set[UUID]:
    """Return the facts or edges without a remembered turn: an edit replaced all their turns."""
    every = list(rows)
    return {row[0] for row in every} - {row[0] for row in every if row[3] is not None}


def _fact(row: Row, times: Iterable[datetime]) -> KnownFact:
    memory_id, fact_type, key, value, valid_from, valid_until, recorded_at, *of_memory = row
    demoted_at, shown, archived = of_memory
    return KnownFact(
        memory_id=MemoryId(memory_id),
        fact_type=fact_type,
        key=key,
        value=value,
        valid_from=valid_from,
        valid_until=valid_until,
        stated_at=sorted(times) or [_stated_at(valid_from, valid_until, recorded_at)],
        has_faded=demoted_at is not None,
        doubted_at=doubted_at(archived or shown),
    )


def _edge(row: Row, times: Iterable[datetime]) -> KnownEdge:
    edge_id, _, subject, relation, object_, valid_from, valid_until, recorded_at, fact_id = row
    return KnownEdge(
        edge_id=edge_id,
        subject=subject,
        relation=relation,
        object=object_,
        valid_from=valid_from,
        valid_until=valid_until,
        stated_at=sorted(times) or [_stated_at(valid_from, valid_until, recorded_at)],
        fact_id=fact_id,
    )


def _stated_at(
    valid_from: datetime, valid_until: datetime | None, recorded_at: datetime
) -> datetime:
    """Return when a fact without turns was stated: when recorded, or if it ended, when it began."""
    return max(recorded_at, valid_from) if valid_until is None else valid_from
