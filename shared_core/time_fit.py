"""Whether something happened when a question says. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from shared_core.dates import TimeRange, resolve

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
    return max((_fit(one, moment) for one in times), default=0.0)


def _fit(time: TimeRange, moment: datetime) -> float:
    begin, end = time.begin, time.end
    if MONTH.search(time.text) and not YEAR.search(time.text):
        years = [moment.year - begin.year, moment.year - begin.year - 1]
        return max(_within(*_moved(begin, end, by), moment) for by in years)
    return _within(begin, end, moment)


def _within(begin: datetime, end: datetime, moment: datetime) -> float:
    if begin <= moment < end:
        return 1.0
    return FIT_AFTERWARDS if end <= moment < end + AFTERWARDS else 0.0


def _moved(begin: datetime, end: datetime, years: int) -> tuple[datetime, datetime]:
    last_of_february = min(begin.day, 28) if begin.month == 2 else begin.day
    moved = begin.replace(year=begin.year + years, day=last_of_february)
    return moved, moved + (end - begin)
