"""Cuts the connection at a random place of each write, and compares what callers are told.

    python -m benchmarks.lost_answers [--engine postgres|seekdb] [--cuts 1000] [--seed N] [--json]

The same calls go to two databases of one server: to one directly, to the other through a proxy.
The proxy closes the connection once during each call, before or behind a random one of the messages
that the call exchanges: so a request is lost, or its answer, or it is known that nothing was sent.
Then the answers of both calls must be equal, and so must all rows of the user, ids and moments of
the call apart. An error is right only if it says what is not known. Exits with 1 on any difference.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.report import load_average
from shared_core import Event, MemoryEngine, NewMemory, Scope, open_memory
from shared_core.errors import Conflict, MemoryCoreError, StorageUnavailable
from shared_core.ports.jobs import JobType
from shared_core.ports.session_logs import Seen, StateChange
from shared_core.storage.oceanbase.connection.embedded import EmbeddedSeekdb
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres

START: Final = datetime(2026, 3, 1, tzinfo=UTC)
MOST_MESSAGES: Final = 40
SHOWN: Final = 20
UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
HASHES: Final = re.compile(r'"(?:receipt_hash|content_hash|duration_s|began_at)": *[^,}]*')


class Proxy:
    """Passes messages on to a server, and closes a connection at the message that was named."""

    def __init__(self, connect: Callable[[], Awaitable[Any]]) -> None:
        self._connect = connect
        self.messages = 0
        self.cut_at: int | None = None
        self.was_cut = False

    async def listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        self._server.close()

    def arm(self, cut_at: int | None) -> None:
        """Count messages anew; cut the connection at this one."""
        self.messages, self.cut_at, self.was_cut = 0, cut_at, False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await self._connect()
        both = (writer, back)
        tasks = [
            asyncio.create_task(self._pass(reader, back, both)),
            asyncio.create_task(self._pass(there, writer, both)),
        ]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, both: tuple[Any, ...]
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                self.messages += 1
                if self.messages == self.cut_at:
                    self.was_cut = True
                    break
                writer.write(data)
                await writer.drain()
        for one in both:
            one.transport.abort() if self.was_cut else one.close()


class Clock:
    """A clock that stands until it is set forward."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


Call = Callable[[MemoryEngine, Scope, dict[str, Any]], Awaitable[object]]
"""Writes; the dictionary keeps ids from one call to the next."""
CALLS: list[tuple[str, Call]] = []


def call(work: Call) -> Call:
    CALLS.append((work.__name__, work))
    return work


def turns(name: str, *texts: str) -> list[Event]:
    return [
        Event(event_id=f"{name}{n}", author="user", role="user", text=text, occurred_at=START)
        for n, text in enumerate(texts)
    ]


