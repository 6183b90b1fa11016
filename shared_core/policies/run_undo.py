"""Undoing a run: exactly what was before holds again.

All is decided from rows as they will be: what the run wrote is gone, what it moved is back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from shared_core.core.domain import JsonValue, Scope
from shared_core.core.namespaces import scope_path
from shared_core.errors import Conflict, NotFound
from shared_core.policies.batches import Found, Reads, read
from shared_core.policies.doubting import marks_back, select_archived_values
from shared_core.policies.run_records import RunChange, changes_of, noted, select_changes
from shared_core.policies.setting_aside import EDIT
from shared_core.policies.summaries import COPIED
from shared_core.policies.timing import (
    RULES,
    RuleOf,
    TimedMemory,
    retimed,
    rules_of,
    select_timed,
    timed_of,
)
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
    compare,
    equal,
    is_null,
    one_of,
    one_of_rows,
)

_RUN = (
    "run_id", "thread_id", "from_seq", "to_seq", "summed_from_seq", "summed_to_seq", "number",
    "undone_at", "kind",
)  # fmt: skip
_EDGE = ("edge_id", "subject_key", "relation", "object_key", "functional", "memory_id", "run_id")
_ENDS = ("valid_until", "superseded_at")
_OPEN = (is_null("valid_until"), is_null("superseded_at"))
_ALIAS = ("alias_id", "alias_key", "entity_key")


class _Run(NamedTuple):
    """The columns _RUN of a run."""

    run_id: UUID
    thread_id: str | None
    from_seq: int | None
    to_seq: int | None
    summed_from: int | None
    summed_to: int | None
    number: int
    undone_at: datetime | None
    kind: str


class _EdgePlace(NamedTuple):
    """The columns _EDGE of an edge."""

    edge_id: UUID
    subject_key: str
    relation: str
    object_key: str
    functional: bool
    memory_id: UUID | None
    run_id: UUID | None

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """What only one current edge may have."""
        place = (self.subject_key, self.relation)
        return [(*place, "object", self.object_key), *([place] if self.functional else [])]


@dataclass(frozen=True, slots=True)
class _UndoneRun:
    """A run with all that it wrote and changed.

    facts: type and key of the facts it ended or moved. edges: those it ended or moved. resting:
    pairs of a memory that it wrote or moved and a memory drawn from that. bases: rows of a memory
    that it retired, a basis of that, and since when the basis is retired.
    """

    run: _Run
    changes: Sequence[RunChange]
    memories: frozenset[UUID]
    others: frozenset[UUID]
    facts: Mapping[UUID, tuple[str, str]]
    edges: Mapping[UUID, _EdgePlace]
    resting: Sequence[tuple[UUID, UUID]]
    bases: Sequence[Row]

    @classmethod
    def of(cls, found: Found) -> _UndoneRun:
        return cls(
            run=_Run(*found["run"][0]),
            changes=changes_of(found["changes"]),
            memories=frozenset(row[0] for row in found["memories"]),
            others=frozenset(row[0] for row in (*found["edges"], *found["retractions"])),
            facts={row[0]: (row[1], row[2]) for row in found["facts"]},
            edges={row[0]: _EdgePlace(*row) for row in found["ended"]},
            resting=[(row[0], row[1]) for row in (*found["drawn"], *found["drawn_from_moved"])],
            bases=found["bases"],
        )

    def by(self, change: str) -> list[RunChange]:
        """Return the changes of one kind."""
        return [one for one in self.changes if one.change == change]

    @property
    def copies(self) -> dict[UUID, UUID]:
        """The copies of replaced summaries, by summary."""
        return {one.target: UUID(one.before["copy"]) for one in self.by("summary")}

    @property
    def moved(self) -> list[RunChange]:
        """The facts, edges and memories with an end or a retirement that was moved."""
        return [one for one in self.by("moved") if "alias" not in one.before]

    def aliases(self, how: str) -> list[UUID]:
        """Return the aliases that the run "added" or "ended"."""
        return [one.target for one in self.by("moved") if one.before.get("alias") == how]

    @property
    def touched(self) -> set[UUID]:
        """The rows that a later run builds on if it changes them."""
        changed = {one.target for one in self.changes if one.change not in ("rated", "bounded")}
        return changed | self.memories | self.others


def undo_run(scope: Scope, run_id: UUID, now: datetime) -> Policy[None]:
    """Restore what was before a run.

    Raises NotFound. Raises Conflict if it was undone already, a later run builds on it, or
    something else has taken the place of a fact, an edge or a name that it ended.
    """
    found = yield from read(_select_run(run_id))
    if not found["run"]:
        raise NotFound(f"there is no run {run_id} of {scope}: engine.runs() lists them")
    written = _UndoneRun.of(found)
    if written.run.undone_at is not None:
        raise Conflict(f"run {run_id} was undone already, at {written.run.undone_at.isoformat()}")
    state = yield from read(_select_state(written))
    yield from _require_last(written, state["later"])
    yield Last(_undone(written, state, rules_of(state["rules"], scope_path(scope)), now))


def _select_run(run_id: UUID) -> Reads:
    """Return what reads a run, the rows it wrote, and what hangs on the rows it changed."""
    of_run = equal("run_id", run_id)
    resting = Join("memory_bases", "d", (("memory_id", "basis_id"),))
    on_target = Join("memory_bases", "d", (("target", "basis_id"),))
    bases = (
        Join("memory_bases", "d", (("target", "memory_id"),)),
        Join("memories", "b", (("d.basis_id", "memory_id"),)),
    )
    fact = Join("facts", "f", (("target", "memory_id"),))
    edge = Join("edges", "e", (("target", "edge_id"),))

    def changed(columns: tuple[str, ...], kinds: list[str], *joins: Join) -> Select:
        return Select("run_changes", columns, (of_run, one_of("change", kinds)), joins)

    return {
        "run": Select("runs", _RUN, (of_run,)),
        "changes": select_changes(run_id),
        "memories": Select("memories", ("memory_id",), (of_run,)),
        "edges": Select("edges", ("edge_id",), (of_run,)),
        "retractions": Select("retractions", ("retraction_id",), (of_run,)),
        "facts": changed(("target", "f.fact_type", "f.key"), ["closed", "moved"], fact),
        "ended": changed(tuple(f"e.{name}" for name in _EDGE), ["edge", "moved"], edge),
        "drawn": Select("memories", ("memory_id", "d.memory_id"), (of_run,), (resting,)),
        "drawn_from_moved": changed(("target", "d.memory_id"), ["moved"], on_target),
        "bases": changed(("target", "d.basis_id", "b.superseded_at"), ["retired"], *bases),
    }


def _select_state(written: _UndoneRun) -> Reads:
    """Return what reads the rows that a run changed, as they are now."""
    run, copies = written.run, written.copies
    targets = {one.target for one in written.changes} | {drawn for _, drawn in written.resting}
    later = (compare("number", ">", run.number), is_null("undone_at"))
    columns = ("run_id", "thread_id", "to_seq", "summed_to_seq")
    # Turns are appended, memories put and reads counted without the tenant's lock.
    revived = one_of("memory_id", [one.target for one in written.by("revived")])
    doubted = [one.target for one in written.by("doubted")]
    rated = one_of("memory_id", [*(one.target for one in written.by("rated")), *doubted])
    reads = {
        **_select_thread(run),
        **_select_versions(written),
        "held": Select("memories", ("memory_id",), (rated,), lock="update"),
        "counted": Select("memory_access", ("memory_id",), (revived,), lock="update"),
        "timed": select_timed(sorted(targets)),
        "later": Select("runs", columns, later, order=("-number",)),
        "rules": RULES,
    }
    if doubted:
        reads["archived"] = select_archived_values(doubted)
    if copies:
        turn = Join("events", "e", (("thread_id", "thread_id"), ("event_id", "event_id")))
        newer = compare("e.memory_seq", ">", run.summed_from or 0)
        reads["copies"] = Select(
            "memories", ("memory_id", *COPIED), (one_of("memory_id", list(copies.values())),)
        )
        reads["tail"] = Select(
            "memory_sources",
            ("memory_id", "basis", "thread_id", "event_id"),
            (one_of("memory_id", list(copies)), newer),
            (turn,),
        )
    if written.facts:
        here = one_of_rows(("fact_type", "key"), sorted(set(written.facts.values())))
        reads["facts"] = Select("facts", ("memory_id", "fact_type", "key"), (here, *_OPEN))
    if written.edges:
        places = sorted({edge[1:3] for edge in written.edges.values()})
        there = one_of_rows(("subject_key", "relation"), places)
        reads["edges"] = Select("edges", _EDGE, (there, *_OPEN))
    if ended := written.aliases("ended"):
        reads["parted"] = Select("entity_aliases", _ALIAS, (one_of("alias_id", ended),))
    if ended or written.aliases("added"):
        reads["aliases"] = Select("entity_aliases", _ALIAS, (is_null("unmerged_at"),))
    return reads


def _select_thread(run: _Run) -> Reads:
    """Return what reads the marks of a run's thread, and its turns that would be unread again."""
    if run.thread_id is None:
        return {}
    marks = ("consolidated_seq", "summarised_seq", "unread_bytes")
    of_thread = equal("thread_id", run.thread_id)
    reads = {"thread": Select("threads", marks, (of_thread,), lock="update")}
    if run.from_seq is not None:
        unread = (of_thread, compare("memory_seq", ">", run.from_seq))
        reads["unread"] = Select("events", (Aggregate("bytes", "text"),), unread)
    return reads


