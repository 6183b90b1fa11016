"""Checks and parses moments: aware, and in range in UTC. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from shared_core.core.domain import AsOf
from shared_core.errors import InvalidInput

CLOCKS_APART = timedelta(hours=1)
"""Maximum lead of a caller's clock over the server's; {soon} in the SQL statements."""


def system_clock() -> datetime:
    """Return the current time of this machine, in UTC."""
    return datetime.now(UTC)


def check_moment(moment: datetime, what: str) -> None:
    """Raise InvalidInput, naming what, for a moment without a time zone or out of range in UTC."""
    if not isinstance(moment, datetime):
        raise InvalidInput(
            f"{what} must be a datetime with a time zone, e.g. datetime.now(UTC), got {moment!r}"
        )
    if moment.tzinfo is None:
        raise InvalidInput(
            f"{what} has no time zone: give an aware datetime, e.g. datetime.now(UTC)"
        )
    try:
        moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{what} is out of range in UTC: {moment}") from error


def check_as_of(as_of: AsOf | None) -> None:
    """Raise InvalidInput unless as_of is None or an AsOf of valid moments."""
    if as_of is None:
        return
    if not isinstance(as_of, AsOf):
        raise InvalidInput(f"as_of must be AsOf(valid=..., known=...), got {as_of!r}")
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
            f"{what} must be a moment like 2024-05-01 or 2024-05-01T09:30+02:00, got {text!r}"
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    check_moment(moment, what)
    return moment