@call
async def append(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    texts = ("I live in Lisbon.", "I work as a nurse at Mercy.", "My sister Zoe likes tea.")
    return sorted(await memory.append_events(scope, "t", turns("a", *texts)))


@call
async def append_later(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    said = turns("b", "I love jazz.", "My dog is called Rex.")
    return sorted(await memory.append_events(scope, "t", said, later=True, delay_s=0))


@call
async def consolidate(memory: MemoryEngine, scope: Scope, kept: Any) -> object:
    report = await memory.consolidate(scope, "t")
    kept["run"] = report.run_id
    return report.run_id is not None


@call
async def undo(memory: MemoryEngine, scope: Scope, kept: Any) -> object:
    await memory.undo_run(scope, kept["run"])
    return len(await memory.list_memories(scope))


@call
async def remember(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.remember(scope, [NewMemory(text="Tea at four.", key="k1")])


@call
async def remember_more(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.remember(scope, [NewMemory(text=f"Note {n}.", key=f"n{n}") for n in "12"])


@call
async def pin(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.retention.pin(scope, ["k1", "n1"])


@call
async def unpin(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.retention.unpin(scope, ["k1"])


@call
async def forget(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.forget(scope, ["n2"])


@call
async def forget_turns(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.forget_turns(scope, "t", ["b0"])


@call
async def state(memory: MemoryEngine, scope: Scope, kept: Any) -> object:
    fact = await memory.state_fact(scope, "home", "Porto")
    kept["fact"] = fact.memory_id
    return fact.value


@call
async def retract(memory: MemoryEngine, scope: Scope, kept: Any) -> object:
    return (await memory.retract(scope, kept["fact"])).value


@call
async def restore(memory: MemoryEngine, scope: Scope, kept: Any) -> object:
    return (await memory.restore(scope, kept["fact"])).value


@call
async def add_edge(memory: MemoryEngine, scope: Scope, kept: Any) -> object:
    change = await memory.graph.add(scope, "Zoe", "likes", "coffee")
    kept["edge"] = change.edge_id
    return UUID.sub("#", repr(change))


@call
async def retract_edge(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return UUID.sub("#", repr(await memory.graph.retract(scope, "Zoe", "likes", "coffee")))


@call
async def restore_edge(memory: MemoryEngine, scope: Scope, kept: Any) -> object:
    return (await memory.graph.restore(scope, kept["edge"])).object


@call
async def merge(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.graph.merge_aliases(scope, "Zoe", ["Zozo", "Z."])


@call
async def unmerge(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.graph.unmerge_aliases(scope, "Zoe", ["Z."])


@call
async def instruct(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return (await memory.instructions.write(scope, "tone", {"content": "Be brief."})).version


@call
async def instruct_again(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return (await memory.instructions.write(scope, "tone", {"content": "Be kind."})).version


@call
async def roll_back_instruction(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return (await memory.instructions.rollback(scope, "tone")).version


@call
async def delete_instruction(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.instructions.delete(scope, "tone")


@call
async def open_session(memory: MemoryEngine, scope: Scope, kept: Any) -> object:
    change = StateChange(app={}, user={"u": 1}, session={"s": 1})
    record = await memory.sessions.create(scope, "log", change)
    kept["seen"] = record.version
    return dict(record.state)


@call
async def append_to_session(memory: MemoryEngine, scope: Scope, kept: Any) -> object:
    [event] = turns("s", "Hello there.")
    change = StateChange(app={}, user={}, session={"s": 2})
    seen = Seen(version=kept["seen"])
    before = kept["seen"]
    after = await memory.sessions.append(scope, "log", event, "{}", state=change, seen=seen)
    return after is not None and after - before


@call
async def close_session(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    await memory.sessions.delete(scope, "log", forget=True)
    return None


@call
async def hear(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    said = await memory.process_memory("I have a cat.", scope.user, app=scope.app, event_id="p1")
    return sorted(vars(said)) if hasattr(said, "__dict__") else type(said).__name__


@call
async def end_session(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.conversations.end(scope) is not None


@call
async def request(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    await memory.jobs.request(scope, "t", JobType.FULL_CONSOLIDATION)
    return len(await memory.jobs.list(scope, thread_id="t"))


@call
async def cancel(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    jobs = await memory.jobs.list(scope, thread_id="t")
    return await memory.jobs.cancel([one.job_id for one in jobs if one.status == "pending"])


@call
async def profile(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    said = [{"role": "user", "content": "I am a vegetarian."}]
    await memory.profiles.of(scope, "guide").update(said)
    return [one.version for one in await memory.profiles.of(scope, "guide").versions()]


@call
async def roll_profile_back(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    said = [{"role": "user", "content": "I live in Rome."}]
    await memory.profiles.of(scope, "guide").update(said)
    return (await memory.profiles.of(scope, "guide").rollback(1)).version


@call
async def policy(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.retention.set_policy("high-interaction", scope)


@call
async def fade(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return dict((await memory.retention.forget_faded(scope)).counts)


@call
async def token(memory: MemoryEngine, scope: Scope, kept: Any) -> object:
    app = f"app-{scope.user}"
    made = await memory.tokens.create(app, label="door")
    kept["token"] = made.token.token_id
    return len(await memory.tokens.list(app))


@call
async def revoke(memory: MemoryEngine, scope: Scope, kept: Any) -> object:
    await memory.tokens.revoke(kept["token"])
    return [one.revoked_at is None for one in await memory.tokens.list(f"app-{scope.user}")]


@call
async def replace(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.remember(scope, [NewMemory(text="Tea at five.", key="k1")])


@call
async def forget_thread(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return await memory.forget_thread(scope, "t")


@call
async def erase(memory: MemoryEngine, scope: Scope, _: Any) -> object:
    return {k: v for k, v in (await memory.erase(scope)).counts.items() if k != "writes"}


async def rows_of(memory: MemoryEngine, scope: Scope) -> list[str]:
    lines = [line async for line in memory.export(scope)][1:]
    return sorted(HASHES.sub("#", UUID.sub("#", line)) for line in lines)


class Comparison:
    """Runs the calls on both databases, one user after the other, and notes differences.

    every: rows are compared after so many calls, and after each of the last three.
    """

    def __init__(
        self,
        cut: MemoryEngine,
        plain: MemoryEngine,
        proxy: Proxy,
        clock: Clock,
        seed: int,
        every: int = 1,
    ) -> None:
        self._cut, self._plain, self._proxy, self._clock = cut, plain, proxy, clock
        self._every = every
        self._random = random.Random(seed)
        self._messages = Counter[str]()
        self.counts = Counter[str]()
        self.found: list[str] = []

    async def user(self, number: int, cuts: int) -> None:
        """Let a new user write everything once; the first one is not cut, but counted."""
        scope = Scope("app", f"user{number}")
        kept: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        self._known = Counter[str]()
        for at, (name, work) in enumerate(CALLS, 1):
            if number > 0 and self.counts["cuts"] >= cuts:
                await self._compare("after the last cut", scope)
                return
            self._clock.now += timedelta(hours=1)
            expected = await self._told(work, self._plain, scope, kept[0])
            most = self._messages[name]
            wants = number > 0 and self.counts["cuts"] < cuts and most
            self._proxy.arm(self._random.randint(1, most) if wants else None)
            told = await self._told(work, self._cut, scope, kept[1])
            if number == 0:
                self._messages[name] = min(self._proxy.messages, MOST_MESSAGES)
            place = f"{name}, message {self._proxy.cut_at} of {most}, user {number}"
            self.counts["cuts"] += self._proxy.was_cut
            self._proxy.arm(None)
            if told != expected:
                self.found.append(f"{place}: told {told!r}, expected {expected!r}")
                self.counts["wrong answers"] += 1
            if at % self._every == 0 or at > len(CALLS) - 3:
                await self._compare(place, scope)

    async def _told(self, work: Call, memory: MemoryEngine, scope: Scope, kept: Any) -> object:
        try:
            return await work(memory, scope, kept)
        except StorageUnavailable as error:
            is_known = "may or may not" in str(error)
            self.counts["said to be unknown" if is_known else "refused"] += 1
            return f"StorageUnavailable: {error}"
        except (MemoryCoreError, Conflict) as error:
            return f"{type(error).__name__}: {UUID.sub('#', str(error))}"
        except Exception as error:  # noqa: BLE001  any other error is a finding
            return f"raw {type(error).__name__}: {UUID.sub('#', str(error))}"

    async def _compare(self, place: str, scope: Scope) -> None:
        left, right = await rows_of(self._plain, scope), await rows_of(self._cut, scope)
        lost, more = Counter(left) - Counter(right), Counter(right) - Counter(left)
        new = [f"missing {one}" for one in lost - self._known]
        new += [f"too many {one}" for one in more - self._known]
        if new:
            self.found.append(f"{place}: {new[:4]}")
            self.counts["differences of rows"] += 1
        self._known = lost + more


Target = Callable[[int | None, str], str]
"""Names a database of a server, directly or behind a port of this machine."""
Connect = Callable[[], Awaitable[Any]]


async def run(arguments: argparse.Namespace, folder: Path) -> Comparison:
    server, target, connect = SERVERS[arguments.engine](folder)
    names = ("plain", "cut")
    comparison = await compared(target, connect, names, arguments.cuts, arguments.seed)
    server.release()
    return comparison


async def compared(
    target: Target, connect: Connect, names: tuple[str, str], cuts: int, seed: int, every: int = 1
) -> Comparison:
    """Cut calls to the second of two empty databases of a server, and compare it with the first."""
    proxy, clock = Proxy(connect), Clock()
    port = await proxy.listen()
    options: dict[str, Any] = {"worker": False, "clock": clock}
    plain = open_memory(target(None, names[0]), **options)
    cut = open_memory(target(port, names[1]), **options)
    async with plain, cut:
        comparison = Comparison(cut, plain, proxy, clock, seed, every)
        number = 0
        while comparison.counts["cuts"] < cuts:
            await comparison.user(number, cuts)
            number += 1
    proxy.close()
    return comparison


def postgres_server(folder: Path) -> tuple[Any, Target, Connect]:
    """Start a PostgreSQL; return it, the DSNs of its databases, and what connects to it."""
    server = EmbeddedPostgres(folder / "pg")
    dsn = server.acquire()
    with psycopg.connect(dsn, autocommit=True) as admin:
        for name in ("plain", "cut"):
            admin.execute(f"CREATE DATABASE {name}".encode())
    return server, *on_postgres(dsn)


def on_postgres(dsn: str) -> tuple[Target, Connect]:
    """Return the DSNs of the databases of a server, and what connects to it."""
    given = conninfo_to_dict(dsn)
    socket = f"{given['host']}/.s.PGSQL.{given['port']}"

    def target(port: int | None, name: str) -> str:
        if port is None:
            return make_conninfo(dsn, dbname=name)
        return make_conninfo(dsn, dbname=name, host="127.0.0.1", port=port, sslmode="disable")

    return target, lambda: asyncio.open_unix_connection(socket)


def seekdb_server(folder: Path) -> tuple[Any, Target, Connect]:
    """Start a SeekDB; return it, the uris of its databases, and what connects to it."""
    server = EmbeddedSeekdb(folder / "s")
    server.acquire()
    return server, *on_seekdb(folder / "s")


def on_seekdb(home: Path) -> tuple[Target, Connect]:
    """Return the uris of the databases of the server of a folder, and what connects to it."""
    directory = os.open(home / "run", os.O_PATH | os.O_CLOEXEC)
    socket = f"/proc/self/fd/{directory}/sql.sock"

    def target(port: int | None, name: str) -> str:
        if port is None:
            return f"seekdb://{home}?database={name}"
        return f"seekdb://root@127.0.0.1:{port}/{name}"

    return target, lambda: asyncio.open_unix_connection(socket)


SERVERS: Final = {"postgres": postgres_server, "seekdb": seekdb_server}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--engine", choices=list(SERVERS), default="postgres")
    parser.add_argument("--cuts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        comparison = asyncio.run(run(arguments, Path(folder)))
    counts = {"engine": arguments.engine, **comparison.counts, "load": load_average()}
    print(
        json.dumps(counts) if arguments.json else "\n".join(f"{k}: {v}" for k, v in counts.items())
    )
    for line in comparison.found[:SHOWN]:
        print(line, file=sys.stderr)
    sys.exit(bool(comparison.found))


if __name__ == "__main__":
    main()