def _select_versions(written: _UndoneRun) -> Reads:
    """Return what reads the turns that an edit replaced, and those in their places."""
    edited = written.by("edited")
    if not edited:
        return {}
    of_thread = equal("thread_id", written.run.thread_id)
    versions = one_of("event_id", [str(one.target) for one in edited])
    now_there = one_of("event_id", [one.event_id for one in edited])
    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    said = (of_thread, now_there, equal("m.kind", "episodic"))
    return {
        "versions": Select("events", ("event_id",), (of_thread, versions)),
        "in place": Select("events", ("event_id",), (of_thread, now_there)),
        "memories in place": Select("memory_sources", ("memory_id", "event_id"), said, (memories,)),
    }


def _require_last(written: _UndoneRun, later: Sequence[Row]) -> Policy[None]:
    """Raise Conflict if later runs build on a run; later: those not undone, the last one first.

    They read its thread further, change what it wrote or changed, or take a place that it freed.
    """
    if not later:
        return
    run = written.run
    closed = {one.target for one in (*written.by("closed"), *written.by("edge"))}
    freed = sorted({place for one, place in written.facts.items() if one in closed})
    places = sorted({edge[1:3] for one, edge in written.edges.items() if one in closed})
    changed = (one_of("target", sorted(written.touched)), compare("change", "<>", "rated"))
    here = one_of_rows(("fact_type", "key"), freed)
    there = one_of_rows(("subject_key", "relation"), places)
    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    found = yield [
        Select("run_changes", ("run_id",), changed, is_distinct=True),
        Select("facts", ("m.run_id",), (here,), (memories,), is_distinct=True),
        Select("edges", ("run_id",), (there,), is_distinct=True),
    ]
    building = {row[0] for rows in found for row in rows}

    def is_of_thread(thread_id: str | None, to_seq: int | None, summed_to: int | None) -> bool:
        if thread_id is None or thread_id != run.thread_id:
            return False
        reads_on = to_seq is not None and run.from_seq is not None and to_seq > run.from_seq
        return reads_on or (summed_to is not None and run.summed_to is not None)

    named = [str(row[0]) for row in later if row[0] in building or is_of_thread(*row[1:])]
    if named:
        raise Conflict(
            f"{len(named)} later runs build on run {run.run_id}: undo them first, in this order:"
            f" {', '.join(named[:5])}{', ...' if len(named) > 5 else ''}"
        )


