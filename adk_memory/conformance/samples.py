"""Sample data of the suites, and helpers that read the results of a service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

Part = types.Part
Result = TypeVar("Result")

WHO: dict[str, Any] = {"app_name": "support.bot", "user_id": "alice@example.com"}
"""The default app and user of the tests."""

ODD_IDS = {
    "slash": "a/b",
    "dots": "..",
    "percent": "100%",
    "underscore": "a_b",
    "quotes": 'it\'s "quoted" \\ `so`',
    "statement": "'; DROP TABLE events; --",
    "colon": "user:app:temp:",
    "spaces": "two words",
    "braces": "{0} %s $1 ?",
    "chinese": "用户",
    "emoji": "🦜👍🏽",
    "long": "x" * 300,
}
"""Unusual ids that a service must support, by name."""

NEIGHBOURS = {
    "slash": (("a/b", "c"), ("a", "b/c")),
    "colon": (("a:b", "c"), ("a", "b:c")),
    "dot": (("a.b", "c"), ("a", "b.c")),
    "swapped": (("a", "b"), ("b", "a")),
    "percent": (("app", "alice"), ("app", "%")),
    "underscore": (("app", "alice"), ("app", "a_ice")),
    "case": (("app", "alice"), ("app", "Alice")),
    "space": (("app", "alice"), ("app", "alice ")),
    "prefix": (("app", "alice"), ("app", "alic")),
    "accent": (("app", "caf\u00e9"), ("app", "cafe\u0301")),
    "long": (("app", "x" * 300 + "1"), ("app", "x" * 300 + "2")),
}
"""Pairs of similar (app, user) that a service must keep apart."""


def owner(app_name: str, user_id: str) -> dict[str, Any]:
    """Return the two arguments that identify a user."""
    return {"app_name": app_name, "user_id": user_id}


def event(event_id: str, *parts: str | Part, author: str = "user", **fields: Any) -> Event:
    """Return an event with parts; without parts it has no content."""
    written = [Part(text=part) if isinstance(part, str) else part for part in parts]
    content = types.Content(role="user" if author == "user" else "model", parts=written)
    fields = {"invocation_id": "i1", "content": content if parts else None, **fields}
    return Event(id=event_id, author=author, **fields)


def session(*events: Event, session_id: str = "s1", **who: Any) -> Session:
    """Return a session as a session service would give it to a memory service."""
    return Session(id=session_id, events=list(events), **{**WHO, **who})


def entry(text: str, **fields: Any) -> MemoryEntry:
    """Return a memory entry with an author, as turns have."""
    content = types.Content(role="user", parts=[Part(text=text)])
    return MemoryEntry(**{"content": content, "author": "user", **fields})


def texts(memories: Iterable[MemoryEntry]) -> list[str]:
    """Return the text of every memory."""
    return ["".join(part.text or "" for part in entry.content.parts or []) for entry in memories]


async def search(service: BaseMemoryService, query: str, **who: Any) -> list[MemoryEntry]:
    """Return the turns that a search finds, best first.

    It drops facts and summaries, which have no author.
    """
    found = await service.search_memory(query=query, **{**WHO, **who})
    return [entry for entry in found.memories if entry.author]


async def turns(service: BaseMemoryService, query: str, **who: Any) -> list[str]:
    """Return the texts that a search finds, sorted."""
    return sorted(texts(await search(service, query, **who)))


async def reload(
    service: BaseSessionService,
    session_id: str,
    *,
    recent: int | None = None,
    after: float | None = None,
    **who: Any,
) -> Session:
    """Return a session from the service, with its recent events or those after a time."""
    config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
    found = await service.get_session(session_id=session_id, config=config, **{**WHO, **who})
    assert found is not None, f"session {session_id!r} is not there"
    return found


async def in_another_loop(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run work in a thread with its own event loop, as every `Runner.run()` does."""
    return await asyncio.to_thread(lambda: asyncio.run(work()))
