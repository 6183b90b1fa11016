"""What held when, as it was known when: every read, as of moments on both time lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from shared_core import AsOf, Event, InvalidInput, MemoryEngine, NewMemory, Scope, open_memory
from shared_core.cli.main import app

ANN, XIAO_AN = Scope("app", "ann"), Scope("app", "小安")
DAY = timedelta(days=1)
START = datetime(2024, 1, 1, tzinfo=UTC)
NAIVE = datetime(2024, 5, 1)  # noqa: DTZ001 # the fault that is tested
LANGUAGES = {
    ANN: ("I live in Rome.", "I moved to Paris.", "I like tea.", "Where does she live?"),
    XIAO_AN: ("我住在上海。", "我搬到北京了。", "我喜欢喝茶。", "她住在哪里？"),
}


class Clock:
    """The time of a test, in days since its start."""

    def __init__(self) -> None:
        self.day = 0.0

    def __call__(self) -> datetime:
        return START + self.day * DAY


def at(day: float) -> datetime:
    return START + day * DAY


def said(text: str, day: float, **more: Any) -> Event:
    return Event(
        event_id=f"e{day}", author="u", role="user", text=text, occurred_at=at(day), **more
    )


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def memory(dsn: str, clock: Clock) -> AsyncIterator[MemoryEngine]:
    async with open_memory(dsn, clock=clock, worker=False) as engine:
        yield engine


async def learn(memory: MemoryEngine, clock: Clock, scope: Scope) -> None:
    """Two homes, said on days 10 and 40, learned on days 20 and 60; tea on day 61."""
    rome, paris, tea, _ = LANGUAGES[scope]
    for thread, text, said_on, learned_on in (
        ("a", rome, 10, 20), ("b", paris, 40, 60), ("c", tea, 61, 61)
    ):  # fmt: skip
        clock.day = learned_on
        await memory.append_events(scope, thread, [said(text, said_on)])
        await memory.consolidate(scope, thread)
    clock.day = 100


def city(scope: Scope, number: int) -> str:
    return (("Rome", "Paris") if scope == ANN else ("上海", "北京"))[number]


async def homes(memory: MemoryEngine, scope: Scope, as_of: AsOf | None) -> list[object]:
    return [one.value for one in await memory.facts(scope, as_of=as_of) if one.slot == "residence"]


async def recalled(memory: MemoryEngine, scope: Scope, as_of: AsOf | None) -> set[str]:
    hits = await memory.recall(scope, LANGUAGES[scope][3], as_of=as_of, limit=50)
    return {hit.memory.text for hit in hits if hit.memory.kind == "semantic"}


@pytest.mark.parametrize("scope", [ANN, XIAO_AN], ids=["en", "zh"])
async def test_a_home_is_the_one_of_its_time_as_it_was_known_then(
    memory: MemoryEngine, clock: Clock, scope: Scope
) -> None:
    await learn(memory, clock, scope)
    first, second = city(scope, 0), city(scope, 1)
    for valid, known, expected in (
        (None, None, [second]),
        (9, None, []),
        (10, None, [first]),
        (39, None, [first]),
        (40, None, [second]),
        (200, None, [second]),
        (None, 19, []),
        (None, 20, [first]),
        (50, 59, [first]),  # by day 50 it had ended, but that was not known on day 59
        (50, 60, [second]),
        (5, 60, []),
    ):
        as_of = AsOf(
            valid=None if valid is None else at(valid), known=None if known is None else at(known)
        )
        assert expected == await homes(memory, scope, as_of), as_of
        shown = await recalled(memory, scope, as_of)
        for name in (first, second):
            assert (name in expected) == any(name in text for text in shown), (as_of, shown)
        listed = await memory.list_memories(scope, kinds=["semantic"], as_of=as_of)
        near = await memory.search(scope, LANGUAGES[scope][3], kinds=["semantic"], as_of=as_of)
        for name in (first, second):
            assert (name in expected) == any(name in one.text for one in listed), as_of
            assert (name in expected) == any(name in hit.memory.text for hit in near), as_of
    assert await recalled(memory, scope, None) == await recalled(memory, scope, AsOf())


async def test_an_end_that_was_not_known_is_not_shown(memory: MemoryEngine, clock: Clock) -> None:
    await learn(memory, clock, ANN)
    [before] = await memory.facts(ANN, as_of=AsOf(known=at(59)))
    assert (None, None, at(20)) == (before.valid_until, before.superseded_at, before.recorded_at)
    past = {one.value: one for one in await memory.facts(ANN, history=True, as_of=AsOf())}
    assert (at(40), at(60)) == (past["Rome"].valid_until, past["Rome"].superseded_at)
    listed = await memory.list_memories(ANN, kinds=["semantic"], as_of=AsOf(known=at(59)))
    assert [None] == [one.superseded_at for one in listed]


async def test_turns_are_those_that_were_said_and_stored_by_then(
    memory: MemoryEngine, clock: Clock
) -> None:
    await learn(memory, clock, ANN)

    async def turns(as_of: AsOf) -> int:
        listed = await memory.list_memories(ANN, kinds=["episodic"], as_of=as_of)
        hits = await memory.recall(
            ANN, "Where is Rome, Paris, tea?", kinds=["episodic"], as_of=as_of
        )
        assert {one.memory_id for one in listed} == {hit.memory.memory_id for hit in hits}
        return len(listed)

    assert [0, 1, 1, 2, 3] == [await turns(AsOf(valid=at(day))) for day in (9, 10, 39, 60, 61)]
    assert [0, 1, 1, 2, 3] == [await turns(AsOf(known=at(day))) for day in (19, 20, 59, 60, 61)]


async def test_the_summary_is_the_version_that_stood_then(
    memory: MemoryEngine, clock: Clock
) -> None:
    for day, text in ((1, "I live in Rome."), (2, "I like green tea."), (3, "I work at Acme.")):
        clock.day = day
        await memory.append_events(ANN, "t", [said(text, day)])
        await memory.consolidate(ANN, "t")
    clock.day = 9
    texts = []
    for day in (1, 2, 3):
        [summary] = await memory.list_memories(
            ANN, kinds=["summary"], as_of=AsOf(known=at(day + 0.5))
        )
        window = await memory.context_window(
            ANN, "t", "What of Rome?", as_of=AsOf(known=at(day + 0.5))
        )
        assert summary.text in window.prompt
        texts.append(summary.text)
    assert 3 == len(set(texts))
    assert "Rome" in texts[0] and "tea" not in texts[0]
    [current] = await memory.list_memories(ANN, kinds=["summary"])
    assert texts[2] == current.text


async def test_a_context_is_as_of_a_moment(memory: MemoryEngine, clock: Clock) -> None:
    clock.day = 1
    await memory.append_events(ANN, "t", [said("I live in Rome.", 1)])
    await memory.consolidate(ANN, "t")
    clock.day = 5
    await memory.append_events(ANN, "t", [said("I moved to Paris.", 4)])
    await memory.consolidate(ANN, "t")
    clock.day = 9
    for as_of in (AsOf(valid=at(2)), AsOf(known=at(2)), AsOf(valid=at(3), known=at(4.5))):
        window = await memory.context_window(ANN, "t", "Where does she live?", as_of=as_of)
        assert "Rome" in window.prompt, as_of
        assert "Paris" not in window.prompt, as_of
    ended = await memory.context_window(ANN, "x", "Where does she live?", as_of=AsOf(valid=at(2)))
    assert f"until {at(4):%Y-%m-%d}" in ended.prompt  # when it ended, not when that was read
    now = await memory.context_window(ANN, "t", "Where does she live?")
    assert "Paris" in now.prompt


async def test_a_fact_of_the_future_is_not_current(memory: MemoryEngine, clock: Clock) -> None:
    clock.day = 1
    await memory.append_events(ANN, "t", [said("I live in Rome.", 30)])
    await memory.consolidate(ANN, "t")
    assert [] == await homes(memory, ANN, None)
    assert [] == await homes(memory, ANN, AsOf())
    assert set() == await recalled(memory, ANN, None)
    assert ["Rome"] == await homes(memory, ANN, AsOf(valid=at(31)))
    assert 1 == len(await memory.list_memories(ANN, kinds=["episodic"]))
    clock.day = 31
    assert ["Rome"] == await homes(memory, ANN, None)
    assert 1 == len(await recalled(memory, ANN, None))


async def test_what_was_forgotten_or_has_expired_is_gone_at_every_moment(
    memory: MemoryEngine, clock: Clock
) -> None:
    await learn(memory, clock, ANN)
    await memory.append_events(ANN, "d", [said("I work at Acme.", 99, expires_at=at(101))])
    await memory.consolidate(ANN, "d")
    assert "Acme" in [one.value for one in await memory.facts(ANN, as_of=AsOf())]
    await memory.forget_turns(ANN, "a", ["e10"])
    clock.day = 102
    for day in range(5, 103, 6):
        for as_of in (AsOf(valid=at(day)), AsOf(known=at(day)), AsOf(valid=at(day), known=at(day))):
            found = [one.text for one in await memory.list_memories(ANN, limit=99, as_of=as_of)]
            found += [one.statement for one in await memory.facts(ANN, history=True, as_of=as_of)]
            assert not [text for text in found if "Rome" in text or "Acme" in text], as_of


async def test_a_memory_that_was_written_over_is_shown_since_it_was(
    memory: MemoryEngine, clock: Clock
) -> None:
    for day, text in ((1, "The code name is Falcon."), (5, "The code name is Osprey.")):
        clock.day = day
        await memory.remember(ANN, NewMemory(text=text, key="k", occurred_at=at(0)))
    clock.day = 9
    shown = [
        [one.text for one in await memory.list_memories(ANN, as_of=AsOf(known=at(day)))]
        for day in (3, 5)
    ]
    assert [[], ["The code name is Osprey."]] == shown


async def test_moments_of_any_zone_are_the_same_moment(memory: MemoryEngine, clock: Clock) -> None:
    await learn(memory, clock, ANN)
    for hours in (-11, 0, 14):
        zone = timezone(timedelta(hours=hours))
        edge = at(40).astimezone(zone)
        assert ["Paris"] == await homes(memory, ANN, AsOf(valid=edge))
        assert ["Rome"] == await homes(memory, ANN, AsOf(valid=edge - timedelta(microseconds=1)))


@pytest.mark.parametrize("as_of", [
    datetime(2024, 5, 1, tzinfo=UTC),
    AsOf(valid=datetime.max.replace(tzinfo=timezone(-timedelta(hours=5)))),
    AsOf(known=datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))),
], ids=str)  # type: ignore[arg-type] # fmt: skip
async def test_moments_that_are_none_are_refused_by_name(memory: MemoryEngine, as_of: Any) -> None:
    for reading in (
        memory.facts(ANN, as_of=as_of),
        memory.list_memories(ANN, as_of=as_of),
        memory.recall(ANN, "tea", as_of=as_of),
        memory.recall(ANN, "", as_of=as_of),
        memory.search(ANN, "", as_of=as_of),
        memory.context_window(ANN, "t", "tea", as_of=as_of),
    ):
        with pytest.raises(InvalidInput, match="as_of"):
            await reading


@pytest.mark.parametrize("moment", [NAIVE, date(2024, 5, 1), "2024-05-01"], ids=str)
@pytest.mark.parametrize("line", ["valid", "known"])
def test_what_is_no_moment_with_a_time_zone_is_refused_by_name(line: str, moment: Any) -> None:
    with pytest.raises(InvalidInput, match=rf"AsOf\({line}="):
        AsOf(**{line: moment})


async def test_the_ends_of_time_are_moments(memory: MemoryEngine, clock: Clock) -> None:
    await learn(memory, clock, ANN)
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert [] == await homes(memory, ANN, AsOf(valid=first))
    assert [] == await homes(memory, ANN, AsOf(known=first))
    assert ["Paris"] == await homes(memory, ANN, AsOf(valid=last, known=last))


async def test_of_two_values_of_one_time_the_one_that_began_last_holds(
    memory: MemoryEngine, clock: Clock, dsn: str
) -> None:
    """As threads read in any order leave them."""
    await learn(memory, clock, ANN)
    with psycopg.connect(dsn) as superuser:
        superuser.execute(
            "UPDATE hippocampus.facts SET valid_until = %s WHERE value = '\"Rome\"'", [at(50)]
        )
    shown = [await homes(memory, ANN, AsOf(valid=at(day))) for day in (39, 40, 49, 50)]
    assert [["Rome"], ["Paris"], ["Paris"], ["Paris"]] == shown


def test_the_command_recalls_as_of_dates(dsn: str) -> None:
    from shared_core import run_sync

    async def fill() -> None:
        clock = Clock()
        async with open_memory(dsn, clock=clock, worker=False) as memory:
            await learn(memory, clock, ANN)

    def recall(*options: str) -> Any:
        return CliRunner().invoke(
            app, ["recall", "app", "ann", "Where does she live?", "--uri", dsn, *options]
        )

    run_sync(fill())
    assert "Paris" in recall().stdout
    then = recall("--as-of", "2024-01-31")  # day 30
    assert "Rome" in then.stdout and "Paris" not in then.stdout
    known = recall("--known", "2024-02-20T08:00+08:00")
    assert "Rome" in known.stdout and "Paris" not in known.stdout
    for option in ("--as-of", "--known"):
        refused = recall(option, "soon")
        assert 2 == refused.exit_code
        assert option in refused.stderr and "'soon'" in refused.stderr
