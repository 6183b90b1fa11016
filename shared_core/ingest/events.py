"""Remembering turns of a thread, and things said outright: embed, then one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import get_args

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
from shared_core.core.timestamps import check_moment
from shared_core.errors import InvalidInput
from shared_core.models.embedding import Embedding
from shared_core.nlp.extractive_summary import QUESTION
from shared_core.nlp.text import has_words, search_terms
from shared_core.ports.conversations import check_thread
from shared_core.ports.events import EventRow
from shared_core.ports.items import ItemAddress, MemoryRow
from shared_core.ports.jobs import NewJob
from shared_core.ports.storage import Clock, Storage
from shared_core.privacy.sanitizing import Intake, is_small_talk


def known_beginning(remembered: Sequence[Event], handed: Sequence[Event]) -> int:
    """Return how many of the first turns of a history are remembered; both oldest first.

    remembered: the last turns of the thread. Turns are compared by role and text, and by their
    order, so that who says "yes" twice has said it twice, also where the history was trimmed. Turns
    that were forgotten since may stand among those that are remembered. In doubt nothing is known:
    a turn that is remembered twice does less harm than one that is lost; so a history with one
    turn of a user, which may as well be a new message alone, is always new.
    """
    said, now = _words(remembered), _words(handed)
    if not may_be_known(handed):
        return 0
    known = _up_to_the_last(said, now) or _up_to_a_branch(said, now)
    if known == len(now):
        # All of it again: or a window moved on over the same words.
        known = next((n for n in range(known - 1, 0, -1) if now[:n] == said[-n:]), known)
    return known


def may_be_known(handed: Sequence[Event]) -> bool:
    """Tell whether turns are a history at all: more than what follows one message of a user."""
    return sum(turn.role == "user" for turn in handed) > 1


_Turns = list[tuple[str, str]]


def _words(turns: Sequence[Event]) -> _Turns:
    return [(turn.role, turn.text) for turn in turns]


def _up_to_the_last(said: _Turns, now: _Turns) -> int:
    """Return the place in `now` after the last turn said, if most before it were said as well."""
    matched, rest = 0, len(now)
    for turn in reversed(said):
        rest -= 1
        while rest >= 0 and now[rest] != turn:
            rest -= 1
        if rest < 0:
            break
        matched += 1
    tail = said[len(said) - matched :]
    place = 0
    for turn in tail:
        place = now.index(turn, place) + 1
    between = place - matched
    told = any(role == "user" for role, _ in tail)
    return place if between == 0 or (told and between < matched) else 0


def _up_to_a_branch(said: _Turns, now: _Turns) -> int:
    """Return how much of `now` was said in one go, before it went on in another way."""
    longest = 0
    for first in range(len(said)):
        length = 0
        for one, other in zip(said[first:], now, strict=False):
            if one != other:
                break
            length += 1
        longest = max(longest, length)
    return longest if longest > 1 and any(role == "user" for role, _ in now[:longest]) else 0


TEXT_FIELD = "text"
"""Name of the vector made of a memory's text."""

UNASKED_TURNS = 16
"""So many turns at most are sent without asking which are known."""

SPARE_TURNS = 50
"""So many more turns of a thread are read than a history has that may be known."""

EMBED_BATCH = 256
"""So many waiting turns are embedded and stored at once."""
EMBED_BATCHES = 8


async def append_events(
    storage: Storage,
    embedding: Embedding,
    scope: Scope,
    thread_id: ThreadId,
    events: Sequence[Event],
    *,
    intake: Intake,
    job: NewJob | None = None,
    unseen: bool = False,
    history: bool = False,
) -> set[str]:
    """Append turns to a thread and remember each that has text; return the ids that were new.

    The same event id in the same thread is ingested once, however often it comes; a turn that was
    forgotten stays forgotten. What is returned is found by the next recall. With a job nothing is
    embedded: the job is enqueued to do it, and until then words alone find the turns; unseen: they
    are likely new, so the database is not asked first. history: they are all of a conversation up
    to now, and their ids may be new every time: see histories.known_beginning.
    """
    scope_path(scope)
    check_thread(thread_id)
    turns: Sequence[Event] = [intake.event(checked_event(event)) for event in events]
    answers = _answers(turns)
    if history and may_be_known(turns):
        turns = await _new_of_history(storage, scope, thread_id, turns)
    fresh = {turn.event_id: turn for turn in reversed(turns)}
    if not fresh:
        return set()
    # The append passes over what is known or forgotten itself. Asking first spares it their texts,
    # and the embedder work; where a few turns are new, as a rule, the round trip is dearer.
    ask = job is None or not unseen or len(fresh) > UNASKED_TURNS
    known = await storage.known_turns(scope, thread_id, list(fresh)) if ask else {}
    rows = [
        _event_row(
            event,
            thread_id,
            logged=known.get(event.event_id) == _digest(event.text),
            answers=event.event_id in answers,
        )
        for event in reversed(fresh.values())
        if known.get(event.event_id, event) is not None
    ]
    if not rows:
        return set()
    new = await _append(storage, embedding, scope, thread_id, rows, job)
    missing = [row.event.event_id for row in rows if row.logged and row.event.event_id not in new]
    if missing:  # remembered by someone else meanwhile, or gone with its session log
        known = await storage.known_turns(scope, thread_id, missing)
        rows = [replace(row, logged=False) for row in rows if row.event.event_id in missing
                and row.event.event_id not in known]  # fmt: skip
        new |= await _append(storage, embedding, scope, thread_id, rows, job) if rows else set()
    return new


