"""SIGTERM and Ctrl-C as a request to end, so that what is open is closed first."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

END_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_told: list[Callable[[int], None]] = []
"""Who is told, the innermost last. Signals reach one loop alone, that of the main thread."""


@contextmanager
def told_to_end(end: Callable[[int], None]) -> Iterator[None]:
    """Call end with the number of each signal that asks this process to end, instead of dying.

    Inside of another one it is told alone, until it is left. It needs the running event loop of the
    main thread; on Windows signals stay as they are.
    """
    if sys.platform == "win32":
        yield
        return
    loop = asyncio.get_running_loop()
    _told.append(end)
    for number in END_SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        yield
    finally:
        _told.remove(end)
        for number in END_SIGNALS:
            if _told:
                loop.add_signal_handler(number, _told[-1], number)
            else:
                loop.remove_signal_handler(number)
