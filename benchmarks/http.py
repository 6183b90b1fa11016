"""Measures requests per second of the HTTP server: a real server process on real sockets.

    python -m benchmarks.http [--clients 100] [--seconds 10] [--recalls 0.5] [--embedder use]

Every client is a user with its own token and --memories memories. It sends one request after the
other on one persistent connection. --recalls is the share of POST /recall (ten hits). The others
are POST /remember of one new sentence, which is embedded and stored before the answer. Server,
database and clients share the machine. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.report import load_average
from shared_core import Scope, open_memory

APP = "benchmark"
WARM_UP_S = 2.0
SUBJECTS = ("Ana", "My sister", "The neighbour", "Tom", "Our teacher", "Mei", "The doctor")
VERBS = ("likes", "bought", "remembers", "repaired", "painted", "forgot", "wants")
OBJECTS = ("green tea", "a red bicycle", "the old garden", "two cats", "a letter", "jazz", "soup")
PLACES = ("in Lisbon", "near the station", "at home", "on Mondays", "since May", "by the sea")


@dataclass
class Tally:
    """Results of the clients: seconds of each answer by path, and numbers of errors.

    cold: answers to wait for before `warm` is set.
    """

    seconds: dict[str, list[float]] = field(
        default_factory=lambda: {"/remember": [], "/recall": []}
    )
    errors: Counter[str] = field(default_factory=Counter)
    counting: bool = False
    cold: int = 0
    warm: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count one answer: any error, and a success after the warm-up."""
        self._count_down()
        if self.counting and status == 200:
            self.seconds[path].append(seconds)
        elif status != 200:
            self.errors[str(status)] += 1

    def lost(self) -> None:
        """Count a lost connection."""
        self._count_down()
        self.errors["connection"] += 1

    def _count_down(self) -> None:
        self.cold -= 1
        if self.cold <= 0:
            self.warm.set()


class Client:
    """One user on one connection."""

    def __init__(self, number: int, token: str, port: int, recalls: float) -> None:
        self._user = f"user{number}"
        self._random = random.Random(number)
        self._head = f"Host: localhost:{port}\r\nAuthorization: Bearer {token}\r\n"
        self._port = port
        self._recalls = recalls

    async def run(self, stop: asyncio.Event, tally: Tally) -> None:
        """Send requests until stop is set. A lost connection is an error and ends the client."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while not stop.is_set():
            path, body = self._next()
            begun = time.perf_counter()
            try:
                writer.write(self._request(path, body))
                status = await status_of(reader)
            except (ConnectionError, asyncio.IncompleteReadError):
                tally.lost()
                break
            tally.add(path, status, time.perf_counter() - begun)
        writer.close()

    def _next(self) -> tuple[str, dict[str, object]]:
        if self._random.random() < self._recalls:
            query = f"What {self._random.choice(VERBS)} {self._random.choice(SUBJECTS)}?"
            return "/recall", {"user_id": self._user, "query": query}
        return "/remember", {"user_id": self._user, "memories": [sentence(self._random)]}

    def _request(self, path: str, body: dict[str, object]) -> bytes:
        sent = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\n{self._head}Content-Type: application/json\r\n"
            f"Content-Length: {len(sent)}\r\n\r\n"
        )
        return head.encode() + sent


async def status_of(reader: asyncio.StreamReader) -> int:
    """Read one answer; return its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head.split(b" ", 2)[1])


def sentence(chance: random.Random) -> str:
    """Return a random sentence, most likely a new one."""
    words = (chance.choice(part) for part in (SUBJECTS, VERBS, OBJECTS, PLACES))
    return f"{' '.join(words)}, number {chance.randrange(1_000_000)}."


async def fill(uri: str, clients: int, memories: int, embedder: str) -> list[str]:
    """Store memories and create a token for every user; return the tokens."""
    tokens = []
    async with open_memory(uri, embedder=embedder, worker=False) as memory:
        for number in range(clients):
            chance = random.Random(-number - 1)
            texts = [sentence(chance) for _ in range(memories)]
            await memory.remember(Scope(APP, f"user{number}"), texts)
            new = await memory.tokens.create(APP, users=[f"user{number}"])
            tokens.append(new.text)
    return tokens


@contextmanager
def serving(uri: str) -> Iterator[int]:
    """Start a server process as a user does, yield its port, and stop it at the end."""
    command = [sys.executable, "-m", "shared_core.cli.main", "serve", "--uri", uri, "--port", "0"]
    with (
        tempfile.NamedTemporaryFile(suffix=".log") as log,
        subprocess.Popen([*command, "--rate", "0"], stderr=log) as process,
    ):
        try:
            yield _port(Path(log.name), process)
        finally:
            process.terminate()


def _port(log: Path, process: subprocess.Popen[bytes]) -> int:
    while process.poll() is None:
        if match := re.search(rb"listening on http://[^\"]*:(\d+)", log.read_bytes()):
            return int(match[1])
        time.sleep(0.05)
    raise SystemExit(f"the server did not start: {log.read_text('utf-8')}")


async def load(tokens: list[str], port: int, seconds: float, recalls: float) -> Tally:
    """Send requests from all clients for some seconds, after a warm-up; return the results.

    The warm-up lasts until there are as many answers as clients, when the server has its model.
    """
    tally, stop = Tally(cold=len(tokens)), asyncio.Event()
    clients = [Client(number, token, port, recalls) for number, token in enumerate(tokens)]
    running = [asyncio.create_task(client.run(stop, tally)) for client in clients]
    await asyncio.sleep(WARM_UP_S)
    await tally.warm.wait()
    tally.counting = True
    await asyncio.sleep(seconds)
    tally.counting = False
    stop.set()
    await asyncio.gather(*running)
    return tally


def report(tally: Tally, clients: int, seconds: float) -> dict[str, object]:
    """Return the figures."""
    every = [took for kind in tally.seconds.values() for took in kind]
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": len(every),
        "requests_per_s": round(len(every) / seconds, 1),
        "errors": sum(tally.errors.values()),
        "error_kinds": dict(tally.errors),
        "p50_ms": _percentile(every, 50),
        "p99_ms": _percentile(every, 99),
        "recall_p50_ms": _percentile(tally.seconds["/recall"], 50),
        "remember_p50_ms": _percentile(tally.seconds["/remember"], 50),
        "load_average": load_average(),
    }


def _percentile(seconds: list[float], percent: int) -> float | None:
    if len(seconds) < 2:
        return None
    return round(statistics.quantiles(seconds, n=100)[percent - 1] * 1000, 1)


def main() -> None:
    """Measure, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--recalls", type=float, default=0.5, help="share of recalls")
    parser.add_argument(
        "--memories", type=int, default=100, help="memories of each user at the start"
    )
    parser.add_argument("--embedder", choices=("use", "e5"), default="e5")
    parser.add_argument("--json", action="store_true", help="print only the JSON line")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        uri = f"embedded://{Path(folder)}"
        tokens = asyncio.run(fill(uri, arguments.clients, arguments.memories, arguments.embedder))
        with serving(uri) as port:
            tally = asyncio.run(load(tokens, port, arguments.seconds, arguments.recalls))
    figures = report(tally, arguments.clients, arguments.seconds)
    if not arguments.json:
        for name, value in figures.items():
            print(f"{name:>18}  {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
