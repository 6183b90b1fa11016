"""A user of a memory, who says something on a day, and the rows that the database holds of them."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

import psycopg
from turns import START, Clock, said

from shared_core import AsOf, MemoryEngine, Scope, open_memory
from shared_core.core.namespaces import scope_path
from shared_core.knowledge.reflection import RuleReflector
from shared_core.ports.storage import Extractor, Reflector

LEARNED = ("memories", "facts", "fact_closures", "edges", "embeddings", "memory_sources", "threads",
           "retractions", "edge_sources")  # fmt: skip
"""The tables that runs and corrections change."""


def at(day: float) -> datetime:
    """Return the moment so many days after START."""
    return START + timedelta(days=day)


def then(valid: float | None = None, known: float | None = None) -> AsOf:
    """Return what held on a day, as it was known on a day."""
    valid_at, known_at = (None if day is None else at(day) for day in (valid, known))
    return AsOf(valid=valid_at, known=known_at)


@dataclass
class OfUser:
    """The verbs of a service, for one user: `graph.history("Tom")`."""

    service: Any
    scope: Scope

    def __getattr__(self, verb: str) -> Any:
        return partial(getattr(self.service, verb), self.scope)


@dataclass
class Person:
    """A user of a memory, with the verbs of the memory: `ann.recall("tea")`.

    clock: the clock of the memory, where a test moves it. dsn: of its database.
    """

    memory: MemoryEngine
    scope: Scope
    dsn: str = ""
    clock: Clock = field(default_factory=Clock)

    def __getattr__(self, verb: str) -> Any:
        return partial(getattr(self.memory, verb), self.scope)

    @property
    def graph(self) -> OfUser:
        return OfUser(self.memory.graph, self.scope)

    @property
    def retention(self) -> OfUser:
        return OfUser(self.memory.retention, self.scope)

    def other(self, user: str = "bob") -> Person:
        return replace(self, scope=Scope(self.scope.app, user))

    async def tell(self, day: float, *texts: str, thread: str = "t", **more: Any) -> None:
        """Append turns of a day, a minute apart; the clock moves forward to the day.

        The first has the id "e<day>", the others "e<day>.<number>". more: fields of each turn.
        """
        self.clock.day = max(self.clock.day, day)
        turns = [
            said(f"e{day}.{n}" if n else f"e{day}", text, at(day) + timedelta(minutes=n), **more)
            for n, text in enumerate(texts)
        ]
        await self.memory.append_events(self.scope, thread, turns)

    async def say(self, day: float, *texts: str, thread: str = "t", **more: Any) -> Any:
        """Append turns of a day and consolidate the thread; return the id of the run."""
        await self.tell(day, *texts, thread=thread, **more)
        return (await self.memory.consolidate(self.scope, thread)).run_id

    async def values(self, slot: str = "", **options: Any) -> list[Any]:
        """Return the values of the facts that hold, sorted."""
        return sorted(one.value for one in await self.memory.facts(self.scope, slot, **options))

    async def texts(self, *kinds: Any) -> list[str]:
        """Return the texts of the memories of some kinds, sorted."""
        listed = await self.memory.list_memories(self.scope, kinds=kinds or None, limit=1000)
        return sorted(one.text for one in listed)

    def sql(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement that names the tenant as %(tenant)s; return its rows."""
        values["tenant"] = scope_path(self.scope)
        with psycopg.connect(self.dsn, autocommit=True) as superuser:
            done = superuser.execute(statement, values)
            return done.fetchall() if done.description else []

    def rows(self, *tables: str, without: str = "updated_at") -> dict[str, list[str]]:
        """Return all that tables hold of the user, as text, but for one column."""
        read = "SELECT to_jsonb(t) - '{}' FROM hippocampus.{} t WHERE tenant_id = %(tenant)s"
        return {
            table: sorted(str(row) for (row,) in self.sql(read.format(without, table)))
            for table in tables or LEARNED
        }

    def rows_with(self, word: str) -> list[str]:
        """Return the rows of derived knowledge, and of turns, that hold a word in any case."""
        found = self.rows("memories", "facts", "edges", "retractions").values()
        return [row for some in found for row in some if word.casefold() in row.casefold()]


def read_by(ann: Person, extractor: Extractor) -> Person:
    """Return a user of the same open memory whose turns an extractor of the test reads."""
    memory, runs = copy.copy(ann.memory), copy.copy(ann.memory.runs)
    runs._extractor = extractor
    runs._reflector = extractor if isinstance(extractor, Reflector) else RuleReflector()
    memory.runs = runs
    return replace(ann, memory=memory)


@asynccontextmanager
async def alone(dsn: str, clock: Clock | None = None, **options: Any) -> AsyncIterator[Person]:
    """Open the memory of a database, which runs no jobs, and give its only user."""
    async with open_memory(dsn, worker=False, clock=clock, **options) as memory:
        yield Person(memory, Scope("app", "ann"), dsn, clock or Clock())


Opens: TypeAlias = Callable[..., Person]
"""Opens a memory with options, and returns the user of the test in it."""
