"""Time slices: what was remembered from one moment to another, in pages, by parts, by words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from shared_core import AsOf, Event, InvalidInput, MemoryEngine, NewMemory, Scope, open_memory

pytestmark = pytest.mark.both_engines

ANN = Scope("app", "ann")
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)  # a Sunday
TALK = [
    (1, "I planted tulips in the garden this morning."),
    (5, "My sister Mia visited us for dinner."),
    (5, "We saw a heron at the lake."),
    (12, "我把蜜蜂搬到了屋顶上。"),
    (40, "The old car was sold to a neighbour."),
]


def said(number: int, days_ago: int, text: str) -> Event:
    moment = NOON - timedelta(days=days_ago) + timedelta(minutes=number)
    return Event(event_id=f"e{number}", author="ann", role="user", text=text, occurred_at=moment)


@pytest.fixture
async def memory(dsn: str) -> AsyncIterator[MemoryEngine]:
    async with open_memory(dsn, worker=False, clock=lambda: NOON) as engine:
        turns = [said(number, days, text) for number, (days, text) in enumerate(TALK)]
        await engine.append_events(ANN, "t", turns)
        yield engine


async def texts(memory: MemoryEngine, *args: Any, **options: Any) -> list[str]:
    found = await memory.slice(ANN, *args, **options)
    return [one.text for one in found.memories]


@pytest.mark.parametrize(
    ("when", "numbers"),
    [
        ("last Tuesday", [2, 1]),
        ("yesterday", [0]),
        ("last month", [4]),
        ("上周二", [3]),
        ("最近六天", [0, 2, 1]),
        ("from last month to yesterday", [0, 2, 1, 3, 4]),
        ("in 1999", []),
    ],
)
async def test_words_find_what_was_said_then_newest_first(
    memory: MemoryEngine, when: str, numbers: list[int]
) -> None:
    assert [TALK[number][1] for number in numbers] == await texts(memory, when)


async def test_ends_are_exclusive_and_pages_are_of_one_order(memory: MemoryEngine) -> None:
    first = NOON - timedelta(days=40) + timedelta(minutes=4)
    last = NOON - timedelta(days=1)
    assert [TALK[n][1] for n in (4, 3, 1, 2)] == await texts(
        memory, begin=first, end=last, order="oldest"
    )
    everything = await texts(memory)
    pages = [one for n in range(0, 6, 2) for one in await texts(memory, limit=2, offset=n)]
    assert 5 == len(everything) and everything == pages
    assert everything[::-1] == await texts(memory, order="oldest")
    assert everything[1:] == await texts(memory, end=last)


async def test_a_query_puts_the_most_relevant_first_and_stays_within(memory: MemoryEngine) -> None:
    found = await memory.slice(ANN, "from last month to yesterday", query="bees on the roof? 蜜蜂")
    assert TALK[3][1] == found.memories[0].text
    assert found.hits[0].parts and [hit.memory for hit in found.hits] == [*found.memories]
    within = await memory.slice(ANN, "last Tuesday", query="蜜蜂")
    assert {TALK[1][1], TALK[2][1]} == {one.text for one in within.memories}
    rest = await memory.slice(ANN, "last Tuesday", query="蜜蜂", offset=1)
    assert within.memories[1:] == rest.memories
    assert found.to_dict() == json.loads(json.dumps(found.to_dict()))
    assert await texts(memory, "last Tuesday") == await texts(memory, "last Tuesday", query=" ")


async def test_parts_are_counted_whichever_page_is_asked_for(memory: MemoryEngine) -> None:
    found = await memory.slice(ANN, "from 2026-11-09 to 2026-11-22", bucket="week", limit=1)
    assert [1, 3] == [one.count for one in found.buckets]
    assert datetime(2026, 11, 16, tzinfo=UTC) == found.buckets[1].begin == found.buckets[0].end
    whole = await memory.slice(ANN, bucket="month", kinds=["episodic"])
    assert [1, 4] == [one.count for one in whole.buckets]
    assert 5 == sum(one.count for one in (await memory.slice(ANN, bucket="day")).buckets)
    assert () == (await memory.slice(Scope("app", "bob"), bucket="day")).buckets
    zone = ZoneInfo("Pacific/Kiritimati")  # already the next day
    [day] = (
        await memory.slice(ANN, begin=NOON - timedelta(days=1), bucket="day", zone=zone)
    ).buckets
    assert (22, 1) == (day.begin.day, day.count)


async def test_the_hour_that_comes_twice_is_two_parts(memory: MemoryEngine) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    begin = datetime(2026, 10, 25, 2, 45, tzinfo=berlin)  # summer time
    end = begin.replace(minute=15, fold=1)  # half an hour later
    moments = [begin, begin.replace(minute=0, fold=1), end]
    notes = [
        NewMemory(text=f"note {number}", occurred_at=moment)
        for number, moment in enumerate(moments)
    ]
    await memory.remember(ANN, notes)
    found = await memory.slice(ANN, begin=begin, end=end, bucket="hour", zone=berlin)
    assert ["note 1", "note 0"] == [one.text for one in found.memories]
    assert [(0, 1), (1, 1)] == [(one.begin.fold, one.count) for one in found.buckets]
    assert [900, 900] == [one.end.timestamp() - one.begin.timestamp() for one in found.buckets]


async def test_a_slice_shows_what_is_current_and_of_its_user(memory: MemoryEngine) -> None:
    stranger = Scope("app", "ann ")
    await memory.remember(stranger, NewMemory(text="Not Ann's.", occurred_at=NOON))
    gone = NewMemory(text="Gone.", occurred_at=NOON, expires_at=NOON - timedelta(seconds=1))
    later = NewMemory(text="A plan.", key="plan", occurred_at=NOON, kind="reflection")
    await memory.remember(ANN, [gone, later])
    assert ["A plan."] == await texts(memory, begin=NOON - timedelta(hours=1))
    assert ["A plan."] == await texts(memory, kinds=["reflection"])
    assert [] == await texts(memory, kinds=[])
    then = AsOf(known=NOON - timedelta(days=1))
    assert [] == await texts(memory, as_of=then)
    await memory.forget(ANN, "plan")
    assert [] == await texts(memory, kinds=["reflection"])


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"when": "every Friday"}, "a recurring time"),
        ({"begin": NOON.replace(tzinfo=None)}, "time zone"),
        ({"begin": NOON, "end": NOON - timedelta(days=1)}, "end must be after begin"),
        ({"bucket": "fortnight"}, "bucket must be one of"),
        ({"order": "best"}, "order must be 'newest' or 'oldest'"),
        ({"kinds": ["turns"]}, "kind 'turns' is not known"),
        ({"limit": -1}, "limit must be between"),
        ({"offset": -1}, "offset must be between"),
        ({"asked_at": NOON.replace(tzinfo=None)}, "asked_at has no time zone"),
        ({"begin": "1700-01-01", "end": "2026-01-01", "bucket": "day"}, "more than 10,000 times"),
    ],
)
async def test_what_means_nothing_is_refused(
    memory: MemoryEngine, options: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(InvalidInput, match=wrong):
        await memory.slice(ANN, **options)
