"""Runs coroutines from sync code, in the background and periodically, and ends them on signals."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import gc
import logging
import os
import signal
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Any, TypeVar

from shared_core.core.failure_reason import reason

log = logging.getLogger("hippocampus")

T = TypeVar("T")

in_background: ContextVar[bool] = ContextVar("hippocampus_in_background", default=False)
"""True in work that nobody awaits; such work must not reopen a closed memory."""


async def until_done(work: Coroutine[Any, Any, T], *, grace_s: float | None = None) -> T:
    """Return the result of work. A cancelled caller waits for its end, so that it can undo it.

    A thread that does the work goes on when its waiter is cancelled. A second cancellation ends the
    wait.

    Args:
        work: the coroutine to run.
        grace_s: maximum seconds that a cancelled caller waits; then work is cancelled too, and has
            as long again to end. None: no limit, for work with a deadline of its own.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(ignore_outcome)
        try:
            ended, _ = await asyncio.wait([task], timeout=grace_s)
        finally:
            if grace_s is not None:
                task.cancel()
        if not ended:
            await asyncio.wait([task], timeout=grace_s)
        raise


def ignore_outcome(task: asyncio.Future[Any]) -> None:
    """Keep asyncio from logging the error of a cancelled task, for which nobody waits."""
    if not task.cancelled():
        task.exception()


