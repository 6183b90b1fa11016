"""Periods of validity of statements on one subject: when each holds, and what ends it. Pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(slots=True)
class Stated:
    """A fact or an edge: its value, its validity, and the sorted times at which it was stated.

    valid_until: None while it holds. doubted_at: the latest doubt since it was last stated.
    """

    row_id: UUID
    value: str
    valid_from: datetime
    valid_until: datetime | None
    stated_at: list[datetime]
    doubted_at: datetime | None = None

    def add(self, at: datetime) -> None:
        """Add a time at which it was stated."""
        insort(self.stated_at, at)

    def holds(self, at: datetime) -> bool:
        """Return whether it was stated by this moment and had not ended."""
        return self.stated_at[0] <= at and (self.valid_until is None or self.valid_until > at)

    def is_to_come(self, at: datetime) -> bool:
        """Return whether it was foretold and has not begun at a moment."""
        return self.valid_from > max(at, self.stated_at[0])

    @property
    def fell_through(self) -> bool:
        """Whether it was foretold, and ended before it began, so that it never holds."""
        until, begins = self.valid_until, self.valid_from
        return until is not None and until <= begins and self.stated_at[0] < begins

    def stated_after(self, at: datetime) -> bool:
        """Return whether it was stated again later."""
        return self.stated_at[-1] > at


@dataclass(frozen=True, slots=True)
class ValidityEnd:
    """An end of validity: when it was stated, its effective time, and the stating row."""

    said_at: datetime
    until: datetime
    row_id: UUID

    def of(self, begins: datetime) -> datetime:
        """Return the end of a period that began at a moment."""
        return self.until if self.until > begins else max(self.said_at, begins)


def next_end(
    at: datetime, same: Iterable[Stated], others: Iterable[Stated], ends: Sequence[ValidityEnd] = ()
) -> ValidityEnd | None:
    """Return the first end of a statement made at a moment, or None while it holds.

    same: statements of the same value, whose ends apply to it. others: statements that exclude it
    and end it. ends: its retractions. What fell through ends nothing.
    """
    same, others = still_ending(same, others)
    found = [end for end in ends if end.said_at > at]
    for other in others:
        later = [moment for moment in other.stated_at if moment > at]
        if later:
            first = later[0] == other.stated_at[0] and other.valid_from > at
            until = other.valid_from if first else later[0]
            found.append(ValidityEnd(later[0], until, other.row_id))
    for one in same:
        if one.valid_until is not None and one.valid_until > at:
            found.append(ValidityEnd(one.valid_until, one.valid_until, one.row_id))
    return min(found, key=lambda end: end.said_at, default=None)


def still_ending(
    same: Iterable[Stated], others: Iterable[Stated]
) -> tuple[list[Stated], list[Stated]]:
    """Return the statements without those that fell through, and those that these were to end."""
    same, others = list(same), list(others)
    moot = {one.valid_from for one in others if one.fell_through}
    kept = [one for one in same if not one.fell_through and one.valid_until not in moot]
    return kept, [one for one in others if not one.fell_through]


def same_spell(at: datetime, same: Iterable[Stated], end: ValidityEnd | None) -> Stated | None:
    """Return the equal statement that holds at a moment, or is made before the end."""
    for one in same:
        held = one.valid_until is None or one.valid_until > at
        if held and (end is None or one.stated_at[0] <= end.said_at):
            return one
    return None