def _undone(written: _UndoneRun, state: Found, rule: RuleOf, now: datetime) -> list[Operation]:
    """Return what restores all that was before a run."""
    run_id, copies = written.run.run_id, written.copies
    back = {row[0]: row[1:] for row in state["copies"]}
    summaries = {one: dict(zip(COPIED, back[copy_id], strict=True))
                 for one, copy_id in copies.items() if copy_id in back}  # fmt: skip
    # A summary that is put back is the run's no more.
    wrote = written.memories - summaries.keys()
    baseless = {drawn for basis, drawn in written.resting if basis in wrote}
    gone = {*wrote, *baseless, *copies.values()}
    memories = {row[0]: timed_of(row) for row in state["timed"] if row[0] not in gone}
    _require_free(written, state, gone)
    of_run = (equal("run_id", run_id),)
    along = sorted(gone - wrote)
    return [
        Update("runs", {"undone_at": now}, of_run),
        *_restored_summaries(copies, summaries, state["tail"], memories),
        Delete("edges", of_run),
        Delete("retractions", of_run),
        Delete("memories", of_run),
        *([Delete("memories", (one_of("memory_id", along),))] if along else []),
        *_unsourced(written),
        *_unedited(written, state),
        *_ends_back(written),
        *_faded_again(written, memories),
        *_rated_back(written, memories),
        *marks_back(written.by("doubted"), memories, state["archived"]),
        *_retirements_back(written, memories, now),
        *_marks_back(written.run, state),
        *_aliases_back(written, state),
        *retimed(memories.values(), rule),
    ]


