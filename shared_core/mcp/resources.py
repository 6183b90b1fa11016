"""The resources: what a client may show or attach without asking a question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError

from shared_core.core.domain import Scope
from shared_core.core.json_text import to_json
from shared_core.engine import MemoryEngine
from shared_core.errors import MemoryCoreError
from shared_core.mcp.whom import Whom
from shared_core.settings import redacted

RECENT = 20

Reader: TypeAlias = Callable[[MemoryEngine, Scope], Awaitable[str]]


async def profile(memory: MemoryEngine, scope: Scope) -> str:
    """Return the stored profile of a user, then what holds of them now, one statement a line."""
    stored = await memory.profiles.shown(scope)
    facts = "\n".join(fact.statement for fact in await memory.facts(scope))
    return "\n\n".join(part for part in (stored, facts) if part)


async def recent(memory: MemoryEngine, scope: Scope) -> str:
    """Return the newest memories of a user, newest first, as JSON."""
    found = await memory.list_memories(scope, limit=RECENT)
    return to_json(
        [
            {
                "key": one.key,
                "content": one.text,
                "kind": one.kind,
                "occurred_at": one.occurred_at.isoformat(),
            }
            for one in found
        ]
    )


def add_resources(server: MCPServer, memory: MemoryEngine, whom: Whom) -> None:
    """Add the profile and the recent memories: of the one user, and of a user by name."""

    async def profile_of(user_id: str) -> str:
        return await _read(memory, whom, user_id, profile)

    async def recent_of(user_id: str) -> str:
        return await _read(memory, whom, user_id, recent)

    server.resource("memory://users/{user_id}/profile", mime_type="text/plain")(profile_of)
    server.resource("memory://users/{user_id}/recent", mime_type="application/json")(recent_of)
    if whom.user is None:
        return

    async def own_profile() -> str:
        """Return the profile of the user, then what is known of them, one statement a line."""
        return await _read(memory, whom, None, profile)

    async def own_recent() -> str:
        """Return the newest memories of the user, newest first, as JSON."""
        return await _read(memory, whom, None, recent)

    server.resource("memory://profile", name="profile", mime_type="text/plain")(own_profile)
    server.resource("memory://recent", name="recent", mime_type="application/json")(own_recent)


async def _read(memory: MemoryEngine, whom: Whom, user_id: str | None, read: Reader) -> str:
    try:
        return await read(memory, whom.scope(user_id))
    except (ToolError, MemoryCoreError) as error:
        raise ResourceError(redacted(str(error))) from error
