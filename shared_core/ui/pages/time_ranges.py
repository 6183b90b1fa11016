"""Ranges of time and their parts, from years down to minutes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

from shared_core.errors import InvalidInput
from shared_core.nlp import calendar
from shared_core.recall.time_slices import starts

Unit: TypeAlias = Literal["year", "month", "week", "day", "hour", "minute"]
UNITS: Final[tuple[Unit, ...]] = ("year", "month", "week", "day", "hour", "minute")
LENGTHS: Final = {
    "year": timedelta(days=365), "month": timedelta(days=28), "week": timedelta(days=7),
    "day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1),
}  # fmt: skip
MOST_BARS: Final = 400
"""Bars that a chart shows at most; a finer unit is not offered for a longer range."""
MANY_BARS: Final = 62
"""Bars that the unit is chosen for where the visitor chose none."""


@dataclass(frozen=True, slots=True)
class Range:
    """A range of time in UTC, end exclusive."""

    begin: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        return self.end - self.begin

    def parts(self, unit: Unit) -> list[Range]:
        """Return the parts of the range by a unit; the first and the last may be cut.

        Raises InvalidInput where the calendar ends.
        """
        try:
            bounds = self._bounds(unit)
        except InvalidInput:
            raise
        except (OverflowError, ValueError) as error:
            raise InvalidInput(
                f"the calendar ends with the year 9999: {self.end:%Y-%m-%d} is too near to it"
            ) from error
        ends = [*bounds[1:], self.end]
        return [Range(max(begin, self.begin), end) for begin, end in zip(bounds, ends, strict=True)]

    def _bounds(self, unit: Unit) -> Sequence[datetime]:
        if unit != "minute":
            return starts(self.begin, self.end, unit, UTC)
        first = self.begin.replace(second=0, microsecond=0)
        count = -(-(self.end - first) // timedelta(minutes=1))
        return [first + timedelta(minutes=number) for number in range(count)]

    def units(self) -> list[Unit]:
        """Return the units that divide the range into a number of bars that can be shown."""
        return [one for one in UNITS if self.length / LENGTHS[one] <= MOST_BARS]

    def best_unit(self) -> Unit:
        """Return the finest unit with few enough bars to be told apart."""
        few = [one for one in UNITS if self.length / LENGTHS[one] <= MANY_BARS]
        return few[-1] if few else "year"

    def around(self) -> Range | None:
        """Return the next larger part of the calendar that holds the range; None for a year."""
        for unit in ("hour", "day", "week", "month", "year"):
            try:
                whole = _span(self.begin, unit)
            except (OverflowError, ValueError):  # the calendar ends
                return None
            if whole.begin <= self.begin and self.end <= whole.end and whole != self:
                return whole
        return None

    def moved(self, steps: int) -> Range | None:
        """Return the range before or after, of the same length or the same part of a calendar.

        None where the calendar ends, before the year 1 and after 9999.
        """
        try:
            for unit in ("month", "year"):
                if _span(self.begin, unit) == self:
                    near = self.end if steps > 0 else self.begin - timedelta(seconds=1)
                    return _span(near, unit)
            return Range(self.begin + steps * self.length, self.end + steps * self.length)
        except (OverflowError, ValueError):
            return None


def _span(moment: datetime, unit: str) -> Range:
    if unit == "hour":
        begin = moment.replace(minute=0, second=0, microsecond=0)
        return Range(begin, begin + timedelta(hours=1))
    days = {"day": calendar.day, "week": calendar.week, "month": calendar.month,
            "year": calendar.year}  # fmt: skip
    span = days[unit](moment)
    return Range(span.begin, span.end)


def title(one: Range, unit: Unit) -> str:
    """Return the name of a bar."""
    begin = one.begin
    return {
        "year": f"{begin:%Y}", "month": f"{begin:%Y-%m}", "week": f"{begin:%Y-%m-%d}",
        "day": f"{begin:%Y-%m-%d}", "hour": f"{begin:%m-%d %H:00}", "minute": f"{begin:%H:%M}",
    }[unit]  # fmt: skip
