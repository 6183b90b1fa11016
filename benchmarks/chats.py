"""Chats of a user with an assistant: reads their files, and puts them into a memory.

A file has `conversations`, each with `language`, `user`, `sessions` and `questions`;
benchmarks/data/chats/README.md has the details.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from shared_core import Event, Hit, MemoryEngine, Scope, open_memory
from shared_core.ports.recall import Ranking

DATA = Path(__file__).parent / "data"
OWN = DATA / "assistant.json"
SHORTLY = timedelta(days=10)
"""Time between the last session of a chat and its questions."""


def chats(paths: Iterable[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the chats of files, and of all files of folders, with the name of their file.

    Raises FileNotFoundError for a path that is not there.
    """
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {path}")
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            read = json.loads(file.read_text(encoding="utf-8"))
            for chat in read.get("conversations", ()):
                yield f"{file.parent.name}/{file.stem}", chat


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question of a chat, and the hits of recall. chat: number of the chat; source: its file."""

    chat: int
    source: str
    language: str
    question: dict[str, Any]
    hits: list[Hit]


async def answers(
    paths: Iterable[Path], embedder: str, limit: int, ranking: Ranking = "linear"
) -> AsyncIterator[Answered]:
    """Remember chats, and ask all their questions in a new memory."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(Path(folder), embedder=embedder) as memory:
            for number, (source, chat) in enumerate(chats(paths)):
                scope = Scope("chats", str(number))
                moment = await remember_chat(memory, scope, chat)
                for question in chat["questions"]:
                    found = await memory.recall(
                        scope, question["text"], limit=limit, ranking=ranking, asked_at=moment
                    )
                    yield Answered(
                        chat=number, source=source, language=chat["language"],
                        question=question, hits=[*found],
                    )  # fmt: skip


async def remember_chat(memory: MemoryEngine, scope: Scope, chat: dict[str, Any]) -> datetime:
    """Append the sessions of a chat and consolidate them; return when it is asked about."""
    for session, turns in sessions(chat):
        await memory.append_events(scope, session, turns)
        await memory.consolidate(scope, session)
    return asked_at(chat)


def sessions(chat: dict[str, Any]) -> Iterator[tuple[str, list[Event]]]:
    """Yield the name of each session of a chat, and its turns."""
    for number, session in enumerate(chat["sessions"]):
        begun = _begun(session)
        yield (
            f"session {number}",
            [
                Event(
                    event_id=f"{number}-{at}",
                    author=chat["user"] if line.startswith("u: ") else "assistant",
                    role="user" if line.startswith("u: ") else "agent",
                    text=line[3:],
                    occurred_at=begun + timedelta(minutes=at),
                )
                for at, line in enumerate(session["turns"])
            ],
        )


def asked_at(chat: dict[str, Any]) -> datetime:
    """Return when the questions of a chat are asked."""
    return _begun(chat["sessions"][-1]) + SHORTLY


def _begun(session: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(session["date"]).replace(tzinfo=UTC) + timedelta(hours=9)


def is_answer(question: dict[str, Any], text: str) -> bool:
    """Tell whether a text holds one of the answers of a question."""
    return any(answer in text for answer in question["answer"])


def is_stale(question: dict[str, Any], text: str) -> bool:
    """Tell whether a text holds only what was true before."""
    stale = any(old in text for old in question.get("stale", ()))
    return stale and not is_answer(question, text)
