"""Kill -9 in the middle of a run, an erasure, an import, a copy, on SeekDB: of the process that
works, and of the server. Nothing is half-written, and who comes next completes it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pymysql
import pytest
from seekdb_databases import SeekdbDatabases
from test_oceanbase_durability import said, server_of, until_reachable

from shared_core import MemoryEngine, Scope, open_memory
from shared_core.cli.work import work
from shared_core.copy import copy_memory
from shared_core.errors import Conflict, StorageUnavailable
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.transactions import Transaction

ANA, BOB = Scope("app", "ana"), Scope("twin", "bob")
TURNS = ["I live in Leeds.", "I love green tea.", "My sister is called Ida.", "I work at Acme."]
POINTS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Of all that is sent to the server: after which part the process dies."""

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
import pymysql
from shared_core import Scope, open_memory
from shared_core.copy import copy_memory
from shared_core.cli.work import work

verb, last, *uris = sys.argv[1:]
sent, send = [], pymysql.Connection._execute_command

def sending(connection, *command):
    sent.append(1)
    send(connection, *command)
    if len(sent) >= int(last):  # its answer is on the way
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    ana = Scope("app", "ana")
    async with open_memory(uris[0], worker=False, track_access=False) as memory:
        await memory.list_memories(ana, limit=1)
        if verb != "copy":
            pymysql.Connection._execute_command = sending
        if verb == "work":
            await work(memory, once=True, poll_s=0.05)
        elif verb == "erase":
            await memory.erase(ana)
        elif verb == "import":
            await memory.import_lines(Path(uris[1]))
        else:
            async with open_memory(uris[1], worker=False) as target:
                await target.list_memories(ana, limit=1)
                pymysql.Connection._execute_command = sending
                await copy_memory(memory, target, apps=["app"])

asyncio.run(main())
"""


async def killed(verb: str, sent: int, *places: object) -> None:
    """Run a verb in its own process, which kills itself after a number of commands."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", KILLED, verb, str(sent), *map(str, places)],
        timeout=120,
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


async def commands_of(call: Callable[[], Awaitable[object]]) -> int:
    """Return how many commands a call sends to the server."""
    sent, send = list[int](), pymysql.Connection._execute_command  # type: ignore[attr-defined]

    def sending(connection: Any, *command: Any) -> None:
        sent.append(1)
        send(connection, *command)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pymysql.Connection, "_execute_command", sending)
        await call()
    return len(sent)


async def told(memory: MemoryEngine, scope: Scope, *, later: bool = False) -> None:
    turns = [said(number, text) for number, text in enumerate(TURNS)]
    await memory.append_events(scope, "t", turns, later=later, delay_s=0)


async def statements(memory: MemoryEngine, scope: Scope) -> list[str]:
    return sorted(fact.statement for fact in await memory.facts(scope, history=True))


async def lines(memory: MemoryEngine) -> list[str]:
    async with aclosing(memory.export(app="app", vectors=True)) as exported:
        return sorted([line async for line in exported][1:-1])


async def let_go(memory: MemoryEngine) -> None:
    """End the leases of jobs, as if the time were over."""
    await memory._storage._database.write(  # type: ignore[attr-defined]
        lambda tx: tx.run(
            "UPDATE consolidation_jobs SET lease_until = '2020-01-01' WHERE status = 'running'"
        )
    )


@pytest.mark.timeout(300)
async def test_a_killed_run_is_claimed_again_and_written_once(seekdb: SeekdbDatabases) -> None:
    for point in POINTS:
        lent = seekdb.lend()
        uri = next(lent)
        async with open_memory(uri, worker=False, track_access=False) as memory:
            await memory.remember(Scope("other", "one"), "It declares the model.")
            await told(memory, BOB, later=True)
            commands = await commands_of(lambda: work(memory, once=True, poll_s=0.05))
            expected = await statements(memory, BOB)
            assert len(expected) == 4
            await told(memory, ANA, later=True)
            await killed("work", max(1, int(commands * point)), uri)
            assert await statements(memory, ANA) in ([], expected), point
            await let_go(memory)
            assert await work(memory, once=True, poll_s=0.05) == 0
            assert await statements(memory, ANA) == expected, point
            assert len(await memory.runs(ANA)) == 1
            assert not (await memory.consolidate(ANA, "t")).events
        next(lent, None)


