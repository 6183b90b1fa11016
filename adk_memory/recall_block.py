"""What recall puts into a request: delimited, escaped, within a token budget. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from adk_memory.events import RecalledEntry, text_of_content
from shared_core import Memory
from shared_core.context import ShownMemory, memory_block
from shared_core.core import HEAD
from shared_core.nlp import TokenCounter, count_tokens

FACT: Final = "semantic"
_PRELOADED = "The following content is from your previous conversations with the user."


def recall_block(
    entries: Sequence[MemoryEntry],
    shown: frozenset[str],
    max_tokens: int,
    *,
    profile: str | None = None,
    summary: Memory | None = None,
    count: TokenCounter = count_tokens,
) -> str | None:
    """Return the memories as one text of at most max_tokens, or None if none is worth showing.

    shown: texts the request holds already. One memory per line, best first; what does not fit is
    left out for what does, and the best is cut rather than left out. profile: of the user, shown
    first. summary: of the session, when the request shows only some of it.
    """
    texts = ((entry, text_of_content(entry.content)) for entry in entries)
    found = [
        ShownMemory(_about(entry), text, entry.custom_metadata.get("kind") == FACT)
        for entry, text in texts
        if text and text not in shown and (summary is None or text != summary.text)
    ]
    return memory_block(found, max_tokens, profile=profile, summary=summary, count=count)


def shown_texts(llm_request: LlmRequest) -> frozenset[str]:
    """Return the texts a request holds, to leave out memories of this very conversation."""
    parts = [part for content in llm_request.contents for part in content.parts or ()]
    told = {part.text.strip() for part in parts if part.text}
    for part in parts:
        if part.function_response:
            told.update(_texts_in(part.function_response.response))
    return frozenset(told)


def not_drawn_from(
    shown: frozenset[str], events: Sequence[Event], entries: Sequence[MemoryEntry]
) -> list[MemoryEntry]:
    """Return entries without those whose every source is one of the events a request shows.

    shown: texts of the request; ADK shows what another agent said as lines of a longer one.
    """
    ids = shown_ids(shown, events)
    return [
        entry
        for entry in entries
        if not (isinstance(entry, RecalledEntry) and entry.source_event_ids)
        or not ids.issuperset(entry.source_event_ids)
    ]


def shown_ids(shown: frozenset[str], events: Sequence[Event]) -> frozenset[str]:
    """Return the ids of the events that a request shows."""
    everything = "\n".join(shown)
    return frozenset(
        event.id
        for event in events
        if all(part in shown or _has_lines(everything, part) for part in _said(event))
    )


def _has_lines(text: str, part: str) -> bool:
    """Return whether whole lines of a text are part, also behind who said it: "[helper] said: "."""
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


def _said(event: Event) -> list[str]:
    parts = event.content.parts if event.content else None
    return [part.text.strip() for part in parts or () if part.text and not part.thought]


def _texts_in(value: object) -> Iterator[str]:
    """Yield every text in what a tool answered: the tool recall shows memories as well."""
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)


def preloaded(llm_request: LlmRequest) -> bool:
    """Tell whether ADK's preload_memory, or another plugin, showed the memory already."""
    return any(text.startswith((_PRELOADED, HEAD)) for text in shown_texts(llm_request))


def insert_before_turn(llm_request: LlmRequest, block: str, turn: types.Content | None) -> None:
    """Put a text where ADK's preload_memory puts its own: before the user's message.

    When the model goes on after a tool, the text follows the tool's response, so that it splits
    no pair and what comes before it stays a prefix that providers can cache.
    """
    contents = llm_request.contents
    place = len(contents)
    while place > 0 and _is_said_by_user(contents[place - 1]):
        place -= 1
    for position in range(place, len(contents)):
        # Static instructions may stand before the first message, as the user's contents.
        if turn is not None and contents[position].parts == turn.parts:
            place = position
    contents.insert(place, types.Content(role="user", parts=[types.Part(text=block)]))


def _about(entry: MemoryEntry) -> str:
    return ", ".join(part for part in (entry.timestamp, entry.author) if part)


def _is_said_by_user(content: types.Content) -> bool:
    parts = content.parts or []
    return content.role == "user" and not any(part.function_response for part in parts)
