"""Between ADK's types and the core's: events, memory entries, time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from google.adk.events.event import Event as AdkEvent
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from shared_core import Event, Hit, InvalidInput, Memory, NewMemory, memories_namespace
from shared_core.domain import JsonValue, Scope

FROM_USER = "user"


def to_core_events(events: Iterable[AdkEvent]) -> list[Event]:
    """Return what was said in ADK events: each event with words in it, once, in order.

    Left out are partial events, thoughts, tool calls and their results, and turns that were
    rewound. A spoken turn gives its transcription.
    """
    return [
        Event(
            event_id=event.id,
            author=event.author,
            role="user" if event.author == FROM_USER else "agent",
            text=text,
            occurred_at=_moment(event.timestamp),
        )
        for event in live_events(list(events))
        if not event.partial and (text := text_of_event(event))
    ]


def live_events(events: Sequence[AdkEvent]) -> list[AdkEvent]:
    """Return the events that no later rewind took back, in order.

    A rewind names the invocation before which it goes back: everything from that invocation's
    first event up to the rewind is void.
    """
    first: dict[str, int] = {}
    for position, event in enumerate(events):
        first.setdefault(event.invocation_id, position)
    live: list[AdkEvent] = []
    position = len(events) - 1
    while position >= 0:
        target = events[position].actions.rewind_before_invocation_id
        if not target:
            live.append(events[position])
        elif first.get(target, position) < position:
            position = first[target]
        position -= 1
    return live[::-1]


def text_of_event(event: AdkEvent) -> str:
    """Return the words of an event: its text without thoughts, else what was transcribed."""
    if event.content and event.content.parts:
        return text_of_content(event.content)
    spoken = (event.input_transcription, event.output_transcription)
    return " ".join(part.text.strip() for part in spoken if part and part.text).strip()


def text_of_content(content: types.Content) -> str:
    """Return the text parts of a content that are no thoughts, one per line."""
    parts = content.parts or []
    return "\n".join(part.text for part in parts if part.text and not part.thought).strip()


def to_new_memory(entry: MemoryEntry, shared: Mapping[str, object]) -> NewMemory:
    """Return an entry as something to remember; its own metadata wins over the shared ones.

    Raises InvalidInput if it holds no text.
    """
    text = text_of_content(entry.content)
    if not text:
        raise InvalidInput("a MemoryEntry needs at least one text part that is not blank")
    return NewMemory(
        text=text,
        key=entry.id or None,
        author=entry.author,
        occurred_at=_parsed(entry.timestamp),
        metadata=_json_object({**shared, **entry.custom_metadata}),
    )


def to_memory_entry(hit: Hit, scope: Scope) -> MemoryEntry:
    """Return a hit as ADK shows it to a model: text only, time with its offset, score beside it."""
    memory = hit.memory
    return MemoryEntry(
        content=types.Content(
            role="user" if memory.author in (FROM_USER, None) else "model",
            parts=[types.Part(text=memory.text)],
        ),
        id=public_id(memory, scope),
        author=memory.author,
        timestamp=memory.occurred_at.isoformat(),
        custom_metadata={
            **_own_metadata(memory),
            "kind": memory.kind,
            "score": round(hit.score, 4),
        },
    )


def public_id(memory: Memory, scope: Scope) -> str:
    """Return the id of a memory for delete_memory: its key, or its UUID in a deeper namespace."""
    if memory.namespace == memories_namespace(scope):
        return memory.key
    return str(memory.memory_id)


def _own_metadata(memory: Memory) -> dict[str, object]:
    """Return what the caller stored with an entry; what came out of a thread has none of theirs."""
    own = memory.value.get("metadata")
    return dict(own) if isinstance(own, Mapping) and memory.thread_id is None else {}


def _moment(timestamp: float) -> datetime:
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            f"timestamp {timestamp!r} of an event is no number of seconds since 1970"
        ) from error


def _parsed(timestamp: str | None) -> datetime | None:
    if not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError as error:
        raise InvalidInput(
            f"timestamp {timestamp!r} of a MemoryEntry is not ISO 8601,"
            " e.g. 2026-03-02T08:40:00+00:00"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _json_object(metadata: dict[str, object]) -> dict[str, JsonValue]:
    return dict(metadata)  # type: ignore[arg-type] # the storage refuses what JSON cannot hold
