"""Which events of a session a finished run adds to the memory. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from google.adk.events.event import Event
from google.genai import types

from adk_memory.events import FROM_USER, text_of_event


def spoken_text(content: types.Content | None) -> str:
    """Return the text of a user's message as preload_memory asks for it; "" for an image alone."""
    parts = content.parts if content and content.parts else []
    return " ".join(part.text for part in parts if part.text and not part.thought).strip()


def is_settled(events: Sequence[Event], *, live: bool = False) -> bool:
    """Tell whether the events of a run end in an answer: no error, no tool still running.

    live: one run is a whole conversation, so an answer at any time is enough.
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


def is_answered(events: Sequence[Event]) -> bool:
    """Tell whether the last event is the agent's answer to the user, not one step towards it."""
    last = events[-1]
    return (
        last.author != FROM_USER
        and last.isolation_scope is None
        and last.is_final_response()
        and _says_something(last)
    )


def events_to_remember(events: Sequence[Event], invocation_id: str) -> list[Event]:
    """Return the events of a run, or those of the whole session when it was rewound.

    A rewind takes back turns that may be remembered already. Events without an invocation are the
    input of an agent that works for another one, not the user's words.
    """
    if any(event.actions.rewind_before_invocation_id for event in events):
        return [event for event in events if event.invocation_id]
    return [event for event in events if event.invocation_id == invocation_id]


def _says_something(event: Event) -> bool:
    parts = event.content.parts if event.content and event.content.parts else []
    return bool(text_of_event(event)) or any(not part.thought and not part.text for part in parts)
