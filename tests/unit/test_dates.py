"""Expressions of time, resolved against the moment they were said, and what fits them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from every_case import every_case
from hypothesis import given, strategies as st

from shared_core.core.timestamps import microseconds
from shared_core.nlp.dates import TimeRange, begins_at, resolve
from shared_core.recall.features import named_times, time_fit

NOW = datetime(2026, 5, 13, 15, 0, tzinfo=UTC)
"""A Wednesday."""

AT = [
    # said, begin, days
    ("I saw him yesterday", "2026-05-12", 1), ("the day before yesterday", "2026-05-11", 1),
    ("last Friday", "2026-05-08", 1), ("last Monday", "2026-05-11", 1),
    ("next Tuesday", "2026-05-19", 1), ("two weeks ago", "2026-04-27", 7),
    ("three years ago", "2023-01-01", 365), ("in March", "2026-03-01", 31),
    ("in July", "2025-07-01", 31), ("I will go in July", "2026-07-01", 31),
    ("in June 2020", "2020-06-01", 30), ("last month", "2026-04-01", 30),
    ("last May", "2025-05-01", 31), ("last summer", "2025-06-01", 92),
    ("March 3rd, 2020", "2020-03-03", 1), ("on 3 March", "2026-03-03", 1),
    ("2024-02-29", "2024-02-29", 1), ("in 2 days", "2026-05-15", 1), ("上个月", "2026-04-01", 30),
    ("上周末我去了海边", "2026-05-09", 2), ("下个周末", "2026-05-23", 2),
    ("三天前", "2026-05-10", 1), ("两个星期前", "2026-04-27", 7), ("半年前", "2025-11-01", 30),
    ("大前天", "2026-05-10", 1), ("上周五", "2026-05-08", 1), ("下下周一", "2026-05-25", 1),
    ("去年三月", "2025-03-01", 31), ("去年3月5号", "2025-03-05", 1), ("十二月", "2025-12-01", 31),
    ("我打算十二月去", "2026-12-01", 31), ("2020年5月3日", "2020-05-03", 1),
    ("前年", "2024-01-01", 366), ("上个月最后一天", "2026-04-30", 1),
    ("去年第一天", "2025-01-01", 1), ("上个月的今天", "2026-04-13", 1),
    ("去年底", "2025-11-01", 61), ("21年6月", "2021-06-01", 30), ("今年春天", "2026-03-01", 92),
    ("the last day of last month", "2026-04-30", 1), ("a week ago today", "2026-05-06", 1),
]  # fmt: skip
MINUTES = [
    ("tomorrow at 3 pm", "2026-05-14 15:00"), ("yesterday evening at 8:30pm", "2026-05-12 20:30"),
    ("下周三下午三点", "2026-05-20 15:00"), ("昨晚八点半", "2026-05-12 20:30"),
    ("后天上午10点", "2026-05-15 10:00"),
]  # fmt: skip
SINCE = [
    ("I've been living in Lisbon since 2019", "2019-01-01"), ("since last March", "2026-03-01"),
    ("I've been learning Elixir for two months", "2026-03-01"), ("自从2019年以来", "2019-01-01"),
    ("从2021年开始住在上海", "2021-01-01"), ("here since spring", "2026-03-01"),
]  # fmt: skip
AMBIGUOUS = [
    "on Friday", "next Friday", "a few days ago", "I stayed for two weeks", "31 February",
    "in two weeks' time", "by Friday", "it may rain", "until last week", "at 3 pm", "", "周五",
    "几天前", "三月前", "13月5日", "直到去年", "下午三点", "一点也不",
]  # fmt: skip


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@every_case(*AT)
def test_an_expression_names_a_range(said, begin, days):
    [found] = resolve(said, NOW)
    assert ("at", day(begin), timedelta(days=days)) == (
        found.kind, found.begin, found.end - found.begin,
    )  # fmt: skip
    assert said[found.start :].startswith(found.text)


@every_case(*MINUTES)
def test_a_time_of_day_names_a_minute(said, begin):
    assert [day(begin)] == [one.begin for one in resolve(said, NOW)]


@every_case(*SINCE)
def test_what_began_and_goes_on_lasts_to_the_moment_it_was_said(said, begin):
    [found] = resolve(said, NOW)
    assert ("since", day(begin), NOW) == (found.kind, found.begin, found.end)


@every_case(*AMBIGUOUS)
def test_what_has_two_readings_or_none_is_left_out(said):
    assert [] == resolve(said, NOW)


@every_case("every Friday", "每周五")
def test_what_repeats_names_its_next_time(said):
    [found] = resolve(said, NOW)
    assert ("every", day("2026-05-15")) == (found.kind, found.begin)


def test_a_text_may_name_several_times_which_begin_in_the_zone_of_a_moment_that_must_have_one():
    said = "I moved last year and again last month"
    assert [day("2025-01-01"), day("2026-04-01")] == [one.begin for one in resolve(said, NOW)]
    tokyo = timezone(timedelta(hours=9))
    late = datetime(2026, 5, 13, 1, 0, tzinfo=tokyo)
    assert [datetime(2026, 5, 12, tzinfo=tokyo)] == [one.begin for one in resolve("昨天", late)]
    [time] = named_times("What was on January 1?", datetime(2026, 3, 31, tzinfo=EAST))
    for year in (2024, 2025, 2026):
        assert fit([time], datetime(year - 1, 12, 31, 17, tzinfo=UTC)) == [1.0]
        assert fit([time], datetime(year - 1, 12, 31, 15, tzinfo=UTC)) == [0.0]
    with pytest.raises(ValueError, match="aware"):
        resolve("yesterday", datetime(2026, 1, 1))  # noqa: DTZ001


@every_case(
    "去年八九十月我们去了哪里？", "我八九十月要去上海出差。", "我十一二月搬到上海了", "十个月前",
    "一二十年前",
)  # fmt: skip
def test_a_number_that_is_none_names_no_time_and_breaks_nothing(text):
    list(resolve(text, NOW))


@every_case(
    ("I moved last month", day("2026-04-01"), False),
    ("I have lived here since 2019", day("2019-01-01"), False), ("I moved this year", None, False),
    ("I move next month", None, True), ("I moved last year and again last month", None, False),
    ("I swim every Friday", None, False), ("I moved", None, False),
)  # fmt: skip
def test_only_what_is_over_or_lasts_dates_a_fact(said, began, to_come):
    assert (began, to_come) == begins_at(said, NOW)


@given(
    st.text(
        alphabet="last next two 3 weeks ago in March since 0123456789年月日前上下周五半每点三十"
    ),
    st.datetimes(timezones=st.just(UTC)),
)
def test_any_text_at_any_moment_gives_ranges_that_begin_before_they_end(text, now):
    assert all(one.begin < one.end for one in resolve(text, now))


EAST = timezone(timedelta(hours=8))


def fit(times: Sequence[TimeRange], *moments: datetime) -> list[float]:
    found: list[float] = time_fit(times, np.array([microseconds(one) for one in moments])).tolist()
    return found


@every_case("What happened in December?", "1月1日发生了什么？")
@every_case(1, 9999)
def test_what_happened_at_the_ends_of_time_is_ranked(year, query):
    [time] = named_times(query, datetime(2026, 3, 31, tzinfo=UTC))
    assert fit([time], datetime(year, 6, 1, tzinfo=UTC)) == [0.0]
    assert fit([time], time.begin.replace(year=year)) == [1.0]


@every_case(
    "What did I do yesterday, last year?", "Last year, I mean yesterday?", "去年还是昨天发生的？"
)
def test_of_times_that_contradict_each_is_looked_at(query):
    times = named_times(query, datetime(2026, 3, 31, 12, tzinfo=UTC))
    fits = fit(times, *(datetime(2026, 3, day, 9, tzinfo=UTC) for day in (29, 30)))
    assert [0.0, 1.0] == fits
    assert fit(times, datetime(2025, 7, 1, tzinfo=UTC)) == [1.0]
    assert fit(times, datetime(2024, 7, 1, tzinfo=UTC)) == [0.0]
