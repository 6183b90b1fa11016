"""Whether something happened when a question says. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from typing import Final

from shared_core.nlp.dates import TimeRange, resolve

YEAR: Final = re.compile(r"\d{4}|\byear\b|年")
MONTH: Final = re.compile(
    r"\b(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec)|月|号|\d日", re.IGNORECASE
)
AFTERWARDS: Final = timedelta(days=7)
"""What happened is often told some days later."""
FIT_AFTERWARDS: Final = 0.5


def named_times(text: str, now: datetime) -> list[TimeRange]:
    """Return the times a question names; those that repeat name none."""
    return [one for one in resolve(text, now) if one.kind != "every"]


def time_fit(times: Sequence[TimeRange], moment: datetime) -> float:
    """Return 1 if moment is in one of the times, 0.5 in the seven days after one, else 0.

    A month or day without a year is that of any year.
    """
    return max((_fit(one, moment) for one in times), default=0.0) if times else 0.0


def _fit(time: TimeRange, moment: datetime) -> float:
    length = time.end - time.begin
    begins = [time.begin]
    if MONTH.search(time.text) and not YEAR.search(time.text):
        begins = _of_years_near(time.begin, moment.year)
    return max((_within(begin, length, moment) for begin in begins), default=0.0)


def _within(begin: datetime, length: timedelta, moment: datetime) -> float:
    since = moment - begin
    if timedelta(0) <= since < length:
        return 1.0
    return FIT_AFTERWARDS if length <= since < length + AFTERWARDS else 0.0


def _of_years_near(begin: datetime, year: int) -> list[datetime]:
    """Return begin in a year, the one before and the one after: zones differ about New Year."""
    day = min(begin.day, 28) if begin.month == 2 else begin.day
    return [
        begin.replace(year=near, day=day)
        for near in range(max(year - 1, MINYEAR), min(year + 1, MAXYEAR) + 1)
    ]
