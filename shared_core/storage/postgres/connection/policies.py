"""Runs policies on PostgreSQL: one message for each batch, the last one with the commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from shared_core.core.namespaces import common_prefix, from_path, to_path
from shared_core.errors import Conflict
from shared_core.ports.operations import (
    Insert,
    Last,
    Lock,
    Operation,
    Policy,
    PolicyFactory,
    Row,
    Select,
    TenantBusy,
    Verb,
)
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.operations import compiled
from shared_core.storage.postgres.connection.pipeline import Connection, Rows, Statement
from shared_core.storage.postgres.connection.statements import Step, statement, step

T = TypeVar("T")
VerbSteps: TypeAlias = Callable[..., Sequence[Step]]
"""Returns the steps of a verb from its arguments; its rows are those of the last step."""
_BEGIN: Statement = (b"BEGIN", {})
_BEGIN_READING: Statement = (b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", {})
_COMMIT: Statement = (b"COMMIT", {})
_ROLLBACK: Statement = (b"ROLLBACK", {})


@dataclass
class _Running:
    """A policy on its way through one attempt."""

    tenant: str
    policy: Policy[Any]
    rows: list[list[Row]] | None = None
    is_done: bool = False
    result: Any = None

    def next_batch(self) -> Sequence[Operation] | Last | None:
        """Return what the policy yields next, None at its end."""
        try:
            return self.policy.send(self.rows)  # type: ignore[arg-type] # None starts it
        except StopIteration as stop:
            self.is_done, self.result = True, stop.value
            return None


@dataclass
class PostgresPolicies:
    """The seam of the storage port: reads operations and runs policies."""

    _database: PostgresDatabase
    verbs: dict[str, VerbSteps] = field(default_factory=dict)

    async def read(self, tenant: str, operations: Sequence[Select]) -> list[list[Row]]:
        sent = [Step("select", *compiled(one, tenant)) for one in operations]
        return list(await self._database.run(tenant, *sent))

    async def query(self, tenant: str, reader: PolicyFactory[T]) -> T:
        [result] = await self._repeated([tenant], [reader], None)
        return result  # type: ignore[no-any-return]

    async def transact(self, tenant: str, policy: PolicyFactory[T], *, lock: Lock = "wait") -> T:
        [result] = await self._repeated([tenant], [policy], lock)
        return result  # type: ignore[no-any-return]

    async def transact_all(self, policies: Mapping[str, PolicyFactory[T]]) -> dict[str, T]:
        tenants = sorted(policies)
        results = await self._repeated(tenants, [policies[one] for one in tenants], "wait")
        return dict(zip(tenants, results, strict=True))

    async def _repeated(
        self, tenants: Sequence[str], factories: Sequence[PolicyFactory[Any]], lock: Lock | None
    ) -> list[Any]:
        """Run policies together, from their start again after a deadlock or a lost connection."""
        scope = to_path(common_prefix(from_path(tenant) for tenant in tenants))

        async def attempt(connection: Connection) -> list[Any]:
            pairs = zip(tenants, factories, strict=True)
            running = [_Running(tenant, make()) for tenant, make in pairs]
            opening = [
                *self._database.fresh_plans(connection),
                *self._opening(scope, tenants, lock),
            ]
            await self._run(connection, running, opening, lock)
            return [one.result for one in running]

        try:
            return await self._database.attempts(attempt)
        except psycopg.errors.UniqueViolation as error:
            table = error.diag.table_name
            raise Conflict(f"another writer added the same row of {table!r} meanwhile") from error

    def _opening(self, scope: str, tenants: Sequence[str], lock: Lock | None) -> list[Statement]:
        bound = self._database.bind(scope)
        if lock is None:
            return [_BEGIN_READING, *bound]
        values = {"tenants": list(tenants)}
        sent = [_BEGIN, *bound, step("hold_policies", values).statement]
        if lock == "wait":
            sent.append((statement("lock_tenants"), values))
        elif lock == "skip":
            sent.append((statement("try_lock_tenants"), values))
        return sent

    async def _run(
        self,
        connection: Connection,
        running: Sequence[_Running],
        opening: list[Statement],
        lock: Lock | None,
    ) -> None:
        try:
            while True:
                batches = [(one, one.next_batch()) for one in running if not one.is_done]
                batches = [(one, batch) for one, batch in batches if batch is not None]
                if not batches:  # a policy that never said Last wrote nothing
                    if not opening:
                        await self._send(connection, [_ROLLBACK])
                    return
                is_last = all(isinstance(batch, Last) for _, batch in batches)
                groups = [(one, *self._statements(one.tenant, batch)) for one, batch in batches]
                sent = [each for _, made, _ in groups for each in made]
                answers = await self._send(
                    connection, [*opening, *sent, *([_COMMIT] if is_last else [])]
                )
                if opening and lock == "skip" and not all(answers[len(opening) - 1][0]):
                    raise TenantBusy
                start, opening = len(opening), []
                for one, made, places in groups:
                    one.rows = [answers[start + place] for place in places]
                    start += len(made)
                if is_last:
                    _end(batches)
                    return
        except BaseException:
            await _roll_back(connection)
            raise

    async def _send(self, connection: Connection, sent: Sequence[Statement]) -> list[Rows]:
        return await connection.exchange(sent, prepare=self._database.prepares)

    def _statements(
        self, tenant: str, batch: Sequence[Operation] | Last | None
    ) -> tuple[list[Statement], list[int]]:
        """Return the statements of a batch, and the place of each operation's rows among them."""
        operations = batch.operations if isinstance(batch, Last) else batch or ()
        sent: list[Statement] = []
        places = []
        for operation in operations:
            if isinstance(operation, Verb):
                made = self.verbs[operation.name](tenant, *operation.arguments)
                sent += [one.statement for one in made]
            else:
                sent.append(compiled(operation, tenant))
                if isinstance(operation, Insert):
                    self._database.count_rows(len(operation.rows))
            places.append(len(sent) - 1)
        return sent, places


def _end(batches: Sequence[tuple[_Running, Any]]) -> None:
    """Let policies return after their last batch; no rows are sent to them."""
    for one, _ in batches:
        one.rows = []
        if one.next_batch() is not None:
            raise AssertionError("a policy yielded a batch after Last")


async def _roll_back(connection: Connection) -> None:
    if connection.closed or connection.pgconn.transaction_status == TransactionStatus.IDLE:
        return
    try:
        await connection.exchange([_ROLLBACK])
    except psycopg.Error:
        await connection.close()
