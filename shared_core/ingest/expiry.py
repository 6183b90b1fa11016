"""Deletes expired memories and turns, tenant by tenant."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from shared_core.core.domain import Namespace
from shared_core.core.namespaces import rest_of
from shared_core.policies import expiry
from shared_core.ports.storage import Storage


async def sweep(storage: Storage, prefix: Namespace, limit: int, now: datetime) -> int:
    """Delete expired memories below a namespace with what rests on them; return their number.

    limit: maximum number of deleted memories. Users without expired rows are not locked.
    """
    gone = 0
    for tenant in await storage.items.expired_tenants(prefix, limit) if limit else ():
        sweeping = partial(expiry.sweep, rest_of(prefix), limit - gone, now)
        gone += await storage.transact(tenant, sweeping)
        if gone >= limit:
            break
    return gone
