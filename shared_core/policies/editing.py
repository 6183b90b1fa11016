"""A turn with other words takes the place of the old one; a turn that left the thread goes.

It is a run, so undo_run() brings the old words back. The old turn becomes a version: a turn with an
id of its own that nothing reads. What rested on its words alone is set aside with it, and what its
facts had ended goes on (decision 34). A turn of a session log stays: the log holds what was said.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID, uuid5

from shared_core.core.domain import ThreadId
from shared_core.core.time_zones import in_zone
from shared_core.policies.batches import read
from shared_core.policies.forgetting import (
    NO_APPENDS,
    TurnKey,
    broken,
    dropped,
    made_by,
    select_bases,
)
from shared_core.policies.run_records import LAST_NUMBER, RunChange, added_run, iso, logged
from shared_core.policies.setting_aside import EDIT, ENDS, HeldMemory, put_aside
from shared_core.policies.taking_up import Gone, take_up
from shared_core.ports.events import EventRow
from shared_core.ports.items import VectorRows
from shared_core.ports.jobs import NewJob
from shared_core.ports.operations import (
    Aggregate,
    Delete,
    Insert,
    Join,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    UpdateEach,
    Verb,
    equal,
    is_not_null,
    is_null,
    one_of,
    one_of_rows,
)
from shared_core.privacy.redaction import TOLD
from shared_core.privacy.spoken_secrets import LONGEST_PASSWORD

_TURN = ("event_id", "seq", "memory_seq", "text", "occurred_at", "time_zone", "expires_at")
_MARK = re.compile(r"\[REDACTED: (\w+)\]")
_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEdit:
    """The edit of a thread. rows: turns with new words. left: turns that left the conversation.

    vectors: of the rows. job: consolidates the thread. until: when the old words expire.
    """

    run_id: UUID
    thread_id: ThreadId
    rows: Sequence[EventRow] = ()
    left: Collection[str] = ()
    vectors: VectorRows | None = None
    job: NewJob | None = None
    now: datetime
    until: datetime


class Edited(NamedTuple):
    """The turns that an edit replaced, and those that it set aside. run_id: None if none."""

    run_id: UUID | None = None
    replaced: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()


class _Turn(NamedTuple):
    """The columns _TURN of a remembered turn."""

    event_id: str
    seq: int
    memory_seq: int
    text: str
    occurred_at: datetime
    time_zone: str | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resting:
    """What rests on turns alone, and the bases of others that lose one of the turns.

    facts, edges: rows of an id and ENDS, by id. bases: rows of an id, basis, thread and event id.
    gone: what may have ended something.
    """

    memories: Sequence[HeldMemory]
    facts: Sequence[Row]
    edges: Mapping[UUID, Row]
    bases: Mapping[str, Sequence[Row]]
    retractions: Sequence[UUID]
    gone: Gone


def version_of(run_id: UUID, event_id: str) -> UUID:
    """Return what names the version that a run made of a turn; as a text it is an event id."""
    return uuid5(run_id, event_id)


def is_same(old: str, new: str) -> bool:
    """Tell whether words are the old ones, but for what is masked in these.

    What is masked depends on the turns before, and a turn may be sent again without them. An edit
    must never bring back what was masked. A sentence in the place of a password is an edit, and so
    are new words around as many marks.
    """
    first, *others = _MARK.split(old)
    if len(_MARK.findall(new)) >= len(others) // 2:
        return old == new
    kinds, (*middle, last) = {*others[::2]}, others[1::2]
    if not (new.startswith(first) and new.endswith(last)):
        return False
    place = len(first)
    for part in middle:
        found = new.find(part, place + 1)
        if found < 0:
            return False
        place = found + len(part)
    hidden = new[place : len(new) - len(last)]
    if kinds == {TOLD} and (len(hidden) > LONGEST_PASSWORD or _is_sentence(hidden)):
        return False
    return bool(hidden)


def _is_sentence(text: str) -> bool:
    """Tell whether a text ends as sentences of several words do."""
    return text.endswith(("。", "？")) or (text.endswith((".", "?")) and " " in text)


def edit_turns(edit: TurnEdit) -> Policy[Edited]:
    """Replace turns by others with the same ids, and set aside turns that left the thread.

    A replaced turn keeps its place and its time, and is unread. Turns that are not remembered, that
    a session log holds, or that have the new words already, stay as they are.
    """
    given = {row.event.event_id: row for row in edit.rows}
    of_thread = equal("thread_id", edit.thread_id)
    named = one_of("event_id", sorted({*given, *edit.left}))
    remembered = (of_thread, named, is_not_null("memory_seq"), is_null("payload"))
    _, stored, first, thread, last = yield [
        NO_APPENDS,
        Select("events", _TURN, remembered),
        Select("events", (Aggregate("min", "seq"),), (of_thread,)),
        Select("threads", ("last_memory_seq",), (of_thread,)),
        LAST_NUMBER,
    ]
    turns = [
        one
        for one in map(_Turn._make, stored)
        if one.event_id not in given or not is_same(one.text, given[one.event_id].event.text)
    ]
    if not turns:
        return Edited()
    resting = yield from _resting(edit, {(edit.thread_id, one.event_id) for one in turns})
    log, operations = _set_aside(edit, resting)
    taken_up = yield from take_up(edit.run_id, resting.gone, edit.now)
    rows = [_in_place(given[one.event_id], one) for one in turns if one.event_id in given]
    log += [_edited(edit, one, is_replaced=one.event_id in given) for one in turns]
    operations = [
        _run(edit, thread[0][0], last, {"edited": len(rows), "left": len(turns) - len(rows)}),
        *operations,
        *taken_up,
        *logged(edit.run_id, log),
        *_versions(edit, turns, first[0][0]),
    ]
    if rows:
        yield operations
        yield [Verb("append_turns", (edit.thread_id, rows))]
        operations = _completed(edit, [one for one in turns if one.event_id in given])
    yield Last(operations)
    replaced = frozenset(row.event.event_id for row in rows)
    return Edited(edit.run_id, replaced, frozenset(one.event_id for one in turns) - replaced)


def _run(edit: TurnEdit, seq: int, last: Sequence[Row], counts: Mapping[str, object]) -> Insert:
    """Return what records an edit as a run of the thread, after which others read on.

    seq: of the last remembered turn.
    """
    values = {
        "run_id": edit.run_id, "kind": EDIT, "thread_id": edit.thread_id, "extractor": "caller",
        "from_seq": seq, "to_seq": seq, "counts": {**counts, "until": iso(edit.until)},
        "started_at": edit.now, "finished_at": edit.now,
    }  # fmt: skip
    return added_run(last, values)


def _edited(edit: TurnEdit, turn: _Turn, *, is_replaced: bool) -> RunChange:
    before = {"seq": turn.seq, "memory_seq": turn.memory_seq, "expires_at": iso(turn.expires_at)}
    version = version_of(edit.run_id, turn.event_id)
    return RunChange("edited", version, turn.event_id, {**before, "is_replaced": is_replaced})


def _in_place(row: EventRow, old: _Turn) -> EventRow:
    """Return a row with the time of the turn that it replaces: it is said in its place."""
    said_at = in_zone(old.occurred_at, old.time_zone)
    value = {**row.value, "occurred_at": said_at.astimezone(UTC).isoformat()}
    return replace(row, event=replace(row.event, occurred_at=said_at), value=value)


def _completed(edit: TurnEdit, replaced: Sequence[_Turn]) -> list[Operation]:
    """Return what puts new turns into the places of old ones, and queues their consolidation."""
    places = [(edit.thread_id, one.event_id, one.seq) for one in replaced]
    operations: list[Operation] = [
        UpdateEach("events", ("thread_id", "event_id"), ("seq",), places),
        Verb("add_vectors", (edit.vectors,)),
    ]
    if edit.job is not None:
        operations.append(Verb("enqueue", (edit.thread_id, edit.job)))
    return operations


def _versions(edit: TurnEdit, turns: Sequence[_Turn], first: int) -> list[Operation]:
    """Return what makes turns versions: before the thread, not remembered, and buried."""
    operations: list[Operation] = []
    for number, one in enumerate(turns, start=max(0, -first) + 1):
        version = str(version_of(edit.run_id, one.event_id))
        where = (equal("thread_id", edit.thread_id), equal("event_id", one.event_id))
        expires_at = min(edit.until, one.expires_at or edit.until)
        moved = {
            "event_id": version, "seq": -number, "memory_seq": None, "expires_at": expires_at,
        }  # fmt: skip
        operations += [
            Update("events", moved, where),
            *(Update(table, {"event_id": version}, where)
              for table in ("memory_sources", "edge_sources")),
            Insert("tombstones", ("thread_id", "event_id", "deleted_at"),
                   [(edit.thread_id, version, edit.now)]),
        ]  # fmt: skip
    return operations


def _resting(edit: TurnEdit, turns: set[TurnKey]) -> Policy[_Resting]:
    """Return what rests on turns alone."""
    said = (one_of_rows(("thread_id", "event_id"), sorted(turns)),)
    of_thread = equal("thread_id", edit.thread_id)
    replaced = (of_thread, equal("kind", "summary"), is_not_null("superseded_at"))
    found = yield from read({
        "memory": select_bases("memory", said),
        "edge": select_bases("edge", said),
        "retractions": Select("retractions", ("retraction_id", "thread_id", "event_ids"),
                              (of_thread,)),
        "summaries": Select("memories", HeldMemory._fields, replaced),
    })  # fmt: skip
    bases = {what: broken(found[what], turns) for what in ("memory", "edge")}
    resting = one_of("memory_id", sorted(bases["memory"].baseless))
    ids = sorted(bases["memory"].baseless)
    retractions = sorted(made_by(found["retractions"], turns))
    drawn = Join("memories", "m", (("memory_id", "memory_id"),))
    edges = one_of("edge_id", sorted(bases["edge"].baseless))
    of_drawn = tuple(f"m.{column}" for column in HeldMemory._fields)
    held = yield from read({
        "memories": Select("memories", HeldMemory._fields, (resting,)),
        "drawn": Select("memory_bases", of_drawn, (one_of("basis_id", ids),), (drawn,)),
        "facts": Select("facts", ("memory_id", *ENDS), (resting,)),
        "edges": Select("edges", ("edge_id", *ENDS), (edges, is_null("fact_id"))),
        "edges of facts": Select("edges", ("edge_id", *ENDS), (one_of("fact_id", ids),)),
    })  # fmt: skip
    rows = (*held["memories"], *held["drawn"], *found["summaries"])
    memories = {row[0]: HeldMemory(*row) for row in rows}
    going = {"memory": memories.keys(), "edge": bases["edge"].baseless}
    lost = {
        what: [row for row in found[what]
               if (row[0], row[1]) in bases[what].bases and row[0] not in going[what]]
        for what in ("memory", "edge")
    }  # fmt: skip
    return _Resting(
        memories=list(memories.values()),
        facts=held["facts"],
        edges={row[0]: row for row in (*held["edges"], *held["edges of facts"])},
        bases=lost,
        retractions=retractions,
        gone=Gone(facts=ids, edges=sorted(bases["edge"].baseless), retractions=retractions),
    )


def _set_aside(edit: TurnEdit, resting: _Resting) -> tuple[list[RunChange], list[Operation]]:
    """Return what sets aside what rests on the turns: it never held."""
    aside = put_aside(
        resting.memories, resting.facts, resting.edges.values(), _BEFORE_ALL, edit.now, edit.until
    )
    log, operations = list(aside.log), list(aside.operations)
    for what, rows in resting.bases.items():
        of_target: dict[UUID, list[Row]] = {}
        for target, *source in rows:
            of_target.setdefault(target, []).append(tuple(source))
        log += [
            RunChange("unsourced", target, "", {"of": what, "bases": sources})
            for target, sources in sorted(of_target.items())
        ]
        operations += dropped(what, {(row[0], row[1]) for row in rows})
    if resting.retractions:
        these = one_of("retraction_id", resting.retractions)
        operations.append(Delete("retractions", (these,)))
    return log, operations
