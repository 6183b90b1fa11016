"""Setting memories aside: they leave recall at once, and expire after a while unless it is undone.

It is a run, so undo_run() brings everything back: memories are retired and demoted, so that no
moment of `as_of` shows them; facts and edges end. Only summaries are deleted; the next
consolidation of their thread writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from shared_core.policies.forgetting import TurnKey
from shared_core.policies.run_records import (
    LAST_NUMBER,
    RunChange,
    caller_run,
    ends_before,
    iso,
    logged,
)
from shared_core.ports.operations import (
    Condition,
    Delete,
    Join,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    UpdateEach,
    begins_with,
    compare,
    equal,
    is_not_null,
    is_null,
    one_of,
    one_of_rows,
    open_after,
)

FORGET_REQUEST = "forget"
"""The kind of a run that sets memories aside."""
KEPT_FOR: Final = timedelta(days=30)
"""Time for which undo_run() can bring back what was set aside."""
EDIT = "edit"
"""The kind of a run that replaces turns, or sets aside turns that left their thread."""
PAGE = 1_000
"""Maximum number of memories that are read at a time."""
ENDS = ("valid_from", "valid_until", "superseded_at")


class HeldMemory(NamedTuple):
    """What decides how a memory is set aside."""

    memory_id: UUID
    kind: str
    text: str
    superseded_at: datetime | None
    expires_at: datetime | None
    demoted_at: datetime | None
    thread_id: str | None
    occurred_at: datetime
    role: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """Number of memories, and of facts and edges among them, that were set aside by a run.

    run_id: None if there was nothing to set aside. until: when they expire. is_too_much: nothing
    was, because these memories are more than allowed.
    """

    run_id: UUID | None
    memories: int = 0
    facts: int = 0
    edges: int = 0
    until: datetime | None = None
    is_too_much: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBeside:
    """What a request names beside a topic.

    turns: they go with all that was drawn from them. asking: the turns that ask; they go alone.
    memories: they go with the turns that they come from, and so do, of those turns, summaries,
    reflections, and facts that have ended. A reflection that is named goes alone.
    """

    turns: frozenset[TurnKey] = frozenset()
    asking: frozenset[TurnKey] = frozenset()
    memories: frozenset[UUID] = frozenset()


NOTHING_NAMED = NamedBeside()


def set_aside(
    run_id: UUID,
    paths: Sequence[str],
    is_about: Callable[[HeldMemory], bool],
    names: Collection[str],
    asked_at: datetime,
    now: datetime,
    until: datetime,
    named_beside: NamedBeside = NOTHING_NAMED,
    most: int | None = None,
) -> Policy[SetAside]:
    """Set aside the memories that are about a topic, or that are named; return how many.

    Args:
        run_id: of the new run.
        paths: beginnings of the namespaces to look in.
        is_about: tells whether a memory is about the topic.
        names: normalised names of the topic, for edges of the graph.
        asked_at: what a thread holds of later turns stays.
        now, until: when it happens, and when the memories expire.
        named_beside: turns and memories that go too.
        most: maximum number of memories; of more none is set aside.
    """
    about: list[HeldMemory] = []
    chosen, asking, repeated, stated = yield from _named_memories(named_beside, now)

    def goes(one: HeldMemory) -> bool:
        if one.memory_id in chosen or one.memory_id in asking:
            return True
        return one.text in repeated or is_about(one)

    for path in paths:
        found = yield from _below(path, goes)
        about += [one for one in found if _is_before(one, asked_at)]
    ids = sorted(one.memory_id for one in about)
    ends = _edges_about(ids, stated, names, asked_at)
    is_open = open_after("valid_until", now)
    last, facts, *edges = yield [
        LAST_NUMBER,
        Select("facts", ("memory_id", *ENDS), (one_of("memory_id", ids), is_open)),
        *(Select("edges", ("edge_id", *ENDS), (*end, is_open)) for end in ends),
    ]
    ending = {row[0]: row for rows in edges for row in rows}
    # The end is when the user asked, so that a later turn may state it again.
    going = put_aside(about, facts, ending.values(), min(asked_at, now), now, until)
    memories = going.memories
    if asking.issuperset(memories) and not ending:
        memories = yield from _set_aside_by_edits(ids)
        if not memories:
            return SetAside(run_id=None)
    if most is not None and len(memories) > most:
        return SetAside(run_id=None, memories=len(memories), is_too_much=True)
    done = SetAside(
        run_id=run_id, memories=len(memories), facts=len(facts), edges=len(ending),
        until=until,
    )  # fmt: skip
    counts = {"memories": done.memories, "facts": done.facts, "edges": done.edges}
    run = caller_run(run_id, FORGET_REQUEST, {**counts, "until": iso(until)}, now, last)
    yield Last([run, *going.operations, *logged(run_id, going.log)])
    return done


def _edges_about(
    ids: Sequence[UUID], stated: Collection[UUID], names: Collection[str], asked_at: datetime
) -> list[tuple[Condition, ...]]:
    """Return the conditions of the edges that end with these memories, or that touch a name."""
    named, before = sorted(names), compare("valid_from", "<=", asked_at)
    return [
        (one_of("memory_id", ids),), (one_of("fact_id", ids),),
        (one_of("edge_id", sorted(stated)), is_null("fact_id")),
        (one_of("subject_key", named), before), (one_of("object_key", named), before),
    ]  # fmt: skip


def _set_aside_by_edits(ids: Sequence[UUID]) -> Policy[frozenset[UUID]]:
    """Return which of these memories an edit set aside, and no request.

    Without a later run that has them, undoing the edit would bring them back.
    """
    runs = Join("runs", "r", (("run_id", "run_id"),))
    where = (
        one_of("target", ids), equal("change", "renewed"), is_null("r.undone_at"),
        one_of("r.kind", [EDIT, FORGET_REQUEST]),
    )  # fmt: skip
    [rows] = yield [Select("run_changes", ("target", "r.kind"), where, (runs,))]
    asked = {target for target, kind in rows if kind == FORGET_REQUEST}
    return frozenset(target for target, _ in rows) - asked


class PutAside(NamedTuple):
    """The memories that are set aside, what sets them aside, and what undo_run() needs for it."""

    memories: Collection[UUID]
    operations: Sequence[Operation]
    log: Sequence[RunChange]


def put_aside(
    about: Sequence[HeldMemory],
    facts: Sequence[Row],
    edges: Collection[Row],
    end: datetime,
    now: datetime,
    until: datetime,
) -> PutAside:
    """Return what sets memories aside.

    facts, edges: rows of an id and ENDS that end; not before they began.
    """
    summaries = [one for one in about if one.kind == "summary"]
    kept = [one for one in about if one.kind != "summary"]
    retired = [one for one in kept if one.superseded_at is None]
    expiring = [one for one in kept if one.expires_at is None or one.expires_at > until]
    log = [
        *(RunChange("retired", one.memory_id, "", {}) for one in retired),
        # What an earlier run set aside is logged here too: to bring it back, both are undone.
        *(RunChange("renewed", one.memory_id, "", _before(one)) for one in kept),
        *(_ending(row, "closed") for row in facts),
        *(_ending(row, "edge") for row in sorted(edges)),
    ]
    operations = [
        *_ended("facts", "memory_id", facts, end, now),
        *_ended("edges", "edge_id", edges, end, now),
        *_forgotten_summaries(summaries),
        *_updated(retired, {"superseded_at": now}),
        *_updated([one for one in kept if one.demoted_at is None], {"demoted_at": now}),
        *_updated(expiring, {"expires_at": until}),
    ]
    return PutAside({one.memory_id for one in (*summaries, *retired, *expiring)}, operations, log)


def _ending(row: Row, change: str) -> RunChange:
    """Return what undo_run() restores of a fact or an edge; an end to come is moved."""
    row_id, _, valid_until, superseded_at = row
    if valid_until is None:
        return RunChange(change, row_id, "", {})
    return RunChange("moved", row_id, "", ends_before(valid_until, superseded_at))


def _before(one: HeldMemory) -> dict[str, Any]:
    """Return what undo_run() restores of a memory."""
    return {"expires_at": iso(one.expires_at), "demoted_at": iso(one.demoted_at)}


def _updated(memories: Sequence[HeldMemory], values: dict[str, datetime]) -> list[Operation]:
    these = (one_of("memory_id", [one.memory_id for one in memories]),)
    return [Update("memories", dict(values), these)] if memories else []


def turns_set_aside(
    thread_id: str, event_ids: Sequence[str]
) -> Policy[tuple[frozenset[str], frozenset[str]]]:
    """Return which of these turns of a thread have retired memories, and which have current ones.

    No run reads the first. The second are none of those that a request set aside, or it was undone.
    """
    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    where = (
        equal("thread_id", thread_id), one_of("event_id", sorted({*event_ids})),
        equal("m.kind", "episodic"),
    )  # fmt: skip
    columns = ("event_id", "m.superseded_at")
    [rows] = yield [Select("memory_sources", columns, where, (memories,))]
    retired = frozenset(row[0] for row in rows if row[1] is not None)
    return retired, frozenset(row[0] for row in rows) - retired


def _is_before(one: HeldMemory, asked_at: datetime) -> bool:
    """Tell whether a memory is not of a turn after a moment; summaries hold earlier turns, too."""
    return one.kind == "summary" or one.thread_id is None or one.occurred_at <= asked_at


def _named_memories(
    named: NamedBeside, now: datetime
) -> Policy[tuple[set[UUID], set[UUID], frozenset[str], set[UUID]]]:
    """Return the ids of the memories that a request names beside its topic, of the turns that ask,
    texts, and edges.

    The texts are those of facts and summaries, which profiles repeat. The edges are stated by the
    turns that go, and by no other. A reflection has many turns, so one that is named goes alone.
    """
    if named == NOTHING_NAMED:
        return set(), set(), frozenset(), set()
    these = one_of("memory_id", sorted(named.memories))
    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    facts = Join("facts", "f", (("memory_id", "memory_id"),), is_left=True)
    of_one_matter = one_of("m.kind", ["episodic", "item", "semantic", "summary"])
    told, texts = yield [
        Select("memory_sources", ("thread_id", "event_id"), (these, of_one_matter), (memories,)),
        Select("facts", ("m.text",), (these,), (memories,)),
    ]
    telling = {(row[0], row[1]) for row in told}
    turns = sorted({*named.turns, *named.asking, *telling})
    where = (one_of_rows(("thread_id", "event_id"), turns),)
    columns = (
        "memory_id", "thread_id", "event_id", "m.kind", "m.text", "m.superseded_at", "f.valid_until"
    )  # fmt: skip
    going = sorted({*named.turns, *telling})
    of_going = one_of_rows(("thread_id", "event_id"), going)
    rows, edges = yield [
        Select("memory_sources", columns, where, (memories, facts)),
        Select("edge_sources", ("edge_id",), (of_going,), is_distinct=True),
    ]
    these = one_of("edge_id", sorted(row[0] for row in edges))
    [sources] = yield [Select("edge_sources", ("edge_id", "thread_id", "event_id"), (these,))]
    stated = {row[0] for row in sources} - {row[0] for row in sources if row[1:] not in going}
    found, repeated = {*named.memories}, {row[0] for row in texts}
    asking: set[UUID] = set()
    for memory_id, thread_id, event_id, kind, text, ended_at, until in rows:
        turn = (thread_id, event_id)
        has_ended = ended_at is not None or (until is not None and until <= now)
        goes = turn in named.turns or kind == "episodic"
        goes |= turn in telling and (kind in ("summary", "reflection") or has_ended)
        is_asking = turn in named.asking and turn not in going and kind == "episodic"
        asking |= {memory_id} if is_asking else set()
        found |= {memory_id} if goes and not is_asking else set()
        repeated |= {text} if goes and kind == "summary" else set()
    return found, asking, frozenset(repeated), stated


def _below(path: str, goes: Callable[[HeldMemory], bool]) -> Policy[list[HeldMemory]]:
    found: list[HeldMemory] = []
    order = ("memory_id",)
    behind: tuple[Any, ...] = ()
    while True:
        where = (begins_with("namespace", path), *behind)
        [page] = yield [Select("memories", HeldMemory._fields, where, order=order, limit=PAGE)]
        found += [one for one in map(HeldMemory._make, page) if goes(one)]
        if len(page) < PAGE:
            return found
        behind = (compare("memory_id", ">", page[-1][0]),)


def _ended(
    table: str, key: str, ending: Iterable[Row], end: datetime, now: datetime
) -> list[Operation]:
    """Return what ends facts or edges, none of them before it began."""
    rows = sorted((row[0], max(row[1], end), now) for row in ending)
    return [UpdateEach(table, (key,), ("valid_until", "superseded_at"), rows)] if rows else []


def _forgotten_summaries(summaries: Sequence[HeldMemory]) -> list[Operation]:
    """Return what deletes summaries and those before them in their threads."""
    threads = sorted({one.thread_id for one in summaries if one.thread_id})
    operations: list[Operation] = []
    if summaries:
        these = one_of("memory_id", sorted(one.memory_id for one in summaries))
        operations.append(Delete("memories", (these,)))
    if threads:
        where = (
            one_of("thread_id", threads),
            equal("kind", "summary"),
            is_not_null("superseded_at"),
        )
        operations.append(Delete("memories", where))
    return operations
