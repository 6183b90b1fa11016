"""MemoryPlugin: an ADK app that remembers every settled turn and recalls before it answers."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin

from adk_memory import invocation_cache
from adk_memory.events import events_to_remember, is_answered, is_settled, spoken_text
from adk_memory.memory_service import OpenMemoryService, in_time
from adk_memory.recall_block import (
    insert_before_turn,
    not_drawn_from,
    preloaded,
    recall_block,
    shown_ids,
    shown_texts,
)
from shared_core import InvalidInput, Memory, Scope
from shared_core.nlp import TokenCounter, count_tokens

_log = logging.getLogger("hippocampus")

MAX_OPEN_RUNS = 10_000
"""Runs the plugin keeps in mind; one that was cancelled never tells that it ended."""

REMEMBER_S = 10.0
"""How long a turn may wait until its events are stored; longer counts as a failure."""

DRAIN_S = 4.0
CLOSE_S = 4.5
"""ADK gives a plugin five seconds to close."""

CHILD_ARTIFACTS = "ForwardingArtifactService"
"""The artifact service that AgentTool gives to its child run, and nobody else to any."""


@dataclass(eq=False, slots=True)
class _RunnerRun:
    """One run of a runner. nested: it runs inside a tool of another run, as AgentTool does."""

    sessions: object
    task: asyncio.Task[object] | None
    nested: bool
    outer: _RunnerRun | None
    live: bool = True
    query: str = ""
    summary: Memory | None = None
    profile: str | None = None
    is_told: bool = False
    recalling: asyncio.Lock = field(default_factory=asyncio.Lock)


_innermost: ContextVar[_RunnerRun | None] = ContextVar("hippocampus_run", default=None)


class MemoryPlugin(BasePlugin):
    """Remembers what was said after each run, and shows the model what fits before each answer.

        App(name="my_app", root_agent=agent, plugins=[MemoryPlugin()])
        adk api_server agents --extra_plugins adk_memory.MemoryPlugin

    A run is remembered when it is settled: answered, without an error, waiting for no long-running
    tool, and listened to until its answer. Embedding and facts follow in the background. What is
    recalled stands before the user's message of that request only; it enters no session and no
    memory. Runs inside a run (AgentTool) are left alone. Nothing here fails a turn: what goes
    wrong is logged by "hippocampus" and counted in `failures`.

    service: the memory; by default the runner's own if that is an OpenMemoryService, else an
    OpenMemoryService() of the plugin's own. ingest, recall: switch either half off. max_tokens: of
    what is recalled into a request, the frame around it included; it is packed as a context window
    is: the stored profile, facts, memories, and the summary of the session where the request no
    longer shows all of it. count: the tokenizer of the model, if it is not o200k.
    """

    def __init__(
        self,
        name: str = "hippocampus_memory",
        *,
        service: OpenMemoryService | None = None,
        ingest: bool = True,
        recall: bool = True,
        max_tokens: int = 1000,
        count: TokenCounter = count_tokens,
    ) -> None:
        if max_tokens < 1:
            raise InvalidInput(f"max_tokens must be at least 1, not {max_tokens}")
        super().__init__(name)
        self.failures = 0
        self._given = service
        self._own: OpenMemoryService | None = None
        self._ingests = ingest
        self._recalls = recall
        self._max_tokens = max_tokens
        self._count = count
        self._runs: dict[str, _RunnerRun] = {}
        self._used: set[OpenMemoryService] = set()
        self._failed_before = 0
        self._lock = threading.Lock()

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Take note of the run, and open its cache of answers."""
        with self._unharmed("noting a run"):
            run = self._noted(invocation_context)
            run.query = spoken_text(invocation_context.user_content)
            _innermost.set(run)
            invocation_cache.begin(invocation_context.invocation_id)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Show the model what the memory holds about the user's message."""
        if self._recalls:
            with self._unharmed("recalling"):
                await self._recall_into(llm_request, callback_context.get_invocation_context())

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Remember the run if it is settled."""
        # An abandoned generator ends its run while it is being closed; only the stack tells.
        closed_early = isinstance(sys.exception(), GeneratorExit | asyncio.CancelledError)
        with self._unharmed("remembering a run"):
            run = self._ended(invocation_context)
            if self._ingests and not run.nested:
                await self._remember(invocation_context, closed_early=closed_early)

    async def on_run_error_callback(
        self, *, invocation_context: InvocationContext, error: Exception
    ) -> None:
        """Forget about a run that failed."""
        with self._unharmed("noting an error"):
            self._ended(invocation_context)

    async def close(self) -> None:
        """Wait up to four seconds until everything is embedded; close a memory of its own."""
        with self._lock:
            used, own = self._used, self._own
            self._used, self._own = set(), None
        end = asyncio.get_running_loop().time() + CLOSE_S
        with self._unharmed("draining"):
            async with asyncio.timeout_at(end):
                drained = await asyncio.gather(*(service.flush(DRAIN_S) for service in used))
            if not all(drained):
                _log.warning("plugin %s: closed with memories still in the queue", self.name)
        with self._unharmed("closing"):
            if own is not None:
                async with asyncio.timeout_at(end + 0.3):
                    await own.close()

    async def _recall_into(self, llm_request: LlmRequest, context: InvocationContext) -> None:
        run = self._runs.get(context.invocation_id)
        if run is None or run.nested or not run.query or preloaded(llm_request):
            return
        async with run.recalling:  # parallel agents wait for one search
            entries = await self._search(context, run.query)
            if not run.is_told:
                run.is_told = True
                run.summary, run.profile = await self._told(context)
        shown = shown_texts(llm_request)
        entries = not_drawn_from(shown, context.session.events, entries)
        summary = run.summary
        if summary and shown_ids(shown, context.session.events).issuperset(
            summary.source_event_ids
        ):
            summary = None
        # In a thread: the first count loads a vocabulary.
        block = await asyncio.to_thread(
            recall_block, entries, shown, self._max_tokens, profile=run.profile, summary=summary,
            count=self._count,
        )  # fmt: skip
        if block:
            insert_before_turn(llm_request, block, context.user_content)

    async def _told(self, context: InvocationContext) -> tuple[Memory | None, str | None]:
        """Return the summary of the session, and the stored profile; None for what is not there."""
        service, session = self._service(context), context.session
        if service.failed_searches > self._failed_before:  # it is away, and has been waited for
            self._failed_before = service.failed_searches
            return None, None
        scope, engine = Scope(session.app_name, session.user_id), service.engine
        summary = await in_time(engine.thread_summary(scope, session.id), REMEMBER_S)
        return summary, await in_time(engine.profiles.shown(scope), REMEMBER_S)

    async def _search(self, context: InvocationContext, query: str) -> Sequence[MemoryEntry]:
        service = self._service(context)
        app_name, user_id = context.session.app_name, context.session.user_id
        key = (id(service), app_name, user_id, query)
        # Kept here as well: what a service answered because it failed open is not asked again.
        response = invocation_cache.cached(key)
        if response is None:
            response = await service.search_memory(app_name=app_name, user_id=user_id, query=query)
            invocation_cache.store(key, response)
        return response.memories

    async def _remember(self, context: InvocationContext, *, closed_early: bool) -> None:
        session = context.session
        said = [event for event in session.events if event.invocation_id == context.invocation_id]
        live = context.live_request_queue is not None
        if context.is_aborted or not is_settled(said, live=live):
            return
        # Who leaves the loop at the answer has heard it; of several agents one may still be due.
        answered = isinstance(context.agent, LlmAgent) and is_answered(said)
        if closed_early and not live and not answered:
            return
        service = self._service(context)
        await service.engine.warm_up(model=False)
        handing_over = service.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            session_id=session.id,
            events=events_to_remember(session.events, context.invocation_id),
            custom_metadata={"wait": False},
        )
        await in_time(handing_over, REMEMBER_S)

    def _service(self, context: InvocationContext) -> OpenMemoryService:
        with self._lock:
            service = self._given
            if service is None and isinstance(context.memory_service, OpenMemoryService):
                service = context.memory_service
            if service is None:
                service = self._own = self._own or OpenMemoryService()
            self._used.add(service)
            return service

    def _noted(self, context: InvocationContext) -> _RunnerRun:
        """Return a record of a run, kept until the run ends.

        A child run starts below a live one, in the task of its tool and with sessions of its
        own. Else the live one is what a caller in the middle of its run, or with an abandoned
        generator, has in its context. AgentTool's is known by its artifacts as well: a caller who
        takes each event in a task of its own loses the context.
        """
        task = asyncio.current_task()
        outer = _innermost.get()
        while outer is not None and not outer.live:
            outer = outer.outer
        sessions = context.session_service
        below = outer is not None and outer.sessions is not sessions and outer.task is not task
        nested = below or type(context.artifact_service).__name__ == CHILD_ARTIFACTS
        run = _RunnerRun(sessions, task, nested, outer if nested else None)
        with self._lock:
            while len(self._runs) >= MAX_OPEN_RUNS:
                self._runs.pop(next(iter(self._runs)))
            self._runs[context.invocation_id] = run
        return run

    def _ended(self, context: InvocationContext) -> _RunnerRun:
        # Without a record another plugin answered before this one was asked.
        run = self._runs.get(context.invocation_id) or self._noted(context)
        run.live, run.task = False, None
        self._runs.pop(context.invocation_id, None)
        invocation_cache.end(context.invocation_id)
        if _innermost.get() is run:
            _innermost.set(run.outer)
        return run

    @contextmanager
    def _unharmed(self, doing: str) -> Iterator[None]:
        """Keep a failure from the user's turn, which ADK would end with it."""
        try:
            yield
        except Exception:  # noqa: BLE001
            self.failures += 1
            _log.warning("plugin %s: %s failed", self.name, doing, exc_info=True)