class LoopThread:
    """A daemon thread that owns one event loop, started at first use and again after a fork.

    A task that raises SystemExit ends itself and not the loop. If the thread ends all the same, the
    next use starts another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result, from any thread, with or without a running loop.

        Blocks the calling thread. Raises RuntimeError on the bridge's own thread, where blocking
        would deadlock.
        """
        loop = self._running_loop()
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a sync call inside the memory's own event loop: await it instead")
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    async def arun(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result; it runs on the bridge's loop, whichever loop awaits it."""
        loop = self._running_loop()
        if asyncio.get_running_loop() is loop:
            return await coroutine
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))

    def owns(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether a loop is that of the thread."""
        return loop is self._loop

    def start(self, function: Callable[[], None]) -> None:
        """Call a function on the loop, soon, from any thread, in a context of its own."""
        # Not in the caller's: work that serves many would belong to the first request for ever.
        self._running_loop().call_soon_threadsafe(function, context=Context())

    def run_at_exit(self, coroutine: Coroutine[Any, Any, None], timeout_s: float) -> None:
        """Run a coroutine at interpreter exit, for at most timeout_s, if the loop still runs."""
        loop, thread = self._loop, self._thread
        if self._pid != os.getpid() or loop is None or thread is None or not thread.is_alive():
            coroutine.close()
            return
        work = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            work.result(timeout_s)
        except TimeoutError:
            work.cancel()
            log.warning("the memory was not closed within %g s of the exit", timeout_s)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._pid != os.getpid():
            # The parent's lock may have been held while it forked; its thread is not here.
            self._lock, self._loop, self._pid = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run_on, args=[self._loop], name="hippocampus-loop", daemon=True
                )
                self._thread.start()
            return self._loop


def _run_on(loop: asyncio.AbstractEventLoop) -> None:
    try:
        while True:
            try:
                loop.run_forever()
                return
            except (SystemExit, KeyboardInterrupt) as error:  # asyncio lets these out of the loop
                what = "work in the background tried to end the process; it goes on: %s"
                log.error(what, reason(error))
    finally:
        loop.close()


_bridge = LoopThread()
_own = threading.local()


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run one of the engine's coroutines from sync code and return its result.

    Works in any thread. Where no loop runs, the calling thread runs the coroutine itself, on a
    loop it keeps. Where one is running (Jupyter, a sync node of an async graph) the bridge's
    thread runs it, and that loop is blocked meanwhile, as by every sync call.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return _own_runner().run(coroutine)
    _blocked[loop] += 1
    try:
        return _bridge.run(coroutine)
    finally:
        _blocked[loop] -= 1
        if not _blocked[loop]:
            del _blocked[loop]


async def on_own_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the bridge's loop, for clients that are bound to one loop."""
    return await _bridge.arun(coroutine)


_host: weakref.ref[asyncio.AbstractEventLoop] | None = None
"""The loop on which the host application called a memory last."""
_blocked: Counter[asyncio.AbstractEventLoop] = Counter()
"""Loops that wait for a run_sync(), by the number of its calls."""
_LOOK_S = 0.1
"""Seconds between two looks whether a loop still runs."""
_BEGIN_S = 1.0
"""Seconds after which a loop that has not begun work counts as blocked."""


def note_hosts_loop() -> None:
    """Note the running loop as that of the host, unless it is one of this module."""
    global _host
    loop = asyncio.get_running_loop()
    if not (_bridge.owns(loop) or on_callers_own_loop()):
        _host = weakref.ref(loop)


async def on_hosts_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of work on the loop on which the host called a memory last.

    The host's clients belong to that loop. If there is none, or it ends, or is blocked, the work is
    done on the running loop, from its beginning.
    """
    loop = _host() if _host else None
    if loop is None or loop is asyncio.get_running_loop() or not _runs(loop):
        return await work()
    begun = False

    async def beginning() -> T:
        nonlocal begun
        begun = True
        return await work()

    coroutine = beginning()
    try:
        there = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))
    except RuntimeError:  # it was closed a moment ago
        coroutine.close()
        return await work()
    began = time.monotonic()
    try:
        while not there.done() and _runs(loop):
            if not begun and time.monotonic() - began > _BEGIN_S:
                break
            await asyncio.wait([there], timeout=_LOOK_S)
    finally:
        there.cancel()  # does nothing if it is done
    return await work() if there.cancelled() else there.result()


def _runs(loop: asyncio.AbstractEventLoop) -> bool:
    return loop.is_running() and loop not in _blocked


def start_on_own_loop(function: Callable[[], None]) -> None:
    """Call a function on the bridge's loop and return immediately, for work that nobody awaits."""
    _bridge.start(function)


def run_at_exit(coroutine: Coroutine[Any, Any, None], timeout_s: float) -> None:
    """Run a coroutine on the bridge's loop while the interpreter ends: for atexit."""
    _bridge.run_at_exit(coroutine, timeout_s)


def exiting() -> bool:
    """Return whether the process is exiting, so that no thread can be started.

    The executors refuse work shortly before the main thread counts as ended.
    """
    refused: bool = getattr(concurrent.futures.thread, "_shutdown", False)
    return refused or not threading.main_thread().is_alive()


def on_callers_own_loop() -> bool:
    """Return whether run_sync() runs this coroutine on the calling thread, which waits for it.

    Then a short blocking call delays no other task.
    """
    runner: _Runner | None = getattr(_own, "runner", None)
    return runner is not None and runner.loop is asyncio.get_running_loop()


class _Runner:
    """A thread's own loop; closed when the thread ends, and recreated after a fork."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        # Not __del__: in a cycle with its loop, the loop may be finalised first, and complain.
        weakref.finalize(self, _close_in, self.pid, self.loop).atexit = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        finally:
            if not task.done():  # Ctrl-C: let the task undo what it began
                task.cancel()
                self.loop.run_until_complete(asyncio.wait([task]))


def _close_in(pid: int, loop: asyncio.AbstractEventLoop) -> None:
    if pid == os.getpid():
        loop.close()


def _own_runner() -> _Runner:
    runner: _Runner | None = getattr(_own, "runner", None)
    if runner is None or runner.pid != os.getpid():
        runner = _own.runner = _Runner()
    return runner


class PeriodicTask:
    """Repeats an action on the bridge's loop, one at a time.

    A subclass defines the action (_look) and the intervals (_waits_s).
    """

    _in_background: bool
    """Whether nudge() starts the action; False where another process does it."""

    def __init__(self) -> None:
        self._pid = 0
        self._look_at = 0.0
        self._task: asyncio.Task[object] | None = None

    async def _look(self) -> None:
        raise NotImplementedError

    def _waits_s(self) -> tuple[float, float]:
        """Return the seconds from the first nudge() to the first action, and between actions."""
        raise NotImplementedError

    async def keep(self, stop: asyncio.Event, *, every_s: float | None = None) -> None:
        """Repeat the action until stop is set."""
        while not stop.is_set():
            await self._look()
            try:
                async with asyncio.timeout(self._waits_s()[1] if every_s is None else every_s):
                    await stop.wait()
            except TimeoutError:
                pass

    def nudge(self) -> None:
        """Start the action in the background if it is due. Returns immediately."""
        if not self._in_background:
            return
        now = time.monotonic()
        first_s, every_s = self._waits_s()
        if self._pid != os.getpid():  # a forked child has no task
            self._pid, self._task, self._look_at = os.getpid(), None, now + first_s
        if now >= self._look_at:
            self._look_at = now + every_s
            start_on_own_loop(self._start)

    async def stop(self, drain_s: float = 0.0) -> None:
        """Cancel a running action; the next one continues its work."""
        await on_own_loop(self._stop())

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look())

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None and self._pid == os.getpid():
            task.cancel()
            await asyncio.wait([task])


def freeze_loaded() -> None:
    """Exempt what a server has loaded from garbage collections. Call it before it serves.

    A full collection visits each object and holds the interpreter: 100 ms for 170,000 objects. The
    tokens of one long text are enough to begin one. Modules imported later are not exempt.
    """
    gc.collect()
    gc.freeze()


END_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_handlers: list[Callable[[int], None]] = []
"""Active handlers, the innermost last. Only the loop of the main thread receives signals."""


@contextmanager
def handling_end_signals(end: Callable[[int], None]) -> Iterator[None]:
    """Call end with the number of each SIGTERM or SIGINT, instead of ending the process.

    Only the innermost handler is called. Requires the running event loop of the main thread. On
    Windows signals keep their default action.
    """
    if sys.platform == "win32":
        yield
        return
    loop = asyncio.get_running_loop()
    _handlers.append(end)
    for number in END_SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        yield
    finally:
        _handlers.remove(end)
        for number in END_SIGNALS:
            if _handlers:
                loop.add_signal_handler(number, _handlers[-1], number)
            else:
                loop.remove_signal_handler(number)
