"""Standard input that can be ended: a read of it that waits cannot be woken otherwise."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from shared_core.errors import InvalidInput

STDIN = 0
CHUNK = 65_536


@contextmanager
def endable_input() -> Iterator[Callable[[], None]]:
    """Pass standard input on through a pipe; yields what ends it for whoever reads.

    Raises InvalidInput where there is none. On Windows it stays as it is.
    """
    if sys.stdin is None:
        raise InvalidInput(
            "standard input is closed, and a client speaks through it: let the client start"
            " hippocampus mcp, or serve over HTTP with --http 127.0.0.1:8321"
        )
    if sys.platform == "win32":
        yield lambda: None
        return
    source = os.dup(STDIN)
    reads, writes = os.pipe()
    woken, wakes = os.pipe()
    os.dup2(reads, STDIN)
    os.close(reads)
    relay = Thread(target=_relay, args=(source, writes, woken), name="stdin", daemon=True)
    relay.start()

    def end() -> None:
        os.write(wakes, b"\0")

    try:
        yield end
    finally:
        os.dup2(source, STDIN)  # nobody reads the pipe any more: a write that waits fails
        end()
        relay.join()
        for descriptor in (source, woken, wakes):
            os.close(descriptor)


def _relay(source: int, target: int, woken: int) -> None:
    """Copy source to target until it ends, its reader is gone, or woken has something."""
    with os.fdopen(target, "wb", buffering=0) as reader:
        while True:
            ready, _, _ = select.select([source, woken], [], [])
            data = b"" if woken in ready else os.read(source, CHUNK)
            if not data:
                return
            try:
                while data:
                    data = data[reader.write(data) or 0 :]
            except BrokenPipeError:
                return
