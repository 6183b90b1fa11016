"""Forget memories by key, turn, thread, user or expiry; erase with receipts."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from shared_core.core.domain import Namespace, Scope, ThreadId
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import check_label, scope_path, storable, to_path
from shared_core.core.shown import shown
from shared_core.core.telemetry import ERASED, FORGOTTEN, measured
from shared_core.core.validation import listed, names_of, whole_number
from shared_core.errors import InvalidInput, StorageUnavailable
from shared_core.ingest.expiry import sweep
from shared_core.jobs.queue import JobQueue
from shared_core.lifecycle import Handle
from shared_core.policies import erasing, forgetting
from shared_core.policies.erasing import RECEIPTS, Erasure, receipt_of
from shared_core.policies.items import forget_keys
from shared_core.ports.erasures import ErasureReceipt
from shared_core.ports.operations import PolicyFactory, Select, one_of
from shared_core.ports.storage import Storage

log = logging.getLogger("hippocampus")

MOST_SWEPT = 1_000_000


@measured("forget", FORGOTTEN)
async def forget(handle: Handle, scope: Scope, keys: str | UUID | Sequence[str | UUID]) -> int:
    """Delete memories by key or memory id; return the number of deleted rows."""
    scope_path(scope)
    names = names_of(keys)
    storage = await handle.storage()
    if not names:
        return 0
    return await storage.transact(scope_path(scope), partial(forget_keys, names, handle.clock()))


@measured("forget_turns", FORGOTTEN)
async def forget_turns(
    handle: Handle, scope: Scope, thread_id: str, event_ids: Sequence[str]
) -> int:
    """Delete turns of a thread for good; return the number of deleted memories."""
    turns = names_of(event_ids, "event_ids")
    if not _may_exist(scope, thread_id):
        return 0
    named = [event_id for event_id in turns if storable(event_id)]
    storage = await handle.storage()
    forgotten = partial(forgetting.forget_turns, thread_id, named, handle.clock())
    return await storage.transact(scope_path(scope), forgotten)


async def forget_events(handle: Handle, scope: Scope, event_ids: Sequence[str]) -> int:
    """Delete turns for good in every thread that remembers one; return how many memories went."""
    named = [one for one in names_of(event_ids, "event_ids") if storable(one)]
    threads = Select(
        "memory_sources", ("thread_id",), (one_of("event_id", named),), is_distinct=True
    )
    [rows] = await (await handle.storage()).read(scope_path(scope), [threads])
    return sum([await forget_turns(handle, scope, thread, named) for (thread,) in rows])


@measured("forget_thread", FORGOTTEN)
async def forget_thread(handle: Handle, scope: Scope, thread_id: str) -> int:
    """Delete all memories derived from a thread alone; return their number."""
    if not _may_exist(scope, thread_id):
        return 0
    storage = await handle.storage()
    forgotten = partial(erasing.forget_scope, ThreadId(thread_id), handle.clock())
    return await storage.transact(scope_path(scope), forgotten)


@measured("forget_scope", FORGOTTEN)
async def forget_scope(handle: Handle, scope: Scope) -> int:
    """Delete all memories of a user; return their number."""
    storage = await handle.storage()
    forgotten = partial(erasing.forget_scope, None, handle.clock())
    return await storage.transact(scope_path(scope), forgotten)


@measured("sweep_expired", FORGOTTEN)
async def sweep_expired(handle: Handle, prefix: Namespace, limit: int) -> int:
    """Delete at most `limit` expired memories below a namespace; return their number."""
    for label in listed(prefix, "prefix", '("app", "user")'):
        check_label(label, "a label of the prefix")
    whole_number(limit, "limit", 0, MOST_SWEPT)
    return await sweep(await handle.storage(), tuple(prefix), limit, handle.clock())


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
        if scope is None:
            return await storage.erasures.receipts(app)
        tenant = scope_path(scope)
        [rows] = await storage.read(tenant, [RECEIPTS])
        return [receipt_of(tenant, row) for row in rows]

    @measured("erase", ERASED, lambda receipt: receipt.counts.get("memories", 0))
    async def erase(self, scope: Scope, thread_id: str | None = None) -> ErasureReceipt:
        """Erase everything of a user, or of one thread, for good; return the receipt.

        engine.erase() lists what goes and what stays.
        """
        scope_path(scope)
        thread = None if thread_id is None else ThreadId(check_label(thread_id, "thread_id"))
        requested_at = self._handle.clock()
        storage = await self._handle.storage()
        wanted = Erasure(
            scope=scope,
            thread_id=thread,
            erasure_id=uuid7(),
            requested_at=requested_at,
            salt=secrets.token_bytes(32),
        )
        receipt = await erase(storage, wanted, self._handle.clock())
        self._jobs.look()
        if thread is None:
            await _drop_indexes(storage, scope)
        return receipt


async def erase(storage: Storage, wanted: Erasure, now: datetime) -> ErasureReceipt:
    """Erase a user or a thread in one transaction; return the receipt."""
    tenant = scope_path(wanted.scope)
    of_user = partial(erasing.erase, wanted, now)
    if wanted.thread_id is not None:
        return await storage.transact(tenant, of_user)
    app = to_path((wanted.scope.app,))
    of_tokens = partial(erasing.erase_tokens, wanted.scope.user, now)
    both: dict[str, PolicyFactory[ErasureReceipt | None]] = {tenant: of_user, app: of_tokens}
    receipt = (await storage.transact_all(both))[tenant]
    assert receipt is not None
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
