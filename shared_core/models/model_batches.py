"""Texts of many callers for one model, embedded together while they wait for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared_core.models.model_thread import ModelThread

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
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
        self._waiting: dict[bool, deque[Batch]] = {True: deque(), False: deque()}

    async def embed(self, batch: Batch, *, urgent: bool, brief: bool) -> Vectors:
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

    def _begin(self, batch: Batch, urgent: bool, *, alone: bool) -> None:
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


def _joined(waiting: deque[Batch]) -> list[Batch]:
    """Take the first batch that somebody still waits for, and those after it that fit to it."""
    taken: list[Batch] = []
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
