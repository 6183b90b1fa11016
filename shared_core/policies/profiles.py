"""Reads profiles: versions with their entries, their log, and the threads they are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from shared_core.core.domain import USER, Event, FactDraft, JsonValue, ThreadId, Turn
from shared_core.core.time_zones import in_zone
from shared_core.nlp.text import language
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
    is_null,
    one_of,
    one_of_rows,
    open_after,
)
from shared_core.ports.profiles import (
    USER_TEXT_CHARACTERS,
    USER_TEXTS,
    EntryRole,
    ProfileEntry,
    ProfileVersion,
    RunOfProfile,
    StageLog,
    StageRecord,
    StoredProfile,
    SubjectKind,
    ThreadOverview,
)

VERSION_COLUMNS = (
    "subject_kind", "subject_id", "version", "memory_id", "event_limit", "content_hash", "run_id",
    "began_at", "created_at", "revision",
)  # fmt: skip
_STAGE_COLUMNS = (
    "run_id", "step", "stage", "status", "input", "output", "error", "started_at", "duration_s",
    "thread_id",
)  # fmt: skip
_EVENT_COLUMNS = (
    "event_id", "author", "role", "text", "occurred_at", "time_zone", "metadata", "importance",
    "expires_at",
)  # fmt: skip
_DRAWN = (
    "memory_id", "fact_type", "slot", "key", "value", "functional", "valid_until", "valid_from",
    "confidence", "pattern", "m.text", "m.importance", "m.expires_at",
)  # fmt: skip
_RETRACTED = (
    "fact_type", "slot", "subject_key", "value", "valid_until", "pattern", "event_ids",
)  # fmt: skip
_RANGE = re.compile(r"\[(\d+),(\d+)\)")
_REMEMBERED = is_not_null("memory_seq")
_SPAN = (Aggregate("count"), Aggregate("min", "occurred_at"), Aggregate("max", "occurred_at"))


def _newest(*where: Condition) -> Select:
    """Return what reads the newest version of a profile, with its entries."""
    return Select("profiles", (*VERSION_COLUMNS, "entries"), where, order=("-version",), limit=1)


def _of_subject(subject: str, agent_id: str) -> tuple[Condition, ...]:
    return equal("subject_kind", subject), equal("subject_id", agent_id)


def profile_by_id(memory_id: UUID, version: int | None = None) -> Policy[StoredProfile | None]:
    """Return the newest version of a profile, or the given one; None if there is none."""
    of_version = () if version is None else (equal("version", version),)
    [rows] = yield [_newest(equal("memory_id", memory_id), *of_version)]
    return next(iter((yield from _stored(rows))), None)


def profile_of(subject: SubjectKind, agent_id: str) -> Policy[StoredProfile | None]:
    """Return the newest version of the profile of a subject, or None."""
    [rows] = yield [_newest(*_of_subject(subject, agent_id))]
    return next(iter((yield from _stored(rows))), None)


def profiles_to_show(
    app: str, known: datetime | None, roles: Sequence[EntryRole]
) -> Policy[list[StoredProfile]]:
    """Return the profiles for a prompt, as known at a moment: user, then agent.

    Of several agents the one named like the application is used, else the one that changed last.
    roles: the entries to include.
    """
    then = () if known is None else (compare("created_at", "<=", known),)
    subjects: Sequence[SubjectKind] = ("user", "agent")
    newest = ("subject_kind", "subject_id", Aggregate("max", "version"))
    *own, every = yield [
        *(_newest(*_of_subject(subject, app), *then) for subject in subjects),
        Select("profiles", newest, then),
    ]
    shown = {subject: rows[0] for subject, rows in zip(subjects, own, strict=True) if rows}
    others = [row for row in every if row[0] not in shown]
    if others:
        versions = one_of_rows(("subject_kind", "subject_id", "version"), others)
        [found] = yield [Select("profiles", (*VERSION_COLUMNS, "entries"), (versions,))]
        found.sort(key=lambda row: row[1], reverse=True)  # of one moment the first id counts
        shown |= {row[0]: row for row in sorted(found, key=lambda row: version_of(row).created_at)}
    rows = [shown[subject] for subject in subjects if subject in shown]
    return (yield from _stored(rows, roles))


def select_versions(memory_id: UUID, limit: int) -> Select:
    """Return what reads the versions of a profile, newest first, for version_of()."""
    where = (equal("memory_id", memory_id),)
    return Select("profiles", VERSION_COLUMNS, where, order=("-version",), limit=limit)


def version_of(row: Row) -> ProfileVersion:
    """Return the version in VERSION_COLUMNS."""
    values = dict(zip(VERSION_COLUMNS[2:], row[2:], strict=False))
    values["content_hash"] = bytes(values["content_hash"]).hex()
    return ProfileVersion(subject=row[0], agent_id=row[1], **values)


def _stored(
    versions: Sequence[Row], roles: Sequence[EntryRole] | None = None
) -> Policy[list[StoredProfile]]:
    """Return versions with their memories and the turns of these, in their order.

    versions: VERSION_COLUMNS and entries. roles: only entries of these roles; None: all.
    """
    if not versions:
        return []
    entries = [
        [
            (UUID(entry["id"]) if "id" in entry else None, entry.get("role"))
            for entry in row[-1]
            if roles is None or entry.get("role") in roles
        ]
        for row in versions
    ]
    named = one_of("memory_id", sorted({one for some in entries for one, _ in some if one}))
    turns = ("memory_id", "basis", "thread_id", "event_id")
    memories, sources = yield [
        Select("memories", ("memory_id", "value", "superseded_at", "expires_at"), (named,)),
        Select("memory_sources", turns, (named,)),
    ]
    values: dict[UUID | None, Mapping[str, JsonValue]] = {
        row[0]: row[1] for row in memories if row[2] is None or row[3] is None
    }  # others were set aside, and will expire
    bases = _bases(sources)
    return [
        StoredProfile(
            version=version_of(row),
            entries=[
                ProfileEntry(role=role, value=values[one], bases=bases.get(one, ()))
                for one, role in some
                if one in values
            ],
            forgotten=frozenset(one for one, _ in some if one is not None and one not in values),
        )
        for row, some in zip(versions, entries, strict=True)
    ]


def _bases(sources: Iterable[Row]) -> dict[UUID | None, tuple[tuple[Turn, ...], ...]]:
    """Return the turns of memories, basis by basis."""
    return {
        memory_id: tuple(
            tuple((ThreadId(thread_id), event_id) for _, _, thread_id, event_id in turns)
            for _, turns in groupby(some, key=itemgetter(1))
        )
        for memory_id, some in groupby(sorted(sources), key=itemgetter(0))
    }


def profile_of_run(run_id: UUID) -> Policy[RunOfProfile | None]:
    """Return the version that a run wrote; None if it is no run on a profile."""
    of_run = equal("run_id", run_id)
    written, of_profile = yield [
        Select("profiles", ("memory_id", "version"), (of_run,)),
        Select("runs", ("run_id",), (of_run, equal("kind", "profile"))),
    ]
    if not written:
        return RunOfProfile(None, None, None, None) if of_profile else None
    [(memory_id, version)] = written
    [[newest]] = yield [select_versions(memory_id, 1)]
    last = version_of(newest)
    return RunOfProfile(memory_id, version, last.version, last.run_id)


def pipeline_history(memory_id: UUID, limit: int) -> Policy[list[StageLog]]:
    """Return the stages of the runs on a profile, newest run first."""
    [began] = yield [
        Select(
            "pipeline_log",
            ("run_id",),
            (equal("memory_id", memory_id), equal("step", 1)),
            order=("-started_at", "-run_id"),
            limit=limit,
        )
    ]
    place = {run_id: number for number, (run_id,) in enumerate(began)}
    of_runs = one_of("run_id", list(place))
    logged, written = yield [
        Select("pipeline_log", _STAGE_COLUMNS, (of_runs,)),
        Select("profiles", ("run_id", "version"), (of_runs,)),
    ]
    versions: dict[UUID, int] = dict(written)
    logged.sort(key=lambda row: (place[row[0]], row[1]))
    return [_stage(row, versions.get(row[0])) for row in logged]


def _stage(row: Row, version: int | None) -> StageLog:
    """Return the stage in _STAGE_COLUMNS; version: the profile version its run wrote."""
    run_id, step, *_, thread_id = row
    record = StageRecord(**dict(zip(_STAGE_COLUMNS[2:-1], row[2:-1], strict=True)))
    return StageLog(run_id=run_id, step=step, record=record, thread_id=thread_id, version=version)


def turns_to_profile(
    memory_ids: Sequence[UUID], thread_id: ThreadId, limit: int, now: datetime
) -> Policy[list[tuple[int, Event]]]:
    """Return the first consolidated turns of a thread that no profile of these ids has read.

    Each turn comes with its number in the order of storage. Undone runs count as well.
    """
    of_thread = equal("thread_id", thread_id)
    read = (one_of("memory_id", list(memory_ids)), of_thread, compare("status", "<>", "error"))
    logged, threads = yield [
        Select("pipeline_log", ("input",), read),
        Select("threads", ("consolidated_seq",), (of_thread,)),
    ]
    if not threads:
        return []
    followed = max((int(marks.get("to_seq") or 0) for (marks,) in logged), default=0)
    known = {
        number
        for (marks,) in logged
        for first, end in _RANGE.findall(str(marks.get("read") or ""))
        for number in range(int(first), int(end))
        if number > followed
    }
    [rows] = yield [
        Select(
            "events",
            ("memory_seq", *_EVENT_COLUMNS),
            (
                of_thread,
                compare("memory_seq", ">", followed),
                compare("memory_seq", "<=", threads[0][0]),
                open_after("expires_at", now),
            ),
            order=("memory_seq",),
            limit=limit + len(known),
        )
    ]
    unread = [row for row in rows if row[0] not in known][:limit]
    return [(row[0], _event(row[1:])) for row in unread]


def _event(row: Row) -> Event:
    values = dict(zip(_EVENT_COLUMNS, row, strict=True))
    zone = values.pop("time_zone")
    return Event(**{**values, "occurred_at": in_zone(values["occurred_at"], zone)})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReading:
    """What consolidation drew from turns of a thread: facts, ends of facts, and the summary."""

    facts: Sequence[FactDraft] = ()
    summary: str = ""


def reading_of(thread_id: ThreadId, event_ids: Sequence[str]) -> Policy[StoredReading | None]:
    """Return what is stored of turns of a thread, in their order; nothing that was set aside.

    None if one of the turns was not consolidated.
    """
    of_thread, order = equal("thread_id", thread_id), {one: at for at, one in enumerate(event_ids)}
    memories = (Join("memories", "m", (("memory_id", "memory_id"),)),)
    threads, turns, sources, retractions, summaries = yield [
        Select("threads", ("consolidated_seq",), (of_thread,)),
        Select(
            "events", ("event_id", "memory_seq"), (of_thread, one_of("event_id", sorted(order)))
        ),
        Select(
            "memory_sources",
            ("memory_id", "basis", "event_id"),
            (of_thread, one_of("event_id", sorted(order))),
        ),
        Select("retractions", _RETRACTED, (of_thread, equal("is_doubt", False))),
        Select(
            "memories", ("text",), (of_thread, equal("kind", "summary"), is_null("superseded_at"))
        ),
    ]
    mark = threads[0][0] if threads else 0
    if order.keys() != {row[0] for row in turns if row[1] is not None and row[1] <= mark}:
        return None
    bases: dict[tuple[UUID, int], list[str]] = {}
    for memory_id, basis, event_id in sources:
        bases.setdefault((memory_id, basis), []).append(event_id)
    ids = sorted({memory_id for memory_id, _ in bases})
    [rows] = yield [Select("facts", _DRAWN, (one_of("memory_id", ids),), memories)]
    by_id = {row[0]: row for row in rows if row[-1] is None or row[6] is None}
    found = [
        _stated(by_id[memory_id], sorted(said, key=order.__getitem__))
        for (memory_id, _), said in bases.items()
        if memory_id in by_id
    ]
    for row in retractions:
        if said := sorted((one for one in row[-1] if one in order), key=order.__getitem__):
            found.append(_ended(row, said))
    found.sort(key=lambda one: (order[one.event_id], one.operation == "assert"))
    return StoredReading(facts=found, summary=summaries[0][0] if summaries else "")


def _stated(row: Row, turns: Sequence[str]) -> FactDraft:
    _, fact_type, slot, key, value, functional, valid_until, valid_from, *rest = row
    confidence, pattern, text, importance, _ = rest
    about = key.removeprefix(slot)
    return FactDraft(
        fact_type=fact_type, slot=slot, value=str(value), statement=text, event_id=turns[-1],
        functional=functional, confidence=confidence, pattern=pattern, language=language(text),
        other_event_ids=tuple(turns[:-1]), importance=importance, valid_from=valid_from,
        subject=about[1:].partition(":")[0] if about.startswith("@") else USER,
        valid_until=valid_until,
    )  # fmt: skip


def _ended(row: Row, turns: Sequence[str]) -> FactDraft:
    fact_type, slot, subject_key, value, valid_until, pattern, _ = row
    about = subject_key.removeprefix(slot)
    return FactDraft(
        fact_type=fact_type, slot=slot, value=value, statement="", event_id=turns[-1],
        functional=not value, confidence=1.0, pattern=pattern, language=language(value),
        operation="retract", other_event_ids=tuple(turns[:-1]), valid_from=valid_until,
        subject=about[1:] if about.startswith("@") else USER,
    )  # fmt: skip


def forgotten_turns(thread_id: ThreadId, event_ids: Sequence[str]) -> Select:
    """Return what reads the ids among these whose turns were forgotten."""
    of_turns = (equal("thread_id", thread_id), one_of("event_id", list(event_ids)))
    return Select("tombstones", ("event_id",), of_turns, order=("event_id",))


def recent_threads(author: str | None, limit: int, now: datetime) -> Policy[list[ThreadOverview]]:
    """Return the most recently used threads; author: only those with turns of this agent."""
    counted: dict[str, Row] = {}
    size, seen = limit, 0
    while True:
        order = ("-updated_at", "thread_id")
        [threads] = yield [Select("threads", ("thread_id",), order=order, limit=size)]
        of_page = (one_of("thread_id", [row[0] for row in threads[seen:]]), _REMEMBERED)
        by_author = () if author is None else (equal("role", "agent"), equal("author", author))
        counts, written = yield [
            Select("events", ("thread_id", *_SPAN), of_page),
            Select("events", ("thread_id",), (*of_page, *by_author), is_distinct=True),
        ]
        chosen = {row[0] for row in written}
        counted |= {row[0]: row for row in counts if row[0] in chosen}
        if len(counted) >= limit or len(threads) < size:
            break
        size, seen = 4 * size, size
    first = [row[0] for row in threads if row[0] in counted][:limit]
    summaries, *texts = yield [_summaries(first), *(_last_texts(one, now) for one in first)]
    summary_of: dict[str, str] = dict(summaries)
    text_of = dict(zip(first, texts, strict=True))
    first.sort()
    first.sort(key=lambda one: counted[one][3], reverse=True)
    return [
        ThreadOverview(
            thread_id=ThreadId(one),
            started_at=counted[one][2],
            ended_at=counted[one][3],
            turns=counted[one][1],
            summary=summary_of.get(one, ""),
            user_texts=tuple(text[:USER_TEXT_CHARACTERS] for (text,) in reversed(text_of[one])),
        )
        for one in first
    ]


def _summaries(thread_ids: Sequence[str]) -> Select:
    living = (equal("kind", "summary"), is_null("superseded_at"))
    where = (one_of("thread_id", thread_ids), *living)
    return Select("memories", ("thread_id", "text"), where)


def _last_texts(thread_id: str, now: datetime) -> Select:
    """Return what reads the last texts of users in a thread, the last one first."""
    where = (
        equal("thread_id", thread_id),
        _REMEMBERED,
        equal("role", "user"),
        compare("text", "<>", ""),
        open_after("expires_at", now),
    )
    return Select("events", ("text",), where, order=("-seq",), limit=USER_TEXTS)
