"""Converts ADK events and memory entries to the core's types and back, and selects events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from google.adk.events.event import Event as AdkEvent
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from pydantic import Field
from pydantic_core import to_jsonable_python

from adk_memory.options import OWN, IngestOptions
from shared_core import Event, InvalidInput, Memory, NewMemory, memories_namespace
from shared_core.context import ShownKind, shown_kind
from shared_core.core import Role, Scope, shown, to_json
from shared_core.nlp import shown_text

FROM_USER = "user"
NO_PARTS: Final[Mapping[str, float]] = MappingProxyType({})
SECRET_CALLS = "adk_request_"
"""Prefix of the calls in which ADK asks a person for credentials, confirmation or input.

These calls and their responses may contain secrets."""
MAX_TOOL_CHARACTERS = 4000
"""Maximum number of characters kept of one tool result."""


class RecalledEntry(MemoryEntry):
    """A MemoryEntry with its provenance, kind and parts of its score.

    They stay out of dumps, so no model sees them.
    """

    source_event_ids: tuple[str, ...] = Field(default=(), exclude=True, repr=False)
    kind: ShownKind | None = Field(default=None, exclude=True, repr=False)
    parts: Mapping[str, float] = Field(default_factory=dict, exclude=True, repr=False)


def to_core_events(events: Iterable[AdkEvent], *, tool_results: bool = False) -> list[Event]:
    """Return the turns among ADK events, in order.

    It drops partial events, thoughts, tool calls, requests for credentials or confirmation with
    their responses, and ADK's compaction summaries. tool_results: keep tool results. A spoken
    turn becomes its transcription.
    """
    return [
        turn
        for event in events
        if (turn := _to_event(event, tool_results=tool_results)).text and not event.partial
    ]


def to_log_event(event: AdkEvent) -> Event:
    """Return an ADK event as a row of a session log; its text is the part that memory may read."""
    return _to_event(event, tool_results=False)


def _to_event(event: AdkEvent, *, tool_results: bool) -> Event:
    text = text_of_event(event)
    role: Role = "user" if event.author == FROM_USER else "agent"
    if tool_results and (results := _tool_results(event)):
        text = "\n".join(part for part in (text, results) if part)
        role = "tool"
    return Event(
        event_id=event.id,
        author=event.author,
        role=role,
        text=text,
        occurred_at=moment(event.timestamp),
    )


def live_events(events: Sequence[AdkEvent]) -> list[AdkEvent]:
    """Return the events that no later rewind removed, in order.

    A rewind names an invocation. It removes everything from that invocation's first event up to
    itself.
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


def rewound_ids(events: Sequence[AdkEvent]) -> list[str]:
    """Return the ids of the events that a rewind removed."""
    live = {event.id for event in live_events(events)}
    return [event.id for event in events if event.id not in live]


def text_of_event(event: AdkEvent) -> str:
    """Return the text of an event without thoughts, else its transcription.

    Requests for credentials and compaction summaries return "".
    """
    if event.actions.compaction or _asks_for_secrets(event):
        return ""
    if event.content and event.content.parts:
        return text_of_content(event.content)
    transcriptions = (event.input_transcription, event.output_transcription)
    finished = [
        one.text for one in transcriptions if one and one.text and one.finished is not False
    ]
    return " ".join(text.strip() for text in finished).strip()


def _asks_for_secrets(event: AdkEvent) -> bool:
    names = [call.name for call in event.get_function_calls()]
    names += [answer.name for answer in event.get_function_responses()]
    return any(name and name.startswith(SECRET_CALLS) for name in names)


def _tool_results(event: AdkEvent) -> str:
    """Return tool results as text, one per line; "" if they may contain secrets."""
    if _asks_for_secrets(event):
        return ""
    lines = [
        f"{answer.name}: {to_json(to_jsonable_python(answer.response, serialize_unknown=True))}"
        for answer in event.get_function_responses()
        if answer.response
    ]
    return "\n".join(line[:MAX_TOOL_CHARACTERS] for line in lines)


def text_of_content(content: types.Content) -> str:
    """Return the text parts of a content without thoughts, one per line."""
    parts = content.parts or []
    return "\n".join(part.text for part in parts if part.text and not part.thought).strip()


