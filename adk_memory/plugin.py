"""MemoryPlugin: makes an ADK app store every settled turn and recall before it answers."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin

from adk_memory import invocation_cache
from adk_memory.events import events_to_remember, is_answered, is_settled, spoken_text
from adk_memory.memory_service import OpenMemoryService, in_time
from adk_memory.options import OWN, timezone_of
from adk_memory.recall_block import (
    insert_before_turn,
    not_drawn_from,
    preloaded,
    recall_block,
    shown_ids,
    shown_texts,
)
from shared_core import ExtractionStrategy, Fact, InvalidInput, Memory, MemoryEngine, Scope
from shared_core.context import asks_nothing
from shared_core.core import check_arguments, hint_at_inspector, log_failure
from shared_core.nlp import TokenCounter, count_tokens

_log = logging.getLogger("hippocampus")

MAX_OPEN_RUNS = 10_000
"""Maximum number of tracked runs: a cancelled run never reports its end."""

REMEMBER_S = 10.0
"""Seconds that storing a turn's events may take before it counts as a failure."""

DRAIN_S = 4.0
"""Seconds that close() waits for queued work."""
CLOSE_S = 4.3
"""Seconds after which close() waits for no work: ADK gives a plugin five."""
GRACE_S = 0.2
"""Seconds for closing a memory after that, and again for returning to ADK."""

CHILD_ARTIFACTS = "ForwardingArtifactService"
"""The artifact service that only AgentTool gives to a run, its child run."""


@dataclass(eq=False, slots=True)
class _RunnerRun:
    """One run of a runner. nested: it runs inside a tool of another run, such as AgentTool."""

    sessions: object
    task: asyncio.Task[object] | None
    nested: bool
    outer: _RunnerRun | None
    live: bool = True
    query: str = ""
    summary: Memory | None = None
    profile: str | None = None
    past: Sequence[Fact] = ()
    notice: str = ""
    has_context: bool = False
    recalling: asyncio.Lock = field(default_factory=asyncio.Lock)


_innermost: ContextVar[_RunnerRun | None] = ContextVar("hippocampus_run", default=None)


