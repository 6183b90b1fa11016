"""until_done: a cancelled caller waits for the end of its work, but not for ever."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from shared_core.core.event_loops import until_done


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
async def unhandled() -> AsyncIterator[list[object]]:
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


async def test_a_cancelled_caller_waits_for_the_end(unhandled: list[object]) -> None:
    work = Work()
    caller = await cancelled(work, None)
    assert not caller.done()
    work.may_end.set()
    await asyncio.wait([caller])
    assert caller.cancelled() and not work.was_cancelled
    gc.collect()
    assert [] == unhandled


@pytest.mark.parametrize("is_stubborn", [False, True])
async def test_after_the_grace_the_work_is_cancelled_too(
    is_stubborn: bool, unhandled: list[object]
) -> None:
    work = Work(is_stubborn=is_stubborn)
    caller = await cancelled(work, 0.01)
    await asyncio.wait([caller])
    assert caller.cancelled() and work.was_cancelled
    work.may_end.set()
    await asyncio.sleep(0.01)
    gc.collect()
    assert [] == unhandled


@pytest.mark.parametrize("grace_s", [None, 3_600.0])
async def test_a_second_cancellation_ends_the_wait(
    grace_s: float | None, unhandled: list[object]
) -> None:
    work = Work()
    caller = await cancelled(work, grace_s)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled() and work.was_cancelled == (grace_s is not None)
    work.may_end.set()
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert [] == unhandled


async def test_a_result_and_an_error_reach_the_caller() -> None:
    async def answer() -> int:
        return 42

    assert 42 == await until_done(answer(), grace_s=1)
    work = Work()
    work.may_end.set()
    with pytest.raises(OSError, match="the answer is an error"):
        await until_done(work.run())
