"""Words and moments as stretches of time, and the days and weeks of one."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from every_case import every_case
from hypothesis import given, strategies as st

from shared_core.errors import InvalidInput
from shared_core.recall.time_slices import MAX_BUCKETS, starts, stretch

BEIJING = timezone(timedelta(hours=8))
NOW = datetime(2026, 11, 22, 12, tzinfo=BEIJING)  # a Sunday
NAIVE = NOW.replace(tzinfo=None)


def at(year: int, month: int, day: int, hour: int = 0) -> datetime:
    return datetime(year, month, day, hour, tzinfo=BEIJING)


@every_case(
    ("last Tuesday", at(2026, 11, 17), at(2026, 11, 18)),
    ("上周二", at(2026, 11, 10), at(2026, 11, 11)),
    ("on 2024-05-01", at(2024, 5, 1), at(2024, 5, 2)), ("2024-05", at(2024, 5, 1), at(2024, 6, 1)),
    ("2024/5/1", at(2024, 5, 1), at(2024, 5, 2)), ("2024.05.01", at(2024, 5, 1), at(2024, 5, 2)),
    ("从2024/5/1到2024/5/10", at(2024, 5, 1), at(2024, 5, 11)),
    ("two weeks ago", at(2026, 11, 2), at(2026, 11, 9)), ("since 2019", at(2019, 1, 1), NOW),
    ("last 7 days", NOW - timedelta(days=7), NOW),
    ("in the past three months", at(2026, 8, 22, 12), NOW),
    ("最近三天", NOW - timedelta(days=3), NOW), ("过去两个月", at(2026, 9, 22, 12), NOW),
    ("from 2024-05-01 to 2024-05-10", at(2024, 5, 1), at(2024, 5, 11)),
    ("between last week and yesterday", at(2026, 11, 9), at(2026, 11, 22)),
    ("从上周一到上周三", at(2026, 11, 9), at(2026, 11, 12)),
    ("3月到5月", at(2026, 3, 1), at(2026, 6, 1)),
    ("上个月的时候", at(2026, 10, 1), at(2026, 11, 1)),
)  # fmt: skip
def test_words_name_a_stretch_of_time(words, begin, end):
    assert (begin, end) == stretch(words, None, None, NOW)


WEDNESDAY = datetime(2026, 11, 18, 12, tzinfo=BEIJING)
WEEKEND = (at(2026, 11, 14), at(2026, 11, 16))
MONDAY, TUESDAY = at(2026, 11, 16), at(2026, 11, 17)


@every_case(
    *((words, *WEEKEND) for words in (
        "上个周末", "上周末", "周末", "last weekend", "over the weekend", "the weekend",
        "over the last weekend", "this past weekend", "在周末",
    )),
    *((words, at(2026, 11, 21), at(2026, 11, 23)) for words in ("这个周末", "this weekend")),
    ("上上周末", at(2026, 11, 7), at(2026, 11, 9)), ("since the weekend", WEEKEND[0], WEDNESDAY),
    *((words, TUESDAY, at(2026, 11, 18)) for words in (
        "Tuesday", "on tuesday", "Tue", "周二", "星期二",
    )),
    *((words, MONDAY, TUESDAY) for words in ("on Monday", "on Monday.", "礼拜一")),
    *((words, MONDAY, WEDNESDAY) for words in (
        "since Monday", "from Monday on", "自周一以来", "从周一起", "周一以来", "自从星期一",
    )),
    ("Wednesday", at(2026, 11, 11), at(2026, 11, 12)),
    ("Friday", at(2026, 11, 13), at(2026, 11, 14)),
    ("Monday evening", at(2026, 11, 16, 18), TUESDAY),
    ("周一早上", at(2026, 11, 16, 6), at(2026, 11, 16, 12)),
    ("from Friday to Tuesday", at(2026, 11, 13), at(2026, 11, 18)),
    ("from Tuesday to Friday", at(2026, 11, 10), at(2026, 11, 14)),
    ("从周五到周二", at(2026, 11, 13), at(2026, 11, 18)),
    ("since last Tuesday", TUESDAY, WEDNESDAY), ("从上周二开始", at(2026, 11, 10), WEDNESDAY),
    ("in the last hour", at(2026, 11, 18, 11), WEDNESDAY),
    ("last hour", at(2026, 11, 18, 11), WEDNESDAY),
    ("the last 3 hours", at(2026, 11, 18, 9), WEDNESDAY),
    ("past 2 weeks", at(2026, 11, 4, 12), WEDNESDAY),
    ("over the past week", at(2026, 11, 11, 12), WEDNESDAY),
    ("the past couple of weeks", at(2026, 11, 4, 12), WEDNESDAY),
    ("last twenty days", at(2026, 10, 29, 12), WEDNESDAY),
    ("过去二十四小时", TUESDAY.replace(hour=12), WEDNESDAY),
    ("在过去两周里", at(2026, 11, 4, 12), WEDNESDAY), ("最近三天", at(2026, 11, 15, 12), WEDNESDAY),
    ("最近半年", at(2026, 5, 18, 12), WEDNESDAY), ("last week", at(2026, 11, 9), at(2026, 11, 16)),
    ("this morning", at(2026, 11, 18, 6), WEDNESDAY), ("今天早上", at(2026, 11, 18, 6), WEDNESDAY),
    ("earlier today", at(2026, 11, 18), WEDNESDAY),
    ("earlier this year", at(2026, 1, 1), WEDNESDAY),
    ("last night", at(2026, 11, 17, 18), at(2026, 11, 18, 6)),
    ("昨夜", at(2026, 11, 17, 18), at(2026, 11, 18, 6)),
    ("昨晚", at(2026, 11, 17, 18), at(2026, 11, 18)),
    ("yesterday evening", at(2026, 11, 17, 18), at(2026, 11, 18)),
    ("昨天下午", at(2026, 11, 17, 12), at(2026, 11, 17, 18)), ("前天", MONDAY, TUESDAY),
    ("大前天", at(2026, 11, 15), MONDAY), ("上个月", at(2026, 10, 1), at(2026, 11, 1)),
    *((words, at(2026, 1, 1), at(2026, 3, 1)) for words in (
        "年初", "今年初", "今年年初", "early this year", "at the beginning of the year",
    )),
    *((words, at(2025, 11, 1), at(2026, 1, 1)) for words in (
        "去年年底", "2025年末", "late last year", "the end of last year",
    )),
    ("月底", at(2026, 10, 21), at(2026, 11, 1)), ("本月初", at(2026, 11, 1), at(2026, 11, 11)),
    ("上个月底", at(2026, 10, 21), at(2026, 11, 1)),
)  # fmt: skip
def test_who_looks_back_means_what_has_begun(words, begin, end):
    assert (begin, end) == stretch(words, None, None, WEDNESDAY)


@every_case(
    ("", "names no time"), ("whenever", "names no time"),
    ("a few days ago", "names no time, or one that may mean several"),
    ("from Monday", "names no time"), ("从周一", "names no time"),
    ("last few days", "names no time"), ("几天前", "names no time"),
    ("31 February 2024", "names no time"), ("2024-13", "names no time"),
    ("the last 0 days", "names no time"), ("last 99999999999 days", "names no time"),
    ("yesterday or last year", "several times, 'yesterday' and 'last year'"),
    ("昨天和去年", "several times"), ("every Friday", "a recurring time"),
    ("Tuesday last week", "'Tuesday' was not understood"),
    ("the bees of last week", "'bees' was not understood"),
    ("from yesterday to last year", "ends before it begins"),
)  # fmt: skip
def test_words_that_do_not_name_one_are_refused(words, wrong):
    with pytest.raises(InvalidInput, match=wrong) as raised:
        stretch(words, None, None, NOW)
    assert repr(words) in str(raised.value)


def test_moments_or_words_bound_a_stretch_not_both_and_the_weekend_is_the_one_that_goes_on():
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert (noon, None) == stretch(None, noon, None, NOW)
    assert (None, at(2026, 11, 18)) == stretch(None, None, "last Tuesday", NOW)
    assert (at(2024, 5, 1), at(2024, 5, 11)) == stretch(None, "2024-05-01", "2024-05-10", NOW)
    exact = "2024-05-01T09:30+02:00"
    assert (datetime.fromisoformat(exact), None) == stretch(None, exact, None, NOW)
    assert (None, None) == stretch(None, None, None, NOW)
    with pytest.raises(InvalidInput, match="not both"):
        stretch("yesterday", NOW, None, NOW)
    with pytest.raises(InvalidInput, match="asked_at has no time zone"):
        stretch("yesterday", None, None, NOW.replace(tzinfo=None))
    sunday = at(2026, 11, 22, 9)
    assert (at(2026, 11, 21), at(2026, 11, 23)) == stretch("the weekend", None, None, sunday)
    assert (at(2026, 11, 21), sunday) == stretch("自周末以来", None, None, sunday)
    assert WEEKEND == stretch("上周末", None, None, sunday)


@every_case(
    (NAIVE, None, "begin has no time zone"), (None, NAIVE, "end has no time zone"),
    (NOW, NOW - timedelta(days=1), "end must be after begin"),
    (NOW, NOW, "end must be after begin"), (7, None, "begin must be a datetime or words"),
    ("soon", None, "begin 'soon' names no time"),
)  # fmt: skip
def test_moments_that_bound_nothing_are_refused(begin, end, wrong):
    with pytest.raises(InvalidInput, match=wrong):
        stretch(None, begin, end, NOW)  # type: ignore[arg-type]


def test_days_are_those_of_the_zone_hours_that_come_twice_end_and_weeks_begin_on_monday():
    berlin = ZoneInfo("Europe/Berlin")
    begin = datetime(2026, 3, 28, tzinfo=berlin)
    days = starts(begin, datetime(2026, 3, 31, tzinfo=berlin), "day", berlin)
    assert [(28, 0), (29, 0), (30, 0)] == [(day.day, day.hour) for day in days]
    lengths = [later.timestamp() - day.timestamp() for day, later in pairwise(days)]
    assert [24 * 3600, 23 * 3600] == lengths
    hours = starts(begin, datetime(2026, 3, 30, tzinfo=berlin), "hour", berlin)
    assert 47 == len(hours)
    begin, end = TWICE.replace(minute=45), TWICE.replace(minute=15, fold=1)
    assert (begin, end) == stretch(None, begin, end, TWICE)
    with pytest.raises(InvalidInput, match="end must be after begin"):
        stretch(None, end, begin, TWICE)
    hours = starts(begin, end, "hour", BERLIN)
    assert [0, 3600] == [one.timestamp() - hours[0].timestamp() for one in hours]
    assert begin.replace(minute=0) == hours[0]
    assert [TWICE.replace(hour=0, minute=0)] == starts(begin, end, "day", BERLIN)
    weeks = starts(at(2026, 11, 4, 7), at(2026, 11, 17), "week", BEIJING)
    assert [at(2026, 11, 2), at(2026, 11, 9), at(2026, 11, 16)] == weeks
    with pytest.raises(InvalidInput, match=f"more than {MAX_BUCKETS:,} times a day"):
        starts(at(1900, 1, 1), NOW, "day", UTC)
    with pytest.raises(InvalidInput, match="bucket must be one of hour, day"):
        starts(at(1900, 1, 1), NOW, "fortnight", UTC)  # type: ignore[arg-type]


BERLIN = ZoneInfo("Europe/Berlin")
TWICE = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)  # summer time; again an hour later


@every_case(
    (datetime(2026, 3, 29, 3, 30, tzinfo=BERLIN), "last 1 hour", (-1, 0)),
    (datetime(2026, 3, 29, 3, 30, tzinfo=BERLIN), "最近半小时", (-0.5, 0)),
    (datetime(2026, 3, 29, 5, 30, tzinfo=BERLIN), "3 hours ago", (-3, -2)),
    (TWICE.replace(fold=1), "last 2 hours", (-2, 0)),
    (TWICE.replace(fold=1), "in the last hour", (-1, 0)),
    (TWICE.replace(fold=1), "earlier today", (-3.5, 0)),
    (TWICE.replace(hour=4), "过去3小时", (-3, 0)),
    (TWICE.replace(hour=3, minute=0), "from 2 hours ago to 2 hours ago", (-2, -1)),
)
def test_hours_are_those_that_passed_also_when_the_clocks_change(now, words, hours):
    begin, end = stretch(words, None, None, now)
    assert begin and end
    assert hours == tuple((one.timestamp() - now.timestamp()) / 3600 for one in (begin, end))
    assert BERLIN == begin.tzinfo == end.tzinfo


MOMENTS = st.integers(631_152_000, 2_208_988_800)  # seconds, 1990 to 2040
ZONES = st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin", "Asia/Kolkata", "America/Lima"])


@given(
    MOMENTS, st.floats(0.001, 300), st.sampled_from(["hour", "day", "week", "month", "year"]), ZONES
)
def test_parts_cover_the_stretch_and_rise(moment, days, unit, name):
    zone = ZoneInfo(name)
    begin = datetime.fromtimestamp(moment, zone)
    end = (begin.astimezone(UTC) + timedelta(days=days)).astimezone(zone)
    found = [one.timestamp() for one in starts(begin, end, unit, zone)]  # type: ignore[arg-type]
    assert found == sorted(set(found))
    assert found[0] <= begin.timestamp() and found[-1] < end.timestamp()
    longest = {"hour": 1, "day": 25, "week": 169, "month": 745, "year": 8785}[unit]
    ends = [*found[1:], end.timestamp()]
    assert all(b - a <= 3600 * longest for a, b in zip(found, ends, strict=True))
