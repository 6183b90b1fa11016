"""Sends random requests to the HTTP server, and random calls to the Python API.

    python -m benchmarks.fuzz [--requests 10000] [--calls 10000] [--engine postgres|seekdb] [--json]

Requests go to `hippocampus serve` in a process of its own, by a socket (benchmarks.fuzz_requests).
Calls go to the public methods of the engine, its services, OpenMemoryService, PgHippocampusStore
and PgSessionService, with arguments of right and wrong types (benchmarks.fuzz_calls). Reported: raw
internal errors, wrong answers, and the most processor time of one call. --first: the number of the
first request and call, to repeat one. Exits with 1 if anything was found, or if one took more than
--most-s seconds of processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.fuzz_calls import Caller, Outcomes
from benchmarks.fuzz_requests import Answers, Client, Mutator, by_schema
from benchmarks.report import load_average
from shared_core import Scope, open_memory

APP = "app"
STARTED_S = 60.0


def uri_of(engine: str, folder: Path) -> str:
    """Return the uri of an embedded memory in a folder."""
    return f"embedded://{folder}/h" if engine == "postgres" else f"seekdb://{folder}/s"


@contextmanager
def serving(uri: str, log: Path) -> Iterator[tuple[int, int]]:
    """Yield the port and the pid of a server without limits of rate."""
    options = ["--uri", uri, "--port", "0", "--rate", "0", "--max-body", "10000000"]
    with log.open("wb") as stderr, subprocess.Popen(
        [sys.executable, "-m", "shared_core.cli.main", "serve", *options], stderr=stderr
    ) as server:  # fmt: skip
        try:
            yield _port(log), server.pid
        finally:
            server.terminate()


def _port(log: Path) -> int:
    deadline = time.monotonic() + STARTED_S
    while time.monotonic() < deadline:
        if told := re.search(r"listening on http://[^\"]*:(\d+)", log.read_text("utf-8")):
            return int(told[1])
        time.sleep(0.05)
    raise TimeoutError(log.read_text("utf-8"))


async def new_token(uri: str) -> str:
    """Return the text of a token for the whole application."""
    async with open_memory(uri, worker=False) as memory:
        return (await memory.tokens.create(APP)).text


def send_requests(uri: str, folder: Path, arguments: Any) -> dict[str, Any]:
    """Send requests; return the figures."""
    token, log = asyncio.run(new_token(uri)), folder / "server.log"
    with serving(uri, log) as (port, pid):
        url = f"http://127.0.0.1:{port}"
        with urllib.request.urlopen(f"{url}/openapi.json") as opened:
            mutator = Mutator(json.load(opened))
        client = Client(port, token, pid)
        with urllib.request.urlopen(f"{url}/health/ready") as opened:
            opened.read()  # loads the model, which is no request's time
        sent = by_schema(url, arguments.requests // 2, arguments.seed, client.send)
        for number in range(arguments.first, arguments.first + arguments.requests - sent):
            client.send(mutator.request(random.Random(f"{arguments.seed} {number}")))
        client.close()
        with urllib.request.urlopen(f"{url}/health/ready") as opened:
            healthy = opened.status == 200
    lines = [line for line in log.read_text("utf-8").splitlines() if '"level":"error"' in
             line.replace(" ", "")]  # fmt: skip
    answers = figures(client.answers)
    answers["sent"] = sum(client.answers.counts.values())
    answers["of them by schemathesis"] = sent
    answers["healthy afterwards"] = healthy
    if lines:
        answers["wrong"]["an error in the log"] = lines[0]
        answers["wrong_count"] += len(lines)
    return answers


def figures(found: Answers | Outcomes) -> dict[str, Any]:
    """Return what was found as JSON, the counts sorted."""
    counts = {str(name): count for name, count in sorted(found.counts.items())}
    return {name: getattr(found, name) for name in found.__slots__} | {"counts": counts}


async def make_calls(uri: str, arguments: Any) -> dict[str, Any]:
    """Make calls; return the figures."""
    async with open_memory(uri) as memory:
        caller = Caller(memory, arguments.seed)
        await memory.recall(Scope(APP, "ana"), "loads the model, which is no call's time")
        for number in range(arguments.first, arguments.first + arguments.calls):
            await caller.call(number)
        await memory.remember(Scope(APP, "last"), "Ana likes tea.")
        found = await memory.recall(Scope(APP, "last"), "tea")
    outcomes = figures(caller.outcomes)
    outcomes["healthy afterwards"] = [hit.memory.text for hit in found] == ["Ana likes tea."]
    return {"methods": caller.methods, **outcomes}


def run(arguments: Any, folder: Path) -> dict[str, Any]:
    """Return the figures of requests and calls."""
    uri = uri_of(arguments.engine, folder)
    report: dict[str, Any] = {
        "engine": arguments.engine,
        "date": datetime.now(UTC).date().isoformat(),
        "load": load_average(),
    }
    works: dict[str, Callable[[], dict[str, Any]]] = {
        "requests": lambda: send_requests(uri, folder, arguments),
        "calls": lambda: asyncio.run(make_calls(uri, arguments)),
    }
    for name, work in works.items():
        if getattr(arguments, name):
            begun = time.monotonic()
            report[name] = work()
            report[name]["seconds"] = round(time.monotonic() - begun)
    return report


def is_clean(report: dict[str, Any], most_s: float) -> bool:
    """Return whether nothing was found."""
    parts = [report[name] for name in ("requests", "calls") if name in report]
    return all(
        not part.get("wrong") and not part.get("raw") and part["healthy afterwards"]
        and part["slowest_s"] <= most_s
        for part in parts
    )  # fmt: skip


def main() -> None:
    """Send and call, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--engine", choices=("postgres", "seekdb"), default="postgres")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--most-s", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # the server of root runs as another user
        os.environ["HIPPOCAMPUS_HOME"] = folder
        report = run(arguments, Path(folder))
    if arguments.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name}: {json.dumps(value, indent=2, ensure_ascii=False)}")
    sys.exit(0 if is_clean(report, arguments.most_s) else 1)


if __name__ == "__main__":
    main()
