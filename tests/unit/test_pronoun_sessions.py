"""Of whom a session's last turn is stored, on labelled sessions: of nobody where it is in doubt."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypedDict, cast

from every_case import every_case

from shared_core.conversation.standalone_statements import session_statements
from shared_core.core.domain import Event, FactDraft
from shared_core.extraction.rule_reader import read_turn
from shared_core.nlp.discourse import DiscourseState

NOON = datetime(2026, 1, 22, 12, tzinfo=UTC)


class Session(TypedDict):
    """turns: what the user says. said: what the last turn tells; whom: of whom, "" for nobody."""

    turns: list[str]
    said: str
    whom: str


def sessions() -> list[Session]:
    text = Path(__file__).with_name("pronoun_sessions.toml").read_text(encoding="utf-8")
    return cast("list[Session]", [one for found in tomllib.loads(text).values() for one in found])


SESSIONS = sessions()


def events(session: Session) -> list[Event]:
    return [
        Event(
            event_id=f"e{place}",
            author="user",
            role="user",
            text=text,
            occurred_at=NOON + timedelta(minutes=place),
        )
        for place, text in enumerate(session["turns"])
    ]


def stored(session: Session) -> list[str]:
    """Return the statements that tell what the last turn does."""
    return [one.text for one in session_statements(events(session)) if session["said"] in one.text]


def last_facts(session: Session) -> list[FactDraft]:
    discourse = DiscourseState()
    return [read_turn(event, discourse).facts for event in events(session)][-1]


def title(session: Session) -> str:
    return " / ".join(session["turns"])


@every_case(*[one for one in SESSIONS if one["whom"]])
def test_a_pronoun_that_can_mean_one_is_stored_of_them(session: Session) -> None:
    [statement] = stored(session)
    assert session["whom"] in statement


@every_case(*[one for one in SESSIONS if not one["whom"]])
def test_a_pronoun_that_may_mean_somebody_else_is_stored_of_nobody(session: Session) -> None:
    assert [] == stored(session)
    assert [] == last_facts(session)


def test_the_sessions_are_of_both_kinds_and_languages() -> None:
    chinese = [one for one in SESSIONS if not one["turns"][0].isascii()]
    assert 50 <= len(chinese) <= len(SESSIONS) - 50
    for some in (chinese, [one for one in SESSIONS if one not in chinese]):
        resolved = sum(bool(one["whom"]) for one in some)
        assert 0.4 <= resolved / len(some) <= 0.6


@every_case(
    "My ex-husband lives in Bonn.", "My ex-wife is called Kate.", "I have an ex wife called Kate.",
    "My former husband lives in Bonn.", "My step-mother lives in Bonn.", "Kate is my ex-wife.",
    "我前妻住在天津", "我前夫叫大伟",
)  # fmt: skip
def test_whom_one_was_married_to_is_not_the_husband_or_wife(said: str) -> None:
    assert [] == last_facts({"turns": [said], "said": said, "whom": ""})
