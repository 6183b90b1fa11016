"""One index is asked by several threads and event loops while another process writes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from resident_users import ANN, by_index, by_statement, differs, drawn, indexes, make_resident

from shared_core import MemoryEngine, run_sync
from shared_core.core.namespaces import scope_path

QUESTION = "green tea in york, 喝茶"
WORDS = ("tea", "green", "york", "喝茶", "cat", "run")
WRITES = 20
COMPARED = 10
"""Answers that a thread must have compared with the same state of the statement."""


def write(dsn: str, seed: int) -> None:
    """Add memories of Ann, one at a time, in a process of its own."""

    async def add() -> None:
        async with drawn(dsn) as memory:
            for number in range(WRITES):
                words = " ".join(random.sample(WORDS, 3))
                await memory.remember(ANN, [f"{words} {number}"])
                await asyncio.sleep(random.random() / 20)

    random = Random(seed)
    asyncio.run(add())


async def compare(memory: MemoryEngine, writer: Any) -> tuple[int, int]:
    """Ask the statement, the index and the statement again until the writer has ended.

    Return how often the index answered, and how often nothing was written meanwhile: then all three
    answers are the same. Memories are only added, so the index never answers less than the
    statement did before, nor more than it does after.
    """
    answered = same = 0
    while writer.is_alive() or same < COMPARED:
        before = await by_statement(memory, ANN, QUESTION)
        answer = await by_index(memory, ANN, QUESTION)
        after = await by_statement(memory, ANN, QUESTION)
        if answer is None:
            continue
        answered += 1
        assert before[0].keys() <= answer[0].keys() <= after[0].keys()
        if before == after:
            same += 1
            assert before == answer
    return answered, same


def test_two_loops_in_two_threads_ask_while_another_process_writes(dsn: str) -> None:
    memory = drawn(dsn)
    run_sync(memory.remember(ANN, ["green tea"]))
    run_sync(make_resident(memory, ANN))
    writer = multiprocessing.get_context("fork").Process(target=write, args=(dsn, 1))
    writer.start()
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(asyncio.run, compare(memory, writer)) for _ in range(2)]
        counts = [one.result() for one in asked]
    writer.join()
    assert 0 == writer.exitcode and all(same >= COMPARED for _, same in counts), counts
    found = run_sync(by_index(memory, ANN, QUESTION))
    assert WRITES + 1 == len(found[0])
    run_sync(memory.close())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_and_its_parent_have_an_index_each(dsn: str) -> None:
    memory = drawn(dsn)
    run_sync(memory.remember(ANN, ["green tea", "a cat in York"]))
    run_sync(make_resident(memory, ANN))
    child = os.fork()
    if child == 0:
        code = 1
        try:  # whatever happens, the child must not go on with the tests of its parent
            run_sync(asks_as_the_parent_did(memory))
            code = 0
        finally:
            os._exit(code)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert [scope_path(ANN)] == indexes(memory).users
    run_sync(finds_three(memory))
    run_sync(memory.close())


async def finds_three(memory: MemoryEngine) -> None:
    assert 3 == len((await by_index(memory, ANN, QUESTION))[0])
    assert not await differs(memory, QUESTION)


async def asks_as_the_parent_did(memory: MemoryEngine) -> None:
    assert [] == indexes(memory).users
    await make_resident(memory, ANN)
    await memory.remember(ANN, ["green tea from the child"])
    await finds_three(memory)


def test_many_threads_ask_at_once(dsn: str) -> None:
    memory = drawn(dsn)
    run_sync(memory.remember(ANN, [f"{word} {number}" for number, word in enumerate(WORDS)]))
    run_sync(make_resident(memory, ANN))
    expected = [hit.memory for hit in run_sync(memory.recall(ANN, QUESTION))]

    def ask(number: int) -> None:
        kinds = None if number % 2 else ["semantic"]
        for _ in range(20):
            found = run_sync(memory.recall(ANN, QUESTION, kinds=kinds))
            assert [hit.memory for hit in found] == expected

    with ThreadPoolExecutor(8) as threads:
        assert 8 == len([*threads.map(ask, range(8))])
    run_sync(memory.close())
