"""MemoryManager, the memory loop of one agent, and its implementation on OceanBase."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal
from uuid import uuid4

from shared_core.context.window import ContextWindow
from shared_core.core.domain import Event, Hit, JsonValue, Role, Scope
from shared_core.core.json_text import check_json, to_json
from shared_core.core.namespaces import check_label
from shared_core.core.shown import shown
from shared_core.core.uri_validation import is_oceanbase
from shared_core.core.validation import number
from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput
from shared_core.knowledge.consolidation import RunReport
from shared_core.open import open_memory
from shared_core.ports.conversations import check_thread
from shared_core.settings import redacted

EventType = Literal["user_msg", "agent_msg", "agent_thought", "tool_call"]
ROLES: Mapping[str, Role] = {
    "user_msg": "user",
    "agent_msg": "agent",
    "agent_thought": "agent",
    "tool_call": "tool",
}


class MemoryManager(ABC):
    """The memory interface that an agent's runtime calls.

    append_event is the fast path: when it returns, the event is committed and can be recalled.
    consolidate turns the unread events of a session into facts and a summary, in one transaction.
    recall and context return what the agent reads before it answers.
    """

    @abstractmethod
    async def append_event(
        self,
        session_id: str,
        content: str | Mapping[str, JsonValue],
        *,
        event_type: EventType = "user_msg",
        event_id: str | None = None,
    ) -> str:
        """Append an event to a session and return its id; a known id changes nothing."""

    @abstractmethod
    async def consolidate(self, session_id: str) -> RunReport:
        """Turn the unread events of a session into facts and a summary."""

    @abstractmethod
    async def end_session(self, session_id: str) -> None:
        """Have the worker consolidate the unread events of a session now, before other work."""

    @abstractmethod
    async def recall(
        self, query: str, *, limit: int = 5, min_importance: float = 0.0
    ) -> Sequence[Hit]:
        """Return the memories that match query, best first.

        Args:
            query: what to look for.
            limit: maximum number of memories.
            min_importance: 0 to 1.
        """

    @abstractmethod
    async def context(
        self, session_id: str, query: str, *, system_prompt: str = "", max_tokens: int = 8000
    ) -> ContextWindow:
        """Return the prompt, memories about query and the last events, within a token budget."""

    @abstractmethod
    async def close(self) -> None:
        """Finish deferred work and release the database."""


class OceanBaseMemoryProvider(MemoryManager):
    """The memory loop on SeekDB or OceanBase.

        memory = OceanBaseMemoryProvider("seekdb:///data/memory", agent_id="concierge")
        await memory.append_event("session-1", "My name is Alice.")

    Its methods are those of MemoryManager.

    Args:
        uri: "seekdb:///folder", or "oceanbase://user@tenant#cluster:password@host:2881/database".
            Default: HIPPOCAMPUS_URI.
        agent_id: the agent. Others find its memory under Scope(app, agent_id).
        app: the application.
        later: whether the worker embeds and consolidates events, at the times that strategy= sets.
            Until then a search by words finds them.
        options: those of open_memory(), e.g. llm=, embedder= and strategy=.

    Raises:
        InvalidInput: uri names another engine, or a name is not usable.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        agent_id: str,
        app: str = "agents",
        later: bool = False,
        **options: Any,
    ) -> None:
        if not isinstance(later, bool):
            raise InvalidInput(f"later must be True or False, got {shown(later)}")
        self._later = later
        uri = _checked_uri(uri)
        self.scope = Scope(_named(app, "app"), _named(agent_id, "agent_id"))
        self.engine: MemoryEngine = open_memory(uri, **options)

    async def __aenter__(self) -> OceanBaseMemoryProvider:
        await self.engine.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def append_event(
        self,
        session_id: str,
        content: str | Mapping[str, JsonValue],
        *,
        event_type: EventType = "user_msg",
        event_id: str | None = None,
    ) -> str:
        if not isinstance(event_type, str) or event_type not in ROLES:
            raise InvalidInput(f"event_type {event_type!r} is unknown: take one of {list(ROLES)}")
        session, text, payload = _session(session_id), _text_of(content), _payload_of(content)
        event = Event(
            event_id=str(uuid4()) if event_id is None else check_label(event_id, "event_id"),
            author="user" if event_type == "user_msg" else self.scope.user,
            role=ROLES[event_type],
            text=text,
            occurred_at=await self.engine.now(),
            metadata={"event_type": event_type, **payload},
        )
        await self.engine.append_events(self.scope, session, [event], later=self._later)
        return event.event_id

    async def consolidate(self, session_id: str) -> RunReport:
        return await self.engine.consolidate(self.scope, _session(session_id))

    async def end_session(self, session_id: str) -> None:
        await self.engine.append_events(
            self.scope, _session(session_id), [], later=True, session_end=True
        )

    async def recall(
        self, query: str, *, limit: int = 5, min_importance: float = 0.0
    ) -> Sequence[Hit]:
        share = number(min_importance, "min_importance", 0, 1)
        return await self.engine.recall(
            self.scope, query, limit=limit, min_importance=round(10 * share, 6)
        )

    async def context(
        self, session_id: str, query: str, *, system_prompt: str = "", max_tokens: int = 8000
    ) -> ContextWindow:
        return await self.engine.context_window(
            self.scope,
            _session(session_id),
            query,
            system_prompt=system_prompt,
            max_tokens=max_tokens,
        )

    async def close(self) -> None:
        await self.engine.close()


def _checked_uri(uri: object) -> str:
    """Return the uri, or else HIPPOCAMPUS_URI. Raises InvalidInput unless it is OceanBase."""
    chosen = uri if uri is not None else os.environ.get("HIPPOCAMPUS_URI") or None
    if isinstance(chosen, str) and is_oceanbase(chosen):
        return chosen
    where = redacted(chosen) if isinstance(chosen, str) else chosen
    raise InvalidInput(
        f"uri or HIPPOCAMPUS_URI must be 'seekdb:///folder' or 'oceanbase://...',"
        f" got {shown(where)}:"
        " OceanBaseMemoryProvider needs OceanBase; for PostgreSQL use open_memory()"
    )


def _named(name: str, what: str) -> str:
    if not check_label(name, what).strip():
        raise InvalidInput(f"{what} must not be blank, got {shown(name)}")
    return name


def _session(session_id: str) -> str:
    return check_thread(session_id, "session_id")


def _text_of(content: str | Mapping[str, JsonValue]) -> str:
    """Return the text of an event, or its JSON if it has no text.

    Raises InvalidInput for empty content, and for content that is neither text nor JSON.
    """
    if not isinstance(content, str | Mapping):
        raise InvalidInput(
            f'content must be a text or a mapping, e.g. {{"text": "Hello"}}, got {shown(content)}'
        )
    if isinstance(content, str):
        event_text = content
    else:
        text = content.get("text", content.get("content"))
        event_text = text if isinstance(text, str) else to_json(dict(content), "content")
    if not event_text.strip() or not content:
        raise InvalidInput(f"content is empty: {shown(content)}; do not append such an event")
    return event_text


def _payload_of(content: str | Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return the whole content as metadata, if it holds more than text."""
    if isinstance(content, str) or content.keys() <= {"text", "content"}:
        return {}
    check_json(dict(content), "content")
    return {"content": dict(content)}
