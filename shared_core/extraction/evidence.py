"""The turns that a model was shown, as evidence for the elements of its answer. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from shared_core.core.domain import Event
from shared_core.extraction.transcript import Transcript
from shared_core.nlp.text import normalised, search_terms

USER_WORDS: Final = frozenset(("", "user", "the user", "i", "me", "myself", "用户", "我", "本人"))
OLDEST_YEAR: Final = 1900
DATE: Final = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?(?:[T ].*)?")
SECRET: Final = re.compile(
    r"\b(?:pass(?:word|code|phrase)|pin(?: code)?|(?:api|secret|private|access)[ _-]?key|cvv"
    r"|(?:card|account) number)\b.{0,40}?(?:\bis\b|[:=])"
    r"|(?:密码|口令|密钥|验证码|卡号|账号).{0,10}?(?:是|为|[:：=])",
    re.IGNORECASE,
)


class Evidence:
    """The shown turns, and a count of the elements that they do not support.

    known: text of the earlier turns the model was shown. left_out: dropped elements by reason.
    """

    def __init__(self, shown: Transcript, known: str) -> None:
        text = f"{known}\n{shown.text}"
        self.turns = shown.turns
        self.order = {event.event_id: number for number, event in shown.turns.items()}
        self.terms = frozenset(search_terms(text))
        self.left_out: Counter[str] = Counter()
        self._text = normalised(text)

    def source(self, numbers: Iterable[int]) -> tuple[Event, tuple[str, ...]] | None:
        """Return the last user turn among these numbers and the ids of the others, or None."""
        named = [self.turns[number] for number in sorted(set(numbers)) if number in self.turns]
        primary = next((event for event in reversed(named) if event.role == "user"), None)
        if primary is None:
            return None
        return primary, tuple(event.event_id for event in named if event is not primary)

    def says(self, value: str) -> bool:
        """Tell whether a value shares a word with the shown turns."""
        terms = search_terms(value)
        if terms:
            return not self.terms.isdisjoint(terms)
        return self.names(value)

    def names(self, name: str) -> bool:
        """Tell whether the shown turns contain a name."""
        return normalised(name) in self._text

    def leave_out(self, reason: str) -> None:
        """Count a dropped element."""
        self.left_out[reason] += 1


def date_of(since: str, said_at: datetime) -> datetime | None:
    """Return the start of a date such as 2026-10 in the turn's time zone, or None."""
    match = DATE.fullmatch(since.strip())
    if match is None or int(match[1]) < OLDEST_YEAR:
        return None
    try:
        year, month, day = (int(part or 1) for part in match.groups())
        return datetime(year, month, day, tzinfo=said_at.tzinfo or UTC)
    except ValueError:
        return None
