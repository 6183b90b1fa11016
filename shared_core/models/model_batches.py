"""Texts of many callers for one model, embedded together while they wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeRequest:
    """What one caller wants: vectors of texts, in order.

    encode: makes them; what has the same one may be embedded together, up to so many texts and
    characters.
    """

    texts: Sequence[str]
    encode: Callable[[list[str]], Vectors]
    most_texts: int
    most_characters: int
    vectors: Future[Vectors] = field(default_factory=Future)

    @property
    def characters(self) -> int:
        """How long it is."""
        return sum(map(len, self.texts))


class ModelBatches:
    """Runs a model on a thread of its own: for one caller here and now, for many together.

    One text takes a model three times as long as one of many.
    """

    def __init__(self, name: str) -> None:
        self._thread = ModelThread(name)
        self._waiting: dict[bool, deque[EncodeRequest]] = {True: deque(), False: deque()}

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of other work on the model's thread; it goes before passages."""
        return await self._thread.run(work, urgent=True)

    async def embed(self, batch: EncodeRequest, *, urgent: bool, brief: bool) -> Vectors:
        """Return the vectors of a batch; urgent, brief: as of ModelThread.run.

        Cancelled, it is not begun any more.
        """
        waiting = self._waiting[urgent]
        waiting.append(batch)
        try:
            if brief and self._thread.idle:
                await asyncio.sleep(0)  # who asks in the same moment is answered together with it
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
        """Embed what waits longest, with what fits to it; what is left is begun later."""
        waiting = self._waiting[urgent]
        batches = _joined(waiting)
        if waiting:
            self._thread.submit(lambda: self._run(urgent), urgent=urgent)
        if not batches:
            return
        try:
            vectors = batches[0].encode([text for one in batches for text in one.texts])
        except BaseException as error:  # noqa: BLE001 # it is raised where it is awaited
            for one in batches:
                one.vectors.set_exception(error)
            return
        first = 0
        for one in batches:
            one.vectors.set_result(vectors[first : first + len(one.texts)])
            first += len(one.texts)


def _joined(waiting: deque[EncodeRequest]) -> list[EncodeRequest]:
    """Take the first batch that somebody still waits for, and those after it that fit to it."""
    taken: list[EncodeRequest] = []
    texts = characters = 0
    while waiting:
        # Two threads may take at once, so what was looked at is put back, never looked up again.
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