def to_new_memory(
    entry: MemoryEntry, shared: Mapping[str, object]
) -> tuple[NewMemory, IngestOptions]:
    """Return an entry as a new memory that does not expire, and its options.

    Its own metadata overrides the shared metadata.

    Raises TypeError for another type, and InvalidInput for an entry without text.
    """
    if not isinstance(entry, MemoryEntry):
        raise TypeError(f"memories must be MemoryEntry objects, got {type(entry).__name__}")
    text = text_of_content(entry.content)
    if not text:
        raise InvalidInput("a MemoryEntry needs at least one text part that is not blank")
    words = {**shared, **entry.custom_metadata}
    for_all, for_one = shared.get(OWN), entry.custom_metadata.get(OWN)
    if isinstance(for_all, Mapping) and isinstance(for_one, Mapping):
        words[OWN] = {**for_all, **for_one}
    options = IngestOptions.from_metadata(words)
    occurred_at = _parsed(entry.timestamp)
    metadata = dict(options.metadata)
    if entry.timestamp and occurred_at is None:
        metadata[OWN] = {"timestamp": entry.timestamp}
    memory = NewMemory(
        text=text,
        kind=options.kind or "semantic",
        key=entry.id or None,
        author=entry.author,
        importance=options.importance,
        occurred_at=occurred_at,
        metadata=metadata,
    )
    return memory, options


def to_memory_entry(
    memory: Memory,
    scope: Scope,
    *,
    text: str | None = None,
    parts: Mapping[str, float] = NO_PARTS,
    **shown: object,
) -> MemoryEntry:
    """Return a memory as an entry that ADK can show to a model.

    text: replaces the memory's text, with its mark if it is a doubtful fact. parts: of the hit's
    score. shown: more of what stands under the key "hippocampus" of custom_metadata. The other keys
    are the caller's.
    """
    about: dict[str, object] = {"kind": memory.kind, **shown}
    if memory.doubted_at is not None:
        about["doubted_at"] = memory.doubted_at.isoformat()
    if memory.thread_id is not None:
        about["source"] = memory.thread_id
    words = _own_metadata(memory)
    kept = words.pop(OWN, {})
    return RecalledEntry(
        source_event_ids=memory.source_event_ids,
        kind=shown_kind(memory),
        parts=parts,
        content=_content(memory, text),
        id=public_id(memory, scope),
        author=memory.author,
        timestamp=memory.occurred_at.isoformat(),
        custom_metadata={**words, OWN: {**kept, **about} if isinstance(kept, dict) else about},
    )


def to_turn_entry(
    memory: Memory, scope: Scope, *, text: str | None = None, parts: Mapping[str, float] = NO_PARTS
) -> MemoryEntry:
    """Return a memory as the services that ship with ADK return an event.

    The id of a turn is that of its event, and its time is local without an offset. custom_metadata
    holds the caller's words alone.
    """
    words = _own_metadata(memory)
    words.pop(OWN, None)
    entry_id, timestamp = public_id(memory, scope), memory.occurred_at.isoformat()
    if memory.thread_id is not None and len(memory.source_event_ids) == 1:
        entry_id = memory.source_event_ids[0]
        timestamp = memory.occurred_at.astimezone().replace(tzinfo=None).isoformat()
    return RecalledEntry(
        source_event_ids=memory.source_event_ids,
        kind=shown_kind(memory),
        parts=parts,
        content=_content(memory, text),
        id=entry_id,
        author=memory.author,
        timestamp=timestamp,
        custom_metadata=words,
    )


def _content(memory: Memory, text: str | None) -> types.Content:
    role = "user" if memory.author in (FROM_USER, None) else "model"
    return types.Content(
        role=role, parts=[types.Part(text=shown_text(memory) if text is None else text)]
    )


def public_id(memory: Memory, scope: Scope) -> str:
    """Return the id that delete_memory takes: its key, or its UUID in a sub-namespace."""
    if memory.namespace == memories_namespace(scope):
        return memory.key
    return str(memory.memory_id)


