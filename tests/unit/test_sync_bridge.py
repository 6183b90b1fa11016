"""The bridge's loop goes on, whatever runs on it."""

from __future__ import annotations

import sys

import pytest

from shared_core.core.event_loops import LoopThread


async def answer() -> int:
    return 42


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
async def test_what_tries_to_end_the_process_does_not_end_the_loop(error: BaseException) -> None:
    bridge = LoopThread()

    async def leave() -> None:
        raise error

    def leave_at_once() -> None:
        sys.exit(1)

    with pytest.raises(type(error)):
        await bridge.arun(leave())
    bridge.start(leave_at_once)
    assert 42 == await bridge.arun(answer())


def test_a_thread_that_died_is_replaced() -> None:
    bridge = LoopThread()
    assert 42 == bridge.run(answer())
    loop, thread = bridge._loop, bridge._thread
    assert loop is not None and thread is not None
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    assert 42 == bridge.run(answer())
    assert bridge._thread is not thread