def _restored_summaries(
    copies: Mapping[UUID, UUID],
    summaries: Mapping[UUID, Mapping[str, Any]],
    tail: Sequence[Row],
    memories: Mapping[UUID, TimedMemory],
) -> list[Operation]:
    """Return what puts summaries back from their copies; memories are timed as they will be."""
    operations: list[Operation] = []
    for target, copy_id in copies.items():
        own = (equal("memory_id", target),)
        if target in summaries:
            was = summaries[target]
            operations += [
                Delete("embeddings", own),
                Update("memories", {**was, "demoted_at": None}, own),
                Update("embeddings", {"memory_id": target}, (equal("memory_id", copy_id),)),
            ]
            if newer := [row[1:] for row in tail if row[0] == target]:
                these = one_of_rows(("basis", "thread_id", "event_id"), newer)
                operations.append(Delete("memory_sources", (*own, these)))
        unstaged = {"stage": 0, "staged_at": None}
        operations += [Delete("memory_archive", own), Update("memory_access", unstaged, own)]
        if one := memories.get(target):
            one.stage, one.staged_at = 0, None
            for name in ("importance", "value", "updated_at", "created_at"):
                setattr(one, name, summaries.get(target, {}).get(name, getattr(one, name)))
    return operations


def _unsourced(written: _UndoneRun) -> list[Operation]:
    """Return what removes the sources that a run added to memories and edges before it."""
    added = written.by("sourced")
    bases = sorted({(one.target, basis) for one in added for basis in one.before.get("bases", ())})
    # Runs of an older version noted no bases; each of theirs was one turn.
    alone = sorted((one.target, one.event_id) for one in added if "bases" not in one.before)
    operations: list[Operation] = []
    if bases:
        operations += [
            Delete(f"{what}_sources", (one_of_rows((f"{what}_id", "basis"), bases),))
            for what in ("memory", "edge")
        ]
    if alone:
        of_thread = equal("thread_id", written.run.thread_id)
        these = one_of_rows(("memory_id", "event_id"), alone)
        operations.append(Delete("memory_sources", (of_thread, these)))
    return operations


def _unedited(written: _UndoneRun, state: Found) -> list[Operation]:
    """Return what puts turns back into their places, with the sources that they were.

    A version that has expired is gone. A turn that left and came back stays as it is now.
    """
    versions = {row[0] for row in state["versions"]}
    present = {row[0] for row in state["in place"]}
    back = [
        one for one in written.by("edited")
        if str(one.target) in versions
        and (one.before["is_replaced"] or one.event_id not in present)
    ]  # fmt: skip
    turns = {one.event_id for one in back}
    newer = sorted(row[0] for row in state["memories in place"] if row[1] in turns)
    of_thread = equal("thread_id", written.run.thread_id)
    operations: list[Operation] = []
    if newer:
        operations.append(Delete("memories", (one_of("memory_id", newer),)))
    for one in back:
        version = (of_thread, equal("event_id", str(one.target)))
        named = {"event_id": one.event_id}
        place = {"seq": one.before["seq"], "memory_seq": one.before["memory_seq"],
                 "expires_at": one.moment("expires_at")}  # fmt: skip
        operations += [
            Delete("events", (of_thread, equal("event_id", one.event_id))),
            Update("events", {**named, **place}, version),
            Update("memory_sources", named, version),
            Update("edge_sources", named, version),
            Delete("tombstones", version),
        ]
    for one in written.by("unsourced"):
        what, rows = one.before["of"], [(one.target, *row) for row in one.before["bases"]]
        columns = (f"{what}_id", "basis", "thread_id", "event_id")
        operations.append(Insert(f"{what}_sources", columns, rows, "keep"))
    return operations


