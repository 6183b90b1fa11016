"""ADK tools for the memory: `LlmAgent(tools=[remember, recall, recall_when, forget])`.

They use the memory service of the runner; recall_when needs an OpenMemoryService. ADK shows their
docstrings to the model. Errors come back as text that the model can act on.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec

from google.adk.memory.memory_entry import MemoryEntry
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_memory.events import text_of_content
from adk_memory.memory_service import OpenMemoryService
from shared_core import InvalidInput, MemoryCoreError, Scope
from shared_core.core import id_of_text, log_failure
from shared_core.recall import told

SLICE_LIMIT = 20
"""Maximum number of memories that recall_when returns."""

Params = ParamSpec("Params")

NO_SERVICE = "This agent has no long-term memory: no memory service is configured."


def _with_error_text(
    tool: Callable[Params, Awaitable[dict[str, Any]]],
) -> Callable[Params, Awaitable[dict[str, Any]]]:
    """Return a tool that returns its error as text instead of failing the user's turn."""

    @functools.wraps(tool)
    async def safe(*args: Params.args, **kwargs: Params.kwargs) -> dict[str, Any]:
        try:
            return await tool(*args, **kwargs)
        except InvalidInput as error:
            return {"error": str(error)}
        except NotImplementedError:
            return {"error": f"The configured memory service cannot {tool.__name__}."}
        except MemoryCoreError as error:
            log_failure(f"tool {tool.__name__}", error)
            return {"error": "The memory cannot be reached right now. Try again later."}

    return safe


@_with_error_text
async def remember(text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Saves one fact about the user in long-term memory, so that later conversations know it.

    Use it when the user asks you to remember something, or tells a lasting fact or preference.

    Args:
      text: The fact as one full sentence that makes sense on its own, with names instead of
        pronouns. Example: "Ana is allergic to peanuts."

    Returns:
      The id of the memory, which `forget` takes; or an error.
    """
    _check(text, "text", tool_context)
    memory_id = id_of_text(text)
    content = types.Content(role="user", parts=[types.Part(text=text.strip())])
    entry = MemoryEntry(id=memory_id, content=content, author=tool_context.agent_name)
    await tool_context.add_memory(memories=[entry])
    return {"remembered": text.strip(), "id": memory_id}


@_with_error_text
async def recall(query: str, tool_context: ToolContext) -> dict[str, Any]:
    """Searches long-term memory for what is known about the user from earlier conversations.

    Use it before you say that you do not know something about the user.

    Args:
      query: What to look for, as a question or key words. Example: "food allergies"

    Returns:
      The memories found, best first, each with its id, text, author and time; or an error.
    """
    _check(query, "query", tool_context)
    found = await tool_context.search_memory(query)
    memories = []
    for entry in found.memories:
        shown = {
            "id": entry.id,
            "text": text_of_content(entry.content),
            "author": entry.author,
            "time": entry.timestamp,
        }
        memories.append({name: value for name, value in shown.items() if value})
    return {"memories": memories}


@_with_error_text
async def forget(memory_id: str, tool_context: ToolContext) -> dict[str, Any]:
    """Deletes one memory for good. Use it when the user asks you to forget something.

    Find the memory with `recall` first, and delete only what the user means. What was said, a fact
    drawn from it and a summary are memories of their own: `recall` again, and forget each of them.

    Args:
      memory_id: The id of the memory, as `recall` or `remember` returned it.

    Returns:
      The id that is forgotten; or an error.
    """
    _check(memory_id, "memory_id", tool_context)
    context = tool_context.get_invocation_context()
    delete = getattr(context.memory_service, "delete_memory", None)
    if delete is None:  # services had no such method before google-adk 2.13
        raise NotImplementedError
    session = context.session
    await delete(app_name=session.app_name, user_id=session.user_id, memory_id=memory_id)
    return {"forgotten": memory_id, "next": "recall again: other memories may say the same"}


@_with_error_text
async def recall_when(when: str, tool_context: ToolContext, about: str = "") -> dict[str, Any]:
    """Looks up what was said or happened at a time, in long-term memory.

    Use it when the user asks about a day, a week or a date rather than about a thing.

    Args:
      when: One time, as the user would say it: "last Tuesday", "two weeks ago", "last 7 days",
        "2024-05-01", "from 2024-05-01 to 2024-05-10", or in Chinese.
      about: Optional. What to look for within that time, as a question or key words.

    Returns:
      The time that was understood and the memories of it, newest first (with about: best first),
      each with its id, text, author and time; or an error.
    """
    context = tool_context.get_invocation_context()
    if context.memory_service is None:
        raise InvalidInput(NO_SERVICE)
    if not isinstance(context.memory_service, OpenMemoryService):
        raise NotImplementedError
    scope = Scope(context.session.app_name, context.session.user_id)
    found = await context.memory_service.engine.slice(scope, when, query=about, limit=SLICE_LIMIT)
    return told(found)


def _check(argument: str, name: str, tool_context: ToolContext) -> None:
    """Raise InvalidInput for a blank argument, or without a memory service."""
    if tool_context.get_invocation_context().memory_service is None:
        raise InvalidInput(NO_SERVICE)
    if not isinstance(argument, str) or not argument.strip():
        raise InvalidInput(f"{name} is empty: nothing was done")