@pytest.mark.timeout(300)
async def test_a_killed_erasure_is_whole_or_not_at_all(seekdb_dsn: str) -> None:
    async with open_memory(seekdb_dsn, worker=False, track_access=False) as memory:
        for _ in range(2):  # the first makes what later ones find: rows to lock
            await told(memory, BOB)
            await memory.consolidate(BOB, "t")
            commands = await commands_of(lambda: memory.erase(BOB))
        for point in POINTS:
            await told(memory, ANA)
            await memory.consolidate(ANA, "t")
            before = await lines(memory)
            await killed("erase", max(1, int(commands * point)), seekdb_dsn)
            receipts = await memory.erasures(scope=ANA)
            after = await lines(memory)
            held = await memory.list_memories(ANA, limit=100)
            assert after == before or (not held and receipts), point
            await memory.erase(ANA)
            assert not await memory.list_memories(ANA, limit=100)
            assert not await memory.facts(ANA)


@pytest.mark.timeout(300)
async def test_a_killed_import_and_a_killed_copy_are_completed(
    seekdb: SeekdbDatabases, tmp_path: Path
) -> None:
    lents = [seekdb.lend() for _ in range(2)]
    source_uri, first = (next(lent) for lent in lents)
    file = tmp_path / "lines.jsonl"
    async with open_memory(source_uri, worker=False, track_access=False) as source:
        await told(source, ANA)
        await source.consolidate(ANA, "t")
        await source.remember(ANA, [f"Ana has note {number}." for number in range(40)])
        async with aclosing(source.export(app="app", vectors=True)) as exported:
            file.write_text("".join([line + "\n" async for line in exported]), "utf-8")
        expected = await lines(source)
        async with open_memory(first, worker=False) as target:
            await target.open()
            commands = await commands_of(lambda: copy_memory(source, target, apps=["app"]))
        for verb, point in [(verb, point) for verb in ("import", "copy") for point in (0.2, 0.4)]:
            lent = seekdb.lend()
            uri = next(lent)
            places = (uri, file) if verb == "import" else (source_uri, uri)
            await killed(verb, int(commands * point), *places)
            async with open_memory(uri, worker=False, track_access=False) as target:
                assert set(await lines(target)) < set(expected), (verb, point)
                if verb == "import":
                    await target.import_lines(file)
                else:
                    assert (await copy_memory(source, target, apps=["app"])).complete
                assert await lines(target) == expected, (verb, point)
            next(lent, None)
    for lent in lents:
        next(lent, None)


@pytest.mark.timeout(300)
async def test_a_server_that_dies_during_runs_loses_none_that_was_reported(tmp_path: Path) -> None:
    folder = tmp_path / "seekdb"
    async with open_memory(f"seekdb://{folder}", worker=False, track_access=False) as memory:
        users = [Scope("app", f"user {number}") for number in range(8)]
        for user in users:
            await told(memory, user)
        reported: set[Scope] = set()
        two = asyncio.Event()

        async def run(user: Scope) -> None:
            try:
                if (await memory.consolidate(user, "t")).events:
                    reported.add(user)
            except (StorageUnavailable, Conflict):
                return
            if len(reported) == 2:
                two.set()

        running = [asyncio.create_task(run(user)) for user in users]
        await asyncio.wait_for(two.wait(), 60)
        os.kill(server_of(folder), signal.SIGKILL)
        await asyncio.wait(running, timeout=120)
        await until_reachable(memory)
        for user in users:
            found = await statements(memory, user)
            assert len(found) in ((4,) if user in reported else (0, 4)), (user, found)
        await let_go(memory)
        for user in users:
            await memory.consolidate(user, "t")
            assert len(await statements(memory, user)) == 4
            assert len(await memory.runs(user)) == 1


