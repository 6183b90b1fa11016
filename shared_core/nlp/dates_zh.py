"""Patterns and meanings of Chinese time expressions; see shared_core.nlp.dates."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from shared_core.nlp import calendar
from shared_core.nlp.calendar import Edge, Span, Unit
from shared_core.nlp.whole_values import whole_count

DAYS: Final = {
    "大前天": -3, "前天": -2, "昨天": -1, "昨日": -1, "昨": -1, "今天": 0, "今日": 0, "今": 0,
    "明天": 1, "明日": 1, "明": 1, "后天": 2, "大后天": 3,
}  # fmt: skip
YEARS: Final = {"前年": -2, "去年": -1, "今年": 0, "本年": 0, "明年": 1, "后年": 2}
SEASONS: Final = {"春": 3, "夏": 6, "秋": 9, "冬": 12}
UNITS: Final[dict[str, Unit]] = {
    "小时": "hour", "钟头": "hour", "天": "day", "日": "day", "周": "week", "星期": "week",
    "礼拜": "week", "月": "month", "年": "year",
}  # fmt: skip
PARTS: Final = {
    "凌晨": (0, 6), "早上": (6, 6), "早": (6, 6), "上午": (6, 6), "中午": (11, 3),
    "下午": (12, 6), "傍晚": (17, 3), "晚上": (18, 6), "晚": (18, 6),
    "夜里": (18, 12), "夜": (18, 12),
}  # fmt: skip
DIGITS: Final = {character: value for value, character in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "两": 2,
}

EDGES: Final[dict[str, Edge]] = {
    "初": "early", "底": "late", "末": "late", "第一天": "first", "头一天": "first",
    "最后一天": "last", "今天": "today", "今日": "today",
}  # fmt: skip

_NUMBER = r"(?:\d{1,3}|[一二两三四五六七八九十]{1,3})"
_PART = f"(?:{'|'.join(PARTS)})"
_WEEK = "(?:周|星期|礼拜)"
_CLOCK = rf"(?P<hour>{_NUMBER})(?:点钟?|[:：](?=\d))(?P<minute>半|\d{{1,2}}分?)?"

EXPRESSION: Final = re.compile(
    rf"""(?:
      (?P<iso>(?:19|20)\d\d-\d\d-\d\d)
    | (?P<full_year>(?:19|20)\d\d|(?<!\d)\d\d(?=年(?:{_NUMBER}月|年?[初底末])))年
      (?:(?P<full_month>{_NUMBER})月(?:份|(?P<full_day>{_NUMBER})[日号])?
        |(?P<full_season>[春夏秋冬])(?:天|季))?
    | (?P<first_year>(?:19|20)\d\d)(?=[到至~—-](?:19|20)\d\d年)
    | (?P<year>前年|去年|今年|本年|明年|后年)
      (?:(?P<year_month>{_NUMBER})月(?:份|(?P<year_day>{_NUMBER})[日号])?
        |(?P<year_season>[春夏秋冬])(?:天|季))?
    | (?P<count>{_NUMBER}|(?<!个)半)个?
      (?P<unit>小时|钟头|天|周|星期|礼拜|月|年)(?P<sign>[之以]?前|[之以]?后)
    | (?P<which>上上|下下|上|下|这|本)个?
      (?:(?P<week>{_WEEK})(?P<weekday>[一二三四五六日天末])?|(?P<which_month>月))
    | 每个?(?:(?P<every_week>{_WEEK})(?P<every_weekday>[一二三四五六日天])?
             |(?P<every>天|月|年|晚|早))
    | (?P<month>{_NUMBER})月(?:份|(?P<month_day>{_NUMBER})[日号])?(?!\d)
    | (?P<day>大前天|前天|昨天|昨日|今天|今日|大后天|明天|明日|后天|[昨今明](?=[早晚夜]))
    )(?:(?P<edge>年?[初底末]|的?(?:第一天|头一天|最后一天)|的?(?:今天|今日))(?![级步中])
       |(?P<part>{_PART})?(?:{_CLOCK})?)""",
    re.VERBOSE,
)
SINCE: Final = re.compile(r"(?:自从?|从)$")
SINCE_AFTER: Final = re.compile(r"(?:以来|[开起]始|起|到现在|至今)")
UNFIT: Final = re.compile(r"(?:到|直到|截止到?|之前|除了|不是|比)$")
UNTIL: Final = re.compile(r"(?:直到|到|至|截止到?|[~—-])$")
UNTIL_AFTER: Final = re.compile(r"为止")
FROM: Final = re.compile(r"(?:自从?|从)$")
FUTURE: Final = re.compile(r"[要会将](?!议)|打算|计划|准备|即将|明年|下个?[月周]")


def span(match: re.Match[str], now: datetime, future: bool) -> Span | None:
    """Return the range of an EXPRESSION match, or None if it is ambiguous."""
    found = _period(match, now, future)
    if found is not None and match["edge"] and not found.repeats:
        return calendar.part_of(found, EDGES[match["edge"].lstrip("年的")], now)
    one_day = found is not None and found.end - found.begin == timedelta(days=1)
    if found is None or not (match["part"] or match["hour"]):
        return found
    if not one_day:
        return None
    if match["hour"]:
        return _clock(match, found)
    return found.part(*PARTS[match["part"]])


def _clock(match: re.Match[str], day: Span) -> Span | None:
    hour, minute = number(match["hour"]), match["minute"] or "0"
    if match["part"] in ("下午", "傍晚", "晚上", "晚", "夜里", "中午") and 0 < hour < 11 + (
        match["part"] != "中午"
    ):
        hour += 12
    elif not match["part"] and hour < 13:
        return day  # ambiguous: at night or in the afternoon
    return day.at(hour, 30 if minute == "半" else int(minute.rstrip("分")))


def _period(match: re.Match[str], now: datetime, future: bool) -> Span | None:
    if match["iso"]:
        return calendar.day(datetime.fromisoformat(match["iso"]).replace(tzinfo=now.tzinfo))
    if match["first_year"]:
        return calendar.year(now, int(match["first_year"]) - now.year)
    if match["full_year"]:
        if match["full_season"]:
            of_year = calendar.year(now, int(match["full_year"]) - now.year).begin
            return calendar.season(of_year, SEASONS[match["full_season"]])
        return _of_year(int(match["full_year"]), match["full_month"], match["full_day"], now)
    if match["year"]:
        year = now.year + YEARS[match["year"]]
        if match["year_season"]:
            of_year = calendar.year(now, YEARS[match["year"]]).begin
            return calendar.season(of_year, SEASONS[match["year_season"]])
        return _of_year(year, match["year_month"], match["year_day"], now)
    if match["unit"]:
        return _counted(match, now)
    if match["which"]:
        return _which(match, now)
    if match["month"]:
        month = number(match["month"])
        if match["month_day"]:
            return calendar.nearest_date(now, month, number(match["month_day"]), future=future)
        return calendar.nearest_month(now, month, future=future)
    if match["day"]:
        return calendar.day(now, DAYS[match["day"]])
    return _repeated(match, now)


def _of_year(year: int, month: str | None, day: str | None, now: datetime) -> Span:
    if year < 100:  # 21年6月
        year += now.year // 100 * 100 - (100 if year > now.year % 100 else 0)
    if month is None:
        return calendar.year(now, year - now.year)
    begin = now.replace(year=year, month=number(month), day=1)
    return calendar.day(begin.replace(day=number(day))) if day else calendar.month(begin)


def _counted(match: re.Match[str], now: datetime) -> Span | None:
    sign = 1 if match["sign"].endswith("前") else -1
    unit = UNITS[match["unit"]]
    if match["count"] == "半":
        halves: dict[Unit, tuple[int, Unit]] = {"year": (6, "month"), "month": (15, "day")}
        if unit not in halves:
            return None
        count, unit = halves[unit]
        return calendar.ago(now, sign * count, unit)
    if unit == "month" and "个" not in match[0]:
        return None  # 三月前 means before March
    found = whole_count(match.string, *match.span("count"), "zh")
    return None if found is None else calendar.ago(now, sign * found, unit)


def _which(match: re.Match[str], now: datetime) -> Span:
    which = match["which"]
    offset = len(which) * {"上": -1, "下": 1}.get(which[0], 0)
    if match["which_month"]:
        return calendar.month(now, offset)
    if match["weekday"] == "末":
        return calendar.weekend(now, offset)
    if match["weekday"]:
        return calendar.weekday(now, weekday_number(match["weekday"]), offset)
    return calendar.week(now, offset)


def _repeated(match: re.Match[str], now: datetime) -> Span:
    if match["every_weekday"]:
        ahead = (weekday_number(match["every_weekday"]) - now.weekday()) % 7
        return replace(calendar.day(now, ahead), repeats=True)
    if match["every_week"]:
        return replace(calendar.week(now), repeats=True)
    of = {"月": calendar.month, "年": calendar.year}.get(match["every"], calendar.day)
    return replace(of(now), repeats=True)


def weekday_number(character: str) -> int:
    """Return the number of a weekday (Monday is 0) from its last character."""
    return 6 if character in "日天" else DIGITS[character] - 1


def number(text: str) -> int:
    """Return a number up to 99 from digits or Chinese. Raises ValueError for anything else."""
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.partition("十")
    known = all(character in DIGITS for character in tens + ones)
    if not text or not known or max(len(tens), len(ones)) > 1:
        raise ValueError(f"not a number up to 99: {text!r}")
    if not ten:
        return DIGITS[tens]
    return (DIGITS[tens] if tens else 1) * 10 + (DIGITS[ones] if ones else 0)
