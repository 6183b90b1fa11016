"""The turns that a model was shown, as evidence for the elements of its answer. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from shared_core.core.domain import Event
from shared_core.extraction.transcript import Transcript
from shared_core.nlp.clauses import QUOTATION, own_words
from shared_core.nlp.numerals import amount
from shared_core.nlp.rules import load_fragment
from shared_core.nlp.text import Language, normalised, search_terms

USER_WORDS: Final = frozenset(("", "user", "the user", "i", "me", "myself", "用户", "我", "本人"))
LANGUAGES: Final[tuple[Language, ...]] = ("en", "zh")
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
        self.text = normalised(text)
        self._numbers = numbers_in("\n".join(event.text for event in shown.turns.values()))

    def source(self, numbers: Iterable[int]) -> tuple[Event, tuple[str, ...]] | None:
        """Return the last user turn among these numbers and the ids of the others, or None."""
        named = [self.turns[number] for number in sorted(set(numbers)) if number in self.turns]
        primary = next((event for event in reversed(named) if event.role == "user"), None)
        if primary is None:
            return None
        return primary, tuple(event.event_id for event in named if event is not primary)

    def says(self, value: str) -> bool:
        """Tell whether a value shares a word or a number with the shown turns.

        "5" is said by "five", and 12 by "the 12th".
        """
        if not self.terms.isdisjoint(search_terms(value)) or self.names(value):
            return True
        return not self._numbers.isdisjoint(numbers_in(value))

    def names(self, name: str) -> bool:
        """Tell whether the shown turns contain a name."""
        return bool(normalised(name)) and normalised(name) in self.text

    def leave_out(self, reason: str, count: int = 1) -> None:
        """Count dropped elements."""
        if count:
            self.left_out[reason] += count


def numbers_in(text: str) -> frozenset[int]:
    """Return the whole numbers in a text, in digits or spelled out."""
    said = normalised(text)
    found = [
        amount(one[0], lang)
        for lang in LANGUAGES
        for one in load_fragment("number", lang).finditer(said)
    ]
    return frozenset(int(one) for one in found if one is not None and one.denominator == 1)


def said_by_user(text: str) -> str:
    """Return a turn's own words: without quotations, code and quoted lines."""
    return own_words(QUOTATION.sub(" … ", text))


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


def end_of(date: str, said_at: datetime) -> datetime | None:
    """Return the moment after a date such as 2026-10 in the turn's time zone, or None."""
    start, match = date_of(date, said_at), DATE.fullmatch(date.strip())
    if start is None or match is None:
        return None
    if match[3]:
        return start + timedelta(days=1)
    if match[2] and start.month < 12:
        return start.replace(month=start.month + 1)
    return start.replace(year=start.year + 1, month=1)