def turn_rows(thread_id: ThreadId, events: Sequence[Event], *, intake: Intake) -> list[EventRow]:
    """Return what appends turns, whether they are known or not: the storage passes over those."""
    turns = [intake.event(checked_event(event)) for event in events]
    answers = _answers(turns)
    fresh = {turn.event_id: turn for turn in reversed(turns)}
    return [
        _event_row(event, thread_id, logged=False, answers=event.event_id in answers)
        for event in reversed(fresh.values())
    ]


def texts_of(scope: Scope, rows: Sequence[EventRow]) -> list[tuple[ItemAddress, str, str]]:
    """Return what is to be embedded of turns: address, field and text of each."""
    namespace = memories_namespace(scope)
    return [
        ((namespace, str(row.memory_id)), TEXT_FIELD, row.event.text)
        for row in rows
        if row.memory_id
    ]


async def _new_of_history(
    storage: Storage, scope: Scope, thread_id: ThreadId, turns: Sequence[Event]
) -> Sequence[Event]:
    remembered = await storage.thread_events(scope, thread_id, len(turns) + SPARE_TURNS)
    known = {turn.event_id for turn in remembered}
    if any(turn.event_id in known for turn in turns):  # their ids stay the same
        return [turn for turn in turns if turn.event_id not in known]
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
    return await storage.append_events(scope, thread_id, rows, await embedding.rows(texts), job)


async def embed_waiting(
    storage: Storage, embedding: Embedding, scope: Scope, thread_id: ThreadId
) -> int:
    """Embed turns of a thread that were remembered without a vector; return how many.

    At most EMBED_BATCHES batches: who writes all the time does not keep others waiting.
    """
    done = 0
    for _ in range(EMBED_BATCHES):
        waiting = await storage.memories_without_vectors(
            scope, thread_id, embedding.model, EMBED_BATCH
        )
        vectors = await embedding.rows([(address, TEXT_FIELD, text) for address, text in waiting])
        if vectors is None:
            break
        await storage.add_vectors(scope, vectors)
        done += len(waiting)
    return done


async def remember(
    storage: Storage,
    embedding: Embedding,
    clock: Clock,
    intake: Intake,
    scope: Scope,
    memories: Sequence[NewMemory],
) -> list[str]:
    """Write memories that came from no thread; return their keys, in order.

    A key that exists in the scope is replaced. Raises InvalidInput for a memory without text.
    """
    scope_path(scope)
    rows = [_memory_row(intake.memory(memory), scope, clock()) for memory in memories]
    distinct = {row.key: row for row in rows}
    vectors = await embedding.rows(
        [((row.namespace, row.key), TEXT_FIELD, row.text) for row in distinct.values()]
    )
    if distinct:
        await storage.put_memories(list(distinct.values()), vectors)
    return [row.key for row in rows]


def memory_value(
    kind: str,
    text: str | None,
    *,
    author: str | None = None,
    occurred_at: datetime | None = None,
    thread_id: str | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
) -> dict[str, JsonValue]:
    """Return what a key-value face shows of a memory: "kind", and "content" unless text is None."""
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


def checked_event(event: Event) -> Event:
    """Return an event. Raises InvalidInput for one that cannot be stored, and says why."""
    if not isinstance(event, Event):
        raise InvalidInput(f"events must be Event objects, not {event!r:.80}")
    check_label(event.event_id, "event_id")
    for name, text in (("text", event.text), ("author", event.author)):
        if not isinstance(text, str):
            raise InvalidInput(
                f"{name} of event {event.event_id!r} must be a text, not {text!r:.80}"
            )
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
    """Raise InvalidInput for anything but a number from 1 to 10."""
    if not isinstance(importance, int | float) or not 1 <= importance <= 10:
        raise InvalidInput(f"importance must be between 1 and 10, not {importance!r}")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _answers(turns: Sequence[Event]) -> set[str]:
    """Return the ids of what a user says right after a question of the agent: "No" tells much."""
    return {
        said.event_id
        for asked, said in pairwise(turns)
        if (asked.role, said.role) == ("agent", "user") and QUESTION.search(asked.text.strip())
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
    kept = (
        event.role != "system"
        and has_words(event.text)
        and (answers or not is_small_talk(event.text))
    )
    memory_id = MemoryId(uuid7()) if kept else None
    return EventRow(event=event, memory_id=memory_id, logged=logged, value=value, terms=terms)


def _memory_row(memory: NewMemory, scope: Scope, now: datetime) -> MemoryRow:
    text = clean_text(memory.text).strip()
    if not text:
        raise InvalidInput("a memory needs text: this one is empty or blank")
    if memory.kind not in get_args(MemoryKind):
        raise InvalidInput(
            f"kind {memory.kind!r} is not known: take one of {', '.join(get_args(MemoryKind))}"
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
            memory.kind,
            text,
            author=author,
            occurred_at=occurred_at,
            metadata=memory.metadata,
        ),
        terms=search_terms(text),
        occurred_at=occurred_at,
        author=author,
        importance=float(memory.importance),
        expires_at=memory.expires_at,
    )
