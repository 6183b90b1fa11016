"""MemoryManager, the memory loop of one agent (append, consolidate, recall, inject), and the one
that keeps it in OceanBase."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal
from uuid import uuid4

from shared_core.consolidate import RunReport
from shared_core.context_window import ContextWindow
from shared_core.domain import Event, Hit, JsonValue, Role, Scope
from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput
from shared_core.moments import system_clock
from shared_core.opening import open_memory
from shared_core.ports import Clock
from shared_core.settings import redacted
from shared_core.storage.oceanbase.locations import is_oceanbase

EventType = Literal["user_msg", "agent_msg", "agent_thought", "tool_call"]
ROLES: Mapping[str, Role] = {
    "user_msg": "user",
    "agent_msg": "agent",
    "agent_thought": "agent",
    "tool_call": "tool",
}
FOUND = 20
"""Times the limit: so many are recalled where the less important are left out."""


class MemoryManager(ABC):
    """What an agent's runtime calls, from what was just said to what is known for good.

    append_event is the fast path: when it returns, the event is committed and can be recalled.
    consolidate draws what is worth keeping out of a session, in one transaction: what it replaces
    and what it adds become visible together. recall and context are what the agent reads before it
    thinks.
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
        """Append an event to a session and return its id; one that is there changes nothing."""

    @abstractmethod
    async def consolidate(self, session_id: str) -> RunReport:
        """Draw facts and a summary out of the events of a session that were not read yet."""

    @abstractmethod
    async def recall(
        self, query: str, *, limit: int = 5, min_importance: float = 0.0
    ) -> Sequence[Hit]:
        """Return what is remembered about query, best first; min_importance: 0 to 1."""

    @abstractmethod
    async def context(
        self, session_id: str, query: str, *, system_prompt: str = "", max_tokens: int = 8000
    ) -> ContextWindow:
        """Return the prompt, what is known about query and the last events, within a budget."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what was left for later and release the database."""


class OceanBaseMemoryProvider(MemoryManager):
    """The memory loop on SeekDB or OceanBase.

    memory = OceanBaseMemoryProvider("seekdb:///data/memory", agent_id="concierge")
    await memory.append_event("session-1", "My name is Alice.")

    uri: "seekdb:///folder", or "oceanbase://user@tenant#cluster:password@host:2881/database".
    agent_id: whose memory it is; app: the application, by which others find it under
    Scope(app, agent_id). options: those of open_memory(), e.g. llm= and embedder=.
    Raises InvalidInput for another uri.
    """

    def __init__(self, uri: str, *, agent_id: str, app: str = "agents", **options: Any) -> None:
        if not is_oceanbase(uri):
            raise InvalidInput(
                "OceanBaseMemoryProvider keeps its memory in OceanBase, not in"
                f" {redacted(uri)!r}: give 'seekdb:///folder' or 'oceanbase://...', or use"
                " open_memory() for PostgreSQL"
            )
        self.scope = Scope(app, agent_id)
        self._clock: Clock = options.get("clock") or system_clock
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
        if event_type not in ROLES:
            raise InvalidInput(f"event_type {event_type!r} is unknown: take one of {list(ROLES)}")
        event = Event(
            event_id=event_id or str(uuid4()),
            author="user" if event_type == "user_msg" else self.scope.user,
            role=ROLES[event_type],
            text=_text_of(content),
            occurred_at=self._clock(),
            metadata={"event_type": event_type},
        )
        await self.engine.append_events(self.scope, session_id, [event])
        return event.event_id

    async def consolidate(self, session_id: str) -> RunReport:
        return await self.engine.consolidate(self.scope, session_id)

    async def recall(
        self, query: str, *, limit: int = 5, min_importance: float = 0.0
    ) -> Sequence[Hit]:
        if not 0 <= min_importance <= 1:
            raise InvalidInput(f"min_importance must be from 0 to 1, not {min_importance!r}")
        asked = limit if min_importance == 0 else limit * FOUND
        hits = await self.engine.recall(self.scope, query, limit=asked)
        return [hit for hit in hits if hit.memory.importance >= 10 * min_importance][:limit]

    async def context(
        self, session_id: str, query: str, *, system_prompt: str = "", max_tokens: int = 8000
    ) -> ContextWindow:
        return await self.engine.context_window(
            self.scope, session_id, query, system_prompt=system_prompt, max_tokens=max_tokens
        )

    async def close(self) -> None:
        await self.engine.close()


def _text_of(content: str | Mapping[str, JsonValue]) -> str:
    """Return what an event says: its text, or the JSON of one that has none."""
    if isinstance(content, str):
        return content
    text = content.get("text", content.get("content"))
    return text if isinstance(text, str) else json.dumps(content, ensure_ascii=False)
