"""Talks to look at in the inspector, the addresses of its pages, and the inspector as a process."""

import html
import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from turns import START, said
from warm_python import warm_python

from shared_core import MemoryEngine, Scope, open_memory

APP = "helpdesk"
ANA, LIN = Scope(APP, "ana"), Scope(APP, "林晓雨")
TALKS = {
    ANA: ("I live in Leeds.", "My dog is called Pickle.", "I moved to Edinburgh yesterday.",
          "I work at Northwind now."),
    LIN: ("我住在杭州。", "我的猫叫团团。", "我上周搬到了成都。"),
}  # fmt: skip
"""What the users say, a turn a day from START on."""


def link(path: str, scope: Scope | None = None, **params: str) -> str:
    """Return the address of a page, of a user, below the address of the inspector."""
    named = {} if scope is None else {"app": scope.app, "user": scope.user}
    return f"{path}?{urlencode(named | params)}"


def sent(address: str, language: str = "en") -> list[str]:
    """Return all texts on a page as the server sends it, without a browser; first its title."""
    answer = httpx.get(address, headers={"accept-language": language}, timeout=60)
    assert 200 == answer.status_code, answer.text
    title = re.search("<title>(.*?)</title>", answer.text)
    elements = re.search(r"parseElements\(String\.raw`(.*?)`", answer.text, re.DOTALL)
    assert title and elements
    return [html.unescape(title[1]), *_texts(json.loads(html.unescape(elements[1])))]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


async def tell(memory: MemoryEngine, scope: Scope, texts: Sequence[str]) -> None:
    """Store a conversation of a user, and consolidate it."""
    days = [(place, START + timedelta(days=place), text) for place, text in enumerate(texts)]
    turns = [said(f"turn-{place}", text, day) for place, day, text in days]
    await memory.append_events(scope, "thread-1", turns)
    await memory.consolidate(scope, "thread-1")


async def fill(dsn: str, talks: Mapping[Scope, Sequence[str]] = TALKS) -> None:
    """Store conversations of users, by default one in English and one in Chinese."""
    async with open_memory(dsn, worker=False) as memory:
        for scope, texts in talks.items():
            await tell(memory, scope, texts)


@contextmanager
def inspecting(dsn: str, log: Path, *options: str, command: str = "ui") -> Iterator[str]:
    """Yield the address of a running inspector, "http://127.0.0.1:PORT/ui"."""
    opens = ["--no-open"] if command == "ui" else []
    with log.open("ab") as written:
        process = subprocess.Popen(
            [*warm_python(), "-m", "shared_core.cli.main", *command.split(), *opens, "--port", "0",
             "--uri", dsn, *options],
            stdout=written, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        try:
            code = process.wait(60)
        finally:
            process.kill()
            process.wait()
    assert code == 0 and '"level":"error"' not in log.read_text("utf-8"), log.read_text("utf-8")


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        if told := re.search(r"inspector is at (http://\S+)/ until", log.read_text("utf-8")):
            return told[1]
        time.sleep(0.05)
    raise AssertionError(log.read_text("utf-8"))
