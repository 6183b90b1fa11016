"""Measures the inspector in a real browser, over a memory with many users.

    python -m benchmarks.inspector [--users 1000] [--per-user 100] [--rounds 10] [--json]

The memory is embedded, and its turns have the vectors of the bundled model: 2,000 texts of 12
words, shared by all users. A headless Chromium opens each page of one user; median of the rounds,
in ms:

first     first contentful paint, by the browser's own clock, of a browser that has the scripts
ready     until the page shows what it read from the memory
asked     from Enter in the field of Ask until the hits are on screen
recall    engine.recall of the same questions, in this process
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import quote

import psycopg
from playwright.sync_api import Page, sync_playwright

from benchmarks.growth import LOAD, SLOTS
from benchmarks.measure import say
from benchmarks.recall import APP, CONVERSATION, sentence
from benchmarks.report import describe_machine
from benchmarks.slices import NEWEST
from benchmarks.tenant_load import copy_rows
from benchmarks.turn_load import use_schema, write_said, write_turns
from shared_core import Scope, open_memory
from shared_core.core.namespaces import scope_path
from shared_core.models.embedders import E5Embedder
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres

TEXTS = 2_000
WORDS = 12
PAGES = ("", "memories", "facts", "graph", "timeline", "forgetting", "runs", "privacy")
USER = "u1"


def load(home: Path, users: int, per_user: int) -> None:
    """Write the turns of all users."""
    texts = [sentence(f"text {number}", WORDS) for number in range(TEXTS)]
    asyncio.run(_declare(home))
    vectors = asyncio.run(E5Embedder().embed_passages(texts))
    embedded = EmbeddedPostgres(home)
    try:
        with psycopg.connect(embedded.acquire(), autocommit=True) as connection:
            use_schema(connection)
            write_said(connection, texts, vectors)
            columns = ", ".join(f"{name} {kind}" for name, kind in SLOTS.items())
            connection.execute(f"CREATE TEMP TABLE slots ({columns})".encode())
            rows = ((n, scope_path(Scope(APP, f"u{n}")), 0, 1, 7_919 * n) for n in range(users))
            copy_rows(connection, "slots", SLOTS, rows)
            values = {
                "slots": users, "per_user": per_user, "texts": TEXTS, "newest": NEWEST,
                "conversation": CONVERSATION, "first": 0, "last": users * per_user - 1,
            }  # fmt: skip
            connection.execute(LOAD.encode(), values)
            write_turns(connection, E5Embedder.model)
            connection.execute("DROP TABLE load, said")
            connection.execute("VACUUM ANALYZE")
    finally:
        embedded.release()


async def _declare(home: Path) -> None:
    async with open_memory(home, worker=False) as memory:
        await memory.remember(Scope(APP, "u0"), "The first memory makes the tables.")


@contextmanager
def inspector(home: Path) -> Iterator[str]:
    """Yield the address of a running inspector."""
    process = subprocess.Popen(
        [sys.executable, "-m", "shared_core.cli.main", "ui", "--no-open", "--port", "0",
         "--uri", f"embedded://{home}"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"inspector is at (http://\S+)/ until", line):
                yield found[1]
                break
    finally:
        process.terminate()
        process.wait()


def measured(address: str, questions: Sequence[str], rounds: int) -> dict[str, dict[str, float]]:
    """Return the times of each page."""
    figures: dict[str, dict[str, float]] = {}
    who = f"app={quote(APP)}&user={USER}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        for path in PAGES:
            times = [_opened(page, f"{address}/{path}?{who}") for _ in range(rounds + 1)][1:]
            figures[f"/{path}"] = {
                "first": round(median(first for first, _ in times)),
                "ready": round(median(ready for _, ready in times)),
            }
        page.goto(f"{address}/ask?{who}")
        asked = [_asked(page, question) for question in questions][1:]
        figures["/ask"] = {"asked": round(median(asked))}
        browser.close()
    return figures


def _opened(page: Page, url: str) -> tuple[float, float]:
    began = time.perf_counter()
    page.goto(url)
    page.wait_for_selector("main .content")
    page.wait_for_function("!document.querySelector('main .q-spinner, main .q-skeleton')")
    ready = (time.perf_counter() - began) * 1000
    first = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return float(first), ready


def _asked(page: Page, question: str) -> float:
    """Return the ms from Enter until the address names the question and hits are shown."""
    field = page.get_by_role("textbox").first
    field.fill(question)
    page.evaluate("document.querySelectorAll('.hit').forEach(hit => hit.dataset.old = 1)")
    began = time.perf_counter()
    field.press("Enter")
    page.wait_for_selector(".hit:not([data-old])")
    return (time.perf_counter() - began) * 1000


async def recalled(home: Path, questions: Sequence[str]) -> float:
    """Return the median ms of a recall, warm."""
    times = []
    async with open_memory(home, worker=False) as memory:
        for question in questions:
            began = time.perf_counter()
            await memory.recall(Scope(APP, USER), question)
            times.append((time.perf_counter() - began) * 1000)
    return round(median(times[1:]), 1)


def main() -> None:
    """Load a memory, measure the inspector on it, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=1_000)
    parser.add_argument("--per-user", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        load(home, given.users, given.per_user)
        say("measuring")
        questions = [sentence(f"question {n}", 5) for n in range(given.rounds + 1)]
        with inspector(home) as address:
            figures = measured(address, questions, given.rounds)
        figures["recall"] = {"recall": asyncio.run(recalled(home, questions))}
    report = {"environment": describe_machine(), "ms": figures}
    if given.json:
        print(json.dumps(report))
        return
    for name, times in figures.items():
        print(name, " ".join(f"{clock} {value}" for clock, value in times.items()))


if __name__ == "__main__":
    main()
