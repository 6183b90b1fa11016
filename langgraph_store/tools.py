"""remember, recall and forget as LangChain tools: `create_agent(tools=memory_tools(store, ...))`.

LangChain shows their docstrings to the model. Errors come back as text that the model can act on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool

from langgraph_store.reflection import HasEngine
from langgraph_store.run_identity import IdSource, RunIdentity
from shared_core import InvalidInput, MemoryCoreError, MemoryEngine, NewMemory, Scope, run_sync
from shared_core.core import check_arguments, id_of_text, log_failure
from shared_core.recall import fitting, told

_log = logging.getLogger("hippocampus")

LIMIT = 10
"""Maximum number of memories that recall returns."""
SLICE_LIMIT = 20
"""Maximum number of memories that recall_when returns."""
MAX_CHARACTERS = 8_000
"""Maximum total characters of recalled texts; further text is truncated or dropped."""

ToolResult: TypeAlias = dict[str, Any]


class _Verbs:
    """The actions of the tools, and their error messages."""

    def __init__(self, engine: MemoryEngine, identity: RunIdentity) -> None:
        self._engine = engine
        self._identity = identity

    async def remember(self, scope: Scope, text: str) -> ToolResult:
        key = id_of_text(text)
        await self._engine.remember(scope, NewMemory(text=text, key=key, author="agent"))
        return {"remembered": text, "id": key}

    async def recall(self, scope: Scope, query: str) -> ToolResult:
        memories = []
        hits = await self._engine.recall(scope, query, limit=LIMIT)
        for hit, text in fitting(hits, MAX_CHARACTERS):
            shown = {
                "id": hit.memory.key,
                "text": text,
                "author": hit.memory.author,
                "time": hit.memory.occurred_at.isoformat(),
            }
            memories.append({name: value for name, value in shown.items() if value})
        return {"memories": memories}

    def recall_when(self, about: str) -> Callable[[Scope, str], Awaitable[ToolResult]]:
        async def recall(scope: Scope, when: str) -> ToolResult:
            return told(await self._engine.slice(scope, when, query=about, limit=SLICE_LIMIT))

        return recall

    async def forget(self, scope: Scope, memory_id: str) -> ToolResult:
        if await self._engine.forget(scope, memory_id):
            return {"forgotten": memory_id, "next": "recall again: other memories may say the same"}
        raise InvalidInput(f"no memory has the id {memory_id!r}: find it with recall first")

    def answer(
        self,
        verb: Callable[[Scope, str], Awaitable[ToolResult]],
        argument: str,
        config: RunnableConfig,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Return the result of an action, or an error message, so that no turn fails."""
        # Reads the run here: run_sync's loop has no access to its context.
        try:
            scope = self._identity.scope(config)
        except InvalidInput as error:
            _log.warning("a memory tool has no user: %s", error)
            return _error("This agent has no long-term memory: the run has no user.")
        if not argument.strip():
            return _error("The argument is empty: nothing was done.")
        return self._answer(verb, argument.strip(), scope)

    async def _answer(
        self, verb: Callable[[Scope, str], Awaitable[ToolResult]], argument: str, scope: Scope
    ) -> ToolResult:
        try:
            return await verb(scope, argument)
        except InvalidInput as error:
            return {"error": str(error)}
        except MemoryCoreError as error:
            log_failure("a memory tool", error)
            return {"error": "The memory cannot be reached right now. Try again later."}


async def _error(text: str) -> ToolResult:
    return {"error": text}


def memory_tools(
    store: HasEngine, *, app: IdSource, user_id: IdSource | None = None, with_time: bool = False
) -> list[BaseTool]:
    """Return the tools remember, recall and forget, for sync and async agents.

    Args:
        app: as in create_reflection_node; the run sets the scope, never the model.
        user_id: as in create_reflection_node; the run sets the scope, never the model.
        with_time: also return recall_when, which finds the memories of a time.
    """
    check_arguments(memory_tools, locals())
    verbs = _Verbs(store.engine, RunIdentity(app, user_id))

    def remember(text: str, config: RunnableConfig) -> ToolResult:
        """Saves one fact about the user in long-term memory, so that later conversations know it.

        Use it when the user asks you to remember something, or tells a lasting fact or preference.
        Returns the id of the memory, which `forget` takes; or an error.

        Args:
            text: The fact as one full sentence that makes sense on its own, with names instead of
                pronouns. Example: "Ana is allergic to peanuts."
        """
        return run_sync(verbs.answer(verbs.remember, text, config))

    async def aremember(text: str, config: RunnableConfig) -> ToolResult:
        return await verbs.answer(verbs.remember, text, config)

    def recall(query: str, config: RunnableConfig) -> ToolResult:
        """Searches long-term memory for what is known about the user from earlier conversations.

        Use it before you say that you do not know something about the user. Returns the memories
        found, best first, each with its id, text, author and time; or an error.

        Args:
            query: What to look for, as a question or key words. Example: "food allergies"
        """
        return run_sync(verbs.answer(verbs.recall, query, config))

    async def arecall(query: str, config: RunnableConfig) -> ToolResult:
        return await verbs.answer(verbs.recall, query, config)

    def forget(memory_id: str, config: RunnableConfig) -> ToolResult:
        """Deletes one memory for good. Use it when the user asks you to forget something.

        Find the memory with `recall` first, and delete only what the user means. What was said, a
        fact drawn from it and a summary are memories of their own: `recall` again, and forget each
        of them. Returns the id that is forgotten; or an error.

        Args:
            memory_id: The id of the memory, as `recall` or `remember` returned it.
        """
        return run_sync(verbs.answer(verbs.forget, memory_id, config))

    async def aforget(memory_id: str, config: RunnableConfig) -> ToolResult:
        return await verbs.answer(verbs.forget, memory_id, config)

    def recall_when(when: str, config: RunnableConfig, about: str = "") -> ToolResult:
        """Looks up what was said or happened at a time, in long-term memory.

        Use it when the user asks about a day, a week or a date rather than about a thing. Returns
        the time that was understood and the memories of it, newest first (with about: best first),
        each with its id, text, author and time; or an error.

        Args:
            when: One time, as the user would say it: "last Tuesday", "two weeks ago", "last 7
                days", "2024-05-01", "from 2024-05-01 to 2024-05-10", or in Chinese.
            about: Optional. What to look for within that time, as a question or key words.
        """
        return run_sync(verbs.answer(verbs.recall_when(about), when, config))

    async def arecall_when(when: str, config: RunnableConfig, about: str = "") -> ToolResult:
        return await verbs.answer(verbs.recall_when(about), when, config)

    pairs = [(remember, aremember), (recall, arecall), (forget, aforget)]
    if with_time:
        pairs.append((recall_when, arecall_when))
    return [
        StructuredTool.from_function(sync, coroutine=coroutine, parse_docstring=True)
        for sync, coroutine in pairs
    ]
