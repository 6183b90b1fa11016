"""engine.erasures: erase everything of a user or a thread, and list the receipts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import check_label, scope_path
from shared_core.errors import InvalidInput, StorageUnavailable
from shared_core.ports.erasures import ErasureReceipt

if TYPE_CHECKING:
    from shared_core.jobs.queue import JobQueue
    from shared_core.lifecycle import Handle
    from shared_core.ports.storage import Storage

log = logging.getLogger("hippocampus")


class Erasures:
    """Erasures with receipts. Call it to list the receipts: engine.erasures(scope)."""

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
            raise InvalidInput("erasures takes a scope or an app, not both")
        if scope is not None:
            scope_path(scope)
        if app is not None:
            check_label(app, "app")
        storage = await self._handle.storage()
        return await storage.erasures.erasures(scope, app)

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
    """Drop the index that a large user had to themselves; its definition names them."""
    tenant = scope_path(scope)
    own = [index for index in await storage.indexes.tenant_indexes() if index.tenant == tenant]
    if not own:
        return
    try:
        async with storage.indexes.index_builder() as builder:
            for index in own if builder else ():
                await builder.drop(index.name)  # type: ignore[union-attr]
    except StorageUnavailable as error:
        log.warning("the index of an erased user is left to whoever may drop it: %s", error)
