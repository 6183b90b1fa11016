"""Reads labelled conversations: turns, questions, and the turns that answer them. Pure.

The format: {"dataset", "conversations": [{"turns": [{"id", "session", "date", "speaker", "text"}],
"questions": [{"question", "category", "evidence": [turn ids]}]}]}. Optional keys of a turn:

user_id            the user whose memory stores it
caption            text of an image that was shown
sid                id of its session, as in "evidence_sessions"

Optional keys of a question:

user_id            the user who asks it
mode               "any": one turn of the evidence suffices
context            the dialogue up to and with the question, used instead of its text
time               when it is asked
asked_in           number of a session; only the sessions before it are known
evidence_sessions  ids of the sessions that answer it, if no single turns do
evidence_roles     "original_info" and "updated_info": turns with the old and the new value
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from shared_core import Event
from shared_core.core.domain import Role

AGENTS = ("assistant", "agent")
"""Speakers in the data who are the agent; all others are users."""
APART = ("adversarial", "abstention", "summarization")
"""Categories outside of the overall figures, because single turns do not answer them, or nothing
does."""
NUMERIC = re.compile(r"(\d{4})[-年](\d{1,2})[-月](\d{1,2})日?(?:\D*?(\d{1,2}):(\d{2}))?")
START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its evidence: the ids of the turns, or with by_session of the sessions.

    older, newer: for a question about a change, the turns with the old and with the new value.
    known_sessions: number of sessions before the question, or None for all.
    """

    text: str
    category: str
    evidence: frozenset[str]
    any_suffices: bool
    older: frozenset[str]
    newer: frozenset[str]
    by_session: bool
    asked_at: datetime | None
    known_sessions: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The conversation of one user. sessions: ids in order, each with its turns.

    session_of: the session id of a turn, by its event id.
    """

    sessions: Sequence[tuple[str, Sequence[Event]]]
    questions: Sequence[Question]
    session_of: Mapping[str, str]


def conversations(file: Path) -> Iterator[Conversation]:
    """Yield the conversations of a file, one for each user that its turns name."""
    for item in json.loads(file.read_text(encoding="utf-8"))["conversations"]:
        users = {str(turn.get("user_id", "")) for turn in item["turns"]}
        for user in sorted(users):
            turns = [turn for turn in item["turns"] if str(turn.get("user_id", "")) == user]
            questions = [one for one in item["questions"] if str(one.get("user_id", "")) == user]
            yield _conversation(turns, questions)


def _conversation(
    turns: Sequence[Mapping[str, Any]], questions: Sequence[Mapping[str, Any]]
) -> Conversation:
    sessions: dict[str, list[Event]] = {}
    numbers: dict[str, Any] = {}
    session_of: dict[str, str] = {}
    for position, turn in enumerate(turns):
        session = str(turn.get("sid", turn.get("session", "")))
        sessions.setdefault(session, []).append(_event(turn, position))
        numbers.setdefault(session, turn.get("session"))
        session_of[str(turn["id"])] = session
    order = list(numbers.values())
    return Conversation(
        sessions=list(sessions.items()),
        questions=[question for one in questions if (question := _question(one, order))],
        session_of=session_of,
    )


def _event(turn: Mapping[str, Any], position: int) -> Event:
    role: Role = "agent" if str(turn["speaker"]).lower() in AGENTS else "user"
    return Event(
        event_id=str(turn["id"]),
        author=str(turn["speaker"]),
        role=role,
        text=" ".join(str(part) for part in (turn["text"], turn.get("caption")) if part),
        # A date is often that of a session: its turns follow each other by a second.
        occurred_at=(moment(turn.get("date")) or START) + timedelta(seconds=position),
    )


def _question(item: Mapping[str, Any], sessions: Sequence[Any]) -> Question | None:
    by_session = not item.get("evidence") and bool(item.get("evidence_sessions"))
    evidence = item.get("evidence_sessions") if by_session else item.get("evidence")
    if not evidence:
        return None
    before = item.get("asked_in")
    return Question(
        text=_user_text(item["context"]) if item.get("context") else str(item["question"]),
        category=str(item.get("category")),
        evidence=frozenset(str(one) for one in evidence),
        any_suffices=item.get("mode") == "any",
        older=_ids(item, "original_info"),
        newer=_ids(item, "updated_info"),
        by_session=by_session,
        asked_at=moment(item.get("time")),
        known_sessions=None if before is None else sum(number < before for number in sessions),
    )


def _ids(item: Mapping[str, Any], role: str) -> frozenset[str]:
    return frozenset(str(one) for one in (item.get("evidence_roles") or {}).get(role) or ())


def _user_text(context: Sequence[str] | str) -> str:
    """Return the user's part of a dialogue of lines '<name>:"..."'; its last line is a question."""
    lines = [context] if isinstance(context, str) else context
    turns = [line.partition(":") for line in lines]
    return " ".join(
        text.strip(' "') for who, _, text in turns if who.strip("<> ").lower() not in AGENTS
    )


def moment(date: object) -> datetime | None:
    """Return the time of "2023-05-08 13:56", "2024年04月01日 周一 08:30" or "March-15-2024"."""
    text = str(date or "")
    if numeric := NUMERIC.match(text):
        year, month, day, hour, minute = (int(part or 0) for part in numeric.groups())
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    try:
        return datetime.strptime(text, "%B-%d-%Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or the .json files with conversations below a folder."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"no such file or folder: {path}")
    found = [file for file in sorted(path.rglob("*.json")) if '"conversations"' in _head(file)]
    if not found:
        raise FileNotFoundError(f"no .json file below {path} holds conversations")
    return found


def _head(file: Path) -> str:
    with file.open(encoding="utf-8") as opened:
        return opened.read(2_000)
