"""Stores the turns of a thread, and memories without one: embeds, then one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import NamedTuple, get_args

from shared_core.core.domain import (
    Event,
    JsonValue,
    MemoryId,
    MemoryKind,
    NewMemory,
    Role,
    Scope,
    ThreadId,
)
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import check_label, clean_text, memories_namespace, scope_path
from shared_core.core.shown import shown
from shared_core.core.telemetry import REMEMBERED, measured
from shared_core.core.timestamps import check_moment
from shared_core.core.validation import listed, mapping
from shared_core.errors import InvalidInput
from shared_core.lifecycle import Handle
from shared_core.models.embedding import Embedding
from shared_core.nlp.extractive_summary import QUESTION
from shared_core.nlp.text import has_words, search_terms
from shared_core.policies.editing import Edited, TurnEdit, edit_turns
from shared_core.policies.items import put_items
from shared_core.policies.setting_aside import KEPT_FOR
from shared_core.policies.vectors import TEXT_FIELD, add_missing_vectors, turns_without_vectors
from shared_core.ports.conversations import check_thread
from shared_core.ports.events import EventRow, KnownTurn
from shared_core.ports.items import ItemAddress, ItemStamp, MemoryRow, VectorRows
from shared_core.ports.jobs import NewJob
from shared_core.ports.storage import Clock, Storage
from shared_core.privacy.sanitizing import (
    ASKED_BEFORE,
    Intake,
    asks_before,
    is_small_talk,
    off_loop,
)


def known_beginning(stored: Sequence[Event], history: Sequence[Event]) -> int:
    """Return how many of the first turns of a history are stored; both are oldest first.

    stored: the last turns of the thread. Turns are compared by role, text and order, so a repeated
    "yes" counts twice, even in a trimmed history. Stored turns may have gaps, because some were
    forgotten. In doubt a turn is new: a duplicate does less harm than a loss. So a history with a
    single user turn, which may be a new message alone, is always new.
    """
    if not may_be_known(history):
        return 0
    old, new = _words(stored), _words(history)
    known = _up_to_the_last(old, new) or _up_to_a_branch(old, new)
    if known == len(new):
        # Either the same history again, or a window that moved on over repeated words.
        known = next((n for n in range(known - 1, 0, -1) if new[:n] == old[-n:]), known)
    return known


def may_be_known(turns: Sequence[Event]) -> bool:
    """Return whether turns may be a history: they hold more than one user turn."""
    return sum(turn.role == "user" for turn in turns) > 1


_Turns = list[tuple[str, str]]


def _words(turns: Sequence[Event]) -> _Turns:
    return [(turn.role, turn.text) for turn in turns]


def _up_to_the_last(old: _Turns, new: _Turns) -> int:
    """Return the place in `new` after the last old turn, if most turns before it are old too."""
    matched, rest = 0, len(new)
    for turn in reversed(old):
        rest -= 1
        while rest >= 0 and new[rest] != turn:
            rest -= 1
        if rest < 0:
            break
        matched += 1
    tail = old[len(old) - matched :]
    place = 0
    for turn in tail:
        place = new.index(turn, place) + 1
    between = place - matched
    by_user = any(role == "user" for role, _ in tail)
    return place if between == 0 or (by_user and between < matched) else 0


def _up_to_a_branch(old: _Turns, new: _Turns) -> int:
    """Return the length of the longest old run of turns that `new` starts with."""
    longest = 0
    for first in range(len(old)):
        length = 0
        for one, other in zip(old[first:], new, strict=False):
            if one != other:
                break
            length += 1
        longest = max(longest, length)
    return longest if longest > 1 and any(role == "user" for role, _ in new[:longest]) else 0


UNCHECKED_TURNS = 16
"""Maximum number of turns sent without a query for the known ones."""

MOST_BEFORE = 200
"""Number of last turns among which the ones before a turn that is sent again are looked for."""
SPARE_TURNS = 50
"""Number of stored turns read in addition to the length of a history."""

EMBED_BATCH = 256
"""Maximum number of waiting turns in one batch of embedding and storing."""
EMBED_BATCHES = 8


async def append_events(
    storage: Storage,
    embedding: Embedding,
    scope: Scope,
    thread_id: ThreadId,
    events: Sequence[Event],
    *,
    clock: Clock,
    intake: Intake,
    job: NewJob | None = None,
    unseen: bool = False,
    history: bool = False,
) -> AppendedTurns:
    """Append turns to a thread, with a memory for each that has text; return which were new.

    An event id is stored once per thread: with other words it replaces the turn (decision 34). A
    forgotten turn stays forgotten. The next recall finds the new turns.

    Args:
        job: Enqueued to embed the turns later; until then only their words are found.
        unseen: The turns are probably new, so they are sent without a query for the known ones.
        history: The turns are the whole conversation so far, and their ids may be new on every
            call; see known_beginning.
    """
    scope_path(scope)
    check_thread(thread_id)
    given = [checked_event(event) for event in listed(events, "events", "[Event(...)]")]
    earlier = await turns_before(storage, scope, thread_id, given)
    texts = (event.text for event in given)
    turns: Sequence[Event] = await off_loop(texts, lambda: intake.events(given, earlier))
    answers = _answers(turns)
    if history and may_be_known(turns):
        turns = await _new_of_history(storage, scope, thread_id, turns)
    fresh = {turn.event_id: turn for turn in reversed(turns)}
    if not fresh:
        return AppendedTurns()
    # The append itself skips known and forgotten turns. A query first saves sending and embedding
    # their texts; for a few turns, most of them new, a round trip costs more.
    checks = job is None or not unseen or len(fresh) > UNCHECKED_TURNS
    known = await storage.events.known_turns(scope, thread_id, list(fresh)) if checks else {}
    rows = await off_loop(
        (event.text for event in fresh.values()),
        lambda: [
            _event_row(
                event,
                thread_id,
                logged=known.get(event.event_id) == KnownTurn(_digest(event.text), False),
                answers=event.event_id in answers,
            )
            for event in reversed(fresh.values())
        ],
    )
    sent = [row for row in rows if _may_be_new(known.get(row.event.event_id))]
    new = await _append(storage, embedding, scope, thread_id, sent, job) if sent else set()
    # Others are known: this call did not ask, or another process stored or forgot them meanwhile.
    if missing := [row.event.event_id for row in sent if row.event.event_id not in new]:
        known = {**known, **await storage.events.known_turns(scope, thread_id, missing)}
        again = [replace(row, logged=False) for row in sent if row.logged
                 and row.event.event_id in missing and row.event.event_id not in known]  # fmt: skip
        new |= await _append(storage, embedding, scope, thread_id, again, job) if again else set()
    edited = [row for row in rows if row.event.event_id not in new
              and _is_edited(known.get(row.event.event_id), row.event.text)]  # fmt: skip
    if not edited:
        return AppendedTurns(new)
    done = await edit_thread(storage, embedding, clock, scope, thread_id, rows=edited, job=job)
    return AppendedTurns(new, done.replaced)


class AppendedTurns(NamedTuple):
    """The ids of turns that were new, and of those that took the place of known ones."""

    new: Set[str] = frozenset()
    edited: Set[str] = frozenset()


def _may_be_new(known: KnownTurn | None) -> bool:
    return known is None or (known.digest is not None and not known.is_remembered)


def _is_edited(known: KnownTurn | None, text: str) -> bool:
    """Return whether a turn is remembered with another text."""
    return known is not None and known.is_remembered and known.digest != _digest(text)


async def edit_thread(
    storage: Storage,
    embedding: Embedding,
    clock: Clock,
    scope: Scope,
    thread_id: ThreadId,
    *,
    rows: Sequence[EventRow] = (),
    left: Collection[str] = (),
    job: NewJob | None = None,
) -> Edited:
    """Replace turns by rows with the same ids, and set aside turns that left, as one run."""
    now = clock()
    edit = TurnEdit(
        run_id=uuid7(),
        thread_id=thread_id,
        rows=rows,
        left=left,
        vectors=None if job else await embedding.rows(texts_of(scope, rows)),
        job=job,
        now=now,
        until=now + KEPT_FOR,
    )
    return await storage.transact(scope_path(scope), partial(edit_turns, edit))


async def turns_before(
    storage: Storage, scope: Scope, thread_id: ThreadId, given: Sequence[Event]
) -> Sequence[Event]:
    """Return the last stored turns of a thread if they may name what a new bare value opens."""
    if not asks_before(given):
        return ()
    ids = {event.event_id for event in given}
    stored = await storage.events.thread_history(scope, thread_id, MOST_BEFORE)
    # A turn that is sent again is masked as it was: by the turns before it, not by the last ones.
    place = next((at for at, turn in enumerate(stored) if turn.event_id in ids), len(stored))
    return stored[max(0, place - ASKED_BEFORE) : place]


def turn_rows(thread_id: ThreadId, events: Sequence[Event], *, intake: Intake) -> list[EventRow]:
    """Return the rows of turns, known or not: the storage skips known ones."""
    turns = intake.events(map(checked_event, events))
    answers = _answers(turns)
    fresh = {turn.event_id: turn for turn in reversed(turns)}
    return [
        _event_row(event, thread_id, logged=False, answers=event.event_id in answers)
        for event in reversed(fresh.values())
    ]


def texts_of(scope: Scope, rows: Sequence[EventRow]) -> list[tuple[ItemAddress, str, str]]:
    """Return (address, field, text) of each turn to embed."""
    namespace = memories_namespace(scope)
    return [
        ((namespace, str(row.memory_id)), TEXT_FIELD, row.event.text)
        for row in rows
        if row.memory_id
    ]


async def _new_of_history(
    storage: Storage, scope: Scope, thread_id: ThreadId, turns: Sequence[Event]
) -> Sequence[Event]:
    remembered = await storage.events.thread_events(scope, thread_id, len(turns) + SPARE_TURNS)
    known = {turn.event_id: turn.text for turn in remembered}
    if any(turn.event_id in known for turn in turns):  # this caller's ids are stable
        return [turn for turn in turns if known.get(turn.event_id) != turn.text]
    return turns[known_beginning(remembered, turns) :]


async def _append(
    storage: Storage,
    embedding: Embedding,
    scope: Scope,
    thread_id: ThreadId,
    rows: Sequence[EventRow],
    job: NewJob | None,
) -> set[str]:
    texts = [] if job else texts_of(scope, rows)
    return await storage.events.append_events(
        scope, thread_id, rows, await embedding.rows(texts), job
    )


async def embed_waiting(
    storage: Storage, embedding: Embedding, clock: Clock, scope: Scope, thread_id: ThreadId
) -> int:
    """Embed the turns of a thread that have no vector yet; return their number.

    At most EMBED_BATCHES batches, so that a busy thread does not block other jobs.
    """
    done, tenant, model = 0, scope_path(scope), await embedding.model()
    for _ in range(EMBED_BATCHES):
        reading = partial(turns_without_vectors, tenant, thread_id, model, EMBED_BATCH, clock())
        waiting = {one.address: one for one in await storage.query(tenant, reading)}
        made = await embedding.rows([(at, one.field, one.text) for at, one in waiting.items()])
        if made is None:
            break
        fields = [waiting[address] for address in made.addresses]
        await storage.transact(tenant, partial(add_missing_vectors, model, fields, made.vectors))
        done += len(waiting)
    return done


@measured("remember", REMEMBERED, len)
async def remember(handle: Handle, scope: Scope, memories: Sequence[NewMemory]) -> list[str]:
    """Store memories without a thread; return their keys, in order.

    An existing key in the scope is replaced. Raises InvalidInput for a memory without text.
    """
    rows = await _memory_rows(handle, scope, memories)
    distinct = {row.key: row for row in rows}
    storage = await handle.storage()
    vectors = await _memory_vectors(handle, list(distinct.values()))
    if distinct:
        await storage.items.put_memories(list(distinct.values()), vectors)
    return [row.key for row in rows]


async def remember_imported(
    handle: Handle, scope: Scope, memories: Sequence[NewMemory], stamps: Sequence[ItemStamp]
) -> None:
    """Store memories of another product with the times of their stamps, and mark them as imported.

    Memory and mark are written in one transaction. memories: with distinct keys, one for each
    stamp. Raises InvalidInput for a memory without text.
    """
    rows = await _memory_rows(handle, scope, memories)
    vectors = await _memory_vectors(handle, rows)
    storage = await handle.storage()
    writing = partial(put_items, rows, vectors, (), stamps, handle.clock())
    await storage.transact(scope_path(scope), writing)


async def _memory_rows(
    handle: Handle, scope: Scope, memories: Sequence[NewMemory]
) -> list[MemoryRow]:
    scope_path(scope)
    given = [_checked_memory(memory) for memory in memories]
    texts = (memory.text for memory in given)

    def rows() -> list[MemoryRow]:
        clean = [*map(handle.sanitizer.memory, given)]
        return [_memory_row(memory, scope, handle.clock()) for memory in clean]

    return await off_loop(texts, rows)


async def _memory_vectors(handle: Handle, rows: Sequence[MemoryRow]) -> VectorRows | None:
    return await handle.embedding.rows(
        [((row.namespace, row.key), TEXT_FIELD, row.text) for row in rows]
    )


def memory_value(
    kind: str,
    text: str | None,
    *,
    author: str | None = None,
    occurred_at: datetime | None = None,
    thread_id: str | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
) -> dict[str, JsonValue]:
    """Return the JSON value of a memory: "kind", "content" unless text is None, and the rest."""
    shown: dict[str, JsonValue] = {"kind": kind}
    if text is not None:
        shown["content"] = text
    if author:
        shown["author"] = author
    if occurred_at:
        shown["occurred_at"] = occurred_at.astimezone(UTC).isoformat()
    if thread_id:
        shown["thread_id"] = thread_id
    if metadata:
        shown["metadata"] = dict(metadata)
    return shown


def _checked_memory(memory: NewMemory) -> NewMemory:
    if not isinstance(memory, NewMemory):
        raise InvalidInput(f"memories must be texts or NewMemory objects, got {shown(memory)}")
    if not isinstance(memory.text, str):
        raise InvalidInput(f"the text of a memory must be a text, got {shown(memory.text)}")
    if not isinstance(memory.author, str | None):
        raise InvalidInput(f"the author of a memory must be a text, got {shown(memory.author)}")
    return memory


def checked_event(event: Event) -> Event:
    """Return an event. Raises InvalidInput with the reason if it cannot be stored."""
    if not isinstance(event, Event):
        raise InvalidInput(f"events must be Event objects, got {shown(event)}")
    check_label(event.event_id, "event_id")
    for name, text in (("text", event.text), ("author", event.author)):
        if not isinstance(text, str):
            raise InvalidInput(
                f"{name} of event {event.event_id!r} must be a text, got {shown(text)}"
            )
    mapping(event.metadata, f"metadata of event {event.event_id!r}")
    check_moment(event.occurred_at, f"occurred_at of event {event.event_id!r}")
    if event.expires_at:
        check_moment(event.expires_at, f"expires_at of event {event.event_id!r}")
    check_importance(event.importance)
    if event.role not in get_args(Role):
        raise InvalidInput(
            f"role {event.role!r} of event {event.event_id!r} is not known: take one of"
            f" {', '.join(get_args(Role))}"
        )
    return event


def check_importance(importance: float) -> None:
    """Raise InvalidInput unless importance is a number from 1 to 10."""
    if not isinstance(importance, int | float) or not 1 <= importance <= 10:
        raise InvalidInput(f"importance must be between 1 and 10, got {shown(importance)}")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _answers(turns: Sequence[Event]) -> set[str]:
    """Return the ids of user turns right after a question of the agent, e.g. a meaningful "No"."""
    return {
        answer.event_id
        for turn, answer in pairwise(turns)
        if (turn.role, answer.role) == ("agent", "user") and QUESTION.search(turn.text.strip())
    }


def _event_row(event: Event, thread_id: ThreadId, *, logged: bool, answers: bool) -> EventRow:
    terms = search_terms(event.text)
    value = memory_value(
        "episodic",
        None,
        author=event.author,
        occurred_at=event.occurred_at,
        thread_id=thread_id,
        metadata=event.metadata,
    )
    is_memory = (
        event.role != "system"
        and has_words(event.text)
        and (answers or not is_small_talk(event.text))
    )
    memory_id = MemoryId(uuid7()) if is_memory else None
    return EventRow(event=event, memory_id=memory_id, logged=logged, value=value, terms=terms)


def _memory_row(memory: NewMemory, scope: Scope, now: datetime) -> MemoryRow:
    text = clean_text(memory.text).strip()
    if not text:
        raise InvalidInput("text of a memory must not be blank")
    if memory.kind not in get_args(MemoryKind):
        raise InvalidInput(
            f"kind {shown(memory.kind)} is not known: take one of {', '.join(get_args(MemoryKind))}"
        )
    check_importance(memory.importance)
    memory_id = MemoryId(uuid7())
    key = str(memory_id) if memory.key is None else check_label(memory.key, "memory key")
    occurred_at = memory.occurred_at or now
    for name, moment in (("occurred_at", occurred_at), ("expires_at", memory.expires_at)):
        if moment is not None:
            check_moment(moment, name)
    author = None if memory.author is None else clean_text(memory.author)
    return MemoryRow(
        memory_id=memory_id,
        namespace=memories_namespace(scope),
        key=key,
        kind=memory.kind,
        text=text,
        value=memory_value(
            memory.kind, text, author=author, occurred_at=occurred_at, metadata=memory.metadata
        ),
        terms=search_terms(text),
        occurred_at=occurred_at,
        author=author,
        importance=float(memory.importance),
        expires_at=memory.expires_at,
    )