def _ends_back(written: _UndoneRun) -> list[Operation]:
    """Return what lets facts and edges hold again, or end when they did before."""
    of_run = (equal("run_id", written.run.run_id),)
    operations: list[Operation] = [Delete("fact_closures", of_run)]
    ends = [(one.target, *map(one.moment, _ENDS)) for one in written.moved]
    for table, column, kind, places in (
        ("facts", "memory_id", "closed", written.facts.keys()),
        ("edges", "edge_id", "edge", written.edges.keys()),
    ):
        # Ends come back first: what a run let go on leaves the place of what it ended.
        operations += _each(table, _ENDS, [row for row in ends if row[0] in places], column)
        if closed := [one.target for one in written.by(kind)]:
            operations.append(Update(table, dict.fromkeys(_ENDS), (one_of(column, closed),)))
    return operations


def _faded_again(written: _UndoneRun, memories: Mapping[UUID, TimedMemory]) -> list[Operation]:
    """Return what demotes what a run revived, unless it was pinned, revived or moved on since.

    A memory that was archived keeps its text until the next cleanup archives it again.
    """
    faded, demoted = [], []
    for change in written.by("revived"):
        one = memories.get(change.target)
        if one is None or one.stage != 0 or one.pinned_at is not None:
            continue
        if one.staged_at != change.moment("revived_at"):
            continue
        one.stage, one.staged_at = 1, change.moment("staged_at")
        if one.access_count == change.before["access_count"] + 1:
            one.access_count -= 1
            one.last_accessed_at = change.moment("last_accessed_at")
        faded.append((one.memory_id, 1, one.staged_at, one.access_count, one.last_accessed_at))
        demoted.append((one.memory_id, change.moment("demoted_at")))
    columns = ("stage", "staged_at", "access_count", "last_accessed_at")
    return [*_each("memory_access", columns, faded), *_each("memories", ("demoted_at",), demoted)]


def _rated_back(written: _UndoneRun, memories: Mapping[UUID, TimedMemory]) -> list[Operation]:
    """Return what restores importance, emotion and expiry of memories, and what was set aside."""
    rated, unfelt = [], []
    for change in written.by("rated"):
        if one := memories.get(change.target):
            one.importance = change.before.get("importance") or one.importance
            rated.append((one.memory_id, one.importance))
            if change.before.get("emotion"):
                one.value = _unfelt(one.value)
                unfelt.append((one.memory_id, one.value))
    renewed = [(one.target, one.moment("expires_at")) for one in written.by("renewed")]
    shown = [
        (one.target, one.moment("demoted_at"))
        for one in written.by("renewed")
        if "demoted_at" in one.before
    ]
    return [
        *_each("memories", ("importance",), rated),
        *_each("memories", ("value",), unfelt),
        *_each("memories", ("expires_at",), renewed),
        *_each("memories", ("demoted_at",), shown),
    ]


def _unfelt(value: JsonValue) -> JsonValue:
    """Return the value of a turn without the emotion in its metadata."""
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(metadata, Mapping):
        return value
    others = {name: held for name, held in metadata.items() if name != "emotion"}
    if others or "emotion" not in metadata:
        return {**value, "metadata": others}
    return {name: held for name, held in value.items() if name != "metadata"}


