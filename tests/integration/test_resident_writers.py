"""An index in the process is exactly fresh, whoever writes, and whoever asks meanwhile."""

import asyncio
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeAlias, cast
from uuid import UUID

import psycopg
import pytest
from long_forms import LONG
from resident_users import (
    ANN,
    MODEL,
    Near,
    by_index,
    by_statement,
    differs,
    drawn,
    indexes,
    make_resident,
    request,
    until,
)
from turns import START, said

from shared_core import Event, Memory, MemoryEngine, RetentionPolicy, Scope, run_sync
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import memories_namespace, scope_path
from shared_core.errors import Conflict, InvalidInput, NotFound
from shared_core.ports.items import WriteItem
from shared_core.storage._resident import PackedMemories, UserIndex
from shared_core.storage.postgres.connection.database import PostgresDatabase
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
async def memory(dsn):
    async with drawn(dsn) as memory:
        await memory.append_events(ANN, "t1", [a_turn("tea")])
        yield memory


def unread(memory_id: UUID | None = None) -> Memory:
    raise AssertionError(f"{memory_id} is not read here")


async def held(index: UserIndex) -> Any:
    """Return all that an index answers from, in a form that can be compared."""
    _, corpus, scored = index.scored(await request(ANN, " ".join(WORDS)), START, memory_of=unread)
    if corpus is None:
        return []
    holders = sorted(zip(corpus.holders.tolist(), corpus.words.tolist(), strict=True))
    return [[replace(one, memory=unread) for one in scored], Near(corpus.similarity),
        corpus.length.tolist(), corpus.opens.tolist(), holders]  # fmt: skip


async def read_both(
    memory: MemoryEngine, since: UUID
) -> tuple[PackedMemories | None, PackedMemories]:
    """Return what changed since a write, and everything, as of one moment."""
    sent = read_steps(TENANT, MODEL, START, since), read_steps(TENANT, MODEL, START, None)
    answers = await indexes(memory)._database.run(TENANT, *sent[0], *sent[1], one_moment=True)
    whole = packed(answers[len(sent[0]) :], None)
    assert whole is not None
    return packed(answers[: len(sent[0])], since), whole


@pytest.mark.tail
async def test_what_changed_added_to_what_was_is_all_that_there_is(memory, dsn):
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


async def test_each_recall_sees_what_was_committed_before_it_and_nothing_that_is_gone(memory, dsn):
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


async def test_a_write_that_a_crash_undid_is_gone_from_the_index(memory, dsn):
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


QUESTION = "green tea in york, 喝茶"
ASKED_WORDS = ("tea", "green", "york", "喝茶", "cat", "run")
ADDED = 20
COMPARED = 10
"""Answers that a thread must have compared with the same state of the statement."""


def write(dsn: str, seed: int) -> None:
    """Add memories of Ann, one at a time, in a process of its own."""

    async def add() -> None:
        async with drawn(dsn) as memory:
            for number in range(ADDED):
                words = " ".join(random.sample(ASKED_WORDS, 3))
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


@pytest.mark.tail
def test_two_loops_in_two_threads_ask_while_another_process_writes(dsn):
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
    assert ADDED + 1 == len(run_sync(by_index(memory, ANN, QUESTION))[0])
    run_sync(memory.close())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_and_its_parent_have_an_index_each(dsn):
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


def test_many_threads_ask_at_once(dsn):
    memory = drawn(dsn)
    run_sync(memory.remember(ANN, [f"{word} {number}" for number, word in enumerate(ASKED_WORDS)]))
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


ANAN = Scope("app", "ann/安")
SAID = (
    "I live in Rome.", "I moved to Bonn last week.", "I drink green tea every morning.",
    "My son Emil is six years old.", "I work as a nurse.", "I don't work as a nurse any more.",
    "我住在上海。", "我喜欢喝绿茶。", "我搬到北京了。", "Emil plays the piano.",
    "My favourite colour is blue.", "I am allergic to peanuts.",
)  # fmt: skip
QUESTION_OF_ALL = "Where do I live, and do I drink green tea? 绿茶"
FADES = RetentionPolicy(
    min_age_days=1, threshold=1, archive_threshold=1, archive_after_days=1, erase_threshold=1,
    erase_after_days=3,
)  # fmt: skip
Verb: TypeAlias = Callable[["Writer"], Awaitable[object]]


