"""Delete memories: by key, by turn, of a thread, of a user, and what has expired."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from shared_core.core.domain import Namespace, Scope, ThreadId
from shared_core.core.ids import is_uuid
from shared_core.core.namespaces import memories_namespace, scope_path, storable
from shared_core.core.validation import names_of
from shared_core.errors import InvalidInput
from shared_core.lifecycle import Handle
from shared_core.ports.items import ItemAddress


async def forget(handle: Handle, scope: Scope, keys: str | UUID | Sequence[str | UUID]) -> int:
    """Delete memories by key or memory id; return the number of deleted rows."""
    scope_path(scope)
    names = names_of(keys)
    storage = await handle.storage()
    ids = [UUID(key) for key in names if is_uuid(key)]
    addresses: list[ItemAddress] = [(memories_namespace(scope), key) for key in names]
    addresses += await storage.items.resolve_ids(scope, ids) if ids else []
    return await storage.items.forget(list(dict.fromkeys(addresses))) if addresses else 0


async def forget_turns(
    handle: Handle, scope: Scope, thread_id: str, event_ids: Sequence[str]
) -> int:
    """Delete turns of a thread for good; return the number of deleted memories."""
    turns = names_of(event_ids, "event_ids")
    if not _may_exist(scope, thread_id):
        return 0
    storage = await handle.storage()
    return await storage.events.forget_turns(scope, ThreadId(thread_id), turns)


async def forget_thread(handle: Handle, scope: Scope, thread_id: str) -> int:
    """Delete what was derived from a thread alone; return the number of deleted memories."""
    if not _may_exist(scope, thread_id):
        return 0
    storage = await handle.storage()
    return await storage.events.forget_scope(scope, ThreadId(thread_id))


async def forget_scope(handle: Handle, scope: Scope) -> int:
    """Delete all memories of a user; return their number."""
    storage = await handle.storage()
    return await storage.events.forget_scope(scope, None)


async def sweep_expired(handle: Handle, prefix: Namespace, limit: int) -> int:
    """Delete at most `limit` expired memories below a namespace; return their number."""
    storage = await handle.storage()
    return await storage.items.sweep_expired(prefix, limit)


def _may_exist(scope: Scope, thread_id: str) -> bool:
    """Return whether a thread of this name can be stored. Raises InvalidInput for no text."""
    scope_path(scope)
    if not isinstance(thread_id, str):
        raise InvalidInput(f"thread_id must be a text, not {thread_id!r:.80}")
    return storable(thread_id)
