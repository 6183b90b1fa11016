"""Whether something happened when a question says: at any moment, in any zone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
from every_case import every_case

from shared_core.core.timestamps import microseconds
from shared_core.nlp.dates import TimeRange
from shared_core.recall.features import named_times, time_fit

EAST = timezone(timedelta(hours=8))


def fit(times: Sequence[TimeRange], *moments: datetime) -> list[float]:
    found: list[float] = time_fit(times, np.array([microseconds(one) for one in moments])).tolist()
    return found


@every_case("What happened in December?", "1月1日发生了什么？")
@every_case(1, 9999)
def test_what_happened_at_the_ends_of_time_is_ranked(year: int, query: str) -> None:
    [time] = named_times(query, datetime(2026, 3, 31, tzinfo=UTC))
    assert fit([time], datetime(year, 6, 1, tzinfo=UTC)) == [0.0]
    assert fit([time], time.begin.replace(year=year)) == [1.0]


def test_a_year_begins_in_the_zone_of_the_question() -> None:
    [time] = named_times("What was on January 1?", datetime(2026, 3, 31, tzinfo=EAST))
    for year in (2024, 2025, 2026):
        assert fit([time], datetime(year - 1, 12, 31, 17, tzinfo=UTC)) == [1.0]
        assert fit([time], datetime(year - 1, 12, 31, 15, tzinfo=UTC)) == [0.0]


@every_case(
    "What did I do yesterday, last year?", "Last year, I mean yesterday?", "去年还是昨天发生的？"
)
def test_of_times_that_contradict_each_is_looked_at(query: str) -> None:
    times = named_times(query, datetime(2026, 3, 31, 12, tzinfo=UTC))
    fits = fit(times, *(datetime(2026, 3, day, 9, tzinfo=UTC) for day in (29, 30)))
    assert [0.0, 1.0] == fits
    assert fit(times, datetime(2025, 7, 1, tzinfo=UTC)) == [1.0]
    assert fit(times, datetime(2024, 7, 1, tzinfo=UTC)) == [0.0]
