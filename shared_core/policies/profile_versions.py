"""Writes versions of profiles and the log of their runs, which records the turns they have read.

In that log "to_seq" means that a profile followed the thread up to there. "read" holds the turns
given to one, as ranges: {[1,4),[6,7)}. A rollback is a version like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared_core.core.domain import Scope
from shared_core.core.namespaces import profile_namespace, rest_of
from shared_core.errors import Conflict
from shared_core.policies.run_records import LAST_NUMBER, added_run, caller_run
from shared_core.ports.events import EventRow
from shared_core.ports.items import VectorRows
from shared_core.ports.operations import (
    Aggregate,
    Condition,
    Delete,
    Insert,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    Verb,
    compare,
    equal,
    is_not_null,
    one_of,
    one_of_rows,
)
from shared_core.ports.profiles import (
    PARAGRAPH_KEY,
    NewVersion,
    ProfileRun,
    ProfileVersion,
    marks_id,
)

_STAGE = (
    "run_id", "step", "stage", "output", "error", "started_at", "duration_s", "status", "input",
    "memory_id", "thread_id",
)  # fmt: skip
_VERSION = (
    "subject_kind", "subject_id", "version", "content_hash", "run_id", "created_at", "memory_id",
    "entries", "event_limit", "began_at",
)  # fmt: skip


def save_profile(
    scope: Scope,
    memory_id: UUID,
    run: ProfileRun,
    new: NewVersion | None,
    vectors: VectorRows | None,
    turns: Sequence[EventRow],
    now: datetime,
) -> Policy[set[str]]:
    """Append turns, and write a version and the record of its run; return the new turns' ids.

    Args:
        new: None if nothing changed. vectors: of the rows of turns and version.

    Raises:
        Conflict: the version is not the next one, something it needs was forgotten, or the run
            that it undoes is gone.
    """
    thread_id, appended, places = run.thread_id, list[Row](), list[Row]()
    if thread_id is not None and turns:
        given = one_of("event_id", [row.event.event_id for row in turns])
        remembered = (equal("thread_id", thread_id), given, is_not_null("memory_seq"))
        appending: list[Operation] = [
            Verb("append_turns", (thread_id, turns)),
            Select("events", ("memory_seq",), remembered),
        ]
    else:
        appending = []
    undone = Select("runs", ("undone_at",), (equal("run_id", run.undoes),)) if run.undoes else None
    reads = _reads(scope, new) if new else []
    every: list[Operation] = [*appending, LAST_NUMBER, *([undone] if undone else []), *reads]
    answers = yield every
    if appending:
        appended, places, *answers = answers
    last, *answers = answers
    if undone:
        [found, *answers] = answers
        if not found or found[0][0] is not None:
            raise Conflict("the run is gone, or was undone")
    operations = _record(memory_id, run, last, [row[0] for row in places], now)
    if new is not None:
        held = _Held(*answers)
        _require(memory_id, new, held)
        operations += yield from _version(memory_id, run, new, held, now)
    if vectors is not None:
        operations.append(Verb("add_vectors", (vectors,)))
    yield Last(operations)
    return {row[0] for row in appended}


@dataclass(frozen=True, slots=True)
class _Held:
    """What a new version must fit: rows of the batch that _reads() returns.

    own: key, id and superseded_at of the profile's memories. old: entries of versions beyond those
    to keep.
    """

    newest: Sequence[Row]
    rewritten: Sequence[Row]
    required: Sequence[Row]
    own: Sequence[Row]
    old: Sequence[Row]


def _reads(scope: Scope, new: NewVersion) -> list[Operation]:
    namespace = rest_of(profile_namespace(scope, new.subject, new.agent_id))
    required = one_of_rows(("thread_id", "event_id"), sorted({*new.required}))
    newest = ("version", "revision", "memory_id")
    return [
        Select("profiles", newest, _subject(new), order=("-version",), limit=1),
        Select("memories", ("memory_id",), (one_of("memory_id", list(new.rewritten)),)),
        Select("events", ("thread_id", "event_id"), (required, is_not_null("memory_seq"))),
        Select("memories", ("key", "memory_id", "superseded_at"), (equal("namespace", namespace),)),
        Select("profiles", ("entries",), (*_subject(new), compare("version", "<=", _last(new)))),
    ]


def _subject(new: NewVersion) -> tuple[Condition, ...]:
    return equal("subject_kind", new.subject), equal("subject_id", new.agent_id)


def _last(new: NewVersion) -> int:
    """Return the number of the last version beyond those to keep."""
    return new.expected + 1 - new.keep


def _require(memory_id: UUID, new: NewVersion, held: _Held) -> None:
    newest = tuple(held.newest[0]) if held.newest else None
    if newest != (new.expected, new.revision, memory_id) and (newest or new.expected):
        raise Conflict("the profile was changed meanwhile")
    if len(held.rewritten) != len({*new.rewritten}):
        raise Conflict("a memory was forgotten meanwhile")
    if len(held.required) != len({*new.required}):
        raise Conflict("a turn was forgotten meanwhile")


def _record(
    memory_id: UUID, run: ProfileRun, last: Sequence[Row], places: Sequence[int], now: datetime
) -> list[Operation]:
    """Return what records a run and its stages.

    last: the rows of LAST_NUMBER. places: numbers of the turns that the run was given.
    """
    values = {"run_id": run.run_id, "kind": "profile", "extractor": run.extractor}
    values |= {"counts": run.counts, "started_at": run.started_at, "finished_at": now}
    operations: list[Operation] = [added_run(last, values)]
    if run.undoes is not None:
        operations.append(Update("runs", {"undone_at": now}, (equal("run_id", run.undoes),)))
    stages = []
    for step, one in enumerate(run.stages, start=1):
        marks: dict[str, Any] = {**one.input}
        if step == 1 and places and "to_seq" not in marks:
            marks["read"] = spans(places)
        stages.append(
            (run.run_id, step, one.stage, one.output, one.error, one.started_at, one.duration_s,
             one.status, marks, memory_id, run.thread_id)
        )  # fmt: skip
    if stages:
        operations.append(Insert("pipeline_log", _STAGE, stages))
    return operations


def _version(
    memory_id: UUID, run: ProfileRun, new: NewVersion, held: _Held, now: datetime
) -> Policy[list[Operation]]:
    """Return what writes a version, or revises the newest; reads versions only to prune."""
    ids: dict[str, UUID] = {row.key: row.memory_id for row in new.rows}
    ids |= {key: one for key, one, _ in held.own}  # an existing key keeps its id
    written: list[Operation] = [Verb("put_items", (new.rows,))]
    sources = {(ids[key], *turn, basis) for key, turn, basis in new.sources if key in ids}
    if sources:
        columns = ("memory_id", "thread_id", "event_id", "basis")
        written.append(Insert("memory_sources", columns, sorted(sources), "keep"))
    if new.revises:
        newest = (*_subject(new), equal("version", new.expected))
        return [Update("profiles", {"revision": new.revision + 1}, newest), *written]
    entries = [{"id": str(one), "role": role} for one, role in new.entries]
    row = (new.subject, new.agent_id, new.expected + 1, bytes.fromhex(new.content_hash), run.run_id,
           now, memory_id, entries, new.event_limit, new.began_at)  # fmt: skip
    operations = [Insert("profiles", _VERSION, [row]), *written, *_shown(new, held, ids, now)]
    if held.old:
        operations += yield from _pruned(new, held.old)
    return operations


def _shown(
    new: NewVersion, held: _Held, ids: dict[str, UUID], now: datetime
) -> Iterable[Operation]:
    """Show the memories a version names, retire the others, and set the paragraph's bases."""
    paragraph = ids.get(PARAGRAPH_KEY)
    if paragraph is not None:
        yield Delete("memory_bases", (equal("memory_id", paragraph),))
        if bases := sorted({(paragraph, one) for one in new.covered}):
            yield Insert("memory_bases", ("memory_id", "basis_id"), bases, "keep")
    shown = {one for one, role in new.entries if role != "ended"} | {paragraph}
    retired: dict[UUID, datetime | None] = {one: moment for _, one, moment in held.own}
    retired |= {ids[row.key]: row.superseded_at for row in new.rows}
    living = [one for one, moment in retired.items() if moment is not None and one in shown]
    ended = [one for one, moment in retired.items() if moment is None and one not in shown]
    for some, value in ((living, None), (ended, now)):
        if some:
            yield Update("memories", {"superseded_at": value}, (one_of("memory_id", sorted(some)),))


