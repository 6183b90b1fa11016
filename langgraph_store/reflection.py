"""create_reflection_node: a node that stores new messages in the background."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime

from langgraph_store.branches import forked_at, is_checkpointed
from langgraph_store.messages import messages_of
from langgraph_store.run_identity import IdSource, RunIdentity, current_config
from langgraph_store.turn_feed import TurnFeed
from shared_core import ExtractionStrategy, MemoryEngine, run_sync
from shared_core.core import check_arguments


class HasEngine(Protocol):
    """A PgHippocampusStore, or another object with a MemoryEngine."""

    @property
    def engine(self) -> MemoryEngine:
        """The memory behind the object."""
        ...


class ReflectionNode(Runnable[Any, dict[str, Any]]):
    """Hands new messages of the state to the queue and returns no change of it.

    A node for sync and async graphs; called as node(state, runtime) it is a hook, e.g. for
    LangChain's after_agent. failures: how many hand-overs failed; each is logged.
    """

    def __init__(self, feed: TurnFeed, *, messages_key: str, name: str) -> None:
        self.name = self.__name__ = name
        self._feed = feed
        self._messages_key = messages_key

    @property
    def failures(self) -> int:
        """Number of failed hand-overs."""
        return self._feed.failures

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        """Hand over the new messages of a state."""
        run_sync(self._hand_over(input, config, None))
        return {}

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> dict[str, Any]:
        """Like invoke(), from async code."""
        await self._hand_over(input, config, None)
        return {}

    def __call__(self, state: Any, runtime: Runtime[Any] | None = None) -> dict[str, Any]:
        """Hand over the new messages of a state, as a hook of an agent."""
        run_sync(self._hand_over(state, None, runtime))
        return {}

    def _hand_over(
        self, state: Any, config: RunnableConfig | None, runtime: Runtime[Any] | None
    ) -> Coroutine[Any, Any, None]:
        # Reads the run here: run_sync's loop has no access to its context.
        run = current_config(config)
        scope, thread_id = self._feed.run(run, runtime)
        messages = messages_of(state, self._messages_key)
        left: list[str] = []
        if is_checkpointed(run):
            left = self._feed.removed(scope, thread_id, messages, at_begin=False)
        return self._feed.hand_over(scope, thread_id, messages, left=left, forked_at=forked_at(run))


def create_reflection_node(
    store: HasEngine,
    *,
    app: IdSource,
    user_id: IdSource | None = None,
    thread_id: IdSource | None = None,
    messages_key: str = "messages",
    delay_s: float | None = None,
    strategy: ExtractionStrategy | None = None,
    session_end: bool = False,
    tool_results: bool = False,
    name: str = "reflect",
) -> ReflectionNode:
    """Return a node that stores the new messages of a graph's state in the background.

        builder.add_node("reflect", create_reflection_node(store, app="my_app", delay_s=30))

    It stores the turns and a job in one transaction and returns {}; a search by words finds them
    immediately. A worker in this process, or `hippocampus worker`, embeds and consolidates them. A
    turn is stored once, however often the node sees it. A run without a user or a thread raises
    InvalidInput. Other errors are logged and counted in the node's `failures`; the run goes on.

    Args:
        store: the store, or another object with an engine.
        app: the application; an id, or a function of the run's config and context.
        user_id: the user, likewise; for the default see RunIdentity.
        thread_id: the thread, likewise; for the default see RunIdentity.
        messages_key: the key of the messages in the state.
        delay_s: seconds between the last turn and its consolidation, instead of the strategy's.
        strategy: when turns are consolidated. Default: the memory's strategy.
        session_end: whether a session ends at this node, so that its turns are consolidated now.
        tool_results: whether results of tools are stored.
        name: the name of the node.
    """
    check_arguments(create_reflection_node, locals())
    feed = TurnFeed(
        store.engine,
        RunIdentity(app, user_id, thread_id),
        delay_s=delay_s,
        tool_results=tool_results,
        strategy=strategy,
        session_end=session_end,
    )
    return ReflectionNode(feed, messages_key=messages_key, name=name)
