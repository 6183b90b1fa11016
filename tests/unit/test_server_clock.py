"""The clock of a memory agrees with the server's, however slow the answers are."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from every_case import every_case

from shared_core.core import timestamps
from shared_core.core.timestamps import ServerClock

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
