"""The time zone in which a turn counts its days, kept beside its moment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from shared_core.core.validation import zone_of


def zone_name(moment: datetime) -> str | None:
    """Return the name of the zone of an aware moment, else its offset; None for UTC."""
    zone, offset = moment.tzinfo, moment.utcoffset()
    if isinstance(zone, ZoneInfo) and zone.key and zone.key != "UTC":
        return zone.key
    return str(timezone(offset)).removeprefix("UTC") if offset else None


def in_zone(moment: datetime, name: str | None) -> datetime:
    """Return a moment in the zone that zone_name() named."""
    return moment if name is None else moment.astimezone(zone_of(name, "time_zone"))


def clock_in(clock: Callable[[], datetime], zone: tzinfo) -> Callable[[], datetime]:
    """Return a clock that tells the moments of another one in the zone of the user."""
    return clock if zone is UTC else lambda: of_user(clock(), zone)


def of_user(moment: datetime, zone: tzinfo) -> datetime:
    """Return a moment in the zone of the user, unless it has an offset of its own.

    A moment in UTC names no zone: clocks and POSIX time stamps are in UTC everywhere. One near the
    first or the last day that Python knows stays in UTC.
    """
    named = isinstance(moment.tzinfo, ZoneInfo) and moment.tzinfo.key != "UTC"
    if named or moment.utcoffset() != timedelta():
        return moment
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return moment.astimezone(UTC)
