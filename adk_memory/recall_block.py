"""Builds the block of recalled memories in a request: delimited, escaped, within a budget. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from adk_memory.events import RecalledEntry, text_of_content
from shared_core import Fact, Memory
from shared_core.context import ShownMemory, composed, memory_block, memory_label, past_memory
from shared_core.core import HEAD
from shared_core.nlp import TokenCounter, count_tokens

T = TypeVar("T")
_PRELOADED = "The following content is from your previous conversations with the user."


def recall_block(
    entries: Sequence[MemoryEntry],
    shown: frozenset[str],
    max_tokens: int,
    *,
    question: str = "",
    now: datetime | None = None,
    past: Sequence[Fact] = (),
    profile: str | None = None,
    summary: Memory | None = None,
    notice: str = "",
    count: TokenCounter = count_tokens,
) -> str:
    """Return the memories as one text of at most max_tokens, or "" without any.

    It has one memory per line, best first. A memory that does not fit gives way to the next one
    that fits; the best one is cut instead. shown: texts that the request already has. question:
    what the memories are to answer. now: when the user asks. past: facts that ended and that the
    question asks for. profile: of the user, shown first. summary: of the session, if the request
    shows only part of it. notice: what the memory does about a request to forget.
    """
    texts = ((entry, text_of_content(entry.content)) for entry in entries)
    found = [past_memory(fact, now) for fact in past] + [
        _shown_memory(entry, text, now)
        for entry, text in texts
        if text and text not in shown and (summary is None or text != summary.text)
    ]
    window = memory_block(
        composed(question, found),
        max_tokens,
        profile=profile,
        summary=summary,
        notice=notice,
        count=count,
    )
    return window.prompt


def shown_texts(llm_request: LlmRequest) -> frozenset[str]:
    """Return all texts in a request."""
    parts = [part for content in llm_request.contents for part in content.parts or ()]
    texts = {part.text.strip() for part in parts if part.text}
    for part in parts:
        if part.function_response:
            texts.update(_texts_in(part.function_response.response))
    return frozenset(texts)


def not_drawn_from(ids: frozenset[str], found: Sequence[T]) -> list[T]:
    """Return the entries or facts that come from other events than these, or from unknown ones."""
    turns = ((one, getattr(one, "source_event_ids", ())) for one in found)
    return [one for one, drawn_from in turns if not drawn_from or not ids.issuperset(drawn_from)]


def shown_ids(shown: frozenset[str], events: Sequence[Event]) -> frozenset[str]:
    """Return the ids of the events that a request shows."""
    all_text = "\n".join(shown)
    return frozenset(
        event.id
        for event in events
        if all(part in shown or _has_lines(all_text, part) for part in _texts_of(event))
    )


def _has_lines(text: str, part: str) -> bool:
    """Return whether part occurs as whole lines of text, also after a prefix "[helper] said: "."""
    place = text.find(part)
    while place >= 0:
        before = text[text.rfind("\n", 0, place) + 1 : place].rstrip()
        after = place + len(part)
        end = text.find("\n", after)
        if (not before or before.endswith("] said:")) and not text[
            after : end if end >= 0 else None
        ].strip():
            return True
        place = text.find(part, place + 1)
    return False


def _texts_of(event: Event) -> list[str]:
    parts = event.content.parts if event.content else None
    return [part.text.strip() for part in parts or () if part.text and not part.thought]


def _texts_in(value: object) -> Iterator[str]:
    """Yield every text in a tool response: the tool recall shows memories as well."""
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)


def preloaded(llm_request: LlmRequest) -> bool:
    """Return whether ADK's preload_memory or another plugin already added memories."""
    system = llm_request.config.system_instruction
    if isinstance(system, str) and HEAD in system:
        return True
    return any(text.startswith((_PRELOADED, HEAD)) for text in shown_texts(llm_request))


def insert_before_turn(llm_request: LlmRequest, block: str, turn: types.Content | None) -> None:
    """Insert a text before the user's message, as ADK's preload_memory does.

    After a tool call the text follows the tool's response. So it separates no call from its
    response, and the prefix before it stays cacheable.
    """
    contents = llm_request.contents
    place = len(contents)
    while place > 0 and _is_user_message(contents[place - 1]):
        place -= 1
    for position in range(place, len(contents)):
        # Static instructions may precede the first message, with the role of the user.
        if turn is not None and contents[position].parts == turn.parts:
            place = position
    contents.insert(place, types.Content(role="user", parts=[types.Part(text=block)]))


def _shown_memory(entry: MemoryEntry, text: str, now: datetime | None) -> ShownMemory:
    known = entry if isinstance(entry, RecalledEntry) else RecalledEntry(content=entry.content)
    said_at = _moment(entry.timestamp)
    about = memory_label(text, said_at, entry.author, is_fact=known.kind == "semantic", now=now)
    return ShownMemory(about, text, known.kind, known.source_event_ids, said_at, known.parts)


def _moment(timestamp: str | None) -> datetime | None:
    """Return the time of an entry; None if a service of somebody else writes it in another way."""
    try:
        found = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.astimezone()  # turns of ADK have local times


def _is_user_message(content: types.Content) -> bool:
    parts = content.parts or []
    return content.role == "user" and not any(part.function_response for part in parts)
