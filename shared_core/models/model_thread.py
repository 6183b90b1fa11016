"""One thread for one model: what somebody waits for goes first, and the rest in small pieces."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

_Work: TypeAlias = tuple["Future[Any]", Callable[[], Any]]

MAX_URGENT_IN_A_ROW = 32
"""Then one piece of the rest is done, so that it is never put off for ever."""


class ModelThread:
    """Runs pieces of work one after another, from any thread and any event loop.

    One piece at a time: numpy's thread limit is the whole process's, and two models at once would
    undo each other's.
    """

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._urgent: deque[_Work] = deque()
        self._rest: deque[_Work] = deque()
        self._urgent_in_a_row = 0
        self._working = threading.Lock()

    async def run(self, work: Callable[[], T], *, urgent: bool, brief: bool = False) -> T:
        """Return what work returns; urgent: before everything that is not. Cancelled, it is not
        begun any more.

        brief: of a few milliseconds; where nothing else waits or is worked on, it is done here and
        now, because waking another thread takes time as well: 1.4 ms beside 2.5 of work.
        """
        if brief:
            with self.here() as is_here:
                if is_here:
                    return work()
        return await asyncio.wrap_future(self.submit(work, urgent=urgent))

    @property
    def idle(self) -> bool:
        """Whether nothing waits or is worked on."""
        return not (self._urgent or self._rest or self._working.locked())

    @contextmanager
    def here(self) -> Iterator[bool]:
        """Take the turn of the thread, if it is idle, for work that is done in the block."""
        is_here = self.idle and self._working.acquire(blocking=False)
        try:
            yield is_here
        finally:
            if is_here:
                self._working.release()

    def submit(self, work: Callable[[], T], *, urgent: bool) -> Future[T]:
        """Have work done on the thread; return the future of what it returns."""
        future: Future[T] = Future()
        (self._urgent if urgent else self._rest).append((future, work))
        self._executor.submit(self._next)
        return future

    def _next(self) -> None:
        # Called once for each piece, and nobody else takes any: there is always one.
        tired = self._urgent_in_a_row >= MAX_URGENT_IN_A_ROW
        if self._urgent and not (tired and self._rest):
            self._urgent_in_a_row += 1
            future, work = self._urgent.popleft()
        else:
            self._urgent_in_a_row = 0
            future, work = self._rest.popleft()
        if future.set_running_or_notify_cancel():
            try:
                with self._working:
                    result = work()
                future.set_result(result)
            except BaseException as error:  # noqa: BLE001 # it is raised where it is awaited
                future.set_exception(error)
