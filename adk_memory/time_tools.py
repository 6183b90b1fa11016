"""recall_when as an ADK tool: `LlmAgent(tools=[recall, recall_when])`, on an OpenMemoryService."""

from __future__ import annotations

from typing import Any

from google.adk.tools.tool_context import ToolContext

from adk_memory.memory_service import OpenMemoryService
from adk_memory.tools import NO_SERVICE, explained
from shared_core import InvalidInput, Scope
from shared_core.recall import told

LIMIT = 20


@explained
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
    found = await context.memory_service.engine.slice(scope, when, query=about, limit=LIMIT)
    return told(found)
