"""Joins the single async operations that an event loop starts together into batches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from typing import TypeAlias

from langgraph.store.base import GetOp, ListNamespacesOp, Op, PutOp, Result, SearchOp

MAX_BATCH = 500
"""Maximum number of reads, or of addresses to write, in one batch."""

Outcome: TypeAlias = tuple[Sequence[Result], Mapping[int, Exception]]
"""The results of a batch in order, and its errors by index."""

_Alike: TypeAlias = list[tuple[Op, "asyncio.Future[Result]"]]
"""Equal reads, or writes to one address in order, with the futures of their results."""

Run: TypeAlias = Callable[[Sequence[Op]], Awaitable[Outcome]]


class SingleOps:
    """Runs single operations in batches: reads and writes, or listings in another instance.

    Operations started in one iteration of an event loop run together: first the reads, then the
    writes; the last write to a key wins. Equal reads run once. Each has its own result or error,
    and cancelling one does not affect the others. A single operation runs in its caller's task, one
    iteration later. Thread-safe, for any number of loops.
    """

    def __init__(self) -> None:
        self._here = threading.local()

    def do(self, op: Op, run: Run) -> Awaitable[Result]:
        """Return an awaitable of the result of an operation; awaiting it raises its error.

        It is no coroutine itself: with thousands of operations each frame counts. run: runs a
        batch; pass the same one in every call. It is not kept: it holds the store.
        """
        loop = asyncio.get_running_loop()
        group: _OpGroup | None = getattr(self._here, "group", None)
        if group is None or group.loop is not loop:  # a loop that died may have left its group
            return self._lead(_OpGroup(loop, run), op)
        return group.outcome(group.add(op))

    async def _lead(self, group: _OpGroup, op: Op) -> Result:
        """Wait for the other operations of this iteration of the loop, and start them all."""
        self._here.group = group
        mine = group.add(op)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            mine.cancel()
            raise
        finally:
            self._here.group = None
            if not group.alone:
                group.start()
        if not group.alone:
            return await group.outcome(mine)
        [result], errors = await group.run([op])
        for error in errors.values():
            raise error
        return result


class _OpGroup:
    """The operations of one iteration of a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, run: Run) -> None:
        self.loop = loop
        self.run = run
        self._ops: list[tuple[Op, asyncio.Future[Result]]] = []
        self._awaited = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def alone(self) -> bool:
        return len(self._ops) == 1

    def add(self, op: Op) -> asyncio.Future[Result]:
        future: asyncio.Future[Result] = self.loop.create_future()
        self._ops.append((op, future))
        return future

    def start(self) -> None:
        self._task = self.loop.create_task(self._work())

    async def outcome(self, future: asyncio.Future[Result]) -> Result:
        """Wait for one of the results; the work is cancelled when no caller waits for it."""
        self._awaited += 1
        try:
            return await future
        finally:
            self._awaited -= 1
            if not self._awaited and self._task is not None:
                self._task.cancel()

    async def _work(self) -> None:
        try:
            for kind in (GetOp, SearchOp, ListNamespacesOp, PutOp):
                alike: dict[str, _Alike] = {}
                for op, future in self._ops:
                    if isinstance(op, kind):
                        alike.setdefault(_sameness(op), []).append((op, future))
                groups = list(alike.values())
                for start in range(0, len(groups), MAX_BATCH):
                    await self._settle(groups[start : start + MAX_BATCH], runs_all=kind is PutOp)
        finally:
            for _, future in self._ops:
                future.cancel()  # no effect on what is settled

    async def _settle(self, groups: Sequence[_Alike], *, runs_all: bool) -> None:
        """Run some groups of operations; of reads, the first of each group for all."""
        waiting = [one for group in groups if (one := _open(group))]
        told = [[one] for group in waiting for one in group] if runs_all else waiting
        if not told:
            return
        try:
            results, errors = await self.run([group[0][0] for group in told])
        except Exception as error:  # noqa: BLE001 - raised in every task that waits
            results, errors = [], dict.fromkeys(range(len(told)), error)
        for place, group in enumerate(told):
            for number, (_, future) in enumerate(_open(group)):
                if place in errors:
                    future.set_exception(errors[place])
                else:
                    future.set_result(_copied(results[place]) if number else results[place])


def _sameness(op: Op) -> str:
    """Return what equal reads share, or writes to one address."""
    try:
        return repr((*op.namespace, op.key)) if isinstance(op, PutOp) else repr(op)
    except Exception:  # noqa: BLE001 # values of the caller, whose operation fails for itself later
        return f"{id(op)}"


def _copied(result: Result) -> Result:
    try:
        return deepcopy(result)
    except RecursionError:  # nested hundreds of levels deep: the callers share it
        return result


def _open(group: _Alike) -> _Alike:
    return [(op, future) for op, future in group if not future.done()]
