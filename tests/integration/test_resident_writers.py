"""Many processes write for one user, roll back and forget, while an index reads what changed."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import psycopg
import pytest
from long_forms import LONG
from resident_users import ANN, MODEL, drawn, indexes, make_resident, request, until
from turns import START, said

from shared_core import Event, Memory, MemoryEngine
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import scope_path
from shared_core.storage._resident import PackedMemories, UserIndex
from shared_core.storage.postgres.resident import packed, read_steps

TENANT = scope_path(ANN)
WORDS = ("tea", "green", "york", "茶", "喝茶", "cat", "run")
WRITTEN = """
    INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,
                          term_count, occurred_at, created_at, updated_at)
    VALUES (%(tenant)s, %(id)s, '/memories/', %(id)s::text, 'semantic', %(text)s, '{}',
            to_tsvector('simple', %(text)s), 2, now(), now(), now())
"""
NOTED = """
    INSERT INTO memory_changes AS c (tenant_id, write_ids, memory_ids)
    VALUES (%(tenant)s, ARRAY[gen_random_uuid()], ARRAY[%(id)s::uuid])
    ON CONFLICT (tenant_id) DO UPDATE SET write_ids = excluded.write_ids || c.write_ids[:49],
                                          memory_ids = excluded.memory_ids || c.memory_ids[:49]
"""
WRITES = 30 if LONG else 12


def a_turn(word: str) -> Event:
    """A turn under an id of its own."""
    return said(str(uuid7()), f"{word} today")


def write_and_forget(dsn: str, seed: int) -> None:
    """Write for Ann through a memory, in a process of its own."""
    asyncio.run(_write_and_forget(dsn, Random(seed)))


async def _write_and_forget(dsn: str, random: Random) -> None:
    keys: list[str] = []
    async with drawn(dsn) as memory:
        for _ in range(WRITES):
            thread, what = random.choice(["t1", "t2"]), random.random()
            if what < 0.4:
                some = [a_turn(random.choice(WORDS)) for _ in range(random.choice([1, 1, 5]))]
                await memory.append_events(ANN, thread, some)
            elif what < 0.7 or not keys:
                keys += await memory.remember(ANN, [" ".join(random.sample(WORDS, 3))])
            elif what < 0.95:
                await memory.forget(ANN, keys.pop(random.randrange(len(keys))))
            else:
                await memory.forget_thread(ANN, thread)


def roll_back_and_wait(dsn: str, seed: int) -> None:
    """Write for Ann in transactions that end late, in part, or not at all."""
    random = Random(seed)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        for _ in range(WRITES):
            # Ids are drawn before the commits, in another order.
            ids = [uuid7() for _ in range(3)]
            time.sleep(random.random() / 50)
            with connection.transaction(force_rollback=random.random() < 0.3):
                _write(connection, ids[0], random)
                with connection.transaction(force_rollback=random.random() < 0.5):
                    _write(connection, ids[1], random)
                time.sleep(random.random() / 50)
                _write(connection, ids[2], random)


def _write(connection: psycopg.Connection[Any], memory_id: UUID, random: Random) -> None:
    values = {"tenant": TENANT, "id": memory_id, "text": " ".join(random.sample(WORDS, 2))}
    connection.execute(WRITTEN, values)
    connection.execute(NOTED, values)


@pytest.fixture
async def memory(dsn: str) -> AsyncIterator[MemoryEngine]:
    async with drawn(dsn) as memory:
        await memory.append_events(ANN, "t1", [a_turn("tea")])
        yield memory


def unread(memory_id: UUID | None = None) -> Memory:
    raise AssertionError(f"{memory_id} is not read here")


async def held(index: UserIndex) -> Any:
    """Return all that an index answers from, in a form that can be compared."""
    asked = await request(ANN, " ".join(WORDS))
    _, corpus, scored = index.scored(asked, START, memory_of=unread)
    if corpus is None:
        return []
    holders = sorted(zip(corpus.holders.tolist(), corpus.words.tolist(), strict=True))
    cosines = [round(float(one), 5) for one in corpus.similarity]
    return [
        [replace(one, memory=unread) for one in scored],
        repr(cosines),
        corpus.length.tolist(),
        corpus.opens.tolist(),
        holders,
    ]


async def read_both(
    memory: MemoryEngine, since: UUID
) -> tuple[PackedMemories | None, PackedMemories]:
    """Return what changed since a write, and everything, as of one moment."""
    sent = read_steps(TENANT, MODEL, START, since), read_steps(TENANT, MODEL, START, None)
    database = indexes(memory)._database
    answers = await database.run(TENANT, *sent[0], *sent[1], one_moment=True)
    whole = packed(answers[len(sent[0]) :], None)
    assert whole is not None
    return packed(answers[: len(sent[0])], since), whole


async def test_what_changed_added_to_what_was_is_all_that_there_is(
    memory: MemoryEngine, dsn: str
) -> None:
    fork = multiprocessing.get_context("fork")
    writers = [
        fork.Process(target=target, args=(dsn, seed))
        for seed, target in enumerate([write_and_forget, roll_back_and_wait] * 2)
    ]
    index, compared = UserIndex(), 0
    _, whole = await read_both(memory, UUID(int=0))
    index.apply(whole, None)
    for one in writers:
        one.start()
    while any(one.is_alive() for one in writers) or not compared:
        changed, whole = await read_both(memory, index.seen)
        anew = UserIndex()
        anew.apply(whole, None)
        if changed is None:  # more was written than the list holds
            index = anew
            continue
        compared += changed.seen != index.seen
        assert index.apply(changed, index.seen)
        assert await held(anew) == await held(index)
        await asyncio.sleep(0)
    for one in writers:
        await asyncio.to_thread(one.join)
    assert [0] * len(writers) == [one.exitcode for one in writers]


async def test_each_recall_sees_what_was_committed_before_it_and_nothing_that_is_gone(
    memory: MemoryEngine, dsn: str
) -> None:
    async def write_and_ask(writing: MemoryEngine, number: int) -> None:
        for turn in range(12):
            word = f"word{number}x{turn}"
            [key] = await writing.remember(ANN, [f"{word} and tea"])
            found = await memory.recall(ANN, word)
            assert any(word in hit.memory.text for hit in found), word
            await writing.forget(ANN, key)
            found = await memory.recall(ANN, word)
            assert not any(word in hit.memory.text for hit in found), word

    async with drawn(dsn) as other:
        await make_resident(memory, ANN)
        tasks = [write_and_ask((memory, other)[number % 2], number) for number in range(6)]
        await asyncio.gather(*tasks)


async def test_a_write_that_a_crash_undid_is_gone_from_the_index(
    memory: MemoryEngine, dsn: str
) -> None:
    await make_resident(memory, ANN)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        [before] = connection.execute("SELECT write_ids, memory_ids FROM memory_changes").fetchall()
        [key] = await memory.remember(ANN, ["a parrot"])
        assert "a parrot" in [hit.memory.text for hit in await memory.recall(ANN, "parrot")]
        # As after a crash with synchronous_commit = off, or on a standby that lagged behind.
        connection.execute("DELETE FROM memories WHERE key = %s", [key])
        connection.execute("UPDATE memory_changes SET write_ids = %s, memory_ids = %s", before)
    await memory.remember(ANN, ["a canary"])
    found = [hit.memory.text for hit in await memory.recall(ANN, "parrot or canary")]
    assert "a parrot" not in found and "a canary" in found
    await until(lambda: TENANT in indexes(memory).users)
    assert "a canary" in [hit.memory.text for hit in await memory.recall(ANN, "canary")]
