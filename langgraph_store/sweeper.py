"""Deletes expired items periodically, in its own thread."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import InvalidStateError
from contextlib import suppress

from langgraph_store.awaitables import Task
from shared_core.core import in_background, reason
from shared_core.lifecycle import MemoryClosed

log = logging.getLogger("hippocampus")

STOP_TIMEOUT_S = 10.0
"""Seconds that closing a store waits for a running sweep."""


class Sweeper:
    """Runs a sweep at a fixed interval until it is stopped or its store is garbage-collected.

    sweep: a bound method, with a weak reference. A forked child has no thread until start(). The
    sweep does not reopen a closed memory.
    """

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep = weakref.WeakMethod(sweep)
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._done: Task[None] = Task()
        self._pid = os.getpid()

    @property
    def running(self) -> bool:
        """Whether a thread of this process sweeps."""
        thread = self._thread
        return self._pid == os.getpid() and thread is not None and thread.is_alive()

    @property
    def cancelled(self) -> bool:
        """Whether the caller cancelled its future, without a new start since."""
        return self._done.cancelled()

    def start(self, interval_s: float) -> Task[None]:
        """Start sweeping, unless it runs; return a future that ends with it, and cancels it."""
        if self._pid != os.getpid():
            self._lock = threading.Lock()  # the parent may have held it while it forked
        with self._lock:
            if not self.running or self._stopped.is_set():
                self._forget()
                stopped, done = self._stopped, self._done
                done.add_done_callback(lambda _: stopped.set())
                self._thread = threading.Thread(
                    target=_sweep_on,
                    args=(self._sweep, interval_s, stopped, done),
                    name="hippocampus-sweeper",
                    daemon=True,
                )
                self._thread.start()
            return self._done

    def stop(self, timeout_s: float | None) -> bool:
        """Stop, and wait for a running sweep; return whether it has ended."""
        thread = self._thread
        if not self.running or thread is None:
            return True
        self._stopped.set()
        if thread is not threading.current_thread():
            thread.join(timeout_s)
        return not thread.is_alive()

    async def astop(self) -> None:
        """Like stop(), without blocking the caller's loop."""
        if self.running:
            await asyncio.to_thread(self.stop, STOP_TIMEOUT_S)


def _sweep_on(
    sweep: weakref.WeakMethod[Callable[[], int]],
    interval_s: float,
    stopped: threading.Event,
    done: Task[None],
) -> None:
    in_background.set(True)
    while not stopped.wait(interval_s):
        method = sweep()
        if method is None:
            break
        try:
            if swept := method():
                log.info("deleted %d expired items", swept)
        except MemoryClosed:
            log.debug("no sweep: the memory is closed")
        except Exception as error:  # noqa: BLE001 # nobody joins this thread: it goes on
            if not stopped.is_set():
                what = "a sweep of expired items failed, the next one tries again: %s"
                log.error(what, reason(error))
        del method
    with suppress(InvalidStateError):  # the caller cancelled it, which stopped the sweeper
        done.set_result(None)
