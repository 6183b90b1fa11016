"""Moments that can be stored and compared: aware, and in range in UTC. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from shared_core.errors import InvalidInput


def check_moment(moment: datetime, what: str) -> None:
    """Raise InvalidInput, naming what, for a moment without a time zone or out of range in UTC."""
    if moment.tzinfo is None:
        raise InvalidInput(
            f"{what} has no time zone: give an aware datetime, e.g. datetime.now(UTC)"
        )
    try:
        moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{what} is out of range in UTC: {moment}") from error
