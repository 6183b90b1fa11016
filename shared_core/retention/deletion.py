"""Everything that takes memories away: forgetting by key, turn, thread and user, and expiry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from shared_core.core.domain import Namespace, Scope, ThreadId
from shared_core.core.ids import is_uuid
from shared_core.core.namespaces import memories_namespace, scope_path, storable
from shared_core.core.validation import names_of
from shared_core.errors import InvalidInput
from shared_core.ports.items import ItemAddress

if TYPE_CHECKING:
    from shared_core.ports.storage import Clock, Storage


class Forgetting:
    """Deletions of one storage. Every verb opens the memory first.

    erased: called after what belongs to a thread or a user went, jobs included.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        open_memory: Callable[[], Awaitable[None]],
        erased: Callable[[], None],
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._open = open_memory
        self._erased = erased

    async def forget(self, scope: Scope, keys: str | UUID | Sequence[str | UUID]) -> int:
        """Delete memories by key or memory id; return how many rows went."""
        scope_path(scope)
        named = names_of(keys)
        await self._open()
        ids = [UUID(key) for key in named if is_uuid(key)]
        addresses: list[ItemAddress] = [(memories_namespace(scope), key) for key in named]
        addresses += await self._storage.resolve_ids(scope, ids) if ids else []
        return await self._storage.forget(list(dict.fromkeys(addresses))) if addresses else 0

    async def turns(self, scope: Scope, thread_id: str, event_ids: Sequence[str]) -> int:
        """Forget turns of a thread for good, by their event ids; return how many memories went."""
        turns = names_of(event_ids, "event_ids")
        if not _is_stored(scope, thread_id):
            return 0
        await self._open()
        return await self._storage.forget_turns(scope, ThreadId(thread_id), turns)

    async def thread(self, scope: Scope, thread_id: str) -> int:
        """Erase all that was drawn from a thread alone; return how many memories went."""
        return await self._all_of(scope, ThreadId(thread_id)) if _is_stored(scope, thread_id) else 0

    async def scope(self, scope: Scope) -> int:
        """Erase all memories of a user; return how many went."""
        return await self._all_of(scope, None)

    async def expired(self, prefix: Namespace, limit: int) -> int:
        """Delete at most limit expired memories below a namespace; return how many went."""
        await self._open()
        return await self._storage.sweep_expired(prefix, limit)

    async def _all_of(self, scope: Scope, thread: ThreadId | None) -> int:
        await self._open()
        went = await self._storage.forget_scope(scope, thread)
        self._erased()
        return went


def _is_stored(scope: Scope, thread_id: str) -> bool:
    """Return whether there may be such a thread. Raises InvalidInput for what is no id."""
    scope_path(scope)
    if not isinstance(thread_id, str):
        raise InvalidInput(f"thread_id must be a text, not {thread_id!r:.80}")
    return storable(thread_id)
