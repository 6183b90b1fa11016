"""OpenMemoryService: Google ADK's BaseMemoryService on the engine."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from adk_memory import invocation_cache
from adk_memory.events import (
    deleted_ids,
    live_events,
    rewound_ids,
    seen_ids,
    to_core_events,
    to_memory_entry,
    to_new_memory,
    to_turn_entry,
)
from adk_memory.options import (
    LEAST_RELEVANCE,
    OWN,
    IngestOptions,
    Returned,
    ServiceOptions,
    timezone_of,
)
from adk_memory.selection import (
    KINDS,
    SHORT_SESSION,
    facts_below_turns,
    looked_up,
    repeats,
    was_said,
)
from adk_memory.uri import engine_arguments, named_memory
from shared_core import (
    ExtractionStrategy,
    Hit,
    InvalidInput,
    Memory,
    MemoryEngine,
    ModelLimits,
    Scope,
    StorageUnavailable,
    open_memory,
)
from shared_core.context import ContextWindow
from shared_core.core import RetentionPolicy, check_arguments, in_zone, search_failed
from shared_core.models import hosted
from shared_core.ports import Ranking
from shared_core.privacy import PrivacyPolicy
from shared_core.recall import fitting, relevance

log = logging.getLogger("hippocampus")

T = TypeVar("T")

_abandoned: set[asyncio.Task[Any]] = set()

NO_SESSION = "no-session"
"""The thread of events that were added without a session id."""
SEEN_SESSIONS = 1_000
"""Number of sessions whose events a service keeps in mind, to see which were deleted."""
SPARE_HITS = 3
"""Further hits that a search reads, because summaries that repeat their session are dropped."""


def _check_list(value: object, name: str) -> None:
    """Raise TypeError unless value is a list."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TypeError(f"{name} must be a list, got {type(value).__name__}")


