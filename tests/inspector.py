"""The inspector as a process, and a memory to look at."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from warm_python import warm_python

from shared_core import Event, Scope, open_memory

T = TypeVar("T")
APP = "helpdesk"
ANA, LIN = Scope(APP, "ana"), Scope(APP, "林晓雨")
FIRST_DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
TALKS = {
    ANA: (
        "I live in Leeds.",
        "My dog is called Pickle.",
        "I moved to Edinburgh yesterday.",
        "I work at Northwind now.",
    ),
    LIN: ("我住在杭州。", "我的猫叫团团。", "我上周搬到了成都。"),
}
"""What the users say, a turn a day."""


def now(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine. In a thread: the browser's loop holds this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call).result()


def place(address: str, path: str, scope: Scope = ANA, **params: str) -> str:
    """Return the address of a page of a user."""
    return f"{address}{path}?{urlencode({'app': scope.app, 'user': scope.user} | params)}"


async def fill(dsn: str, talks: dict[Scope, Sequence[str]] | None = None) -> None:
    """Store conversations of two users, one of each in Chinese, and consolidate them."""
    async with open_memory(dsn, worker=False) as memory:
        for scope, texts in (talks or TALKS).items():
            turns = [
                Event(
                    event_id=f"turn-{place}", author="user", role="user", text=text,
                    occurred_at=FIRST_DAY + timedelta(days=place),
                )
                for place, text in enumerate(texts)
            ]  # fmt: skip
            await memory.append_events(scope, "thread-1", turns)
            await memory.consolidate(scope, "thread-1")


@contextmanager
def inspecting(dsn: str, log: Path, *options: str) -> Iterator[str]:
    """Yield the address of a running inspector, "http://127.0.0.1:PORT/ui"."""
    with log.open("ab") as written:
        process = subprocess.Popen(
            [*warm_python(), "-m", "shared_core.cli.main", "ui", "--no-open", "--port", "0",
             "--uri", dsn, *options],
            stdout=written, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait()
    assert '"level":"error"' not in log.read_text("utf-8"), log.read_text("utf-8")


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        if told := re.search(r"inspector is at (http://\S+)/ until", log.read_text("utf-8")):
            return told[1]
        time.sleep(0.05)
    raise AssertionError(log.read_text("utf-8"))
