"""A run is written once: not again after a lost connection, and not where another came first."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from uuid import UUID

import pymysql

from shared_core.errors import Conflict, MemoryCoreError
from shared_core.storage.oceanbase.database import Database
from shared_core.storage.oceanbase.transactions import Transaction

DUPLICATE = 1062


async def write_run(
    database: Database, tenant: str, run_id: UUID, work: Callable[[Transaction], None]
) -> None:
    """Do the work of a run, alone on its tenant.

    After a lost connection it may be there already: then it is done.
    """
    tries = count()

    def once(tx: Transaction) -> None:
        tx.lock(tenant)
        written = "SELECT 1 FROM runs WHERE tenant_id = %s AND run_id = %s"
        if not (next(tries) and tx.rows(written, tenant, run_id)):
            work(tx)

    await database.write(once)


def is_refused(error: MemoryCoreError) -> bool:
    """Tell whether what is there already stands against a run: a check of ours, or a key."""
    cause = error.__cause__
    return isinstance(error, Conflict) or (
        isinstance(cause, pymysql.MySQLError) and cause.args[:1] == (DUPLICATE,)
    )