def _pruned(new: NewVersion, old: Iterable[Row]) -> Policy[list[Operation]]:
    """Return what deletes the versions beyond those to keep, and memories that only they named."""
    of_subject, last = _subject(new), _last(new)
    alone = _named(old) - {one for one, _ in new.entries}
    if alone:  # only then are the versions that are kept worth reading
        [kept] = yield [
            Select("profiles", ("entries",), (*of_subject, compare("version", ">", last)))
        ]
        alone -= _named(kept)
    beyond = (*of_subject, compare("version", "<=", last))
    operations: list[Operation] = [Delete("profiles", beyond)]
    if alone:
        operations.append(Delete("memories", (one_of("memory_id", sorted(alone)),)))
    return operations


def _named(rows: Iterable[Row]) -> set[UUID]:
    """Return the ids of the memories in entries of versions."""
    return {UUID(entry["id"]) for row in rows for entry in row[-1] if "id" in entry}


def drop_profile(scope: Scope, newest: ProfileVersion, run_id: UUID, now: datetime) -> Policy[int]:
    """Delete a profile with its memories and its log; return the number of versions.

    A profile of a user marks all turns up to now as read for the next one of the same agent.
    run_id: of the run that makes these marks.
    """
    of_profile = (equal("memory_id", newest.memory_id),)
    namespace = rest_of(profile_namespace(scope, newest.subject, newest.agent_id))
    marks = marks_id(newest.agent_id)
    of_user = newest.subject == "user"
    logged = one_of("memory_id", [newest.memory_id, *([marks] if of_user else [])])
    last_turns = Select(
        "threads",
        ("thread_id", "last_memory_seq"),
        (compare("last_memory_seq", ">", 0),),
        order=("thread_id",),
    )
    [(count,)], last, runs, threads = yield [
        Select("profiles", (Aggregate("count"),), of_profile),
        LAST_NUMBER,
        Select("pipeline_log", ("run_id",), (logged,), is_distinct=True),
        last_turns,
    ]
    operations: list[Operation] = []
    if runs:
        operations.append(Delete("runs", (one_of("run_id", sorted(row[0] for row in runs)),)))
    if count:
        operations.append(Delete("profiles", of_profile))
        operations.append(Delete("memories", (equal("namespace", namespace),)))
    if count and of_user:
        operations.append(caller_run(run_id, "profile", {"deleted": True}, now, last, ""))
        operations += _marks(marks, run_id, threads, now)
    yield Last(operations)
    return int(count)


def _marks(log_id: UUID, run_id: UUID, threads: Iterable[Row], now: datetime) -> list[Operation]:
    stages: list[Row] = [
        (run_id, step, "deletion", {}, None, now, 0.0, "success", {"to_seq": to_seq}, log_id,
         thread_id)
        for step, (thread_id, to_seq) in enumerate(threads, start=1)
    ]  # fmt: skip
    return [Insert("pipeline_log", _STAGE, stages)] if stages else []


def spans(numbers: Iterable[int]) -> str:
    """Return numbers as disjoint ranges: {[1,4),[6,7)}."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number:
            found[-1][1] = number + 1
        else:
            found.append([number, number + 1])
    return "{" + ",".join(f"[{first},{end})" for first, end in found) + "}"
