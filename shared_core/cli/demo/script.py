"""The conversations of the demo, and the parser of their format:

# Title
user: maya
agent: assistant

## 2026-03-02 08:40 +00:00 monday-morning
user: a turn
agent: the next one, a minute later

## Questions
- ask: a question in other words than the turn that answers it
  expect: words in a memory that answers it
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Literal, NamedTuple, cast

from shared_core.errors import InvalidInput

Language = Literal["en", "zh"]
Speaker = Literal["user", "agent"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")

TURN_APART = timedelta(minutes=1)
QUESTIONS = "## Questions"
_HEAD = re.compile(r"## (\d{4}-\d\d-\d\d) (\d\d:\d\d) ([+-]\d\d:\d\d) (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTurn:
    """One turn. event_id is the session id and the number of the turn, from 01."""

    event_id: str
    speaker: Speaker
    text: str
    said_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedSession:
    """One session of a script."""

    session_id: str
    turns: Sequence[ScriptedTurn]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the words that a memory must contain to answer it."""

    ask: str
    expect: str

    def is_answered_by(self, text: str) -> bool:
        """Return whether the text contains the expected words, ignoring case."""
        return self.expect.casefold() in text.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The conversations of one user with one agent, and the questions about them."""

    title: str
    user: str
    agent: str
    conversations: Sequence[ScriptedSession]
    questions: Sequence[Question]


class _Line(NamedTuple):
    number: int
    text: str


def load_script(language: Language) -> Script:
    """Return the script of a language, which comes with this package."""
    file = files("shared_core.cli.demo") / f"conversation.{language}.md"
    return parse_script(file.read_text("utf-8"))


def parse_script(text: str) -> Script:
    """Return the script in a text. Raises InvalidInput with the line number of an error."""
    sections: list[list[_Line]] = [[]]
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("## "):
            sections.append([])
        if line.strip():
            sections[-1].append(_Line(number, line.strip()))
    opening, *rest = sections
    if len(opening) != 3 or not opening[0].text.startswith("# "):
        raise InvalidInput("a script begins with '# title', 'user: name' and 'agent: name'")
    return Script(
        title=opening[0].text.removeprefix("# "),
        user=_value(opening[1], "user"),
        agent=_value(opening[2], "agent"),
        conversations=[_conversation(part) for part in rest if part[0].text != QUESTIONS],
        questions=[q for part in rest if part[0].text == QUESTIONS for q in _questions(part)],
    )


def _conversation(section: Sequence[_Line]) -> ScriptedSession:
    head, *lines = section
    match = _HEAD.fullmatch(head.text)
    if match is None:
        raise InvalidInput(
            f"line {head.number}: {head.text!r} is not the head of a session:"
            " write '## 2026-03-02 08:40 +00:00 session-id'"
        )
    began_at = datetime.fromisoformat(f"{match[1]}T{match[2]}{match[3]}")
    turns = []
    for position, line in enumerate(lines):
        speaker = line.text.partition(": ")[0]
        if speaker not in ("user", "agent"):
            raise InvalidInput(f"line {line.number}: a turn begins with 'user: ' or 'agent: '")
        turns.append(
            ScriptedTurn(
                event_id=f"{match[4]}-{position + 1:02d}",
                speaker=cast(Speaker, speaker),
                text=_value(line, speaker),
                said_at=began_at + position * TURN_APART,
            )
        )
    return ScriptedSession(session_id=match[4], turns=turns)


def _questions(section: Sequence[_Line]) -> list[Question]:
    lines = section[1:]
    if len(lines) % 2:
        raise InvalidInput(f"line {lines[-1].number}: every 'ask' needs an 'expect'")
    return [
        Question(ask=_value(ask, "- ask"), expect=_value(expect, "expect"))
        for ask, expect in zip(lines[::2], lines[1::2], strict=True)
    ]


def _value(line: _Line, name: str) -> str:
    """Return what follows "name: " on a line."""
    found, colon, value = line.text.partition(":")
    if found != name or not colon or not value.strip():
        raise InvalidInput(f"line {line.number}: expected '{name}: ...', found {line.text!r}")
    return value.strip()
