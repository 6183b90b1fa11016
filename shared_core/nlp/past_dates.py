"""Resolve time expressions of a question about the past: "Tuesday", "the weekend", 年初. Pure.

nlp.dates skips them because a statement may mean the future ("on Friday"). In a look back they mean
the latest one that began. A weekday is the last one before today.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from shared_core.nlp import calendar, dates_en, dates_zh
from shared_core.nlp.calendar import Span
from shared_core.nlp.numerals import SMALL, TENS, amount

_DAY_EN: Final = "|".join(f"{name}|{name[:3]}" for name in dates_en.WEEKDAYS) + "|tues|thurs"
_IN: Final = r"(?:(?:in|over|during|within|for|at|on|of) )?"
_UNIT_EN: Final = "hour|day|week|month|year"
_UNITS_ZH: Final = "|".join(sorted(dates_zh.UNITS, key=len, reverse=True))
_HALVES: Final = {"hour": (30, "minute"), "day": (12, "hour"), "month": (15, "day"),
                  "year": (6, "month")}  # fmt: skip
_SINCE_ZH: Final = "以来|之后|以后|开始|至今|到现在|起"

_LATELY_EN: Final = re.compile(rf"{_IN}(?:the )?(?:last|past) (\w+)(?: of)? ({_UNIT_EN})s?")
_LATELY_ONE: Final = re.compile(
    rf"(?:{_IN}the (?:last|past) ({_UNIT_EN})|past ({_UNIT_EN})|last (hour|day))"
)
_LATELY_ZH: Final = re.compile(
    r"在?(?:最近|过去|近)(?:的|这)?(\d+|半|[一二两三四五六七八九十]+)(?:个)?"
    rf"({_UNITS_ZH})(?:之?内|里|以来|来|期间|间)?"
)
_WEEKDAY_EN: Final = re.compile(
    rf"(?P<since>since |from (?=.* on(?:ward)?s?$))?(?:on )?(?P<day>{_DAY_EN})"
    rf"(?: (?P<part>{'|'.join(dates_en.PARTS)}))?(?(since)(?: on(?:ward)?s?)?)"
)
_WEEKDAY_ZH: Final = re.compile(
    rf"(?P<before>自从|自|从|打)?在?(?:周|星期|礼拜)(?P<day>[一二三四五六日天])"
    rf"的?(?P<part>{'|'.join(dates_zh.PARTS)})?(?P<after>{_SINCE_ZH})?"
)
_WEEKEND_EN: Final = re.compile(
    r"(?P<since>since )?(?:(?:over|at|on|during|for|in) )?(?:the |this past )?weekend"
)
_WEEKEND_ZH: Final = re.compile(
    rf"(?P<before>自从|自|从|打)?在?周末(?:的时候|里|期间)?(?P<after>{_SINCE_ZH})?"
)
_EARLIER: Final = re.compile(r"earlier (?:today|this (week|month|year))")
_EDGE_EN: Final = re.compile(
    r"(?:(?:at|in|around) )?(?:the )?(?P<edge>start|beginning|end) of"
    r" (?P<which>the|this|last) (?P<unit>month|year)"
    r"|(?P<early>early|late) (?P<of>this|last) (?P<its>month|year)"
)
_EDGE_ZH: Final = re.compile(
    r"在?(?:(?P<year>去年|前年|今年|本年|(?:19|20)\d\d年)?年?(?P<of_year>(?<=年)[初底末])"
    r"|(?P<month>上上个?|上个?|这个?|本)?月(?P<of_month>[初底末]))(?:的时候)?"
)


def looked_back(text: str, now: datetime) -> Span | None:
    """Return the span that the whole text names, seen from an aware now, or None.

    A span that is still open ends now.
    """
    words = " ".join(text.lower().split())
    for read in (_lately, _weekday, _weekend, _edge):
        try:
            found = read(words, now)
        except (OverflowError, ValueError):  # years before the calendar
            return None
        if found is not None:
            return found
    return None


def is_weekday(text: str) -> bool:
    """Tell whether a text is only a weekday, which may belong to an earlier week."""
    words = " ".join(text.lower().split())
    return bool(_WEEKDAY_EN.fullmatch(words) or _WEEKDAY_ZH.fullmatch(words))


def _lately(words: str, now: datetime) -> Span | None:
    if found := _EARLIER.fullmatch(words):
        unit = {"week": calendar.week, "month": calendar.month, "year": calendar.year}
        return _until_now(unit.get(found[1], calendar.day)(now).begin, now)
    if found := _LATELY_ONE.fullmatch(words):
        return _back(1, next(unit for unit in found.groups() if unit), now)
    if found := _LATELY_EN.fullmatch(words):
        return _back(_number(found[1]), found[2], now)
    if found := _LATELY_ZH.fullmatch(words):
        count, of = found[1], dates_zh.UNITS[found[2]]
        if count == "半":
            return _back(*_HALVES[of], now) if of in _HALVES else None
        return _back(int(count) if count.isdecimal() else dates_zh.number(count), of, now)
    return None


def _number(word: str) -> int:
    known = {"a": 1, "an": 1, "couple": 2}
    if word in known or word.isdecimal():
        return known.get(word) or int(word)
    return int(amount(word, "en") or 0) if word in (*SMALL, *TENS) else 0


def _back(number: int, unit: str, now: datetime) -> Span | None:
    """Return the span of that many minutes to years before now, or None for zero."""
    if number == 0:
        return None
    if unit in ("month", "year"):
        first = calendar.month(now, -number * (12 if unit == "year" else 1))
        last_day = (first.end - timedelta(days=1)).day
        begin = now.replace(
            year=first.begin.year, month=first.begin.month, day=min(now.day, last_day)
        )
    else:
        span = timedelta(**{f"{unit}s": number})
        begin = now - span if unit in ("day", "week") else calendar.later(now, -span)
    return Span(begin=begin, end=now)


def _weekday(words: str, now: datetime) -> Span | None:
    if found := _WEEKDAY_EN.fullmatch(words):
        name = found["day"][:3]
        number = next(n for n, day in enumerate(dates_en.WEEKDAYS) if day.startswith(name))
        part = dates_en.PARTS.get(found["part"] or "")
        since = bool(found["since"])
    elif found := _WEEKDAY_ZH.fullmatch(words):
        if found["before"] and not found["after"] and found["before"] in ("从", "打"):
            return None
        number = dates_zh.weekday_number(found["day"])
        part = dates_zh.PARTS.get(found["part"] or "")
        since = bool(found["before"] or found["after"])
    else:
        return None
    day = calendar.day(now, -((now.weekday() - number - 1) % 7 + 1))
    day = day.part(*part) if part else day
    return _until_now(day.begin, now) if since else day


def _weekend(words: str, now: datetime) -> Span | None:
    found = _WEEKEND_EN.fullmatch(words)
    since = bool(found and found["since"])
    if found is None and (found := _WEEKEND_ZH.fullmatch(words)):
        since = bool(found["before"] or found["after"])
    if found is None:
        return None
    saturday = calendar.day(now, -((now.weekday() - 5) % 7))
    if since:
        return _until_now(saturday.begin, now)
    return Span(begin=saturday.begin, end=calendar.day(saturday.begin, 2).begin)


def _until_now(begin: datetime, now: datetime) -> Span | None:
    return Span(begin=begin, end=now) if calendar.instant(begin) < calendar.instant(now) else None


def _edge(words: str, now: datetime) -> Span | None:
    if found := _EDGE_EN.fullmatch(words):
        early = (found["edge"] or found["early"]) in ("start", "beginning", "early")
        which = found["which"] or found["of"]
        back = 1 if which == "last" else 0
        of_year = (found["unit"] or found["its"]) == "year"
        span = calendar.year(now, -back) if of_year else calendar.month(now, -back)
        named = which != "the"
    elif found := _EDGE_ZH.fullmatch(words):
        early = (found["of_year"] or found["of_month"]) == "初"
        of_year = bool(found["of_year"])
        named = bool(found["year"] or found["month"])
        span = _year_zh(found["year"], now) if of_year else _month_zh(found["month"], now)
    else:
        return None
    edge = calendar.part_of(span, "early" if early else "late", now)
    if named or (edge and edge.begin <= now):
        return edge
    before = calendar.year(now, -1) if of_year else calendar.month(now, -1)
    return calendar.part_of(before, "early" if early else "late", now)


def _year_zh(named: str | None, now: datetime) -> Span:
    if named and named[:4].isdecimal():
        return calendar.year(now, int(named[:4]) - now.year)
    return calendar.year(now, dates_zh.YEARS[named] if named else 0)


def _month_zh(named: str | None, now: datetime) -> Span:
    return calendar.month(now, -(named or "").count("上"))
