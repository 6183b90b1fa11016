"""Results that a caller may use at once or await, so that one object has a sync and an async face.

LangGraph has two stores: the methods of PostgresStore return values, and those of
AsyncPostgresStore are awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Done:
    """The end of a call that returns nothing."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield  # makes this a generator, as __await__ must return an iterator


class Count(int):
    """A number, or whether something is so, as 1 or 0."""

    def __await__(self) -> Generator[Any, None, int]:
        return int(self)
        yield


class Task(Future[T]):
    """The future of work that has started. Awaiting it returns it for the caller's event loop."""

    def __await__(self) -> Generator[Any, None, asyncio.Future[T]]:
        return asyncio.wrap_future(self)
        yield
