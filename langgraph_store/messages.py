"""LangChain messages as turns of a thread. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)

from shared_core import Event
from shared_core.domain import Role
from shared_core.memory_block import HEAD
from shared_core.namespaces import storable

MEMORY_TOOLS = frozenset({"remember", "recall", "forget", "search_memory", "manage_memory"})
"""Tools whose results are memories already."""

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
    return convert_to_messages(found if isinstance(found, list | tuple) else [found])


def turns_of(
    messages: Sequence[BaseMessage], thread_id: str, now: datetime, *, tool_results: bool = False
) -> list[Event]:
    """Return what was said in messages: text parts of users and agents, and of tools on request.

    System messages, thoughts, tool calls, other media, removals, and what recall put in, are no
    turns. An event's id is the message's; without one it is derived from the thread, the words and
    how often they were said before, so that the same history gives the same ids.
    """
    turns: list[Event] = []
    said: Counter[str] = Counter()
    for message in messages:
        role = _role(message)
        text = "" if role is None or isinstance(message, RemoveMessage) else spoken_text(message)
        if role is None or not text or (role == "tool" and not _wanted(message, tool_results)):
            continue
        words = f"{role}\n{text}"
        said[words] += 1
        own_id = message.id if message.id and storable(message.id) else None
        event_id = own_id or str(uuid5(NAMESPACE_URL, f"{thread_id}\n{said[words]}\n{words}"))
        author = message.name or (
            "user" if role == "user" else "tool" if role == "tool" else "agent"
        )
        turns.append(Event(event_id=event_id, author=author, role=role, text=text, occurred_at=now))
    return turns


def spoken_text(message: BaseMessage) -> str:
    """Return the words of a message, without thoughts; "" for what recall put in."""
    text = str(message.text)
    if isinstance(message, AIMessage):
        text = _THOUGHTS.sub("", text)
    text = text.strip()
    return "" if text.startswith(HEAD) else text


def _role(message: BaseMessage) -> Role | None:
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, AIMessage):
        return "agent"
    if isinstance(message, ToolMessage):
        return "tool"
    if isinstance(message, ChatMessage):
        return {"user": "user", "human": "user", "assistant": "agent", "ai": "agent"}.get(
            message.role
        )  # type: ignore[return-value] # the values are roles
    return None


def _wanted(message: BaseMessage, tool_results: bool) -> bool:
    failed = isinstance(message, ToolMessage) and message.status == "error"
    return tool_results and not failed and message.name not in MEMORY_TOOLS
