"""until_done: a cancelled caller waits for the end of its work; LoopThread: the loop goes on."""

import asyncio
import gc
import sys

import pytest

from shared_core.core.event_loops import LoopThread, until_done


class Work:
    """Work that ends when the test says so, and may ignore its own cancellation."""

    def __init__(self, *, is_stubborn: bool = False) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.is_stubborn = is_stubborn
        self.was_cancelled = False

    async def run(self) -> int:
        self.begun.set()
        while True:
            try:
                await self.may_end.wait()
                raise OSError("the answer is an error")
            except asyncio.CancelledError:
                self.was_cancelled = True
                if not self.is_stubborn:
                    raise


@pytest.fixture
async def unhandled():
    """What asyncio reports of tasks that nobody watches."""
    found: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: found.append(context))
    yield found
    loop.set_exception_handler(None)


async def cancelled(work: Work, grace_s: float | None) -> asyncio.Task[int]:
    caller = asyncio.create_task(until_done(work.run(), grace_s=grace_s))
    await work.begun.wait()
    caller.cancel()
    await asyncio.sleep(0)
    return caller


@pytest.mark.parametrize("is_stubborn", [False, True])
async def test_after_the_grace_the_work_is_cancelled_too(is_stubborn, unhandled):
    work = Work(is_stubborn=is_stubborn)
    caller = await cancelled(work, 0.01)
    await asyncio.wait([caller])
    assert caller.cancelled() and work.was_cancelled
    work.may_end.set()
    await asyncio.sleep(0.01)
    gc.collect(1)  # of what this test made
    assert [] == unhandled


@pytest.mark.parametrize("grace_s", [None, 3_600.0])
async def test_a_second_cancellation_ends_the_wait(grace_s, unhandled):
    work = Work()
    caller = await cancelled(work, grace_s)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled() and work.was_cancelled == (grace_s is not None)
    work.may_end.set()
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect(1)  # of what this test made
    assert [] == unhandled


async def test_a_result_and_an_error_reach_the_caller_who_waits_for_the_end_if_cancelled(unhandled):
    assert 42 == await until_done(forty_two(), grace_s=1)
    work = Work()
    work.may_end.set()
    with pytest.raises(OSError, match="the answer is an error"):
        await until_done(work.run())
    work = Work()
    caller = await cancelled(work, None)
    assert not caller.done()
    work.may_end.set()
    await asyncio.wait([caller])
    assert caller.cancelled() and not work.was_cancelled
    gc.collect(1)  # of what this test made
    assert [] == unhandled


async def forty_two() -> int:
    return 42


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
async def test_what_tries_to_end_the_process_does_not_end_the_loop(error):
    bridge = LoopThread()

    async def leave() -> None:
        raise error

    def leave_at_once() -> None:
        sys.exit(1)

    with pytest.raises(type(error)):
        await bridge.arun(leave())
    bridge.start(leave_at_once)
    assert 42 == await bridge.arun(forty_two())


def test_a_thread_that_died_is_replaced():
    bridge = LoopThread()
    assert 42 == bridge.run(forty_two())
    loop, thread = bridge._loop, bridge._thread
    assert loop is not None and thread is not None
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    assert 42 == bridge.run(forty_two())
    assert bridge._thread is not thread
