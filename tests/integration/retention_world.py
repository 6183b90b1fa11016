"""A memory with a clock that tests move, and concurrent transactions that block it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest
from turns import Clock, said
from waiting import until

from shared_core import MemoryEngine, RetentionPolicy, Scope, open_memory, run_sync
from shared_core.core.namespaces import scope_path
from shared_core.knowledge.consolidation import RunReport
from shared_core.policies import retention
from shared_core.ports.retention import Kept
from shared_core.retention.service import Retention

ANN, BOB = Scope("app", "ann"), Scope("app", "bob")
ALL = RetentionPolicy(
    min_age_days=7, archive_threshold=1, archive_after_days=5, erase_threshold=1, erase_after_days=5
)
"""Demotes after 19.5 days, archives five days later, erases five days after that."""
FACTS = RetentionPolicy(
    min_age_days=1, threshold=1, archive_threshold=None, erase_threshold=1, erase_after_days=1
)
"""Demotes after a day, erases a day later."""

KEPT = ["embedding_models", "schema_migrations"]
"""Tables whose rows a test leaves to the next: the memory that both use has read them."""

T = TypeVar("T")


@dataclass
class World:
    """An open memory, its clock, and other connections to its database."""

    memory: MemoryEngine
    dsn: str
    clock: Clock

    @property
    def now(self) -> datetime:
        return self.clock.now

    @property
    def retention(self) -> Retention:
        return self.memory.retention

    def go(self, days: float) -> None:
        self.clock.forward(days=days)

    async def say(self, *texts: str, thread: str = "t", scope: Scope = ANN, **more: Any) -> None:
        turns = [said(text, text, self.now, **more) for text in texts]
        await self.memory.append_events(scope, thread, turns)

    async def read(self, text: str) -> RunReport:
        """Let Ann say something, and have it read now."""
        await self.say(text)
        return await self.memory.consolidate(ANN, "t")

    async def fade(self, *days: float) -> list[dict[str, int]]:
        """Let days go by, and forget what has faded, once for each number; return the counts."""
        counts = []
        for number in days:
            self.go(number)
            counts.append(await self.run())
        return counts

    async def run(self, scope: Scope | None = None) -> dict[str, int]:
        report = await self.memory.retention.forget_faded(scope)
        return {fate: sum(kinds.values()) for fate, kinds in report.counts.items() if kinds}

    async def kept(self, text: str) -> Kept:
        """Return the retention of Ann's memory with a text."""
        listed = await self.memory.list_memories(ANN)
        [memory_id] = [one.memory_id for one in listed if one.text == text]
        return await kept(self.memory, memory_id)

    async def listed(self, scope: Scope = ANN) -> set[str]:
        return {one.text for one in await self.memory.list_memories(scope)}

    async def faded(self, scope: Scope = ANN) -> dict[str, str]:
        return {one.text: one.stage for one in await self.memory.retention.list_faded(scope)}

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with self.other() as connection:
            return connection.execute(query.encode()).fetchall()

    @contextmanager
    def other(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield another connection with a transaction, and roll it back unless it commits."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute("SET search_path TO hippocampus, public")
            yield connection
            connection.rollback()

    def forgets(self, connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
        """Forget faded memories in another connection's transaction, which stays open."""
        query = "SELECT kind, fate, memories FROM forget_faded('/', %s, 100)"
        return connection.execute(query, [self.now]).fetchall()

    until = staticmethod(until)

    def waits(self, locktype: str) -> bool:
        """Return whether a session of this database waits for a lock of a type (LIKE pattern)."""
        waiting = "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted"
        of_type = f"datname = current_database() AND locktype LIKE '{locktype}'"
        return bool(self.ask(f"{waiting} AND {of_type}"))

    async def meeting(self, connection: psycopg.Connection[Any], work: Awaitable[T]) -> T:
        """Start work, commit the other transaction once the work waits for it, and finish."""
        task = asyncio.ensure_future(work)
        pid = connection.info.backend_pid
        blocked = f"SELECT pid FROM pg_stat_activity WHERE {pid} = ANY(pg_blocking_pids(pid))"
        await self.until(lambda: task.done() or self.ask(blocked))
        assert not task.done(), "nothing waits for the other transaction"
        connection.commit()
        return await task

    def empty(self) -> None:
        """Delete all rows but the declared models, and set the clock back."""
        self.clock.day = 0
        tables = "SELECT format('DELETE FROM %%I', relname) FROM pg_stat_user_tables"
        with psycopg.connect(self.dsn, options="-c search_path=hippocampus") as connection:
            connection.execute("SET session_replication_role = replica")  # no foreign keys
            for (delete,) in connection.execute(f"{tables} WHERE relname <> ALL(%s)", [KEPT]):
                connection.execute(delete)


async def kept(memory: MemoryEngine, memory_id: UUID, scope: Scope = ANN) -> Kept:
    tenant = scope_path(scope)
    [found] = await memory._storage.query(tenant, partial(retention.kept, tenant, [memory_id]))
    return found


@asynccontextmanager
async def opened_world(dsn: str, **options: Any) -> AsyncIterator[World]:
    """Open a memory without a worker, on the clock of its world."""
    clock = Clock()
    async with open_memory(dsn, clock=clock, worker=False, **options) as memory:
        yield World(memory, dsn, clock)


@pytest.fixture(scope="module")
def world_of_module(postgres):
    """The world of a module, on a database of its own."""
    clock = Clock()
    for dsn in postgres.lend():
        memory = open_memory(dsn, clock=clock, worker=False)
        yield World(memory, dsn, clock)
        run_sync(memory.close())


@pytest.fixture
def world(world_of_module):
    """The world of the module, without rows."""
    world_of_module.empty()
    return world_of_module