class Writer:
    """Does one random thing at a time with the memory of Ann."""

    def __init__(self, memory: MemoryEngine, seed: int) -> None:
        self.memory = memory
        self.random = Random(seed)
        self.now = START
        self.runs: list[Any] = []
        self._turns = 0

    def clock(self) -> datetime:
        return self.now

    async def say(self) -> None:
        self.now += timedelta(minutes=self.random.choice([1, 1, 500]))
        events = []
        for _ in range(self.random.choice([1, 1, 4, 60])):
            self._turns += 1
            by_agent = self.random.random() < 0.3
            author, role = ("bot", "agent") if by_agent else ("ann", "user")
            ends = self.now + timedelta(hours=2) if self.random.random() < 0.1 else None
            events.append(said(
                self._turns, self.random.choice(SAID), self.now, author=author, role=role,
                expires_at=ends,
            ))  # fmt: skip
        await self.memory.append_events(ANAN, self.thread(), events)

    def thread(self) -> str:
        return self.random.choice(["t1", "t2", "聊天"])

    async def consolidate(self) -> None:
        self.runs.append((await self.memory.consolidate(ANAN, self.thread())).run_id)

    async def undo(self) -> None:
        if runs := [one for one in self.runs if one is not None]:
            await self.memory.undo_run(ANAN, runs[-1])
            self.runs.remove(runs[-1])

    async def remember(self) -> None:
        await self.memory.remember(ANAN, self.random.sample(SAID, self.random.choice([1, 2])))

    async def put(self) -> None:
        namespace = memories_namespace(ANAN)
        text, key, other = self.random.choice(SAID), *self.random.sample("abc", 2)
        put = WriteItem(address=(namespace, key), value={"text": text})
        delete = WriteItem(address=(namespace, other), value=None)
        await self.memory.run_item_ops(self.random.choice([[put], [delete], [put, delete]]))

    async def elsewhere(self) -> None:
        namespace = (*memories_namespace(ANAN)[:2], "notes")
        put = WriteItem(address=(namespace, "k"), value={"text": "green tea"})
        await self.memory.run_item_ops([put])

    async def state_fact(self) -> None:
        slot, value = self.random.choice([("city", "Rome"), ("city", "Bonn"), ("like", "tea")])
        ahead = timedelta(days=self.random.choice([0, 0, 2, -3]))
        await self.memory.state_fact(ANAN, slot, value, valid_from=self.now + ahead)

    async def end_fact(self) -> None:
        facts = await self.memory.facts(ANAN)
        if facts:
            at = self.now + timedelta(days=self.random.choice([0, 1]))
            await self.memory.retract(ANAN, self.random.choice(list(facts)), at=at)

    async def restore(self) -> None:
        ended = [one for one in await self.memory.facts(ANAN, history=True) if one.valid_until]
        if ended:
            await self.memory.restore(ANAN, self.random.choice(ended))

    async def forget(self) -> None:
        keys = [one.key for one in await self.memory.list_memories(ANAN, limit=100)]
        if keys:
            await self.memory.forget(ANAN, self.random.sample(keys, min(2, len(keys))))

    async def forget_turns(self) -> None:
        named = [f"e{self.random.randint(1, self._turns)}" for _ in range(3)] if self._turns else []
        await self.memory.forget_turns(ANAN, self.thread(), named)

    async def forget_thread(self) -> None:
        await self.memory.forget_thread(ANAN, self.thread())

    async def erase(self) -> None:
        await self.memory.erase(ANAN, self.random.choice([None, self.thread()]))

    async def wait(self) -> None:
        self.now += timedelta(days=self.random.choice([0.1, 1, 3]))

    async def sweep(self) -> None:
        await self.memory.sweep_expired()

    async def fade(self) -> None:
        await self.memory.retention.forget_faded(ANAN)

    async def revive(self) -> None:
        keys = [one.key for one in await self.memory.retention.list_faded(ANAN)]
        await self.memory.retention.revive(ANAN, keys)

    async def carry(self) -> None:
        lines = [line async for line in self.memory.export(ANAN)]
        await self.memory.erase(ANAN)
        await self.memory.import_lines(lines, restore=True)


