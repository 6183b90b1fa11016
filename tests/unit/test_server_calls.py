"""What goes to a server: statements, how often they are tried, and whose clock counts."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pymysql
import pytest
from every_case import every_case

from shared_core.core import timestamps
from shared_core.core.timestamps import ServerClock
from shared_core.ports.operations import Delete, Select, equal, is_not_null, one_of_rows
from shared_core.storage.oceanbase.connection.attempts import TRIES, Attempts
from shared_core.storage.postgres.connection.marks import Mark
from shared_core.storage.postgres.connection.operations import compiled

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Link:
    """A server, and a machine whose clock is ahead of it; a question takes to_s and back_s."""

    def __init__(self, ahead_s: float, to_s: float = 0.0, back_s: float = 0.0) -> None:
        self.now, self.ahead_s, self.to_s, self.back_s = 0.0, ahead_s, to_s, back_s
        self.questions = 0

    def machine(self) -> datetime:
        return NOW + timedelta(seconds=self.now + self.ahead_s)

    async def ahead_of_server(self, moment: datetime) -> timedelta:
        self.questions += 1
        self.now += self.to_s
        ahead = moment - (NOW + timedelta(seconds=self.now))
        self.now += self.back_s
        return timedelta(seconds=round(ahead.total_seconds()))


@pytest.fixture
def link(monkeypatch):
    link = Link(0)
    monkeypatch.setattr(timestamps, "system_clock", link.machine)
    monkeypatch.setattr(timestamps, "time", SimpleNamespace(monotonic=lambda: link.now))
    return link


def error_s(link: Link, clock: ServerClock) -> float:
    """Seconds that a corrected clock is ahead of the server's."""
    return (clock() - NOW).total_seconds() - link.now


DAY = 86_400.0


@every_case(-DAY, -61, -6, -4, 0, 4, 6, 61, 400 * DAY)
@every_case((0, 0), (0, 6), (6, 0), (30, 30), (0, 60), (60, 0))
async def test_a_comparison_is_as_exact_as_its_round_trip(to_s, back_s, ahead_s, link):
    link.ahead_s, link.to_s, link.back_s = ahead_s, to_s, back_s
    clock = ServerClock()
    await clock.compare(link.ahead_of_server)
    assert abs(error_s(link, clock)) <= to_s + back_s + timestamps.IN_STEP.total_seconds()


async def test_a_slow_answer_leaves_a_better_correction(link):
    link.ahead_s = 3_600
    clock = ServerClock()
    await clock.compare(link.ahead_of_server)
    for link.to_s, link.back_s in [(0, 50), (50, 0), (20, 20)]:
        await clock.compare(link.ahead_of_server, every_s=0)
        assert abs(error_s(link, clock)) < 1
    link.ahead_s = 0  # the machine was set right
    await clock.compare(link.ahead_of_server, every_s=0)
    assert abs(error_s(link, clock)) <= 45


@pytest.mark.parametrize("error", [OSError, asyncio.CancelledError])
async def test_a_comparison_without_an_answer_is_made_again(link, error):
    async def fail(moment: datetime) -> timedelta:
        raise error

    link.ahead_s = DAY
    clock = ServerClock()
    with pytest.raises(error):
        await clock.compare(fail)
    await clock.compare(link.ahead_of_server)
    assert error_s(link, clock) == 0
    await clock.compare(link.ahead_of_server)
    assert 1 == link.questions


PAST = -1.0
HOUR = 3600.0


def failed(attempts: Attempts, code: int, *, wrote: bool = False, has_looked: bool = True) -> bool:
    error = pymysql.OperationalError(code, "")
    attempts.failed(error, has_looked=has_looked, wrote=wrote)
    return attempts.go_on(error)


@every_case(1213, 6235, 2006, 2013)
def test_what_may_fail_for_ever_is_tried_so_many_times(code):
    attempts = Attempts(time.monotonic() + HOUR)
    assert [failed(attempts, code) for _ in range(TRIES)] == [True] * (TRIES - 1) + [False]


@every_case(1205, 4038, 6225)
def test_what_passes_by_itself_is_waited_for_and_uses_no_try_up(code):
    attempts = Attempts(time.monotonic() + HOUR)
    assert all(failed(attempts, code) for _ in range(10 * TRIES))
    assert failed(attempts, 2013)
    assert not failed(Attempts(PAST), code)


def test_an_answer_in_doubt_is_asked_for_and_values_stand_in_the_text_for_partial_indexes():
    attempts = Attempts(time.monotonic() + HOUR)
    assert failed(attempts, 2013, wrote=True)
    assert attempts.are_in_doubt
    assert all(failed(attempts, 2003, has_looked=False) for _ in range(10 * TRIES))
    assert attempts.are_in_doubt
    assert failed(attempts, 1213)
    assert not attempts.are_in_doubt
    assert not failed(attempts, 2003, has_looked=False)
    # A generic plan uses the index of summaries only if the statement says 'summary'.
    where = (equal("thread_id", "t"), equal("kind", "summary"), is_not_null("superseded_at"))
    text, values = compiled(Select("memories", ("memory_id",), where), "/app/ana/")
    assert b"t.kind = 'summary'" in text
    assert {"p0": "/app/ana/", "p1": "t"} == values
    where = (equal("kind", "item"), equal("key", "summary"))
    text, values = compiled(Select("memories", ("memory_id",), where), "/app/ana/")
    assert b"item" not in text
    assert {"p0": "/app/ana/", "p1": "item", "p2": "summary"} == values
    # A list of threads beside a list of turns would let each delete read whole threads.
    turns = one_of_rows(("thread_id", "event_id"), [("t", "e1"), ("t", "e2")])
    text, values = compiled(Delete("events", (turns,)), "/app/ana/")
    assert b"USING unnest(%(p1)b::text[], %(p2)b::text[])" in text
    assert b"ANY" not in text
    assert {"p0": "/app/ana/", "p1": ["t", "t"], "p2": ["e1", "e2"]} == values


@every_case(1146, 2003, 4012, 1062)
def test_the_rest_is_told_at_once(code):
    assert not failed(Attempts(time.monotonic() + HOUR), code)


@every_case((True, b"coordinator_writes"), (False, b" writes"))
def test_the_first_attempt_decides_where_the_mark_is(first, table):
    mark = Mark("/app/ana/")
    attempts = [mark.written(on_coordinator=one) for one in (first, not first)]
    for statements in (*attempts, [mark.looked_for()]):
        assert all(table in text for text, _ in statements)
