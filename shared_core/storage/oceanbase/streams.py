"""What a transaction reads, handed on while it reads: memory use does not grow with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeAlias, TypeVar

from shared_core.errors import StorageUnavailable
from shared_core.storage.oceanbase.database import Database
from shared_core.storage.oceanbase.transactions import Transaction

T = TypeVar("T")
Emit: TypeAlias = Callable[[T], None]

PARTS_AHEAD = 2
"""So many parts are read before they are asked for."""


class _Left(Exception):
    """Nobody wants the rest."""


async def streamed(
    database: Database, work: Callable[[Transaction, Emit[Any]], None]
) -> AsyncGenerator[Any, None]:
    """Yield what work emits, all of it read at one moment. Close it when you leave it early.

    Raises StorageUnavailable when the transaction was lost on the way: what was handed on cannot
    be read again.
    """
    loop = asyncio.get_running_loop()
    parts: asyncio.Queue[Any] = asyncio.Queue(PARTS_AHEAD)
    ended = object()
    begun = left = False

    def emit(part: Any) -> None:
        nonlocal begun
        begun = True
        asyncio.run_coroutine_threadsafe(parts.put(part), loop).result()
        if left:
            raise _Left

    def read(tx: Transaction) -> None:
        if begun:
            raise StorageUnavailable(
                "the database lost the moment that was being read, after part of it: read it again"
            )
        work(tx, emit)

    async def produce() -> None:
        try:
            await database.read(read)
        finally:
            await parts.put(ended)

    producer = asyncio.create_task(produce())
    try:
        while (part := await parts.get()) is not ended:
            yield part
        await producer
    finally:
        left = True
        while not producer.done():
            while not parts.empty():
                parts.get_nowait()
            await asyncio.wait([producer], timeout=0.01)
        if not producer.cancelled():
            producer.exception()  # told above, or nobody's any more