VERBS: tuple[tuple[Verb, int], ...] = (
    (Writer.say, 8), (Writer.consolidate, 4), (Writer.undo, 1), (Writer.remember, 3),
    (Writer.put, 4), (Writer.elsewhere, 1), (Writer.state_fact, 3), (Writer.end_fact, 3),
    (Writer.forget, 3), (Writer.forget_turns, 2), (Writer.forget_thread, 1), (Writer.erase, 1),
    (Writer.wait, 2), (Writer.sweep, 1), (Writer.fade, 2), (Writer.revive, 1),
    (Writer.carry, 1), (Writer.restore, 1),
)  # fmt: skip


@pytest.fixture
async def pair(dsn):
    """Somebody who writes with one memory, and another memory that has an index of the user."""
    writer = Writer(cast(MemoryEngine, None), seed=0)
    async with drawn(dsn, clock=writer.clock) as writing, drawn(dsn, clock=writer.clock) as asking:
        writer.memory = writing
        await writing.retention.set_policy(FADES)
        await writer.say()
        yield writer, asking


async def write_at_random(writer: Writer) -> str:
    verbs, weights = zip(*VERBS, strict=True)
    [verb] = writer.random.choices(verbs, weights)
    try:
        await verb(writer)
    except (Conflict, InvalidInput, NotFound):
        return f"{verb.__name__}, refused"
    return str(verb.__name__)


async def differences(writer: Writer, asking: MemoryEngine, steps: int) -> list[str]:
    """Return the writes after which the index and the statement answered differently."""
    found, answered = [], 0
    for _ in range(steps):
        done = await write_at_random(writer)
        if (differ := await differs(asking, QUESTION_OF_ALL, ANAN)) is None:  # it is read anew
            await until(lambda: scope_path(ANAN) in indexes(asking).users)
            differ = await differs(asking, QUESTION_OF_ALL, ANAN)
        answered += differ is not None
        if differ:
            found.append(done)
            indexes(asking).clear()
            await make_resident(asking, ANAN)
    assert answered > steps / 2
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.tail
async def test_after_each_write_of_another_process_the_index_answers_as_the_statement(pair, seed):
    writer, asking = pair
    writer.random = Random(seed)
    await make_resident(asking, ANAN)
    assert [] == await differences(writer, asking, 80 if LONG else 25)


async def test_the_index_learns_what_cleanup_in_sql_took(pair, dsn):
    writer, asking = pair
    for function in ("forget_faded('/', %s, 100)", "forget_below('/', 1, 0, NULL, %s, 100)"):
        await writer.say()
        await make_resident(asking, ANAN)
        answer = await by_index(asking, ANAN, QUESTION_OF_ALL)
        assert answer is not None and answer[0]
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SET search_path TO hippocampus, public")
            later = writer.now + timedelta(days=40)
            assert connection.execute(f"SELECT * FROM {function}".encode(), [later]).fetchall()
        expected = await by_statement(asking, ANAN, QUESTION_OF_ALL)
        assert expected != answer
        assert await by_index(asking, ANAN, QUESTION_OF_ALL) in (None, expected)


async def test_the_comparison_finds_writes_that_are_not_noted(pair, monkeypatch):
    writer, asking = pair
    await make_resident(asking, ANAN)
    monkeypatch.setattr(PostgresDatabase, "noted", lambda self, notes: ())
    assert await differences(writer, asking, 20)
