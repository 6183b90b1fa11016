"""Defines the operations on contenders, and two ways to call a contender: threads and tasks."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from benchmarks.dataset import LIMIT, Entry, Question

if TYPE_CHECKING:
    from langgraph.store.base import Item

ASYNC_FACE, SYNC_FACE, FUNCTION_FACE = "async_", "sync_", "function_"
"""Our store by its async methods, by its sync ones, and async with a sync function as embedder."""


@dataclass(frozen=True, slots=True)
class Put:
    """Write entries in one call: one entry by put(), more by batch()."""

    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Get:
    entry: Entry


@dataclass(frozen=True, slots=True)
class Search:
    question: Question
    limit: int = LIMIT


Operation: TypeAlias = Put | Get | Search


class Contender(ABC):
    """A store under measurement. face: prefix of the names of its figures."""

    def __init__(self, name: str, face: str = "") -> None:
        self.name = name
        self.face = face

    @abstractmethod
    def latencies_s(self, operations: Sequence[Operation]) -> list[float]:
        """Run the operations one after another; return the seconds of each."""

    @abstractmethod
    def elapsed_s(self, operations: Sequence[Operation], clients: int) -> float:
        """Run the operations, divided among concurrent clients; return the seconds of all."""

    @abstractmethod
    def found_keys(self, search: Search) -> list[str]:
        """Return the keys that a search finds, best first."""

    def keys_of(self, answer: object) -> list[str]:
        """Return the keys of the LangGraph items in the answer to a search."""
        return [item.key for item in cast("list[Item]", answer)]


class BlockingContender(Contender):
    """A contender with blocking calls; each client is a thread."""

    @abstractmethod
    def perform(self, operation: Operation) -> object:
        """Run one operation and return its result."""

    def latencies_s(self, operations: Sequence[Operation]) -> list[float]:
        taken = []
        for operation in operations:
            start = time.perf_counter()
            self.perform(operation)
            taken.append(time.perf_counter() - start)
        return taken

    def found_keys(self, search: Search) -> list[str]:
        return self.keys_of(self.perform(search))

    def elapsed_s(self, operations: Sequence[Operation], clients: int) -> float:
        shares = [operations[client::clients] for client in range(clients)]
        with ThreadPoolExecutor(clients) as threads:
            start = time.perf_counter()
            list(threads.map(self.latencies_s, shares))
            return time.perf_counter() - start


class AwaitedContender(Contender):
    """A contender with async calls; each client is a task of one event loop."""

    def __init__(self, name: str, face: str, runner: asyncio.Runner) -> None:
        super().__init__(name, face)
        self._runner = runner

    @abstractmethod
    def perform(self, operation: Operation) -> Coroutine[Any, Any, object]:
        """Run one operation and return its result."""

    def latencies_s(self, operations: Sequence[Operation]) -> list[float]:
        return self._runner.run(self._latencies_s(operations))

    def found_keys(self, search: Search) -> list[str]:
        return self.keys_of(self._runner.run(self.perform(search)))

    def elapsed_s(self, operations: Sequence[Operation], clients: int) -> float:
        return self._runner.run(self._elapsed_s(operations, clients))

    async def _latencies_s(self, operations: Sequence[Operation]) -> list[float]:
        taken = []
        for operation in operations:
            start = time.perf_counter()
            await self.perform(operation)
            taken.append(time.perf_counter() - start)
        return taken

    async def _elapsed_s(self, operations: Sequence[Operation], clients: int) -> float:
        start = time.perf_counter()
        await asyncio.gather(
            *(self._latencies_s(operations[client::clients]) for client in range(clients))
        )
        return time.perf_counter() - start
