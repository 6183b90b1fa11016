"""An index in the process is exactly fresh: after any write it answers as the statement does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeAlias, cast

import psycopg
import pytest
from long_forms import LONG
from resident_users import by_index, by_statement, differs, drawn, indexes, make_resident, until
from turns import START, said

from shared_core import MemoryEngine, RetentionPolicy, Scope
from shared_core.core.namespaces import memories_namespace, scope_path
from shared_core.errors import Conflict, InvalidInput, NotFound
from shared_core.ports.items import WriteItem
from shared_core.storage.postgres.connection.database import PostgresDatabase

ANN = Scope("app", "ann/安")
SAID = (
    "I live in Rome.", "I moved to Bonn last week.", "I drink green tea every morning.",
    "My son Emil is six years old.", "I work as a nurse.", "I don't work as a nurse any more.",
    "我住在上海。", "我喜欢喝绿茶。", "我搬到北京了。", "Emil plays the piano.",
    "My favourite colour is blue.", "I am allergic to peanuts.",
)  # fmt: skip
QUESTION = "Where do I live, and do I drink green tea? 绿茶"
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
        await self.memory.append_events(ANN, self.thread(), events)

    def thread(self) -> str:
        return self.random.choice(["t1", "t2", "聊天"])

    async def consolidate(self) -> None:
        report = await self.memory.consolidate(ANN, self.thread())
        self.runs.append(report.run_id)

    async def undo(self) -> None:
        if runs := [one for one in self.runs if one is not None]:
            await self.memory.undo_run(ANN, runs[-1])
            self.runs.remove(runs[-1])

    async def remember(self) -> None:
        await self.memory.remember(ANN, self.random.sample(SAID, self.random.choice([1, 2])))

    async def put(self) -> None:
        namespace = memories_namespace(ANN)
        text, key, other = self.random.choice(SAID), *self.random.sample("abc", 2)
        put = WriteItem(address=(namespace, key), value={"text": text})
        delete = WriteItem(address=(namespace, other), value=None)
        await self.memory.run_item_ops(self.random.choice([[put], [delete], [put, delete]]))

    async def elsewhere(self) -> None:
        namespace = (*memories_namespace(ANN)[:2], "notes")
        put = WriteItem(address=(namespace, "k"), value={"text": "green tea"})
        await self.memory.run_item_ops([put])

    async def state_fact(self) -> None:
        slot, value = self.random.choice([("city", "Rome"), ("city", "Bonn"), ("like", "tea")])
        ahead = timedelta(days=self.random.choice([0, 0, 2, -3]))
        await self.memory.state_fact(ANN, slot, value, valid_from=self.now + ahead)

    async def end_fact(self) -> None:
        facts = await self.memory.facts(ANN)
        if facts:
            at = self.now + timedelta(days=self.random.choice([0, 1]))
            await self.memory.retract(ANN, self.random.choice(list(facts)), at=at)

    async def restore(self) -> None:
        ended = [one for one in await self.memory.facts(ANN, history=True) if one.valid_until]
        if ended:
            await self.memory.restore(ANN, self.random.choice(ended))

    async def forget(self) -> None:
        keys = [one.key for one in await self.memory.list_memories(ANN, limit=100)]
        if keys:
            await self.memory.forget(ANN, self.random.sample(keys, min(2, len(keys))))

    async def forget_turns(self) -> None:
        named = [f"e{self.random.randint(1, self._turns)}" for _ in range(3)] if self._turns else []
        await self.memory.forget_turns(ANN, self.thread(), named)

    async def forget_thread(self) -> None:
        await self.memory.forget_thread(ANN, self.thread())

    async def erase(self) -> None:
        await self.memory.erase(ANN, self.random.choice([None, self.thread()]))

    async def wait(self) -> None:
        self.now += timedelta(days=self.random.choice([0.1, 1, 3]))

    async def sweep(self) -> None:
        await self.memory.sweep_expired()

    async def fade(self) -> None:
        await self.memory.retention.forget_faded(ANN)

    async def revive(self) -> None:
        keys = [one.key for one in await self.memory.retention.list_faded(ANN)]
        await self.memory.retention.revive(ANN, keys)

    async def carry(self) -> None:
        lines = [line async for line in self.memory.export(ANN)]
        await self.memory.erase(ANN)
        await self.memory.import_lines(lines, restore=True)


VERBS: tuple[tuple[Verb, int], ...] = (
    (Writer.say, 8), (Writer.consolidate, 4), (Writer.undo, 1), (Writer.remember, 3),
    (Writer.put, 4), (Writer.elsewhere, 1), (Writer.state_fact, 3), (Writer.end_fact, 3),
    (Writer.forget, 3), (Writer.forget_turns, 2), (Writer.forget_thread, 1), (Writer.erase, 1),
    (Writer.wait, 2), (Writer.sweep, 1), (Writer.fade, 2), (Writer.revive, 1),
    (Writer.carry, 1), (Writer.restore, 1),
)  # fmt: skip


@pytest.fixture
async def pair(dsn: str) -> AsyncIterator[tuple[Writer, MemoryEngine]]:
    """Somebody who writes with one memory, and another memory that has an index of the user."""
    writer = Writer(cast(MemoryEngine, None), seed=0)
    async with drawn(dsn, clock=writer.clock) as writing, drawn(dsn, clock=writer.clock) as asking:
        writer.memory = writing
        await writing.retention.set_policy(FADES)
        await writer.say()
        yield writer, asking


async def write(writer: Writer) -> str:
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
        done = await write(writer)
        if (differ := await differs(asking, QUESTION, ANN)) is None:  # it is read anew
            await until(lambda: scope_path(ANN) in indexes(asking).users)
            differ = await differs(asking, QUESTION, ANN)
        answered += differ is not None
        if differ:
            found.append(done)
            indexes(asking).clear()
            await make_resident(asking, ANN)
    assert answered > steps / 2
    return found


@pytest.mark.parametrize("seed", range(4))
async def test_after_each_write_of_another_process_the_index_answers_as_the_statement(
    pair: tuple[Writer, MemoryEngine], seed: int
) -> None:
    writer, asking = pair
    writer.random = Random(seed)
    await make_resident(asking, ANN)
    assert [] == await differences(writer, asking, 80 if LONG else 25)


async def test_the_index_learns_what_cleanup_in_sql_took(
    pair: tuple[Writer, MemoryEngine], dsn: str
) -> None:
    writer, asking = pair
    for function in ("forget_faded('/', %s, 100)", "forget_below('/', 1, 0, NULL, %s, 100)"):
        await writer.say()
        await make_resident(asking, ANN)
        answer = await by_index(asking, ANN, QUESTION)
        assert answer is not None and answer[0]
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SET search_path TO hippocampus, public")
            later = writer.now + timedelta(days=40)
            assert connection.execute(f"SELECT * FROM {function}".encode(), [later]).fetchall()
        expected = await by_statement(asking, ANN, QUESTION)
        assert expected != answer
        assert await by_index(asking, ANN, QUESTION) in (None, expected)


async def test_the_comparison_finds_writes_that_are_not_noted(
    pair: tuple[Writer, MemoryEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, asking = pair
    await make_resident(asking, ANN)
    monkeypatch.setattr(PostgresDatabase, "noted", lambda self, notes: ())
    assert await differences(writer, asking, 20)