def _own_metadata(memory: Memory) -> dict[str, object]:
    """Return the caller's metadata of an entry or a turn; derived memories have none."""
    own = memory.value.get("metadata")
    derived = memory.thread_id is not None and memory.kind != "episodic"
    return dict(own) if isinstance(own, Mapping) and not derived else {}


def moment(timestamp: float) -> datetime:
    """Return seconds since 1970 as an aware datetime."""
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            f"timestamp of an event must be a number of seconds since 1970, got {shown(timestamp)}"
        ) from error


def _parsed(timestamp: str | None) -> datetime | None:
    """Return an ISO 8601 time (UTC without an offset), or None for any other text."""
    try:
        parsed = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def spoken_text(content: types.Content | None) -> str:
    """Return the text of a user's message, joined as preload_memory does; "" without text."""
    parts = content.parts if content and content.parts else []
    return " ".join(part.text for part in parts if part.text and not part.thought).strip()


def is_settled(events: Sequence[AdkEvent], *, live: bool = False) -> bool:
    """Return whether the events of a run end in an answer: no error, no tool still running.

    live: one run is a whole conversation, so one answer at any time is enough.
    """
    answered = ever = False
    open_calls: set[str] = set()
    for event in events:
        if event.partial:
            continue
        responses = event.get_function_responses()
        open_calls |= event.long_running_tool_ids or set()
        open_calls -= {response.id for response in responses if response.id}
        if event.author == FROM_USER:
            answered = answered and event.content is None
        elif event.error_code or event.interrupted or event.get_function_calls():
            answered = False
        elif event.is_final_response() and (_says_something(event) or responses):
            answered = ever = True
    return (ever if live else answered) and not open_calls


def is_answered(events: Sequence[AdkEvent]) -> bool:
    """Return whether the last event is the agent's answer to the user, not an intermediate step."""
    last = events[-1]
    return (
        last.author != FROM_USER
        and last.isolation_scope is None
        and last.is_final_response()
        and _says_something(last)
    )


def events_to_remember(events: Sequence[AdkEvent], invocation_id: str) -> list[AdkEvent]:
    """Return the events of a run and of runs before it that may be missing.

    A run that ended by an error, or with its caller, was not stored: the next one makes up for it.
    So this returns the runs since the last settled one, and that as well. A rewind may remove turns
    that memory has stored already, so of a rewound session it returns all events. Events without an
    invocation are dropped: they are the input of a sub-agent, not the user's words.
    """
    if any(event.actions.rewind_before_invocation_id for event in events):
        return [event for event in events if event.invocation_id]
    runs: dict[str, list[AdkEvent]] = {}
    for event in events:
        if event.invocation_id:
            runs.setdefault(event.invocation_id, []).append(event)
    before = list(runs)[: list(runs).index(invocation_id)] if invocation_id in runs else []
    wanted = {invocation_id}
    while before:
        wanted.add(earlier := before.pop())
        if is_settled(runs[earlier]):
            break
    return [event for event in events if event.invocation_id in wanted]


def deleted_ids(last: Sequence[str], now: Sequence[str]) -> list[str]:
    """Return the ids of the events that a session lost since it was last seen whole.

    last, now: the ids of its events. A missing beginning is a window, and a missing end may be a
    copy from before: what is missing counts if the session has an event after it.
    """
    there, known = {*now}, {*last}
    common = [place for place, one in enumerate(last) if one in there]
    if not common:
        return []
    goes_on = any(one not in known for one in now[now.index(last[common[-1]]) + 1 :])
    end = len(last) if goes_on else common[-1]
    return [one for one in last[common[0] : end] if one not in there]


def seen_ids(last: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    """Return the ids of the events of a session that is whole: a window lacks its beginning."""
    known = {*last}
    if known.issuperset(now) and not deleted_ids(last, now):
        return last  # a part of it, or a copy from before
    begin = next((place for place, one in enumerate(last) if one in {*now}), 0)
    return (*last[:begin], *now)


def _says_something(event: AdkEvent) -> bool:
    parts = event.content.parts if event.content and event.content.parts else []
    return bool(text_of_event(event)) or any(not part.thought and not part.text for part in parts)
