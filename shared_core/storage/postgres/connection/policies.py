"""Runs policies on PostgreSQL: one message for each batch, the last one with the commit.

Each transaction leaves a mark with its rows. When the answer to a commit is lost, the next attempt
looks for the mark first: it then knows whether the transaction took place.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from shared_core.core.namespaces import common_prefix, from_path, to_path
from shared_core.errors import Conflict, StorageUnavailable
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
from shared_core.storage.postgres.connection.changes import (
    changed_addresses,
    changed_ids,
    note_step,
)
from shared_core.storage.postgres.connection.citus import place_of
from shared_core.storage.postgres.connection.database import (
    BEGIN_READING,
    COMMIT,
    CONFLICT,
    PostgresDatabase,
)
from shared_core.storage.postgres.connection.marks import Mark, is_marked
from shared_core.storage.postgres.connection.operations import compiled, tables_of
from shared_core.storage.postgres.connection.pipeline import Connection, Rows, Statement
from shared_core.storage.postgres.connection.pool import pauses_s
from shared_core.storage.postgres.connection.statements import Step, statement, step

T = TypeVar("T")
VerbSteps: TypeAlias = Callable[..., Sequence[Step]]
"""Returns the steps of a verb from its arguments.

Its rows are those of the step that has its name, or else of the last one.
"""
IN_DOUBT_S = 60.0
"""Seconds for which a missing answer is looked for where statements have no deadline."""
_BEGIN: Statement = (b"BEGIN ISOLATION LEVEL READ COMMITTED", {})
_ROLLBACK: Statement = (b"ROLLBACK", {})


@dataclass
class _Running:
    """A policy on its way through one attempt."""

    tenant: str
    policy: Policy[Any]
    rows: list[list[Row]] | None = None
    is_done: bool = False
    result: Any = None
    wrote: bool = False
    wrote_on_node: bool = False
    is_last: bool = False
    written: list[Operation] = field(default_factory=list)

    def next_batch(self) -> Sequence[Operation] | Last | None:
        """Return what the policy yields next, None at its end."""
        try:
            batch = self.policy.send(self.rows)  # type: ignore[arg-type] # None starts it
            self.is_last = isinstance(batch, Last)
            written = [one for one in _operations(batch) if not isinstance(one, Select)]
            self.wrote |= not self.is_last and bool(written)
            self.written += written
            self.wrote_on_node |= any(
                isinstance(one, Verb) or place_of(one.table) != "coordinator" for one in written
            )
            return batch
        except StopIteration as stop:
            self.is_done, self.result = True, stop.value
            return None


@dataclass
class _Work:
    """Policies that run as one transaction, through all its attempts.

    lock: None for policies that only read. results: of the attempt whose commit was sent; None once
    the server is known to have undone it. passed: of an attempt without a mark when the next one
    began; it may still commit, and then the mark of the next one is refused.
    """

    tenants: Sequence[str]
    factories: Sequence[PolicyFactory[Any]]
    lock: Lock | None
    results: list[Any] | None = None
    passed: list[Any] | None = None

    def __post_init__(self) -> None:
        # The last is a user, if there is one: what all users share may lie on another node.
        self.mark = Mark(self.tenants[-1])


@dataclass
class PostgresPolicies:
    """The seam of the storage port: reads operations and runs policies."""

    _database: PostgresDatabase
    verbs: dict[str, VerbSteps] = field(default_factory=dict)

    async def read(self, tenant: str, operations: Sequence[Select]) -> list[list[Row]]:
        selects = [compiled(one, tenant) for one in operations]
        if len(selects) < 2:
            return list(
                await self._database.run(tenant, *(Step("select", *one) for one in selects))
            )
        work = _Work([tenant], [], None)

        async def attempt(connection: Connection) -> list[list[Row]]:
            opening = self._opening(work, connection)
            try:
                rows = await self._send(connection, [*opening, *selects, COMMIT])
            except BaseException:
                await self._roll_back(connection)
                raise
            return rows[len(opening) : -1]

        return await self._database.attempts(attempt)

    async def query(self, tenant: str, reader: PolicyFactory[T]) -> T:
        [result] = await self._attempts(_Work([tenant], [reader], None))
        return result  # type: ignore[no-any-return]

    async def transact(self, tenant: str, policy: PolicyFactory[T], *, lock: Lock = "wait") -> T:
        [result] = await self._attempts(_Work([tenant], [policy], lock))
        return result  # type: ignore[no-any-return]

    async def transact_all(
        self, policies: Mapping[str, PolicyFactory[T]], *, lock: Lock = "wait"
    ) -> dict[str, T]:
        if not policies:
            return {}
        tenants = sorted(policies)
        work = _Work(tenants, [policies[one] for one in tenants], lock)
        return dict(zip(tenants, await self._attempts(work), strict=True))

    async def _attempts(self, work: _Work) -> list[Any]:
        """Run policies together, from their start again after a deadlock or a lost connection.

        While the answer to a commit is missing, the server is waited for as long as a statement
        may take.
        """
        until = None
        for pause_s in pauses_s():
            try:
                return await self._database.attempts(partial(self._attempt, work))
            except psycopg.errors.UniqueViolation as error:
                if is_marked(error) and work.passed is not None:
                    return work.passed
                tables = " and ".join(sorted(tables_of(error)))
                raise Conflict(f"another writer added the same row of {tables} first") from error
            except psycopg.errors.ForeignKeyViolation as error:
                tables = " and ".join(sorted(tables_of(error)))
                raise Conflict(f"a row of {tables} was deleted meanwhile") from error
            except StorageUnavailable as error:
                if work.results is None or work.lock is None:
                    raise
                until = until or time.monotonic() + (self._database.statement_s or IN_DOUBT_S)
                if time.monotonic() >= until:
                    raise StorageUnavailable(
                        f"{str(error).rstrip('.')}. The write may or may not be stored: check"
                        " before you repeat the call"
                    ) from error
            await asyncio.sleep(pause_s)
        raise AssertionError("unreachable")

    async def _attempt(self, work: _Work, connection: Connection) -> list[Any]:
        opening = self._opening(work, connection)
        is_looking = work.results is not None  # the answer of an earlier attempt was lost
        try:
            if work.results is not None:
                *_, marks = await self._send(connection, [*opening, work.mark.looked_for()])
                if marks:
                    await self._send(connection, [_ROLLBACK])
                    return work.results
                work.passed, work.results, opening = work.results, None, []
                is_looking = False
            return await self._run(connection, work, opening)
        except BaseException as error:
            if not connection.closed and not is_looking:
                work.results = None  # the server answered, and undid the transaction
            await self._roll_back(connection)
            is_refused = isinstance(error, psycopg.Error) and error.sqlstate == CONFLICT
            if is_refused and work.lock == "skip":
                raise TenantBusy from error
            raise

    def _opening(self, work: _Work, connection: Connection) -> list[Statement]:
        """Return the statements that begin a transaction, bind it and take its locks."""
        scope = to_path(common_prefix(from_path(tenant) for tenant in work.tenants))
        # After BEGIN: before it, they would begin a transaction of the default isolation.
        bound = [*self._database.fresh_plans(connection), *self._database.bind(scope)]
        if work.lock is None:
            return [BEGIN_READING, *bound]
        values = {"tenants": list(work.tenants)}
        sent = [_BEGIN, *bound, step("hold_policies", values).statement]
        if work.lock == "skip" and work.results is None:
            sent.append((statement("try_lock_tenants"), values))
        elif work.lock != "none":  # an attempt that may be committed is waited for
            sent.append((statement("lock_tenants"), values))
        return sent

    async def _run(
        self, connection: Connection, work: _Work, opening: list[Statement]
    ) -> list[Any]:
        pairs = zip(work.tenants, work.factories, strict=True)
        running = [_Running(tenant, make()) for tenant, make in pairs]
        is_begun = not opening
        last: list[tuple[_Running, Last]] = []
        while batches := _next_batches(running):
            last += [(one, batch) for one, batch in batches if isinstance(batch, Last)]
            groups = [
                (one, *self._statements(one.tenant, batch))
                for one, batch in batches
                if not isinstance(batch, Last)
            ]
            if not groups:
                continue  # the last batches wait for those of the other policies
            answers = await self._send(
                connection, [*opening, *(each for _, made, _ in groups for each in made)]
            )
            start, opening, is_begun = len(opening), [], True
            for one, made, places in groups:
                one.rows = [answers[start + place] for place in places]
                start += len(made)
        if last and any(one.wrote and not one.is_last for one in running):
            raise AssertionError("a policy that writes beside others ends with Last")
        writes = [each for one, batch in last for each in self._statements(one.tenant, batch)[0]]
        results = [one.result for one in running]
        if last:
            work.results = results
            has_written = writes or any(one.wrote for one in running)
            here = self._database.is_spread and not any(one.wrote_on_node for one in running)
            marks = work.mark.written(on_coordinator=here) if has_written and work.lock else []
            notes = self._notes(running) if marks else []
            await self._send(connection, [*opening, *writes, *marks, *notes, COMMIT])
        elif is_begun:  # policies that never said Last wrote nothing
            await self._send(connection, [_ROLLBACK])
        return results

    def _notes(self, running: Sequence[_Running]) -> list[Statement]:
        """Return what notes the memories that policies wrote, in the order of the tenants."""
        return [
            note.statement
            for one in sorted(running, key=lambda one: one.tenant)
            for note in self._database.noted(
                note_step(one.tenant, changed_ids(one.written), changed_addresses(one.written))
            )
        ]

    async def _send(self, connection: Connection, sent: Sequence[Statement]) -> list[Rows]:
        return await connection.exchange(sent, prepare=self._database.prepares)

    async def _roll_back(self, connection: Connection) -> None:
        if connection.closed or connection.pgconn.transaction_status == TransactionStatus.IDLE:
            return
        try:
            await self._send(connection, [_ROLLBACK])
        except psycopg.Error:
            await connection.close()

    def _statements(
        self, tenant: str, batch: Sequence[Operation] | Last
    ) -> tuple[list[Statement], list[int]]:
        """Return the statements of a batch, and the place of each operation's rows among them."""
        sent: list[Statement] = []
        places = []
        for operation in _operations(batch):
            if isinstance(operation, Verb):
                made = self.verbs[operation.name](tenant, *operation.arguments)
                names = [one.name for one in made]
                of_rows = names.index(operation.name) if operation.name in names else len(made) - 1
                places.append(len(sent) + of_rows)
                sent += [one.statement for one in made]
                continue
            sent.append(compiled(operation, tenant))
            places.append(len(sent) - 1)
            if isinstance(operation, Insert):
                self._database.count_rows(len(operation.rows))
        return sent, places


def _operations(batch: Sequence[Operation] | Last) -> Sequence[Operation]:
    return batch.operations if isinstance(batch, Last) else batch


def _next_batches(running: Sequence[_Running]) -> list[tuple[_Running, Sequence[Operation] | Last]]:
    """Return the next batch of each policy that has not ended.

    A policy ends with its last batch, before that is sent: its result is known by then.
    """
    batches = [(one, one.next_batch()) for one in running if not one.is_done]
    for one, batch in batches:
        if isinstance(batch, Last):
            one.rows = []
            if one.next_batch() is not None:
                raise AssertionError("a policy yielded a batch after Last")
    return [(one, batch) for one, batch in batches if batch is not None]