def _retirements_back(
    written: _UndoneRun, memories: Mapping[UUID, TimedMemory], now: datetime
) -> list[Operation]:
    """Return what restores retirements, and retires what rests on a memory that stays retired."""
    was = dict.fromkeys((one.target for one in written.by("retired")), None)
    retired = was | {
        one.target: one.moment("retired_at") for one in written.moved if "retired_at" in one.before
    }
    for target in retired.keys() & memories.keys():
        memories[target].superseded_at = retired[target]

    def is_out(basis: UUID, at: datetime | None) -> bool:
        return (memories[basis].superseded_at if basis in memories else at) is not None

    out = {drawn for drawn, basis, at in written.bases if is_out(basis, at)}
    out |= {drawn for basis, drawn in written.resting if is_out(basis, None)}
    again = {one for one in out if one in memories and memories[one].superseded_at is None}
    for target in again:
        memories[target].superseded_at = now
    rows = [(one, memories[one].superseded_at)
            for one in sorted({*retired, *again} & memories.keys())]  # fmt: skip
    fresh = sorted(again - was.keys())
    return [
        *_each("memories", ("superseded_at",), rows),
        *noted(written.run.run_id, "retired", ((one, {}) for one in fresh)),
    ]


def _each(
    table: str, columns: tuple[str, ...], rows: Sequence[Row], key: str = "memory_id"
) -> list[Operation]:
    """Return what gives each row values of its own, if there are any."""
    return [UpdateEach(table, (key,), columns, rows)] if rows else []


def _marks_back(run: _Run, state: Found) -> list[Operation]:
    """Return what moves the marks of a thread back; turns that are unread again count again."""
    if not state["thread"] or run.kind == EDIT:
        return []
    [(read_to, summed_to, unread)] = state["thread"]
    if read_to == run.to_seq:
        read_to, unread = run.from_seq, state["unread"][0][0]
    if summed_to == run.summed_to:
        summed_to = run.summed_from
    marks = {"consolidated_seq": read_to, "summarised_seq": summed_to, "unread_bytes": unread}
    return [Update("threads", marks, (equal("thread_id", run.thread_id),))]


def _aliases_back(written: _UndoneRun, state: Found) -> list[Operation]:
    """Return what separates the names that a run merged, and merges those it separated."""
    added, ended = written.aliases("added"), written.aliases("ended")
    rows = {row[0]: row[1:] for row in (*state["aliases"], *state["parted"])}
    merged = [names for alias_id, names in rows.items() if alias_id not in added]
    names = {alias_key for alias_key, _ in merged}
    if len(names) < len(merged):
        raise _taken(written.run.run_id)
    if any(entity_key in names for _, entity_key in merged):
        raise Conflict("another call changed the aliases: try again")
    operations: list[Operation] = []
    if added:
        operations.append(Delete("entity_aliases", (one_of("alias_id", added),)))
    if ended:
        these = (one_of("alias_id", ended),)
        operations.append(Update("entity_aliases", {"unmerged_at": None}, these))
    return operations


def _require_free(written: _UndoneRun, state: Found, gone: Collection[UUID]) -> None:
    """Raise Conflict if something else has taken the place of a fact or an edge that returns."""
    back = {one.target for one in (*written.by("closed"), *written.by("edge"))}
    ended = {one.target for one in written.moved if any(map(one.moment, _ENDS))}
    back |= {one.target for one in written.moved} - ended
    held = {row[0]: (row[1], row[2]) for row in state["facts"] if row[0] not in gone}
    held |= {one: place for one, place in written.facts.items() if one in back}
    facts = Counter(place for one, place in held.items() if one not in ended)
    edges = {
        one.edge_id: one
        for one in (*(_EdgePlace(*row) for row in state["edges"]), *written.edges.values())
        if one.edge_id not in ended and one.run_id != written.run.run_id
        and one.memory_id not in gone
    }  # fmt: skip
    keys = Counter(key for one in edges.values() for key in one.keys)
    if any(count > 1 for count in (*facts.values(), *keys.values())):
        raise _taken(written.run.run_id)


def _taken(run_id: UUID) -> Conflict:
    return Conflict(
        f"run {run_id} cannot be undone: what it ended cannot hold again, because something"
        " that no run wrote has taken its place"
    )
