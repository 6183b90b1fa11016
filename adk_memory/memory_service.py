"""OpenMemoryService: Google ADK's BaseMemoryService on the engine. Converts types, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from adk_memory.events import to_core_events, to_memory_entry, to_new_memory
from shared_core import InvalidInput, MemoryEngine, Scope, open_memory

NO_SESSION = "no-session"
"""The thread of events that were added without a session id."""


class OpenMemoryService(BaseMemoryService):
    """A memory service whose memories a LangGraph agent reads too, and the other way round.

        Runner(..., memory_service=OpenMemoryService())

    Needs no running event loop and does no I/O until its first call; works from any loop, so from
    `Runner.run()` as well. Unrelated to the OpenMemory client of google-adk-community.

    uri, embedder, schema: as in shared_core.open_memory. top_k: how many memories a search
    returns at most. engine: a MemoryEngine to share instead; then close() leaves it open.
    agents_dir: accepted and not used; `adk web` passes it.
    """

    def __init__(
        self,
        uri: str | Path | None = None,
        *,
        embedder: object = None,
        schema: str | None = None,
        top_k: int = 10,
        engine: MemoryEngine | None = None,
        agents_dir: str | None = None,
    ) -> None:
        if top_k < 1:
            raise InvalidInput(f"top_k must be at least 1, not {top_k}")
        self._owns_engine = engine is None
        self._engine = engine or open_memory(uri, embedder=embedder, schema=schema)
        self._top_k = top_k

    @property
    def engine(self) -> MemoryEngine:
        """The memory behind the service, with all its verbs."""
        return self._engine

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember what was said in a session that is not remembered yet, and draw facts from it.

        A session may be added as often as it grows; nothing is doubled, and nothing is deleted
        because the session given is only a part of it.
        """
        await self._ingest(
            Scope(session.app_name, session.user_id), session.id, list(session.events)
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember some events of a session; the same event is remembered once.

        custom_metadata: accepted and not used yet.
        """
        await self._ingest(Scope(app_name, user_id), session_id or NO_SESSION, events)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember entries outright; an entry whose id exists replaces the one that is there.

        custom_metadata is kept with every entry and comes back with it; an entry's own wins.
        Raises InvalidInput for an entry without text, and then stores none.
        """
        await self._engine.remember(
            Scope(app_name, user_id),
            [to_new_memory(entry, custom_metadata or {}) for entry in memories],
        )

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return what is remembered of the user about query, best first, at most top_k."""
        scope = Scope(app_name, user_id)
        hits = await self._engine.recall(scope, query, limit=self._top_k)
        return SearchMemoryResponse(memories=[to_memory_entry(hit, scope) for hit in hits])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget one memory for good: adding its session again does not bring it back.

        An id that is unknown, of another user, or None changes nothing.
        """
        if memory_id:
            await self._engine.forget(Scope(app_name, user_id), memory_id)

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until everything handed over is embedded and consolidated; False if time ran out."""
        return True

    async def close(self) -> None:
        """Close all connections, unless the engine was given."""
        if self._owns_engine:
            await self._engine.close()

    async def __aenter__(self) -> OpenMemoryService:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _ingest(self, scope: Scope, session_id: str, events: Sequence[Event]) -> None:
        said = to_core_events(events)
        if said:
            await self._engine.append_events(scope, session_id, said)
            await self._engine.consolidate(scope, session_id)
