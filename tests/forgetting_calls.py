"""Calls policies of forgetting, erasing and items on a storage, as the services do."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.namespaces import scope_path, storable, tenant_of
from shared_core.policies import erasing, forgetting, items
from shared_core.ports.erasures import ErasureReceipt
from shared_core.ports.items import ItemAddress
from shared_core.ports.storage import Storage
from shared_core.retention import deletion


async def forget(storage: Storage, addresses: Sequence[ItemAddress], now: datetime) -> int:
    """Forget items of one tenant."""
    forgotten = partial(items.forget_items, addresses, now)
    return await storage.transact(tenant_of(addresses[0][0]), forgotten)


async def forget_turns(
    storage: Storage, scope: Scope, thread_id: str, event_ids: Sequence[str], now: datetime
) -> int:
    named = [event_id for event_id in event_ids if storable(event_id)]
    forgotten = partial(forgetting.forget_turns, thread_id, named, now)
    return await storage.transact(scope_path(scope), forgotten)


async def forget_scope(
    storage: Storage, scope: Scope, thread_id: ThreadId | None, now: datetime
) -> int:
    return await storage.transact(scope_path(scope), partial(erasing.forget_scope, thread_id, now))


async def close_session(
    storage: Storage, scope: Scope, thread_id: ThreadId, now: datetime, *, forget: bool
) -> None:
    closing = partial(erasing.close_session, thread_id, now, forget=forget)
    await storage.transact(scope_path(scope), closing)


async def erase(
    storage: Storage, scope: Scope, thread_id: ThreadId | None, erasure_id: UUID, now: datetime
) -> ErasureReceipt:
    wanted = erasing.Erasure(
        scope=scope, thread_id=thread_id, erasure_id=erasure_id, requested_at=now, salt=bytes(32)
    )
    return await deletion.erase(storage, wanted, now)
