"""Patterns and meanings of English time expressions; see shared_core.nlp.dates."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, cast

from shared_core.nlp import calendar
from shared_core.nlp.calendar import Edge, Span, Unit
from shared_core.nlp.numerals import SMALL, TENS
from shared_core.nlp.whole_values import whole_count

# fmt: off
WEEKDAYS: Final = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
MONTHS: Final = ["january", "february", "march", "april", "may", "june", "july", "august",
                 "september", "october", "november", "december"]
# fmt: on
SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
DAYS: Final = {
    "the day before yesterday": -2,
    "the day after tomorrow": 2,
    "yesterday": -1,
    "today": 0,
    "tomorrow": 1,
}
PARTS: Final = {"morning": (6, 6), "afternoon": (12, 6), "evening": (18, 6), "night": (18, 12)}

_WEEKDAY = f"(?:{'|'.join(WEEKDAYS)})"
_MONTH = f"(?:{'|'.join(MONTHS)}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
_NUMBER = rf"(?:\d{{1,3}}|an?|{'|'.join([*TENS, *SMALL])})"
_YEAR = r"(?:19|20)\d\d"
_IN = r"(?:(?:in|since)\ |(?<=from\ )|(?<=until\ )|(?<=till\ )|(?<=\bto\ ))"
_CLOCK = (
    r"(?:,?[ ]at)?[ ](?P<hour>\d{1,2})(?::(?P<minute>[0-5]\d))?[ ]?(?P<half>am|pm|a\.m\.|p\.m\.)"
)

EXPRESSION: Final = re.compile(
    rf"""\b(?:(?:on\ )?the\ (?P<edge>first|last)\ day\ of\ )?(?:
      (?P<iso>{_YEAR}-\d\d-\d\d)
    | (?P<day>the\ day\ before\ yesterday|the\ day\ after\ tomorrow|yesterday|today|tomorrow)
      (?:\ (?P<day_part>morning|afternoon|evening|night))?
    | (?P<tonight>tonight|last\ night|this\ morning|this\ afternoon|this\ evening)
    | (?<!half\ )(?P<count>{_NUMBER})\ (?P<unit>hour|day|week|month|year)s?
      \ (?P<sign>ago|from\ now)(?P<to_day>\ today)?
    | in\ (?P<ahead>{_NUMBER})\ (?P<ahead_unit>hour|day|week|month|year)s?(?!['’]|\ of\b)
    | (?<=for\ )(?:(?:about|over|almost)\ )?
      (?P<lasted>{_NUMBER})\ (?P<lasted_unit>day|week|month|year)s?(?:\ now)?
    | (?P<every>every|each)\ (?P<every_day>{_WEEKDAY}
        |day|week|month|year|morning|evening|night|weekend)
    | (?P<which>last|this|next|past)\ (?P<period>week|weekend|month|year|{_WEEKDAY}|{_MONTH}
        |spring|summer|autumn|fall|winter)
      (?:\ (?P<weekday_part>morning|afternoon|evening|night))?
    | (?:(?:on|in)\ )?(?:
           (?:the\ )?(?P<date_day>\d{{1,2}})(?:st|nd|rd|th)?(?:\ of)?\ (?P<date_month>{_MONTH})
         |(?P<date_month_first>{_MONTH})\ (?:the\ )?(?P<date_day_last>\d{{1,2}})(?:st|nd|rd|th)?)
      (?:,?\ (?P<date_year>{_YEAR}))?
    | (?(edge)|{_IN})(?P<month>{_MONTH})(?:(?:\ of)?,?\ (?P<month_year>{_YEAR}))?
    | (?(edge)|{_IN})(?P<year>{_YEAR})
    | {_IN}(?:the\ )?(?P<season>spring|summer|autumn|fall|winter)
      (?:(?:\ of)?\ (?P<season_year>{_YEAR}))?
    )(?:{_CLOCK})?(?!\w)""",
    re.IGNORECASE | re.VERBOSE,
)
SINCE: Final = re.compile(r"\bsince (?:about |early |late )?$", re.IGNORECASE)
SINCE_AFTER: Final = None
UNFIT: Final = re.compile(
    r"\b(?:until|till|by|before|after|due|from|to|between|not)\ $", re.IGNORECASE
)
UNTIL: Final = re.compile(
    r"\b(?:until|till?|to|up to)(?: the)?(?: (?:start|beginning) of(?: the)?)? $", re.IGNORECASE
)
UNTIL_AFTER: Final = None
"""What ends a period from behind; only Chinese has such a word."""
FROM: Final = re.compile(r"\bfrom $", re.IGNORECASE)
FUTURE: Final = re.compile(
    r"\b(?:will|going to|'ll|next|upcoming|plan(?:ning|s)? to|about to|due)\b", re.IGNORECASE
)
LASTING: Final = re.compile(r"\b(?:been|have|had|'ve)\b", re.IGNORECASE)


def span(match: re.Match[str], now: datetime, future: bool) -> Span | None:
    """Return the range of an EXPRESSION match, or None if it is ambiguous."""
    found = _period(match, now, future)
    if found is not None and (match["edge"] or match["to_day"]):
        edge = cast("Edge", match["edge"].lower() if match["edge"] else "today")
        return calendar.part_of(found, edge, now)
    if found is None or not match["hour"]:
        return found
    if found.end - found.begin > timedelta(days=1) or int(match["hour"]) > 12:
        return None
    hour = int(match["hour"]) % 12 + (12 if match["half"].lower().startswith("p") else 0)
    return calendar.day(found.begin).at(hour, int(match["minute"] or 0))


def _period(match: re.Match[str], now: datetime, future: bool) -> Span | None:
    if match["iso"]:
        return calendar.day(datetime.fromisoformat(match["iso"]).replace(tzinfo=now.tzinfo))
    if match["day"]:
        return _part(calendar.day(now, DAYS[match["day"].lower()]), match["day_part"])
    if match["tonight"]:
        which, _, part = match["tonight"].lower().rpartition(" ")
        return _part(calendar.day(now, -1 if which == "last" else 0), part.replace("ton", "n"))
    if match["unit"]:
        sign = 1 if match["sign"].lower() == "ago" else -1
        return _ago(match, "count", sign, match["unit"], now)
    if match["ahead_unit"]:
        return _ago(match, "ahead", -1, match["ahead_unit"], now)
    if match["lasted_unit"]:
        since = _ago(match, "lasted", 1, match["lasted_unit"], now)
        goes_on = LASTING.search(match.string[: match.start()])
        return replace(since, lasting=True) if since and goes_on else None
    if match["every"]:
        return _repeated(match["every_day"].lower(), now)
    if match["which"]:
        return _relative(match["which"].lower(), match["period"].lower(), match, now)
    return _dated(match, now, future)


def _dated(match: re.Match[str], now: datetime, future: bool) -> Span | None:
    if match["season"]:
        return _season_of(match, now)
    if match["year"]:
        return calendar.year(now, int(match["year"]) - now.year)
    if match["month"]:
        number = _month(match["month"])
        if match["month_year"]:
            return calendar.month(now.replace(year=int(match["month_year"]), month=number, day=1))
        return calendar.nearest_month(now, number, future=future)
    number = _month(match["date_month"] or match["date_month_first"])
    day = int(match["date_day"] or match["date_day_last"])
    if match["date_year"]:
        year = int(match["date_year"])
        return calendar.day(now.replace(year=year, month=number, day=1).replace(day=day))
    return calendar.nearest_date(now, number, day, future=future)


def _relative(which: str, period: str, match: re.Match[str], now: datetime) -> Span | None:
    offset = {"last": -1, "past": -1, "this": 0, "next": 1}[which]
    if period in WEEKDAYS:
        found = _weekday(which, WEEKDAYS.index(period), now)
        return found and _part(found, match["weekday_part"])
    if period in SEASONS or period == "weekend":
        return _season_or_weekend(offset, period, now)
    if period in ("week", "month", "year"):
        of = {"week": calendar.week, "month": calendar.month, "year": calendar.year}[period]
        return of(now, offset)
    begin = calendar.nearest_month(now, _month(period), future=offset > 0).begin
    this_month = (begin.year, begin.month) == (now.year, now.month)
    if offset == 0:
        return calendar.month(now.replace(month=_month(period), day=1))
    return calendar.month(begin, 12 * offset if this_month else 0)


def _weekday(which: str, number: int, now: datetime) -> Span | None:
    if which == "this":
        return calendar.weekday(now, number, 0)
    if which == "next":
        ambiguous = number > now.weekday()
        return None if ambiguous else calendar.weekday(now, number, 1)
    return calendar.weekday(now, number, 0 if number < now.weekday() else -1)


def _season_of(match: re.Match[str], now: datetime) -> Span | None:
    """Return a season of a year, or the last one that began; "in spring" may be every spring."""
    first_month = SEASONS[match["season"].lower()]
    if match["season_year"]:
        return calendar.season(now.replace(year=int(match["season_year"]), day=1), first_month)
    if match[0][:3].lower() == "in ":
        return None
    found = calendar.season(now, first_month)
    ahead = found.begin > now
    return calendar.season(calendar.year(now, -1).begin, first_month) if ahead else found


def _season_or_weekend(offset: int, period: str, now: datetime) -> Span:
    if period == "weekend":
        return calendar.weekend(now, offset)
    begin = calendar.month(now.replace(month=SEASONS[period], day=1)).begin
    if offset < 0 and calendar.month(begin, 2).end > now:
        begin = begin.replace(year=begin.year - 1)
    if offset > 0 and begin <= now:
        begin = begin.replace(year=begin.year + 1)
    return Span(begin=begin, end=calendar.month(begin, 2).end)


def _repeated(period: str, now: datetime) -> Span:
    if period in WEEKDAYS:
        ahead = (WEEKDAYS.index(period) - now.weekday()) % 7
        return replace(calendar.day(now, ahead), repeats=True)
    if period == "weekend":
        return replace(_season_or_weekend(0, period, now), repeats=True)
    of = {"week": calendar.week, "month": calendar.month, "year": calendar.year}
    return replace(of.get(period, calendar.day)(now), repeats=True)


def _part(span: Span, part: str | None) -> Span:
    return span.part(*PARTS[part.lower()]) if part else span


def _ago(match: re.Match[str], group: str, sign: int, unit: str, now: datetime) -> Span | None:
    """Return the time that is a counted number of units ago, or None if the count is not whole."""
    is_one = match[group].lower() in ("a", "an")
    count = whole_count(match.string, *match.span(group), "en")
    if count is None and not is_one:
        return None
    return calendar.ago(now, sign * (count or 1), _unit(unit))


def _unit(word: str) -> Unit:
    return cast("Unit", word.lower())


def _month(word: str) -> int:
    return next(
        number for number, name in enumerate(MONTHS, 1) if name.startswith(word.lower()[:3])
    )
