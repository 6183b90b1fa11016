"""The time zone in which a turn counts its days, kept beside its moment."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shared_core.core.validation import zone_of
from shared_core.errors import InvalidInput

log = logging.getLogger("hippocampus")


def zone_name(moment: datetime) -> str | None:
    """Return the name of the zone of an aware moment, else its offset; None for UTC."""
    zone, offset = moment.tzinfo, moment.utcoffset()
    if isinstance(zone, ZoneInfo) and zone.key and zone.key != "UTC" and _is_known(zone.key):
        return zone.key
    return str(timezone(offset)).removeprefix("UTC") if offset else None


def ambient_zone(named: object, what: str) -> tzinfo | None:
    """Return the zone that an application names for its own use, or None; log one that is none."""
    try:
        return zone_of(named or None, what)  # type: ignore[arg-type] # whatever the application has
    except InvalidInput as error:
        log.warning("%s; the days are counted in the zone of the memory", error)
        return None


@cache
def _is_known(key: str) -> bool:
    try:
        return bool(ZoneInfo(key))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def in_zone(moment: datetime, name: str | None) -> datetime:
    """Return a moment in the zone that zone_name() named, or as it is if none here has that name.

    A machine may know fewer zones than the one that wrote the name.
    """
    if name is None:
        return moment
    try:
        return moment.astimezone(zone_of(name, "time_zone"))
    except InvalidInput:
        return moment


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
