"""HippocampusMiddleware: makes a LangChain agent store its turns and recall before it answers.

Needs `langchain` (pip install 'pg-hippocampus[langchain]').
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from langgraph_store.branches import NEVER, forked_at, is_checkpointed
from langgraph_store.llm import model_tokens
from langgraph_store.messages import is_of_a_user, messages_of, spoken_text, turns_of
from langgraph_store.reflection import HasEngine
from langgraph_store.run_identity import IdSource, RunIdentity, current_config, graph_below
from langgraph_store.run_messages import OpenRuns, RunKey, RunMessages
from langgraph_store.tools import memory_tools
from langgraph_store.turn_feed import TurnFeed
from shared_core import ExtractionStrategy, Fact, Hit, InvalidInput, Memory, Scope, run_sync
from shared_core.context import asks_nothing, composed, memory_block, past_memory, shown_memory
from shared_core.core import check_arguments, hint_at_inspector, log_failure, search_failed
from shared_core.errors import StorageUnavailable
from shared_core.nlp import TokenCounter, count_tokens

LIMIT = 10
"""Maximum number of recalled memories."""
MAX_AGE_S = 60.0
"""Seconds that a search result stays valid, because a cancelled run never reports its end."""
MAX_OPEN_QUESTIONS = 10_000
"""Maximum number of cached search results."""

_Key: TypeAlias = tuple[Scope, str]
_Handler: TypeAlias = Callable[[ModelRequest[Any]], ModelResponse[Any]]
_AsyncHandler: TypeAlias = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


class _RecalledContext(NamedTuple):
    """What a question finds.

    Attributes:
        summary: Of its thread.
        past: Facts that ended and that the question asks for.
        notice: What storing the message will forget.
    """

    hits: Sequence[Hit] = ()
    summary: Memory | None = None
    profile: str | None = None
    past: Sequence[Fact] = ()
    notice: str = ""


class HippocampusMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Stores the turns of each run, and shows the model matching memories before each answer.

        agent = create_agent(model, middleware=[HippocampusMiddleware(store, app="my_app")])

    Recalled memories are in the model's request only: they enter no state, checkpoint or memory.
    Each question is searched once; a message that asks nothing ("thanks!") is not. Turns are queued
    when the run ends. A failure never fails a turn: the middleware logs it as "hippocampus" and
    counts it in `failures`.

    Args:
        store: the store, or another object with an engine.
        app: as in create_reflection_node, like user_id, thread_id, delay_s, strategy and
            tool_results.
        ingest: whether to store turns.
        recall: whether to recall memories.
        max_tokens: token budget of the recalled block, including its frame. It holds the stored
            profile, facts, memories, and a summary of turns that the request lacks.
        count: the tokenizer. Default: o200k; "model" takes get_num_tokens of the answering model.
        deadline_s: seconds that a search may take. After it the model answers without memories.
            The start of a database and the load of a bundled model do not count; connecting to
            another server may take as long once more.
        place: "message" inserts a message before the user's and keeps the prompt before it
            cacheable; "system" extends the system message.
        with_tools: whether to give the agent remember, recall and forget.
    """

    def __init__(
        self,
        store: HasEngine,
        *,
        app: IdSource,
        user_id: IdSource | None = None,
        thread_id: IdSource | None = None,
        ingest: bool = True,
        recall: bool = True,
        max_tokens: int = 1000,
        count: TokenCounter | Literal["model"] = count_tokens,
        deadline_s: float = 2.0,
        place: Literal["message", "system"] = "message",
        delay_s: float | None = None,
        strategy: ExtractionStrategy | None = None,
        tool_results: bool = False,
        with_tools: bool = False,
    ) -> None:
        check_arguments(HippocampusMiddleware.__init__, locals())
        if max_tokens < 1:
            raise InvalidInput(f"max_tokens must be at least 1, got {max_tokens}")
        super().__init__()
        hint_at_inspector()
        self._engine = store.engine
        self._identity = RunIdentity(app, user_id, thread_id)
        self._feed = TurnFeed(
            store.engine,
            self._identity,
            delay_s=delay_s,
            tool_results=tool_results,
            strategy=strategy,
        )
        self._ingests = ingest
        self._recalls = recall
        self._max_tokens = max_tokens
        self._count = count
        self._deadline_s = deadline_s
        self._place = place
        self._failures = 0
        self._open = OpenRuns()
        self._answers: OrderedDict[_Key, tuple[float, _RecalledContext]] = OrderedDict()
        self._lock = threading.Lock()
        self.tools = memory_tools(store, app=app, user_id=user_id) if with_tools else []

    @property
    def failures(self) -> int:
        """The number of failed searches, hand-overs and calls of the memory's language model.

        Calls that another process makes, such as `hippocampus worker`, count in its metrics.
        """
        return self._failures + self._feed.failures + self._engine.runs.failed_model_calls

    def wrap_model_call(self, request: ModelRequest[Any], handler: _Handler) -> ModelResponse[Any]:
        """Show the model the memories about the user's message."""
        given = request.messages
        with self._shielded("recalling"):
            if (question := self._question(request)) is not None:
                answer = run_sync(self._search(*question, self._thread(request)))
                request = self._shown(request, answer)
        try:
            answered = handler(request)
        except Exception:
            with self._shielded("storing a failed run"):
                if (failed := self._asked(given, request.runtime)) is not None:
                    run_sync(self._feed.hand_over(*failed))
            raise
        with self._following():
            self._asked(given, request.runtime, answered.result)
        return answered

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: _AsyncHandler
    ) -> ModelResponse[Any]:
        """Do as wrap_model_call() from async code."""
        given = request.messages
        with self._shielded("recalling"):
            if (question := self._question(request)) is not None:
                answer = await self._search(*question, self._thread(request))
                # In a thread: the first count loads a vocabulary.
                request = await asyncio.to_thread(self._shown, request, answer)
        try:
            answered = await handler(request)
        except Exception:
            with self._shielded("storing a failed run"):
                if (failed := self._asked(given, request.runtime)) is not None:
                    await self._feed.hand_over(*failed)
            raise
        with self._following():
            self._asked(given, request.runtime, answered.result)
        return answered

    def before_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Note the messages with which the run begins: a middleware may cut them away."""
        with self._following():
            self._begin(messages_of(state, "messages"), runtime)

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Do as before_agent() from async code."""
        self.before_agent(state, runtime)

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Hand the turns of the run to the queue."""
        with self._shielded("storing a run"):
            if (ended := self._ended(state, runtime)) is not None:
                run_sync(ended)

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Do as after_agent() from async code."""
        with self._shielded("storing a run"):
            if (ended := self._ended(state, runtime)) is not None:
                await ended

    def _question(self, request: ModelRequest[Any]) -> tuple[Scope, _Key, str] | None:
        """Return the scope, the cache key and the text of the user's question, or None."""
        turn = _last_turn(request.messages)
        text = spoken_text(request.messages[turn]) if turn is not None else ""
        if not self._recalls or turn is None or asks_nothing(text):
            return None
        scope = self._identity.scope(current_config(), request.runtime)
        return scope, (scope, request.messages[turn].id or text), text

    async def _search(self, scope: Scope, key: _Key, text: str, thread_id: str) -> _RecalledContext:
        if (known := self._known(key)) is not None:
            return known
        await self._engine.warm_up(remote_s=self._deadline_s)  # the deadline does not count it
        try:
            async with self._deadline():
                hits = await self._engine.recall(scope, text, limit=LIMIT)
                summary, profile = await asyncio.gather(
                    self._engine.thread_summary(scope, thread_id),
                    self._engine.profiles.shown(scope),
                )
        except Exception as error:
            search_failed("langgraph", error)
            # Caches the failure, so that each model call of the run does not wait again.
            self._keep(key, _RecalledContext())
            raise
        past: Sequence[Fact] = ()
        with self._shielded("recalling what ended"):
            async with self._deadline():
                past = await self._engine.facts.asked_of_the_past(scope, text)
        notice = ""
        with self._shielded("looking for what is to be forgotten"):
            if self._ingests:
                async with self._deadline():
                    notice = await self._engine.forget_requests.notice(scope, text)
        answer = _RecalledContext(hits, summary, profile, past, notice)
        self._keep(key, answer)
        return answer

    @asynccontextmanager
    async def _deadline(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._deadline_s):
                yield
        except TimeoutError as error:
            what = f"the search took longer than deadline_s={self._deadline_s:g}"
            raise StorageUnavailable(what) from error

    def _known(self, key: _Key) -> _RecalledContext | None:
        """Return the cached answer to a question, and drop expired answers."""
        with self._lock:
            while self._answers and _is_over(next(iter(self._answers.values()))[0]):
                self._answers.popitem(last=False)
            found = self._answers.get(key)
        return found[1] if found else None

    def _keep(self, key: _Key, answer: _RecalledContext) -> None:
        with self._lock:
            self._answers.pop(key, None)  # keeps the oldest first
            self._answers[key] = (time.monotonic(), answer)
            while len(self._answers) > MAX_OPEN_QUESTIONS:
                self._answers.popitem(last=False)

    def _shown(self, request: ModelRequest[Any], answer: _RecalledContext) -> ModelRequest[Any]:
        """Return the request with the memories that it does not show yet."""
        thread_id = self._thread(request)
        new, summary, past = _not_in(request.messages, thread_id, answer)
        count = model_tokens(request.model) if self._count == "model" else self._count
        turn = _last_turn(request.messages)
        question = spoken_text(request.messages[turn]) if turn is not None else ""
        now = datetime.now(UTC)
        found = [past_memory(fact, now) for fact in past]
        block = memory_block(
            composed(question, found + [shown_memory(hit, now) for hit in new]),
            self._max_tokens,
            profile=answer.profile,
            summary=summary,
            notice=answer.notice,
            count=count,
        ).prompt
        if not block or turn is None:
            return request
        if self._place == "system":
            return request.override(system_message=_extended(request.system_message, block))
        messages: list[AnyMessage] = list(request.messages)
        messages.insert(turn, HumanMessage(block))
        return request.override(messages=messages)

    def _thread(self, request: ModelRequest[Any]) -> str:
        return self._identity.thread(current_config(), request.runtime)

    def _begin(self, messages: Sequence[BaseMessage], runtime: Runtime[Any] | None) -> None:
        """Open a run with its messages, and look for turns that left the thread before it."""
        if not self._ingests:
            return
        config = current_config()
        scope, thread_id, graph = key = self._run_key(config, runtime)
        forked = forked_at(config)
        run = RunMessages(forked_at=NEVER if graph and forked else forked)
        if not graph and forked is None and is_checkpointed(config):
            run.left = self._feed.removed(scope, thread_id, messages, at_begin=True)
        self._open.begin(key, run, messages)

    def _run_key(self, config: RunnableConfig, runtime: Runtime[Any] | None) -> RunKey:
        return (*self._feed.run(config, runtime), graph_below(config))

    def _asked(
        self,
        messages: Sequence[BaseMessage],
        runtime: Runtime[Any] | None,
        answers: Sequence[BaseMessage] = (),
    ) -> tuple[Scope, str, list[BaseMessage]] | None:
        """Note what the model was asked and answered; return the turns of the run so far."""
        if not self._ingests:
            return None
        key = self._run_key(current_config(), runtime)
        if self._open.of(key) is None:  # the run goes on after an interrupt, in this process
            self._begin(messages, runtime)
        run = self._open.of(key)
        if run is None:
            return None
        run.asked(messages, answers)
        return *key[:2], run.turns()

    def _ended(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> Coroutine[Any, Any, None] | None:
        """Return what hands over the turns of a run that ends, and drop what it had recalled."""
        messages = messages_of(state, "messages")
        config = current_config()
        turn = _last_turn(messages)
        if self._recalls and turn is not None:
            question = messages[turn].id or spoken_text(messages[turn])
            with self._lock:
                self._answers.pop((self._identity.scope(config, runtime), question), None)
        if not self._ingests:
            return None
        key = self._run_key(config, runtime)
        if self._open.of(key) is None:
            self._begin(messages, runtime)
        if (run := self._open.end(key, messages)) is None:
            return None
        return self._feed.hand_over(
            *key[:2], run.turns(), left=run.left, forked_at=run.forked_at, state=messages
        )

    @contextmanager
    def _following(self) -> Iterator[None]:
        """Do as _shielded(); a run without a user or a thread is logged at its end alone."""
        with self._shielded("following a run"), suppress(InvalidInput):
            yield

    @contextmanager
    def _shielded(self, doing: str) -> Iterator[None]:
        """Log and count a failure instead of failing the user's turn."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self._failures += 1
            log_failure(f"middleware: {doing}", error)


def _is_over(asked_at: float) -> bool:
    return time.monotonic() - asked_at >= MAX_AGE_S


def _last_turn(messages: Sequence[BaseMessage]) -> int | None:
    """Return the index of the user's last message."""
    places = range(len(messages) - 1, -1, -1)
    return next((place for place in places if is_of_a_user(messages[place])), None)


def _not_in(
    messages: Sequence[BaseMessage], thread_id: str, answer: _RecalledContext
) -> tuple[list[Hit], Memory | None, list[Fact]]:
    """Return the hits and the ended facts that messages do not contain, by text or by provenance.

    Also return the summary of the thread, if it covers turns that messages lack.
    """
    summary = answer.summary
    turns = turns_of(messages, thread_id, datetime.now(UTC), tool_results=True)
    there = {spoken_text(message) for message in messages}
    ids = {turn.event_id for turn in turns}
    if summary is not None and ids.issuperset(summary.source_event_ids):
        summary = None
    own = summary.memory_id if summary else None
    hits = [
        hit
        for hit in answer.hits
        if hit.memory.text not in there
        and hit.memory.memory_id != own
        and not (hit.memory.source_event_ids and ids.issuperset(hit.memory.source_event_ids))
    ]
    past = [
        fact
        for fact in answer.past
        if not (fact.source_event_ids and ids.issuperset(fact.source_event_ids))
    ]
    return hits, summary, past


def _extended(system: SystemMessage | None, block: str) -> SystemMessage:
    if system is None:
        return SystemMessage(block)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{block}"})
    content = [*system.content, {"type": "text", "text": block}]
    return system.model_copy(update={"content": content})