class OpenMemoryService(BaseMemoryService):
    """A memory service that shares its memories with LangGraph agents.

        Runner(..., memory_service=OpenMemoryService())

    It needs no running event loop and does no I/O until its first call. It works from any loop, so
    from `Runner.run()` as well. It is unrelated to the OpenMemory client of google-adk-community.

    Args:
        uri: as in shared_core.open_memory. Options in a hippocampus:// URI override arguments.
        dsn: another name for uri.
        embedder: as in shared_core.open_memory.
        llm: extracts facts and writes summaries instead of rules: a model of ADK, or a name that
            its LLMRegistry knows (shared_core.models).
        llm_limits: as in shared_core.open_memory.
        privacy: what happens to secrets before they are stored; see shared_core.privacy.
        schema: as in shared_core.open_memory.
        memories: what a search returns. "turns": what was said, one entry a turn, as the services
            that ship with ADK return it. "facts": what was learned. "all": both, and summaries.
        top_k: maximum number of memories that a search returns.
        max_chars: maximum number of characters that a search returns.
        min_relevance: 0 to 1; a search drops less relevant memories (shared_core.recall).
        include_tool_results: whether results of tools are remembered.
        wait: whether ingestion returns after embedding and consolidation. With False both are left
            to the queue: words find the turns immediately, meaning and facts a moment later. With
            True a failure of the model is raised; the turns are stored, and the queue tries again.
        deadline_s: seconds that a search may take. The start of a database and the load of a
            bundled model do not count; connecting to another server may take as long once more.
        fail_open: whether a search that fails, because the database is away or the deadline passed,
            returns nothing, logs the reason and counts it in `failed_searches`. With False it
            raises StorageUnavailable. Ingestion always raises.
        engine: a MemoryEngine to share; close() leaves it open.
        strategy: when queued turns are consolidated. Default: the engine's strategy.
            add_session_to_memory() ends a session.
        agents_dir: accepted and not used; `adk web` passes it.
    """

    def __init__(
        self,
        uri: str | Path | None = None,
        *,
        dsn: str | None = None,
        embedder: object = None,
        llm: object = None,
        llm_limits: ModelLimits | None = None,
        privacy: str | Mapping[str, str] | PrivacyPolicy | None = None,
        schema: str | None = None,
        memories: Returned = "all",
        top_k: int = 10,
        max_chars: int = 8000,
        min_relevance: float = LEAST_RELEVANCE,
        include_tool_results: bool = False,
        wait: bool = True,
        deadline_s: float = 10.0,
        fail_open: bool = True,
        engine: MemoryEngine | None = None,
        strategy: ExtractionStrategy | None = None,
        agents_dir: str | None = None,
    ) -> None:
        address, in_uri = named_memory(uri if uri is not None else dsn, engine)
        check_arguments(OpenMemoryService.__init__, locals())
        options = ServiceOptions(
            memories=memories,
            top_k=top_k,
            max_chars=max_chars,
            min_relevance=min_relevance,
            include_tool_results=include_tool_results,
            wait=wait,
            deadline_s=deadline_s,
            fail_open=fail_open,
        )
        names = {field.name for field in fields(ServiceOptions)}
        own: dict[str, Any] = {name: value for name, value in in_uri.items() if name in names}
        self._options = replace(options, **own)
        self._owns_engine = engine is None
        if engine is None:
            of_engine: dict[str, Any] = {"embedder": embedder, "privacy": privacy, "schema": schema}
            of_engine |= {"llm": hosted(llm, "adk"), "llm_limits": llm_limits, "strategy": strategy}
            of_engine |= engine_arguments(in_uri)
            engine = open_memory(address, **of_engine)
        elif (llm, llm_limits, privacy) != (None, None, None):
            raise InvalidInput(
                "give llm, llm_limits and privacy to open_memory(), which made the engine"
            )
        self._engine = engine
        self._strategy = strategy
        self.failed_searches = 0
        self._sessions: OrderedDict[tuple[Scope, str], Sequence[str]] = OrderedDict()

    @property
    def engine(self) -> MemoryEngine:
        """The memory behind the service, with all its methods."""
        return self._engine

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the new turns of a session, and consolidate them.

        Repeated calls store each turn once; an event with other words replaces its turn, and a
        partial session deletes nothing. It forgets rewound turns, and sets aside those of events
        that this service saw here before and that were deleted since. It does not resend a session
        of a PgSessionService in the same database.
        """
        if not isinstance(session, Session):
            raise TypeError(f"session must be a Session of ADK, got {type(session).__name__}")
        scope = Scope(session.app_name, session.user_id)
        events = list(session.events)
        options = IngestOptions.from_metadata({OWN: {"timezone": timezone_of(session.state)}})
        ids = [event.id for event in events]
        last = self._sessions.get((scope, session.id), ())
        if deleted := deleted_ids(last, ids):
            await self._engine.leave_turns(scope, session.id, deleted)
            invocation_cache.clear()
        await self._ingest(scope, session.id, events, options, session_end=True)
        self._sessions[scope, session.id] = seen_ids(last, ids)
        self._sessions.move_to_end((scope, session.id))
        while len(self._sessions) > SEEN_SESSIONS:
            self._sessions.popitem(last=False)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store events of a session as turns; the same event is stored once.

        Args:
            custom_metadata: options as in IngestOptions; it is stored with each turn.
        """
        _check_list(events, "events")
        for event in events:
            if not isinstance(event, Event):
                raise TypeError(f"events must be Events of ADK, got {type(event).__name__}")
        options = IngestOptions.from_metadata(custom_metadata)
        await self._ingest(Scope(app_name, user_id), session_id or NO_SESSION, events, options)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store entries as memories; an entry replaces the memory with the same id.

        Args:
            custom_metadata: as in IngestOptions, for every entry; an entry's own keys override it.
                A timestamp that is not ISO 8601 comes back under the key "hippocampus".

        Raises:
            TypeError: for another type; nothing is stored.
            InvalidInput: for an entry without text; nothing is stored.
        """
        _check_list(memories, "memories")
        if not memories:
            raise InvalidInput("memories must hold at least one MemoryEntry")
        IngestOptions.from_metadata(custom_metadata)
        entries = [to_new_memory(entry, custom_metadata or {}) for entry in memories]
        new = [
            replace(memory, expires_at=await self._expires_at(options))
            for memory, options in entries
        ]
        await self._engine.remember(Scope(app_name, user_id), new)
        invocation_cache.clear()

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the user's memories that match query, best first, without duplicates.

        It returns at most top_k memories and max_chars characters, all above min_relevance. The
        custom_metadata of an entry is the caller's. Under the key "hippocampus" it has the kind,
        the score, the relevance (0 to 1), the session id as source, and doubted_at for a doubtful
        fact, which is marked in the text. With memories="turns" it has no such key, and a query of
        one word finds that word alone. Under a MemoryPlugin an invocation searches the same query
        once.
        """
        scope = Scope(app_name, user_id)
        key = (id(self), app_name, user_id, query)
        known = invocation_cache.cached(key)
        if known is not None:
            return known
        hits = await self._recall(scope, query)
        if hits is None:
            return SearchMemoryResponse()
        response = SearchMemoryResponse(
            memories=[
                to_turn_entry(hit.memory, scope, text=text, parts=hit.parts)
                if self._options.memories == "turns"
                else to_memory_entry(
                    hit.memory,
                    scope,
                    text=text,
                    parts=hit.parts,
                    score=round(hit.score, 4),
                    relevance=round(min(max(relevance(hit), 0.0), 1.0), 4),
                )
                for hit, text in fitting(hits, self._options.max_chars)
            ]
        )
        invocation_cache.store(key, response)
        return response

    async def list_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_type: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[MemoryEntry]:
        """Return a page of a user's memories, newest first.

        Args:
            memory_type: only "episodic" (turns), "semantic" (facts and added entries), "summary",
                "reflection" or "item" (items of a LangGraph store).
        """
        scope = Scope(app_name, user_id)
        kinds = None if memory_type is None else [memory_type]
        found = await self._engine.list_memories(
            scope,
            kinds=kinds,  # type: ignore[arg-type] # the engine checks the name
            limit=limit,
            offset=offset,
        )
        return [to_memory_entry(memory, scope, importance=memory.importance) for memory in found]

    async def get_context_window(
        self,
        *,
        app_name: str,
        user_id: str,
        thread_id: str,
        query: str,
        system_prompt: str | None = None,
        max_tokens: int = 8000,
    ) -> ContextWindow:
        """Return the context that a model should read before it answers, within a token budget.


        The window reports the cost of each line and everything it dropped; to_prompt() renders it.

        Args:
            app_name: the application.
            user_id: the user.
            thread_id: the session; the window shows its last turns.
            query: what the user asks now.
            system_prompt: comes first.
            max_tokens: the budget, in tokens.
        """
        return await self._engine.context_window(
            Scope(app_name, user_id),
            thread_id,
            query,
            system_prompt=system_prompt or "",
            max_tokens=max_tokens,
        )

    async def cleanup_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        threshold: float = 0.1,
        min_age_days: float = 7,
        dry_run: bool = False,
    ) -> dict[str, float]:
        """Forget a user's turns and summaries with a retention below threshold now.

        Retention falls with the days since a memory was stored or last read, more slowly for
        important ones (shared_core.core.decay). Memories younger than min_age_days, facts and
        pinned memories stay. Returns total_memories before, cleaned_count and
        avg_retention_score; dry_run only counts.
        """
        policy = RetentionPolicy(threshold=threshold, min_age_days=min_age_days)
        report = await self._engine.cleanup(Scope(app_name, user_id), policy, dry_run=dry_run)
        invocation_cache.clear()
        return {
            "total_memories": report.memories,
            "cleaned_count": len(report.forgotten),
            "avg_retention_score": report.average_score,
        }

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget one memory for good; adding its session again does not restore it.

        None, an unknown id and an id of another user change nothing. With memories="turns" the id
        of an event forgets the turn in every session that has it.
        """
        if not memory_id:
            return
        scope = Scope(app_name, user_id)
        deleted = await self._engine.forget(scope, memory_id)
        if not deleted and self._options.memories == "turns":
            await self._engine.forget_events(scope, [memory_id])
        invocation_cache.clear()

    async def delete_session_memory(self, *, app_name: str, user_id: str, session_id: str) -> int:
        """Erase the memories of one session; return their number.

        Facts that another session supports stay. Adding the session again restores nothing.
        """
        erased = await self._engine.forget_thread(Scope(app_name, user_id), session_id)
        invocation_cache.clear()
        return erased

    async def delete_user_memory(self, *, app_name: str, user_id: str) -> int:
        """Erase all memories of a user, of every framework; return their number.

        Sessions belong to the session service and stay.
        """
        erased = await self._engine.forget_scope(Scope(app_name, user_id))
        invocation_cache.clear()
        return erased

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all queued turns are embedded and consolidated; return False on a timeout."""
        return await self._engine.flush(timeout_s)

    async def close(self) -> None:
        """Close all connections, unless the engine was given. Queued work stays queued."""
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

    async def _recall(self, scope: Scope, query: str) -> Sequence[Hit] | None:
        """Return the hits for a query, or None if the search failed and fail_open is set."""
        # A cold start does not count towards the deadline.
        await self._engine.warm_up(remote_s=self._options.deadline_s)
        find = {"all": self._all, "turns": self._turns, "facts": self._hits}
        recall = find[self._options.memories](scope, query)
        try:
            hits = await in_time(recall, self._options.deadline_s)
        except (StorageUnavailable, TimeoutError) as error:
            reason = (
                str(error) or f"the search took longer than deadline_s={self._options.deadline_s:g}"
            )
            if not self._options.fail_open:
                raise StorageUnavailable(f"memory could not be searched: {reason}") from error
            self.failed_searches += 1
            search_failed("adk", error)
            log.error("memory could not be searched, the search returns nothing: %s", reason)
            return None
        self._engine.recall.count(scope, hits)
        return hits

    async def _all(self, scope: Scope, query: str) -> Sequence[Hit]:
        """Return hits of every kind; a summary that repeats its short session is none of them."""
        kept = [
            hit
            for hit in await self._hits(scope, query, limit=self._options.top_k + SPARE_HITS)
            if hit.memory.kind != "summary" or not await self._repeats(scope, hit.memory)
        ]
        return facts_below_turns(kept[: self._options.top_k])

    async def _repeats(self, scope: Scope, summary: Memory) -> bool:
        if summary.thread_id is None or len(summary.source_event_ids) > SHORT_SESSION:
            return False
        turns = await self._engine.thread_turns(scope, summary.thread_id, limit=SHORT_SESSION)
        return repeats(summary.text, [turn.text for turn in turns])

    async def _turns(self, scope: Scope, query: str) -> Sequence[Hit]:
        """Return hits of turns and of entries that a caller added."""
        holds, wanted, limit = looked_up(query), self._options.top_k, 4 * self._options.top_k
        while True:
            hits = await self._hits(
                scope, query, limit=limit, distinct=False, ranking="bm25" if holds else "linear"
            )
            found = [hit for hit in hits if holds is None or holds(hit.memory.text)]
            kept = [hit for hit in found if was_said(hit.memory)]
            # By words alone, what follows a hit without the word does not hold it either.
            if len(kept) >= wanted or len(hits) < limit or len(found) < len(hits):
                return kept[:wanted]
            limit *= 4

    async def _hits(
        self,
        scope: Scope,
        query: str,
        *,
        limit: int | None = None,
        distinct: bool = True,
        ranking: Ranking = "linear",
    ) -> Sequence[Hit]:
        return await self._engine.recall(
            scope,
            query,
            limit=self._options.top_k if limit is None else limit,
            kinds=KINDS[self._options.memories],
            min_relevance=self._options.min_relevance,
            distinct=distinct,
            ranking=ranking,
            counted=False,
        )

    async def _ingest(
        self,
        scope: Scope,
        session_id: str,
        events: Sequence[Event],
        options: IngestOptions,
        *,
        session_end: bool = False,
    ) -> None:
        if rewound := rewound_ids(events):
            await self._engine.forget_turns(scope, session_id, rewound)
            invocation_cache.clear()
        turns = to_core_events(live_events(events), tool_results=self._options.include_tool_results)
        if not turns:  # needs no database
            return
        expires_at = await self._expires_at(options)
        turns = [
            replace(
                turn,
                occurred_at=in_zone(turn.occurred_at, options.timezone),
                importance=options.importance,
                expires_at=expires_at,
                metadata=options.metadata,
            )
            for turn in turns
        ]
        wait = self._options.wait if options.wait is None else options.wait
        await self._engine.append_events(
            scope,
            session_id,
            turns,
            later=not wait,
            session_end=session_end and not wait,
            strategy=options.strategy or self._strategy,
            retry_later=wait,
        )
        invocation_cache.clear()
        if wait:
            await self._engine.consolidate(scope, session_id, retry_later=True)
            invocation_cache.clear()

    async def _expires_at(self, options: IngestOptions) -> datetime | None:
        return options.expires_at(await self._engine.now()) if options.ttl else None


async def in_time(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Return the result of work, or raise TimeoutError after seconds.

    The timeout cancels the work without waiting for it, because a driver may take long to give up
    on a silent server. Cancelling the caller cancels the work as well.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if done:
        return task.result()
    _abandoned.add(task)
    task.add_done_callback(_discard)
    task.cancel()
    raise TimeoutError


def _discard(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not warn
