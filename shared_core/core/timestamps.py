"""The clock of a memory; checks and parses moments: aware, and in range in UTC."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from shared_core.core.domain import AsOf
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput

CLOCKS_APART = timedelta(hours=1)
"""Maximum lead of a caller's clock over the server's; {soon} in the SQL statements."""
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, tzinfo=UTC)
"""What a stored moment outside of Python's years is read as: the ends shown in any time zone."""
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""Where the microseconds of arrays begin, as those of PostgreSQL do."""
IN_STEP = timedelta(seconds=5)
"""Difference of two clocks that counts as none."""
COMPARED_S = 60.0
"""Seconds between two comparisons with the server's clock."""


def soon(now: datetime) -> datetime:
    """Return the moment up to which a beginning counts as past."""
    return min(now, LATEST - CLOCKS_APART) + CLOCKS_APART


def microseconds(moment: datetime) -> int:
    """Return the microseconds from EPOCH to a moment."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def moment_at(microseconds: int) -> datetime:
    """Return the moment at a number of microseconds since EPOCH, within EARLIEST and LATEST."""
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return LATEST if microseconds > 0 else EARLIEST


def system_clock() -> datetime:
    """Return the current time of this machine, in UTC."""
    return datetime.now(UTC)


class ServerClock:
    """The clock of a database server, which all its machines share: this machine's, corrected.

    So they agree on when a job is due and a lease ends. A difference up to IN_STEP counts as none.
    A comparison is as exact as its round trip is short, and each one is used.
    """

    def __init__(self) -> None:
        self._ahead = timedelta()
        self._compared_at = float("-inf")

    def __call__(self) -> datetime:
        return system_clock() - self._ahead

    async def compare(
        self,
        ahead_of_server: Callable[[datetime], Awaitable[timedelta]],
        every_s: float = COMPARED_S,
    ) -> None:
        """Ask how far this machine is ahead, unless that was asked within every_s seconds."""
        asked_at, compared_at = time.monotonic(), self._compared_at
        if asked_at - compared_at < every_s:
            return
        self._compared_at = asked_at  # so callers at the same time do not all ask
        try:
            least = await ahead_of_server(system_clock())
        except BaseException:
            self._compared_at = compared_at
            raise
        self._ahead = _lead(least, timedelta(seconds=time.monotonic() - asked_at), self._ahead)


def _lead(least: timedelta, round_trip: timedelta, known: timedelta) -> timedelta:
    """Return the lead of a clock after an answer; known: the lead by earlier answers.

    The server read its clock at some point of the round trip, so the lead is between least and
    least plus the round trip. Within that range a slow answer changes nothing.
    """
    most = least + round_trip
    for lead in (timedelta(), known):
        if least - IN_STEP <= lead <= most + IN_STEP:
            return lead
    return least + round_trip / 2


def check_moment(moment: datetime, what: str) -> None:
    """Raise InvalidInput, naming what, for a moment without a time zone or out of range in UTC."""
    if not isinstance(moment, datetime):
        raise InvalidInput(
            f"{what} must be a datetime with a time zone, e.g. datetime.now(UTC),"
            f" got {shown(moment)}"
        )
    if moment.tzinfo is None:
        raise InvalidInput(
            f"{what} has no time zone: give an aware datetime, e.g. datetime.now(UTC)"
        )
    try:
        moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{what} is out of range in UTC: {moment}") from error


def check_period(begin: datetime | None, end: datetime | None) -> None:
    """Raise InvalidInput for bounds that are no moments, and for an end that is not after begin."""
    for name, moment in (("begin", begin), ("end", end)):
        if moment is not None:
            check_moment(moment, name)
    if begin and end and end.astimezone(UTC) <= begin.astimezone(UTC):
        span = f"{begin.isoformat()} to {end.isoformat()}"
        raise InvalidInput(f"end must be after begin, got {span}")


def check_as_of(as_of: AsOf | None) -> None:
    """Raise InvalidInput unless as_of is None or an AsOf of valid moments."""
    if as_of is None:
        return
    if not isinstance(as_of, AsOf):
        raise InvalidInput(f"as_of must be AsOf(valid=..., known=...), got {shown(as_of)}")
    for name, moment in (("valid", as_of.valid), ("known", as_of.known)):
        if moment is not None:
            check_moment(moment, f"as_of.{name}")


def moment_of(text: str, what: str) -> datetime:
    """Return the moment of an ISO 8601 date (its midnight) or time; UTC if it has no zone.

    Raises InvalidInput, naming what, for any other text.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidInput(
            f"{what} must be a moment like 2024-05-01 or 2024-05-01T09:30+02:00, got {shown(text)}"
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    check_moment(moment, what)
    return moment
