"""Forget memories by key, turn, thread, user or expiry; erase with receipts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from shared_core.core.domain import Namespace, Scope, ThreadId
from shared_core.core.ids import is_uuid, uuid7
from shared_core.core.namespaces import check_label, memories_namespace, scope_path, storable
from shared_core.core.shown import shown
from shared_core.core.telemetry import ERASED, FORGOTTEN, measured
from shared_core.core.validation import listed, names_of, whole_number
from shared_core.errors import InvalidInput, StorageUnavailable
from shared_core.jobs.queue import JobQueue
from shared_core.lifecycle import Handle
from shared_core.ports.erasures import ErasureReceipt
from shared_core.ports.items import ItemAddress
from shared_core.ports.storage import Storage

log = logging.getLogger("hippocampus")

MOST_SWEPT = 1_000_000


@measured("forget", FORGOTTEN)
async def forget(handle: Handle, scope: Scope, keys: str | UUID | Sequence[str | UUID]) -> int:
    """Delete memories by key or memory id; return the number of deleted rows."""
    scope_path(scope)
    names = names_of(keys)
    storage = await handle.storage()
    ids = [UUID(key) for key in names if is_uuid(key)]
    addresses: list[ItemAddress] = [(memories_namespace(scope), key) for key in names]
    addresses += await storage.items.resolve_ids(scope, ids) if ids else []
    return await storage.items.forget(list(dict.fromkeys(addresses))) if addresses else 0


@measured("forget_turns", FORGOTTEN)
async def forget_turns(
    handle: Handle, scope: Scope, thread_id: str, event_ids: Sequence[str]
) -> int:
    """Delete turns of a thread for good; return the number of deleted memories."""
    turns = names_of(event_ids, "event_ids")
    if not _may_exist(scope, thread_id):
        return 0
    storage = await handle.storage()
    return await storage.events.forget_turns(scope, ThreadId(thread_id), turns)


@measured("forget_thread", FORGOTTEN)
async def forget_thread(handle: Handle, scope: Scope, thread_id: str) -> int:
    """Delete all memories derived from a thread alone; return their number."""
    if not _may_exist(scope, thread_id):
        return 0
    storage = await handle.storage()
    return await storage.events.forget_scope(scope, ThreadId(thread_id))


@measured("forget_scope", FORGOTTEN)
async def forget_scope(handle: Handle, scope: Scope) -> int:
    """Delete all memories of a user; return their number."""
    storage = await handle.storage()
    return await storage.events.forget_scope(scope, None)


@measured("sweep_expired", FORGOTTEN)
async def sweep_expired(handle: Handle, prefix: Namespace, limit: int) -> int:
    """Delete at most `limit` expired memories below a namespace; return their number."""
    for label in listed(prefix, "prefix", '("app", "user")'):
        check_label(label, "a label of the prefix")
    whole_number(limit, "limit", 0, MOST_SWEPT)
    storage = await handle.storage()
    return await storage.items.sweep_expired(tuple(prefix), limit)


def _may_exist(scope: Scope, thread_id: str) -> bool:
    """Return whether a thread of this name can exist. Raises InvalidInput unless it is a text."""
    scope_path(scope)
    if not isinstance(thread_id, str):
        raise InvalidInput(f"thread_id must be a text, got {shown(thread_id)}")
    return storable(thread_id)


class Erasures:
    """Erases with receipts. Call it to list the receipts: engine.erasures(scope)."""

    def __init__(self, handle: Handle, jobs: JobQueue) -> None:
        self._handle = handle
        self._jobs = jobs

    async def __call__(
        self, scope: Scope | None = None, *, app: str | None = None
    ) -> Sequence[ErasureReceipt]:
        """Return the receipts of a user, of an application, or of all, newest first.

        This is the documented verb `engine.erasures(...)`.
        """
        if scope is not None and app is not None:
            raise InvalidInput("give a scope or an app, not both: a scope names its app")
        if scope is not None:
            scope_path(scope)
        if app is not None:
            check_label(app, "app")
        storage = await self._handle.storage()
        return await storage.erasures.erasures(scope, app)

    @measured("erase", ERASED, lambda receipt: receipt.counts.get("memories", 0))
    async def erase(self, scope: Scope, thread_id: str | None = None) -> ErasureReceipt:
        """Erase everything of a user, or of one thread, for good; return the receipt.

        engine.erase() lists what goes and what stays.
        """
        scope_path(scope)
        thread = None if thread_id is None else ThreadId(check_label(thread_id, "thread_id"))
        requested_at = self._handle.clock()
        storage = await self._handle.storage()
        receipt = await storage.erasures.erase(scope, thread, uuid7(), requested_at)
        self._jobs.look()
        if thread is None:
            await _drop_indexes(storage, scope)
        return receipt


async def _drop_indexes(storage: Storage, scope: Scope) -> None:
    """Drop the index of an erased user, because its definition holds the name of the user."""
    tenant = scope_path(scope)
    own = [index for index in await storage.indexes.tenant_indexes() if index.tenant == tenant]
    if not own:
        return
    try:
        async with storage.indexes.index_builder() as builder:
            for index in own if builder else ():
                await builder.drop(index.name)  # type: ignore[union-attr]
    except StorageUnavailable as error:
        log.warning("the index of an erased user could not be dropped: %s", error)
