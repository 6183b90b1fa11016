"""Resolve time expressions to ranges: "last Friday", "two weeks ago", "上个月", "下周三下午三点".
Pure.

Expressions are relative to the moment of the turn, in its time zone. Weeks begin on Monday.
Ambiguous ones are skipped: "on Friday", "a few days ago", 几天前, and "next Friday" before Friday.
A month or day without a year is the last one, or the next one if the text speaks of the future.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import ModuleType
from typing import Final, Literal

from shared_core.nlp import dates_en, dates_zh
from shared_core.nlp.calendar import Span
from shared_core.nlp.text import Language, language

TimeKind = Literal["at", "since", "every"]

MAX_CHARACTERS: Final = 2_000
"""Maximum number of characters read of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """A time range from begin to end (exclusive), both aware.

    kind: "at" is the range itself; "since" lasts from begin to the moment of the text;
    "every" repeats, and the range is the next occurrence. text: the expression; start: its first
    character.
    """

    begin: datetime
    end: datetime
    kind: TimeKind
    text: str
    start: int


def resolve(text: str, now: datetime, *, future: bool = False) -> list[TimeRange]:
    """Return the unambiguous time ranges in a text, in text order.

    now: the aware moment of the text. future: the text speaks of the future, whatever its words.
    Raises ValueError for a naive moment.
    """
    if now.tzinfo is None:
        raise ValueError("now must be an aware datetime")
    read = _READERS[language(text)]
    return list(_ranges(text[:MAX_CHARACTERS], now, read, future=future))


_READERS: Final[dict[Language, ModuleType]] = {"en": dates_en, "zh": dates_zh}


def _ranges(text: str, now: datetime, reader: ModuleType, *, future: bool) -> Iterator[TimeRange]:
    for match, span in _spans(text, now, reader, future=future):
        before, after = text[: match.start()], text[match.end() :]
        if reader.UNFIT.search(before[-24:]):
            continue
        since = (
            span.lasting
            or reader.SINCE.search(before[-24:])
            or match[0][:6].lower() == "since "
            or (reader.SINCE_AFTER and reader.SINCE_AFTER.match(after))
        )
        yield _named(span, match, now, since=bool(since))


def _spans(
    text: str, now: datetime, reader: ModuleType, *, future: bool
) -> Iterator[tuple[re.Match[str], Span]]:
    future = future or bool(reader.FUTURE.search(text))
    for match in reader.EXPRESSION.finditer(text):
        try:
            span: Span | None = reader.span(match, now, future)
        except (OverflowError, ValueError):  # the 31st of February, a million years ago
            continue
        if span is not None:
            yield match, span


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """When a past state began and ended, and the place in the text that says so.

    begins: None if the text does not say. ends: the start of the time until which it was so.
    """

    begins: datetime | None
    ends: datetime
    start: int
    stop: int


def bounds(text: str, said_at: datetime) -> Bounds | None:
    """Return the bounds of a past that is told with its end: "from 2011 until 2020"."""
    reader, begins, start = _READERS[language(text)], None, 0
    for match, span in _spans(text[:MAX_CHARACTERS], said_at, reader, future=False):
        before, after = text[: match.start()], text[match.end() :]
        until = reader.UNTIL.search(before[-40:])
        closes = reader.UNTIL_AFTER and reader.UNTIL_AFTER.match(after)
        if until or closes:
            ends = span.end if begins and span.begin <= begins else span.begin
            if ends > said_at:
                return None
            start = start if begins else match.start() - (len(until[0]) if until else 0)
            return Bounds(begins=begins, ends=ends, start=start, stop=match.end())
        opens = reader.FROM.search(before[-24:])
        if not span.repeats:
            begins, start = span.begin, match.start() - (len(opens[0]) if opens else 0)
    return None


def _named(span: Span, match: re.Match[str], now: datetime, *, since: bool) -> TimeRange:
    kind: TimeKind = "every" if span.repeats else "at"
    end = span.end
    if since and span.begin < now and not span.repeats:
        kind, end = "since", max(now, span.begin + timedelta(microseconds=1))
    return TimeRange(begin=span.begin, end=end, kind=kind, text=match[0], start=match.start())


def begins_at(text: str, said_at: datetime) -> tuple[datetime | None, bool]:
    """Return when the stated fact began, or None, and whether it is still in the future.

    (None, False) if the text has no time range, several, an unfinished one or a repeated one.
    """
    ranges = [one for one in resolve(text, said_at) if one.kind != "every"]
    if any(one.begin > said_at for one in ranges):
        return None, True
    if len(ranges) != 1:
        return None, False
    [one] = ranges
    return (one.begin if one.kind == "since" or one.end <= said_at else None), False


def to_begin_at(text: str, said_at: datetime, *, future: bool) -> datetime | None:
    """Return when a fact begins that lies in the future, or None without one date to come.

    future: as in resolve().
    """
    ranges = [one for one in resolve(text, said_at, future=future) if one.kind == "at"]
    found = [one for one in ranges if one.begin > said_at]
    return found[0].begin if len(found) == 1 else None


LEAST_AHEAD: Final = timedelta(days=2)
"""What is over sooner is an errand, not a plan."""


def lapses_at(text: str, said_at: datetime) -> datetime | None:
    """Return when a plan with the first date to come in a text is over, or None without one."""
    ranges = resolve(text, said_at, future=True)
    to_come = [one for one in ranges if one.kind == "at" and one.end - said_at > LEAST_AHEAD]
    return to_come[0].end if to_come else None
