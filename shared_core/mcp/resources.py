"""The resources of the server: what a client may show or attach without a question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError

from shared_core.core.domain import Scope
from shared_core.core.json_text import to_json
from shared_core.engine import MemoryEngine
from shared_core.errors import MemoryCoreError
from shared_core.mcp.access import ServedUsers
from shared_core.mcp.tools import escaped
from shared_core.settings import redacted

RECENT = 20
"""Number of memories in the resource of recent memories."""


def add_resources(server: MCPServer, memory: MemoryEngine, users: ServedUsers) -> None:
    """Add the profile and the recent memories: by user name, and without one for a fixed user."""

    async def read(
        user_id: str | None, reader: Callable[[MemoryEngine, Scope], Awaitable[object]]
    ) -> str:
        try:
            return await asyncio.to_thread(_shown, await reader(memory, users.scope(user_id)))
        except (ToolError, MemoryCoreError) as error:
            raise ResourceError(redacted(str(error))) from error

    async def profile_of(user_id: str) -> str:
        return await read(user_id, _profile)

    async def recent_of(user_id: str) -> str:
        return await read(user_id, _recent)

    server.resource("memory://users/{user_id}/profile", mime_type="text/plain")(profile_of)
    server.resource("memory://users/{user_id}/recent", mime_type="application/json")(recent_of)
    if users.user is None:
        return

    async def own_profile() -> str:
        """Return the profile of the user, then the current facts, one statement per line."""
        return await read(None, _profile)

    async def own_recent() -> str:
        """Return the newest memories of the user, newest first, as JSON."""
        return await read(None, _recent)

    server.resource("memory://profile", name="profile", mime_type="text/plain")(own_profile)
    server.resource("memory://recent", name="recent", mime_type="application/json")(own_recent)


def _shown(answer: object) -> str:
    """Return an answer as the text of a resource: escaped, and as JSON unless it is a text."""
    answer = escaped(answer)
    return answer if isinstance(answer, str) else to_json(answer)


async def _profile(memory: MemoryEngine, scope: Scope) -> str:
    stored = await memory.profiles.shown(scope)
    facts = "\n".join(fact.statement for fact in await memory.facts(scope))
    return "\n\n".join(part for part in (stored, facts) if part)


async def _recent(memory: MemoryEngine, scope: Scope) -> list[dict[str, str]]:
    return [
        {
            "key": one.key,
            "content": one.text,
            "kind": one.kind,
            "occurred_at": one.occurred_at.isoformat(),
        }
        for one in await memory.list_memories(scope, limit=RECENT)
    ]