class MemoryPlugin(BasePlugin):
    """Stores the turns of each run, and shows the model matching memories before each answer.

        App(name="my_app", root_agent=agent, plugins=[MemoryPlugin()])
        adk api_server agents --extra_plugins adk_memory.MemoryPlugin

    It stores a settled run: answered, without an error, without an open long-running tool, and
    consumed up to its answer. Embedding and facts follow in the background. Recalled memories are
    in the model's request only; they enter no session and no memory. A message that asks nothing
    ("thanks!") recalls none. Nested runs (AgentTool) are ignored. A failure never fails a turn: the
    plugin logs it as "hippocampus" and counts it in `failures`. A setting with a wrong value is no
    such failure: where the plugin opens its own memory, the first run raises InvalidInput.

    Args:
        service: the memory. By default the runner's own if it is an OpenMemoryService, else a new
            OpenMemoryService().
        ingest: whether to store turns.
        recall: whether to recall memories.
        max_tokens: token budget of the recalled block, including its frame. It holds the stored
            profile, facts, memories, and a summary of session turns that the request lacks.
        count: the tokenizer of the model. Default: o200k.
        strategy: when stored turns are consolidated: after a number of turns or tokens, or a pause.
            Default: the strategy of the service.
        place: "message" inserts a message before the user's and keeps the prompt before it
            cacheable; "system" extends the system instruction.
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
        strategy: ExtractionStrategy | None = None,
        place: Literal["message", "system"] = "message",
    ) -> None:
        check_arguments(MemoryPlugin.__init__, locals())
        if max_tokens < 1:
            raise InvalidInput(f"max_tokens must be at least 1, got {max_tokens}")
        super().__init__(name)
        hint_at_inspector()
        self._failures = 0
        self._given = service
        self._own: OpenMemoryService | None = None
        self._ingests = ingest
        self._recalls = recall
        self._max_tokens = max_tokens
        self._count = count
        self._strategy = strategy
        self._place = place
        self._runs: dict[str, _RunnerRun] = {}
        self._used: set[OpenMemoryService] = set()
        self._engines: set[MemoryEngine] = set()
        self._closing: asyncio.Task[None] | None = None
        self._failed_before = 0
        self._lock = threading.Lock()

    @property
    def failures(self) -> int:
        """The number of failed searches, writes and calls of the memory's language model.

        Calls that another process makes, such as `hippocampus worker`, count in its metrics.
        """
        with self._lock:
            engines = tuple(self._engines)
        return self._failures + sum(engine.runs.failed_model_calls for engine in engines)

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Track the run, and open its search cache."""
        run = None
        with self._shielded("tracking a run"):
            run = self._tracked(invocation_context)
            run.query = spoken_text(invocation_context.user_content)
            _innermost.set(run)
            invocation_cache.begin(invocation_context.invocation_id)
        if run is not None and not run.nested and (self._ingests or self._recalls):
            with self._shielded("opening the memory", but=InvalidInput):  # a wrong setting
                self._service(invocation_context)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Show the model the memories about the user's message."""
        if self._recalls:
            with self._shielded("recalling"):
                await self._recall_into(llm_request, callback_context.get_invocation_context())

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Store the run if it is settled."""
        # An abandoned generator ends its run while it is being closed; only the exception shows it.
        closed_early = isinstance(sys.exception(), GeneratorExit | asyncio.CancelledError)
        with self._shielded("storing a run"):
            run = self._ended(invocation_context)
            if self._ingests and not run.nested:
                await self._remember(invocation_context, closed_early=closed_early)

    async def on_run_error_callback(
        self, *, invocation_context: InvocationContext, error: Exception
    ) -> None:
        """Stop tracking a failed run."""
        with self._shielded("tracking an error"):
            self._ended(invocation_context)

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all stored turns are embedded and consolidated; return False on a timeout.

        Raises:
            StorageUnavailable: the database cannot be reached.
        """
        with self._lock:
            used = tuple(self._used)
        return all(await asyncio.gather(*(service.flush(timeout_s) for service in used)))

    async def close(self) -> None:
        """Wait up to four seconds for queued work; close a memory that the plugin opened.

        ADK cancels a close that takes longer than five seconds. On a busy machine a part of it may
        take longer: this part goes on in the event loop.
        """
        with self._lock:
            used, own = self._used, self._own
            self._used, self._own = set(), None
        self._closing = asyncio.create_task(self._drain_and_close(used, own))
        await asyncio.wait({self._closing}, timeout=CLOSE_S + 2 * GRACE_S)

    async def _drain_and_close(
        self, used: set[OpenMemoryService], own: OpenMemoryService | None
    ) -> None:
        end = asyncio.get_running_loop().time() + CLOSE_S
        with self._shielded("draining"):
            drained = [False]
            with suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    drained = await asyncio.gather(*(service.flush(DRAIN_S) for service in used))
            if not all(drained):
                _log.warning("plugin %s: closed with work still in the queue", self.name)
        with self._shielded("closing"):
            if own is not None:
                async with asyncio.timeout_at(end + GRACE_S):
                    await own.close()

    async def _recall_into(self, llm_request: LlmRequest, context: InvocationContext) -> None:
        run = self._runs.get(context.invocation_id)
        if run is None or run.nested or asks_nothing(run.query) or preloaded(llm_request):
            return
        async with run.recalling:  # parallel agents wait for one search
            entries = await self._search(context, run.query)
            if not run.has_context:
                run.has_context = True
                if not self._is_away(self._service(context)):
                    run.summary, run.profile = await self._session_context(context)
                    with self._shielded("recalling what ended"):
                        run.past = await self._asked_of_the_past(context, run.query)
                    with self._shielded("looking for what is to be forgotten"):
                        run.notice = await self._notice(context, run.query)
        shown = shown_texts(llm_request)
        ids = shown_ids(shown, context.session.events)
        entries = not_drawn_from(ids, entries)
        past = not_drawn_from(ids, run.past)
        summary = run.summary
        if summary and ids.issuperset(summary.source_event_ids):
            summary = None
        # In a thread: the first count loads a vocabulary.
        block = await asyncio.to_thread(
            recall_block, entries, shown, self._max_tokens, question=run.query,
            now=datetime.now(UTC), past=past, profile=run.profile, summary=summary,
            notice=run.notice, count=self._count,
        )  # fmt: skip
        if block and self._place == "system":
            llm_request.append_instructions([block])
        elif block:
            insert_before_turn(llm_request, block, context.user_content)

    def _is_away(self, service: OpenMemoryService) -> bool:
        """Return whether the search failed as well; the database is waited for once only."""
        is_away = service.failed_searches > self._failed_before
        self._failed_before = service.failed_searches
        return is_away

    async def _session_context(
        self, context: InvocationContext
    ) -> tuple[Memory | None, str | None]:
        """Return the summary of the session and the stored profile, each None if missing."""
        service, session = self._service(context), context.session
        scope, engine = Scope(session.app_name, session.user_id), service.engine
        summary = await in_time(engine.thread_summary(scope, session.id), REMEMBER_S)
        return summary, await in_time(engine.profiles.shown(scope), REMEMBER_S)

    async def _asked_of_the_past(self, context: InvocationContext, query: str) -> Sequence[Fact]:
        """Return the ended facts that a question about the past asks for."""
        service, session = self._service(context), context.session
        scope = Scope(session.app_name, session.user_id)
        return await in_time(service.engine.facts.asked_of_the_past(scope, query), REMEMBER_S)

    async def _notice(self, context: InvocationContext, query: str) -> str:
        """Return what storing this message will forget, "" if it asks to forget nothing."""
        if not self._ingests:
            return ""
        requests = self._service(context).engine.forget_requests
        scope = Scope(context.session.app_name, context.session.user_id)
        return await in_time(requests.notice(scope, query), REMEMBER_S)

    async def _search(self, context: InvocationContext, query: str) -> Sequence[MemoryEntry]:
        service = self._service(context)
        app_name, user_id = context.session.app_name, context.session.user_id
        key = (id(service), app_name, user_id, query)
        # Cached here as well, so that a search that failed open is not repeated.
        response = invocation_cache.cached(key)
        if response is None:
            response = await service.search_memory(app_name=app_name, user_id=user_id, query=query)
            invocation_cache.store(key, response)
        return response.memories

    async def _remember(self, context: InvocationContext, *, closed_early: bool) -> None:
        session = context.session
        own = [event for event in session.events if event.invocation_id == context.invocation_id]
        live = context.live_request_queue is not None
        if getattr(context, "is_aborted", False) or not is_settled(own, live=live):
            return
        # A caller that leaves the loop at the answer consumed it; other agents may follow.
        answered = isinstance(context.agent, LlmAgent) and is_answered(own)
        if closed_early and not live and not answered:
            return
        service = self._service(context)
        zone = {"timezone": of_user} if (of_user := timezone_of(session.state)) else {}
        await service.engine.warm_up(model=False, remote_s=REMEMBER_S)
        ingestion = service.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            session_id=session.id,
            events=events_to_remember(session.events, context.invocation_id),
            custom_metadata={OWN: {"wait": False, "strategy": self._strategy, **zone}},
        )
        await in_time(ingestion, REMEMBER_S)

    def _service(self, context: InvocationContext) -> OpenMemoryService:
        with self._lock:
            service = self._given
            if service is None and isinstance(context.memory_service, OpenMemoryService):
                service = context.memory_service
            if service is None:
                service = self._own = self._own or OpenMemoryService()
            self._used.add(service)
            self._engines.add(service.engine)
            return service

    def _tracked(self, context: InvocationContext) -> _RunnerRun:
        """Return the record of a run, tracked until the run ends.

        A nested run starts below a live run, in another task and with its own session service.
        Otherwise the live run is a leftover in the context, e.g. of an abandoned generator. The
        artifact service identifies AgentTool too, because a caller that takes each event in a new
        task loses the context.
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
        # There is no record if another plugin answered before this one was called.
        run = self._runs.get(context.invocation_id) or self._tracked(context)
        run.live, run.task = False, None
        self._runs.pop(context.invocation_id, None)
        invocation_cache.end(context.invocation_id)
        if _innermost.get() is run:
            _innermost.set(run.outer)
        return run

    @contextmanager
    def _shielded(self, doing: str, *, but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
        """Log and count a failure, because ADK would end the user's turn with it.

        but: an error that shall end it.
        """
        try:
            yield
        except but:
            raise
        except Exception as error:  # noqa: BLE001
            self._failures += 1
            log_failure(f"plugin {self.name}: {doing}", error)
