"""Runs policies as transactions of an OceanBaseDatabase (shared_core.ports.operations)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from shared_core.ports.operations import Batch, Last, Lock, PolicyFactory, Row, Select, TenantBusy
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.operations import Operations
from shared_core.storage.oceanbase.connection.transactions import Transaction

T = TypeVar("T")
_BEFORE = "before_policy"
"""The name of the savepoint before a policy."""


class PolicyRunner:
    """Runs policies; the four methods of the storage port that take operations."""

    def __init__(self, database: OceanBaseDatabase, operations: Operations) -> None:
        self._database = database
        self._operations = operations

    async def read(self, tenant: str, operations: Sequence[Select]) -> list[list[Row]]:
        """Return the rows of each operation, all of one moment."""
        return await self._database.read(
            lambda tx: [self._operations.run(tx, tenant, one) for one in operations]
        )

    async def query(self, tenant: str, reader: PolicyFactory[T]) -> T:
        """Return what a policy returns that only reads; all its batches see one moment."""

        def work(tx: Transaction) -> T:
            result, _ = self._driven(tx, tenant, reader)
            assert not tx.wrote, "a policy of query() only reads"
            return result

        return await self._database.read(work)

    async def transact(self, tenant: str, policy: PolicyFactory[T], *, lock: Lock = "wait") -> T:
        """Run a policy as one transaction of its tenant and return what it returns."""

        def work(tx: Transaction) -> T:
            if lock == "skip":
                _lock_free(tx, tenant)
            result, is_whole = self._driven(tx, tenant, policy)
            if not is_whole:
                _undo(tx)
            return result

        return await self._database.write(work, *([tenant] if lock == "wait" else []))

    async def transact_all(
        self, policies: Mapping[str, PolicyFactory[T]], *, lock: Lock = "wait"
    ) -> dict[str, T]:
        """Run one policy for each tenant, all as one transaction; return their results."""

        def work(tx: Transaction) -> dict[str, T]:
            if lock == "skip":
                _lock_free(tx, *policies)
            results = dict[str, T]()
            for tenant, policy in policies.items():
                wrote = tx.wrote
                tx.run(f"SAVEPOINT {_BEFORE}")
                results[tenant], is_whole = self._driven(tx, tenant, policy)
                if not is_whole:
                    tx.run(f"ROLLBACK TO SAVEPOINT {_BEFORE}")
                    tx.wrote = wrote
            return results

        return await self._database.write(work, *(policies if lock == "wait" else []))

    def _driven(self, tx: Transaction, tenant: str, make: PolicyFactory[T]) -> tuple[T, bool]:
        """Run a policy; return its result, and whether its last batch was `Last`."""
        policy = make()
        batch: Batch = []
        try:
            batch = next(policy)
            while not isinstance(batch, Last):
                rows = [self._operations.run(tx, tenant, one) for one in batch]
                batch = policy.send(rows)
            for one in batch.operations:
                self._operations.run(tx, tenant, one)
            policy.send([])
        except StopIteration as end:
            return end.value, isinstance(batch, Last)
        finally:
            policy.close()
        raise AssertionError("a policy yielded a batch after Last")


def _undo(tx: Transaction) -> None:
    tx.connection.rollback()
    tx.wrote = False


def _lock_free(tx: Transaction, *tenants: str) -> None:
    """Lock tenants. Raises TenantBusy if another transaction holds one of their locks."""
    missing = set(tenants) - tx.lock_free(tenants)
    if not missing:
        return
    held = tx.column("SELECT tenant_id FROM tenants WHERE tenant_id IN %s", [sorted(missing)])
    if held:
        raise TenantBusy(f"another transaction holds the lock of {held[0]!r}")
    tx.insert("tenants", ["tenant_id"], [[name] for name in sorted(missing)], ignore=True)
    tx.connection.commit()
    tx.connection.begin()
    tx.wrote = False
    if busy := set(tenants) - tx.lock_free(tenants):
        raise TenantBusy(f"another transaction holds the lock of {min(busy)!r}")
