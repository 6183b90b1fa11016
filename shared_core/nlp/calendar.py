"""Days, weeks, months and years around a moment, as ranges. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

Unit = Literal["hour", "day", "week", "month", "year"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of time from begin to end, exclusively.

    lasting: it began then and goes on. repeats: it is the next of many.
    """

    begin: datetime
    end: datetime
    lasting: bool = False
    repeats: bool = False

    def at(self, hour: int, minute: int = 0) -> Span:
        """Return the minute of a span of one day. Raises ValueError for no time of a day."""
        begin = self.begin.replace(hour=hour, minute=minute)
        return replace(self, begin=begin, end=begin + timedelta(minutes=1))

    def part(self, first_hour: int, hours: int) -> Span:
        """Return some hours of a span of one day, at most to the day after."""
        begin = self.begin.replace(hour=first_hour)
        return replace(self, begin=begin, end=begin + timedelta(hours=hours))


def midnight(moment: datetime) -> datetime:
    """Return when the day of a moment began."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def instant(moment: datetime) -> datetime:
    """Return a moment in UTC: two of one zone are compared by their clocks, which may repeat."""
    return moment.astimezone(UTC) if moment.tzinfo else moment


def later(moment: datetime, by: timedelta) -> datetime:
    """Return the moment when so much time has passed, in its zone, whatever its clocks do."""
    return (instant(moment) + by).astimezone(moment.tzinfo) if moment.tzinfo else moment + by


def day(moment: datetime, offset: int = 0) -> Span:
    """Return the day so many days after that of the moment."""
    begin = midnight(moment) + timedelta(days=offset)
    return Span(begin=begin, end=begin + timedelta(days=1))


def week(moment: datetime, offset: int = 0) -> Span:
    """Return the week, from Monday, so many weeks after that of the moment."""
    begin = midnight(moment) + timedelta(days=7 * offset - moment.weekday())
    return Span(begin=begin, end=begin + timedelta(days=7))


def weekday(moment: datetime, number: int, weeks: int) -> Span:
    """Return a day (Monday is 0) of the week so many weeks after that of the moment."""
    return day(week(moment, weeks).begin, number)


def month(moment: datetime, offset: int = 0) -> Span:
    """Return the month so many months after that of the moment."""
    return Span(begin=_month_start(moment, offset), end=_month_start(moment, offset + 1))


def _month_start(moment: datetime, offset: int) -> datetime:
    months = moment.year * 12 + moment.month - 1 + offset
    return midnight(moment).replace(year=months // 12, month=months % 12 + 1, day=1)


def year(moment: datetime, offset: int = 0) -> Span:
    """Return the year so many years after that of the moment."""
    begin = midnight(moment).replace(year=moment.year + offset, month=1, day=1)
    return Span(begin=begin, end=begin.replace(year=begin.year + 1))


def ago(moment: datetime, count: int, unit: Unit) -> Span:
    """Return the hour, day, week, month or year so many before that of the moment, or after it.

    Negative counts lie ahead.
    """
    if unit == "hour":
        begin = later(moment, -timedelta(hours=count))
        return Span(begin=begin, end=later(begin, timedelta(hours=1)))
    return {"day": day, "week": week, "month": month, "year": year}[unit](moment, -count)


def nearest_month(moment: datetime, number: int, *, future: bool) -> Span:
    """Return the last month of that number (January is 1) that began, or the next to come."""
    span = month(midnight(moment).replace(day=1, month=number))
    if future and span.end <= moment:
        return month(span.begin, 12)
    if not future and span.begin > moment:
        return month(span.begin, -12)
    return span


def nearest_date(moment: datetime, number: int, day_of_month: int, *, future: bool) -> Span:
    """Return the last day of that date that began, or the next to come.

    Raises ValueError for a date that does not exist.
    """
    begin = midnight(moment).replace(day=1, month=number)
    span = day(begin.replace(day=day_of_month))
    if future and span.end <= moment:
        return day(begin.replace(year=begin.year + 1, day=day_of_month))
    if not future and span.begin > moment:
        return day(begin.replace(year=begin.year - 1, day=day_of_month))
    return span
