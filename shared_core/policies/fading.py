"""Moving faded memories on by one stage, and erasing weak ones at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from shared_core.core.domain import JsonValue, MemoryKind
from shared_core.core.json_text import to_json
from shared_core.core.retention_policy import Fate, RetentionPolicy
from shared_core.policies.forgetting import TurnKey, buried
from shared_core.policies.timing import (
    COUNTERS,
    RULES,
    TIMED,
    RuleOf,
    TimedMemory,
    hold,
    rules_of,
    select_timed,
    timed_of,
)
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
    UpdateEach,
    equal,
    is_not_null,
    one_of,
)
from shared_core.ports.retention import Weak

_CONTENT = ("thread_id", "demoted_at", "text", "words_key")
_ARCHIVE = ("text", "value", "is_shown", "words_key", "archived_at", "keeps_words")
_NOT_SHOWN: Mapping[str, object] = {"text": "", "value": {}, "words_key": None}
_WORDLESS: Mapping[str, object] = {"terms": "", "term_count": 0}


@dataclass(slots=True)
class Moved:
    """What became of memories of one tenant.

    counts: number of memories by kind and fate. retimed: number of those that a newer policy gives
    more time. along: memories erased with others, by id.
    """

    counts: Counter[tuple[MemoryKind, Fate]] = field(default_factory=Counter)
    retimed: int = 0
    along: dict[UUID, MemoryKind] = field(default_factory=dict)


@dataclass(slots=True)
class Ahead:
    """What would become of memories: kind and fate by id, and the kinds of those along."""

    fates: dict[UUID, tuple[MemoryKind, Fate]]
    along: dict[UUID, MemoryKind]


@dataclass(slots=True)
class FadingMemory:
    """A memory that its counters call due, and its policy.

    due_at: when it leaves its stage by the policy as it is now. fate: what becomes of it then.
    """

    memory: TimedMemory
    rule: RetentionPolicy | None
    thread_id: str | None
    demoted_at: datetime | None
    text: str
    words_key: UUID | None
    due_at: datetime | None
    fate: Fate


def _fading(
    one: TimedMemory, rule: RetentionPolicy | None, content: Sequence[Any], due_at: datetime | None
) -> FadingMemory:
    thread_id, demoted_at, text, words_key = content
    fate = fate_of(one.stage, rule)
    return FadingMemory(one, rule, thread_id, demoted_at, text, words_key, due_at, fate)


def fate_of(stage: int, rule: RetentionPolicy | None) -> Fate:
    """Return what becomes of a memory that leaves a stage (an index into STAGES)."""
    if stage == 0:
        return "demoted"
    is_archived = rule is None or rule.archive_threshold is not None
    return "archived" if stage == 1 and is_archived else "erased"


def move_on(tenant: str, memory_ids: Sequence[UUID], now: datetime) -> Policy[Moved]:
    """Move those of some memories that are due on by one stage; others may hold some of them.

    An erased turn is buried; memories derived from it stay.
    """
    rules, held, rows = yield [RULES, hold(memory_ids, "skip"), select_timed(memory_ids, _CONTENT)]
    free = {row[0] for row in held}
    early, due = _judged((row for row in rows if row[0] in free), rules_of(rules, tenant), now)
    erased = [one for one in due if one.fate == "erased"]
    moved = Moved(Counter((one.memory.kind, one.fate) for one in due), len(early))
    turns: set[TurnKey] = set()
    if erased:
        turns, moved.along = yield from _going_along(erased, holds=True)
    operations = _staged(early, [one for one in due if one.fate != "erased"], now)
    operations += _archived([one for one in due if one.fate == "archived"], now)
    if erased:
        gone = {one.memory.memory_id for one in erased} | moved.along.keys()
        operations += [*buried(turns, now), *_deleted(gone)]
    yield Last(operations)
    return moved


def what_moves_on(tenant: str, memory_ids: Sequence[UUID], now: datetime) -> Policy[Ahead]:
    """Return what move_on() would do to some memories."""
    rules, rows = yield [RULES, select_timed(memory_ids, _CONTENT)]
    _, due = _judged(rows, rules_of(rules, tenant), now)
    erased = [one for one in due if one.fate == "erased"]
    along: dict[UUID, MemoryKind] = {}
    if erased:
        _, along = yield from _going_along(erased, holds=False)
    return Ahead({one.memory.memory_id: (one.memory.kind, one.fate) for one in due}, along)


def _judged(
    rows: Iterable[Row], rule_of: RuleOf, now: datetime
) -> tuple[list[FadingMemory], list[FadingMemory]]:
    """Return memories that a newer policy gives more time, and memories that are due."""
    early, due = list[FadingMemory](), list[FadingMemory]()
    for row in rows:
        one = timed_of(row)
        if one.forget_at is None or one.forget_at > now:
            continue
        if one.staged_at is not None and one.staged_at >= now:
            continue
        rule = rule_of(one.kind)
        fading = _fading(one, rule, row[len(TIMED) :], one.leaves_at(rule))
        (early if fading.due_at is None or fading.due_at > now else due).append(fading)
    return early, due


def _staged(
    early: Iterable[FadingMemory], moved: Iterable[FadingMemory], now: datetime
) -> list[Operation]:
    """Return what puts memories into their next stage, or notes that they have more time."""
    rows: list[tuple[object, ...]] = [
        (one.memory.memory_id, one.memory.stage, one.memory.staged_at, one.due_at) for one in early
    ]
    hidden = []
    for one in moved:
        memory = one.memory
        memory.stage, memory.staged_at = 1 if one.fate == "demoted" else 2, now
        rows.append((memory.memory_id, memory.stage, now, memory.leaves_at(one.rule)))
        if memory.stage == 1 and one.demoted_at is None:
            hidden.append(memory.memory_id)
    operations: list[Operation] = []
    if rows:
        columns = ("stage", "staged_at", "forget_at")
        operations.append(UpdateEach("memory_access", ("memory_id",), columns, rows))
    if hidden:
        operations.append(Update("memories", {"demoted_at": now}, (one_of("memory_id", hidden),)))
    return operations


def _archived(archived: Sequence[FadingMemory], now: datetime) -> list[Operation]:
    """Return what archives the content of memories; only items keep their vectors and words."""
    if not archived:
        return []
    rows = []
    for one in archived:
        memory = one.memory
        value, is_shown = _packed(one.text, memory.value)
        keeps = memory.kind == "item"
        rows.append((memory.memory_id, one.text, value, is_shown, one.words_key, now, keeps))
    operations: list[Operation] = [
        Insert("memory_archive", ("memory_id", *_ARCHIVE), rows, "update", _ARCHIVE)
    ]
    for is_item in (False, True):
        for is_hidden in (True, False):
            ids = [
                one.memory.memory_id
                for one in archived
                if (one.memory.kind == "item") == is_item
                and (one.demoted_at is not None) == is_hidden
            ]
            values = {**_NOT_SHOWN, **({} if is_item else _WORDLESS)}
            values |= {} if is_hidden else {"demoted_at": now}
            if ids:
                operations.append(Update("memories", values, (one_of("memory_id", ids),)))
    wordless = [one.memory.memory_id for one in archived if one.memory.kind != "item"]
    if wordless:
        operations.append(Delete("embeddings", (one_of("memory_id", wordless),)))
    return operations


def _packed(text: str, value: JsonValue) -> tuple[JsonValue, bool]:
    """Return the value of a memory without its text, and whether it contained the text."""
    if not isinstance(value, dict) or value.get("content") is None:
        return value, False
    content = value["content"]
    if (content if isinstance(content, str) else to_json(content)) != text:
        return value, False
    return {name: part for name, part in value.items() if name != "content"}, True


def _going_along(
    erased: Sequence[FadingMemory], *, holds: bool, with_facts: bool = True
) -> Policy[tuple[set[TurnKey], dict[UUID, MemoryKind]]]:
    """Return the turns of erased memories, and the unpinned memories erased along, by kind.

    With a fact go the ended facts of its place, if its policy says so. With a summary go those it
    replaced. with_facts: False spares turns and ended facts. holds: leave out what others hold, and
    keep the rest, as the threads of the turns, from changing.
    """
    episodic = [one for one in erased if one.memory.kind == "episodic" and with_facts]
    said = [one.memory.memory_id for one in episodic]
    of_facts = [
        one.memory.memory_id
        for one in erased
        if with_facts
        and one.memory.kind == "semantic"
        and (one.rule is None or one.rule.with_history)
    ]
    summarised = _threads(one for one in erased if one.memory.kind == "summary")
    operations: list[Operation] = []
    if said and holds:
        where = (one_of("thread_id", _threads(episodic)),)
        operations.append(Select("threads", ("thread_id",), where, lock="update"))
    sources = Select("memory_sources", ("thread_id", "event_id"), (one_of("memory_id", said),))
    operations += [sources, _ended_facts(of_facts), _replaced_summaries(summarised)]
    *_, turns, facts, summaries = yield operations
    along: dict[UUID, MemoryKind] = {
        row[1]: "semantic" for row in facts if row[1] != row[0] and row[2] is None
    }
    along |= {row[0]: "summary" for row in summaries if row[1] is None}
    if holds and along:
        pinned = (one_of("memory_id", sorted(along)), is_not_null("pinned_at"))
        held, pins = yield [
            hold(list(along), "skip"),
            Select("memory_access", ("memory_id",), pinned),
        ]
        spared = {row[0] for row in pins}
        along = {row[0]: along[row[0]] for row in held if row[0] not in spared}
    return {(row[0], row[1]) for row in turns}, along


def _threads(memories: Iterable[FadingMemory]) -> list[str]:
    return sorted({one.thread_id for one in memories if one.thread_id is not None})


def _ended_facts(memory_ids: Sequence[UUID]) -> Select:
    """Return what reads the ended facts of the places of facts, and whether they are pinned."""
    return Select(
        "facts",
        ("memory_id", "h.memory_id", "a.pinned_at"),
        (one_of("memory_id", memory_ids), is_not_null("h.superseded_at")),
        (
            Join("facts", "h", (("fact_type", "fact_type"), ("key", "key"))),
            Join("memory_access", "a", (("h.memory_id", "memory_id"),), is_left=True),
        ),
    )


def _replaced_summaries(threads: Sequence[str]) -> Select:
    where = (one_of("thread_id", threads), equal("kind", "summary"), is_not_null("superseded_at"))
    return Select("memories", ("memory_id", "a.pinned_at"), where, (COUNTERS,))


def _deleted(memory_ids: Collection[UUID]) -> list[Operation]:
    ids = sorted(memory_ids)
    return [
        Delete("memory_bases", (one_of("basis_id", ids),)),
        Delete("memories", (one_of("memory_id", ids),)),
    ]


def judge(
    tenant: str, memory_ids: Sequence[UUID], weak: Weak, now: datetime
) -> Policy[tuple[int, float, list[UUID]]]:
    """Return the number of memories that fade, the sum of their scores, and the weak ones."""
    rules, rows = yield [RULES, select_timed(memory_ids, (*_CONTENT, "expires_at"))]
    found = list(_scored(rows, rules_of(rules, tenant), weak, now))
    ids = [one.memory.memory_id for one, score in found if _is_weak(one.memory, score, weak, now)]
    return len(found), sum(score for _, score in found), ids


def erase_weak(
    tenant: str, memory_ids: Sequence[UUID], weak: Weak, now: datetime
) -> Policy[list[UUID]]:
    """Erase those of some memories that are still weak and that nobody holds; return their ids.

    Their turns stay, and so do the memories derived from them.
    """
    columns = (*_CONTENT, "expires_at")
    rules, held, rows = yield [RULES, hold(memory_ids, "skip"), select_timed(memory_ids, columns)]
    free = {row[0] for row in held}
    scored = _scored(rows, rules_of(rules, tenant), weak, now)
    found = [one for one, score in scored if _is_weak(one.memory, score, weak, now)]
    found = [one for one in found if one.memory.memory_id in free]
    if not found:
        return []
    _, along = yield from _going_along(found, holds=True, with_facts=False)
    ids = [one.memory.memory_id for one in found]
    yield Last(_deleted({*ids, *along}))
    return ids


def _scored(
    rows: Iterable[Row], rule_of: RuleOf, weak: Weak, now: datetime
) -> Iterator[tuple[FadingMemory, float]]:
    """Yield the living memories that fade with their scores; rows end with expires_at."""
    for *row, expires_at in rows:
        one = timed_of(tuple(row))
        rule = rule_of(one.kind)
        if rule is not None and is_living(one.superseded_at, expires_at, now):
            decay_rate = rule.decay_rate if weak.decay_rate is None else weak.decay_rate
            yield _fading(one, rule, row[len(TIMED) :], None), one.score(decay_rate, now)


def _is_weak(one: TimedMemory, score: float, weak: Weak, now: datetime) -> bool:
    age_s = (now - one.created_at).total_seconds()
    is_old = age_s >= weak.min_age_days * 86_400
    return one.pinned_at is None and is_old and score < weak.threshold


def is_living(superseded_at: datetime | None, expires_at: datetime | None, now: datetime) -> bool:
    """Return whether a memory is neither superseded nor expired."""
    return superseded_at is None and (expires_at is None or expires_at > now)
