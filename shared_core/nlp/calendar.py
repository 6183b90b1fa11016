"""Time spans around a moment: days, weeks, months and years. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

Unit = Literal["hour", "day", "week", "month", "year"]
Edge = Literal["first", "last", "early", "late", "today"]
"""A part of a week, month or year."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time range from begin (inclusive) to end (exclusive).

    lasting: it is still going on. repeats: it is the next of a series.
    """

    begin: datetime
    end: datetime
    lasting: bool = False
    repeats: bool = False

    def at(self, hour: int, minute: int = 0) -> Span:
        """Return one minute of a one-day span. Raises ValueError for an invalid time of day."""
        begin = self.begin.replace(hour=hour, minute=minute)
        return replace(self, begin=begin, end=begin + timedelta(minutes=1))

    def part(self, first_hour: int, hours: int) -> Span:
        """Return some hours of a one-day span; they may end on the next day."""
        begin = self.begin.replace(hour=first_hour)
        return replace(self, begin=begin, end=begin + timedelta(hours=hours))


def midnight(moment: datetime) -> datetime:
    """Return the start of the moment's day."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def instant(moment: datetime) -> datetime:
    """Return an aware moment in UTC. Local clocks repeat an hour, so they cannot be compared."""
    return moment.astimezone(UTC) if moment.tzinfo else moment


def later(moment: datetime, by: timedelta) -> datetime:
    """Return the moment after a duration of real time, in its zone, across clock changes."""
    return (instant(moment) + by).astimezone(moment.tzinfo) if moment.tzinfo else moment + by


def day(moment: datetime, offset: int = 0) -> Span:
    """Return the day at this offset from the moment's day."""
    begin = midnight(moment) + timedelta(days=offset)
    return Span(begin=begin, end=begin + timedelta(days=1))


def week(moment: datetime, offset: int = 0) -> Span:
    """Return the week (from Monday) at this offset from the moment's week."""
    begin = midnight(moment) + timedelta(days=7 * offset - moment.weekday())
    return Span(begin=begin, end=begin + timedelta(days=7))


def weekday(moment: datetime, number: int, weeks: int) -> Span:
    """Return a weekday (Monday is 0) of the week at this offset."""
    return day(week(moment, weeks).begin, number)


def weekend(moment: datetime, offset: int = 0) -> Span:
    """Return Saturday and Sunday of the week at this offset."""
    return Span(begin=weekday(moment, 5, offset).begin, end=weekday(moment, 6, offset).end)


def month(moment: datetime, offset: int = 0) -> Span:
    """Return the month at this offset from the moment's month."""
    return Span(begin=_month_start(moment, offset), end=_month_start(moment, offset + 1))


def _month_start(moment: datetime, offset: int) -> datetime:
    months = moment.year * 12 + moment.month - 1 + offset
    return midnight(moment).replace(year=months // 12, month=months % 12 + 1, day=1)


def year(moment: datetime, offset: int = 0) -> Span:
    """Return the year at this offset from the moment's year."""
    begin = midnight(moment).replace(year=moment.year + offset, month=1, day=1)
    return Span(begin=begin, end=begin.replace(year=begin.year + 1))


def part_of(span: Span, edge: Edge, now: datetime) -> Span | None:
    """Return the first or last day of a week, month or year, its early or late part, or its today.

    "Early" is the first ten days of a month, or the first two months of a year; "late" begins on
    the 21st, or in November. Returns None for a span that has no such part.
    """
    days = (span.end - span.begin).days
    if days == 1 or span.repeats:
        return None
    if edge in ("first", "last"):
        return day(span.begin) if edge == "first" else day(span.end, -1)
    if edge == "today":
        if days == 7:
            return weekday(span.begin, now.weekday(), 0)
        begin = span.begin if days < 32 else month(span.begin, now.month - 1).begin
        return day(begin, min(now.day, (month(begin).end - begin).days) - 1)
    if days == 7:
        return None
    inner = month(span.begin, 2 if edge == "early" else 10) if days > 31 else None
    inner = inner or day(span.begin, 10 if edge == "early" else 20)
    if edge == "early":
        return replace(span, end=inner.begin)
    return replace(span, begin=inner.begin)


def ago(moment: datetime, count: int, unit: Unit) -> Span:
    """Return the hour, day, week, month or year `count` units earlier (later if negative)."""
    if unit == "hour":
        begin = later(moment, -timedelta(hours=count))
        return Span(begin=begin, end=later(begin, timedelta(hours=1)))
    return {"day": day, "week": week, "month": month, "year": year}[unit](moment, -count)


def nearest_month(moment: datetime, number: int, *, future: bool) -> Span:
    """Return the last month with this number (January is 1) that began, or the next one."""
    span = month(midnight(moment).replace(day=1, month=number))
    if future and span.end <= moment:
        return month(span.begin, 12)
    if not future and span.begin > moment:
        return month(span.begin, -12)
    return span


def season(moment: datetime, first_month: int) -> Span:
    """Return the three months of the moment's year that begin with this one."""
    begin = midnight(moment).replace(month=first_month, day=1)
    return Span(begin=begin, end=month(begin, 2).end)


def nearest_date(moment: datetime, number: int, day_of_month: int, *, future: bool) -> Span:
    """Return the last such date that began, or the next one. Raises ValueError for no date."""
    begin = midnight(moment).replace(day=1, month=number)
    span = day(begin.replace(day=day_of_month))
    if future and span.end <= moment:
        return day(begin.replace(year=begin.year + 1, day=day_of_month))
    if not future and span.begin > moment:
        return day(begin.replace(year=begin.year - 1, day=day_of_month))
    return span
