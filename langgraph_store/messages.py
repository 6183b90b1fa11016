"""Converts LangChain messages to turns of a thread. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)

from shared_core import Event
from shared_core.core import HEAD, ROLES, Role, id_of_words, storable

MEMORY_TOOLS = frozenset({"remember", "recall", "forget", "search_memory", "manage_memory"})
"""Tools whose results are memories and so become no turns."""

MAX_ID_BYTES = 500
"""Maximum number of bytes of a message's id; the index of turns limits it."""

NOTHING_KNOWN: Mapping[str, int] = MappingProxyType({})

_CHAT_ROLES: dict[str, Role] = {
    name: role for name, role in ROLES.items() if role in ("user", "agent")
}
_THOUGHTS = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL)


def messages_of(state: object, key: str) -> list[BaseMessage]:
    """Return the messages of a graph's state: a mapping, an object, or the messages themselves."""
    found: Any = state
    if isinstance(state, Mapping):
        found = state.get(key)
    elif not isinstance(state, Sequence):
        found = getattr(state, key, None)
    if found is None:
        return []
    messages = found if isinstance(found, list | tuple) else [found]
    if all(isinstance(message, BaseMessage) for message in messages):
        return list(messages)
    return convert_to_messages(messages)


def turns_of(
    messages: Sequence[BaseMessage],
    thread_id: str,
    now: datetime,
    *,
    known: Mapping[str, int] = NOTHING_KNOWN,
    tool_results: bool = False,
) -> list[Event]:
    """Return the turns in messages: the text of users and agents, and of tools on request.

    It drops system messages, thoughts, tool calls, other media, removals, recalled memories, and
    user messages that a middleware wrote. An event has the id of its message, or a hash of it if it
    is too long. Without an id, the event's id derives from the thread, the text and its number of
    repetitions, so the same history gives the same ids. known: turns to skip, by their ids; one
    with other words is none of them. digest_of() returns the values.
    """
    turns: list[Event] = []
    repetitions: Counter[tuple[str, str]] = Counter()
    for message in messages:
        event_id = _own_id(message, thread_id)
        role = _role(message, tool_results=tool_results)
        text = spoken_text(message) if role else ""
        if role is None or not text:
            continue
        if event_id is None:
            repetitions[role, text] += 1
            event_id = id_of_words(thread_id, repetitions[role, text], role, text)
        if known.get(event_id) == digest_of(text):
            continue
        turns.append(
            Event(
                event_id=event_id,
                author=message.name or role,
                role=role,
                text=text,
                occurred_at=now,
            )
        )
    return turns


def digest_of(text: str) -> int:
    """Return what tells the words of turns apart within this process."""
    return hash(text)


def _own_id(message: BaseMessage, thread_id: str) -> str | None:
    if not message.id or not storable(message.id):
        return None
    if len(message.id.encode()) > MAX_ID_BYTES:
        return str(uuid5(NAMESPACE_URL, f"{thread_id}\n{message.id}"))
    return message.id


def spoken_text(message: BaseMessage) -> str:
    """Return the text of a message without thoughts; "" for recalled memories."""
    text = str(message.text)
    if isinstance(message, AIMessage):
        text = _THOUGHTS.sub("", text)
    text = text.strip()
    return "" if text.startswith(HEAD) else text


def is_of_a_model(message: BaseMessage) -> bool:
    """Return whether a chat model made a message: its id is that of a call, or it has metadata."""
    made = message.id is not None and message.id.startswith(("lc_run-", "run-"))
    return made or bool(message.response_metadata or getattr(message, "usage_metadata", None))


def is_of_a_user(message: BaseMessage) -> bool:
    """Return whether a user wrote a message; a summary is a human message with an "lc_source"."""
    return isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs


def _role(message: BaseMessage, *, tool_results: bool) -> Role | None:
    """Return the role of a message, or None if it is no turn."""
    if isinstance(message, HumanMessage):
        return "user" if is_of_a_user(message) else None
    if isinstance(message, AIMessage):
        return "agent"
    if isinstance(message, ToolMessage):
        is_turn = tool_results and message.status != "error" and message.name not in MEMORY_TOOLS
        return "tool" if is_turn else None
    if isinstance(message, ChatMessage):
        return _CHAT_ROLES.get(message.role)
    return None
