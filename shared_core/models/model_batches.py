"""Run a model on one thread and embed the texts of many callers together."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors


T = TypeVar("T")

_Work: TypeAlias = tuple["Future[Any]", Callable[[], Any]]

MAX_URGENT_IN_A_ROW = 32
"""Urgent items in a row before one other item runs, so that none starves."""

MAX_NESTED = 3
"""Number of works that may have given way to one another at a time."""


class ModelThread:
    """Runs work items one after another, from any thread and any event loop.

    Only one runs at a time: numpy's thread limit is process-wide, and two running models would
    reset each other's.
    """

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._urgent: deque[_Work] = deque()
        self._rest: deque[_Work] = deque()
        self._urgent_in_a_row = 0
        self._working = threading.Lock()
        self._ident = 0
        self._nested = 0
        self._is_urgent = False

    async def run(self, work: Callable[[], T], *, urgent: bool, brief: bool = False) -> T:
        """Return the result of work. A cancelled item does not start.

        urgent: run before all items that are not. brief: runs in the caller if the thread is idle,
        because waking a thread costs 1.4 ms, and brief work takes only 2.5 ms.
        """
        if brief:
            with self.here() as is_here:
                if is_here:
                    return work()
        return await asyncio.wrap_future(self.submit(work, urgent=urgent))

    @property
    def idle(self) -> bool:
        """Whether nothing waits or runs."""
        return not (self._urgent or self._rest or self._working.locked())

    @contextmanager
    def here(self) -> Iterator[bool]:
        """Reserve the idle thread's turn for work in the block; yields whether that succeeded."""
        is_here = self.idle and self._working.acquire(blocking=False)
        try:
            yield is_here
        finally:
            if is_here:
                self._working.release()

    def submit(self, work: Callable[[], T], *, urgent: bool) -> Future[T]:
        """Run work on the thread and return its future."""
        future: Future[T] = Future()
        (self._urgent if urgent else self._rest).append((future, work))
        self._executor.submit(self._next)
        return future

    def give_way(self) -> None:
        """Run the urgent items that wait, amid a long work of the thread that calls this.

        A work that is urgent itself gives way to one of them at a time, so that none starves.
        """
        if threading.get_ident() != self._ident or self._nested >= MAX_NESTED:
            return
        is_urgent = self._is_urgent or self._nested > 0
        self._nested += 1
        for _ in range(1 if is_urgent else MAX_URGENT_IN_A_ROW):
            if not self._urgent:
                break
            _do(*self._urgent.popleft(), nullcontext())
        self._nested -= 1

    def _next(self) -> None:
        # Called once for each item; nothing is left of one that another has given way to.
        self._ident = threading.get_ident()
        must_yield = self._urgent_in_a_row >= MAX_URGENT_IN_A_ROW
        self._is_urgent = bool(self._urgent) and not (must_yield and self._rest)
        if self._is_urgent:
            self._urgent_in_a_row += 1
            item = self._urgent.popleft()
        elif self._rest:
            self._urgent_in_a_row = 0
            item = self._rest.popleft()
        else:
            return
        _do(*item, self._working)


def _do(future: Future[Any], work: Callable[[], Any], turn: AbstractContextManager[object]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            with turn:
                result = work()
            future.set_result(result)
        except BaseException as error:  # noqa: BLE001 # re-raised where it is awaited
            future.set_exception(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeRequest:
    """Texts of one caller and the future of their vectors, in order.

    encode: computes them. Requests with the same encode are joined up to most_texts and
    most_characters.
    """

    texts: Sequence[str]
    encode: Callable[[list[str]], Vectors]
    most_texts: int
    most_characters: int
    vectors: Future[Vectors] = field(default_factory=Future)

    @property
    def characters(self) -> int:
        """Total length of the texts."""
        return sum(map(len, self.texts))


class ModelBatches:
    """Runs a model on its own thread: immediately for one caller, in batches for many.

    A single text takes three times as long as one of many.
    """

    def __init__(self, name: str) -> None:
        self._thread = ModelThread(name)
        self._waiting: dict[bool, deque[EncodeRequest]] = {True: deque(), False: deque()}

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of other work on the model's thread; it goes before passages."""
        return await self._thread.run(work, urgent=True)

    def give_way(self) -> None:
        """Let urgent requests go first, between two steps of a model on this thread."""
        self._thread.give_way()

    async def embed(self, batch: EncodeRequest, *, urgent: bool, brief: bool) -> Vectors:
        """Return the vectors of a request; urgent and brief as in ModelThread.run.

        A cancelled request does not start.
        """
        waiting = self._waiting[urgent]
        waiting.append(batch)
        try:
            if brief and self._thread.idle:
                await asyncio.sleep(0)  # requests of the same moment join this one
            self._begin(batch, urgent, alone=brief and len(waiting) == 1)
            return await asyncio.wrap_future(batch.vectors)
        except asyncio.CancelledError:
            batch.vectors.cancel()
            raise

    def _begin(self, batch: EncodeRequest, urgent: bool, *, alone: bool) -> None:
        if batch.vectors.done() or batch.vectors.running():
            return
        if alone:
            with self._thread.here() as is_here:
                if is_here:
                    self._run(urgent)
                    return
        self._thread.submit(lambda: self._run(urgent), urgent=urgent)

    def _run(self, urgent: bool) -> None:
        """Embed the oldest request with those that fit to it, and schedule the rest."""
        waiting = self._waiting[urgent]
        batches = _joined(waiting)
        if waiting:
            self._thread.submit(lambda: self._run(urgent), urgent=urgent)
        if not batches:
            return
        try:
            vectors = batches[0].encode([text for one in batches for text in one.texts])
        except BaseException as error:  # noqa: BLE001 # re-raised where it is awaited
            for one in batches:
                one.vectors.set_exception(error)
            return
        first = 0
        for one in batches:
            one.vectors.set_result(vectors[first : first + len(one.texts)])
            first += len(one.texts)


def _joined(waiting: deque[EncodeRequest]) -> list[EncodeRequest]:
    """Take the oldest request that is still awaited, and the next ones that fit to it."""
    taken: list[EncodeRequest] = []
    texts = characters = 0
    while waiting:
        # Two threads may take simultaneously: put a looked-at request back, never look it up again.
        try:
            one = waiting.popleft()
        except IndexError:
            break
        if one.vectors.cancelled():
            continue
        texts += len(one.texts)
        characters += one.characters
        if taken and not (
            one.encode == taken[0].encode
            and texts <= one.most_texts
            and characters <= one.most_characters
        ):
            waiting.appendleft(one)
            break
        if one.vectors.set_running_or_notify_cancel():
            taken.append(one)
    return taken
