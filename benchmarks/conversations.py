"""Reads labelled conversations: turns, questions, and which turns answer them. Pure.

The format: {"dataset", "conversations": [{"turns": [{"id", "session", "date", "speaker", "text"}],
"questions": [{"question", "category", "evidence": [turn ids]}]}]}. Besides, where a set has them:
"caption" of a turn, an image that was shown; "user_id" of turns and questions, whose memory it is;
of a question "mode": "any" (one of its turns suffices), "context" (the dialogue up to it), "time"
(when it is asked), "asked_in" (only sessions before are known) and "evidence_sessions" (answered
by sessions, not turns; "sid" names a turn's), "evidence_roles" (which turns are "original_info" and
which "updated_info").
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
"""Speakers in the data who are the agent; everybody else is a user."""
APART = ("adversarial", "abstention", "summarization")
"""Categories that are reported, and not part of the overall figures: what they ask for is not in
single turns, or is not there at all."""
NUMERIC = re.compile(r"(\d{4})[-年](\d{1,2})[-月](\d{1,2})日?(?:\D*?(\d{1,2}):(\d{2}))?")
START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """text is what is asked; evidence the ids of what answers it, of turns or of sessions.

    older and newer: of a question about something that changed, the turns that say how it was and
    how it is.
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
    """What one user's memory is made of. sessions: in order, each with its turns.

    unit_of: the id a turn is counted under, by its event id, for questions answered by sessions.
    """

    sessions: Sequence[tuple[str, Sequence[Event]]]
    questions: Sequence[Question]
    session_of: Mapping[str, str]


def conversations(file: Path) -> Iterator[Conversation]:
    """Yield what a file holds, one for each user of a conversation that says whose turns are."""
    for given in json.loads(file.read_text(encoding="utf-8"))["conversations"]:
        users = {str(turn.get("user_id", "")) for turn in given["turns"]}
        for user in sorted(users):
            turns = [turn for turn in given["turns"] if str(turn.get("user_id", "")) == user]
            asked = [one for one in given["questions"] if str(one.get("user_id", "")) == user]
            yield _conversation(turns, asked)


def _conversation(
    turns: Sequence[Mapping[str, Any]], asked: Sequence[Mapping[str, Any]]
) -> Conversation:
    sessions: dict[str, list[Event]] = {}
    numbers: dict[str, Any] = {}
    session_of: dict[str, str] = {}
    for position, turn in enumerate(turns):
        session = str(turn.get("sid", turn.get("session", "")))
        said = sessions.setdefault(session, [])
        said.append(_event(turn, position))
        numbers.setdefault(session, turn.get("session"))
        session_of[str(turn["id"])] = session
    order = list(numbers.values())
    return Conversation(
        sessions=list(sessions.items()),
        questions=[question for one in asked if (question := _question(one, order))],
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


def _question(asked: Mapping[str, Any], sessions: Sequence[Any]) -> Question | None:
    by_session = not asked.get("evidence") and bool(asked.get("evidence_sessions"))
    evidence = asked.get("evidence_sessions") if by_session else asked.get("evidence")
    if not evidence:
        return None
    before = asked.get("asked_in")
    return Question(
        text=_spoken(asked["context"]) if asked.get("context") else str(asked["question"]),
        category=str(asked.get("category")),
        evidence=frozenset(str(one) for one in evidence),
        any_suffices=asked.get("mode") == "any",
        older=_ids(asked, "original_info"),
        newer=_ids(asked, "updated_info"),
        by_session=by_session,
        asked_at=moment(asked.get("time")),
        known_sessions=None if before is None else sum(number < before for number in sessions),
    )


def _ids(asked: Mapping[str, Any], role: str) -> frozenset[str]:
    return frozenset(str(one) for one in (asked.get("evidence_roles") or {}).get(role) or ())


def _spoken(context: Sequence[str] | str) -> str:
    """Return what the user said of a dialogue '<name>:"..."', the last of which is the question."""
    lines = [context] if isinstance(context, str) else context
    said = [line.partition(":") for line in lines]
    return " ".join(
        text.strip(' "') for who, _, text in said if who.strip("<> ").lower() not in AGENTS
    )


def moment(date: object) -> datetime | None:
    """Return the moment of "2023-05-08 13:56", "2024年04月01日 周一 08:30" or "March-15-2024"."""
    text = str(date or "")
    if numeric := NUMERIC.match(text):
        year, month, day, hour, minute = (int(part or 0) for part in numeric.groups())
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    try:
        return datetime.strptime(text, "%B-%d-%Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def files_of(path: Path) -> list[Path]:
    """Return a file itself, or the .json files below a folder that hold conversations."""
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
