"""The verbs of MemoryEngine that erase a user or a thread, and show the receipts."""

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
    from shared_core.ports.storage import Clock, Storage

log = logging.getLogger("hippocampus")


class ErasureVerbs:
    """Erasures: everything of somebody, in every table, with a receipt."""

    _storage: Storage
    _clock: Clock
    jobs: JobQueue

    async def open(self) -> None:
        raise NotImplementedError

    async def erase(self, scope: Scope, thread_id: str | None = None) -> ErasureReceipt:
        """Erase everything of a user, or of one thread, for good; return the receipt, which stays.

        Of a user: memories in every namespace with all that was drawn from them, session logs and
        their states, sessions, profiles, runs, jobs, policies, indexes. Tokens for this user alone
        are revoked, and the name goes from all. Of a thread: its turns, its session log, its jobs
        and runs, and what was drawn from it alone. What is left: a mark for each turn, so that the
        same turns are not remembered when they come again, and receipts.
        """
        scope_path(scope)
        thread = None if thread_id is None else ThreadId(check_label(thread_id, "thread_id"))
        requested_at = self._clock()
        await self.open()
        receipt = await self._storage.erase(scope, thread, uuid7(), requested_at)
        self.jobs.look()
        if thread is None:
            await self._drop_indexes(scope)
        return receipt

    async def erasures(
        self, scope: Scope | None = None, *, app: str | None = None
    ) -> Sequence[ErasureReceipt]:
        """Return the receipts of a user, of an application, or of all, newest first."""
        if scope is not None and app is not None:
            raise InvalidInput("erasures takes a scope or an app, not both")
        if scope is not None:
            scope_path(scope)
        if app is not None:
            check_label(app, "app")
        await self.open()
        return await self._storage.erasures(scope, app)

    async def _drop_indexes(self, scope: Scope) -> None:
        """Drop the index that a large user had to themselves; its definition names them."""
        tenant = scope_path(scope)
        own = [index for index in await self._storage.tenant_indexes() if index.tenant == tenant]
        if not own:
            return
        try:
            async with self._storage.index_builder() as builder:
                for index in own if builder else ():
                    await builder.drop(index.name)  # type: ignore[union-attr]
        except StorageUnavailable as error:
            log.warning("the index of an erased user is left to whoever may drop it: %s", error)