@pytest.mark.timeout(300)
async def test_a_server_that_dies_keeps_no_lock_of_what_was_not_committed(tmp_path: Path) -> None:
    """SeekDB would, for good, once a part of a transaction is in its log."""
    folder = tmp_path / "seekdb"
    database = OceanBaseDatabase(Settings(uri=f"seekdb://{folder}", home=tmp_path))
    await database.open()

    def dying(tx: Transaction) -> None:
        tx.lock("/app/ana/")
        row = ("/app/ana/", "x" * 1_000_000, datetime.now(UTC))
        tx.insert("shared_state", ("tenant_id", "state", "updated_at"), [row])
        os.kill(server_of(folder), signal.SIGKILL)
        raise LookupError

    with pytest.raises(LookupError):
        await database.write(dying)
    await database.close()
    database = OceanBaseDatabase(
        Settings(uri=f"seekdb://{folder}", home=tmp_path, statement_timeout_s=20)
    )
    await database.open()
    await database.write(lambda tx: tx.lock("/app/ana/"))
    assert await database.read(lambda tx: tx.rows("SELECT 1 FROM shared_state")) == []
    await database.close()


@pytest.mark.timeout(300)
async def test_many_that_are_cancelled_beside_a_server_that_dies_leak_and_lose_nothing(
    tmp_path: Path,
) -> None:
    folder, chance = tmp_path / "seekdb", random.Random(0)
    users = [Scope("app", f"user {number}") for number in range(4)]
    async with open_memory(
        f"seekdb://{folder}", worker=False, track_access=False, pool_size=4
    ) as memory:
        for user in users:
            await told(memory, user)
        acknowledged, numbers, over = set[tuple[Scope, str]](), count(100), False

        async def append(user: Scope) -> None:
            event = said(number := next(numbers), f"Note number {number}.")
            await memory.append_events(user, f"t{number % 3}", [event])
            acknowledged.add((user, event.event_id))

        async def export(user: Scope) -> None:
            async with aclosing(memory.export(user)) as exported:
                for _ in range(chance.randrange(9)):
                    await anext(exported, None)

        async def consolidate(user: Scope) -> None:
            await memory.consolidate(user, "t1")

        async def recall(user: Scope) -> None:
            await memory.recall(user, "note", limit=3)

        async def go_on() -> None:
            verbs = [append, append, append, export, consolidate, recall]
            while not over:
                call = chance.choice(verbs)(chance.choice(users))
                limit_s = chance.choice([None, chance.uniform(0.001, 0.05)])
                with suppress(TimeoutError, StorageUnavailable, Conflict):
                    await asyncio.wait_for(call, limit_s)

        tasks = [asyncio.create_task(go_on()) for _ in range(40)]
        for _ in range(2):
            await asyncio.sleep(4)
            os.kill(server_of(folder), signal.SIGKILL)
        await asyncio.sleep(8)
        over = True
        done, pending = await asyncio.wait(tasks, timeout=100)
        assert not pending
        assert [task.exception() for task in done] == [None] * 40
        await until_reachable(memory)
        held = {
            (user, event_id)
            for user in users
            for found in await memory.list_memories(user, limit=1000)
            for event_id in found.source_event_ids
        }
        assert acknowledged and acknowledged <= held
        threads = [one for one in threading.enumerate() if one.name.startswith("hippocampus-sql")]
        assert len(threads) <= 4
        database = memory._storage._database  # type: ignore[attr-defined]
        for _ in range(100):
            found = await database.read(lambda tx: tx.rows("SHOW PROCESSLIST"))
            if len(found) <= 4:
                break
            await asyncio.sleep(0.1)
        assert len(found) <= 4, found
    assert not [one for one in threading.enumerate() if one.name.startswith("hippocampus-sql")]
