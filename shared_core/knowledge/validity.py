"""Periods of validity of statements on one subject: when each holds, and what ends it. Pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import UNKNOWN_START


@dataclass(slots=True)
class Stated:
    """A fact or an edge: its value, its validity, and the sorted times at which it was stated.

    valid_until: None while it holds. doubted_at: the latest doubt since it was last stated.
    was_past: it was told as past, so it had ended when it was first stated.
    """

    row_id: UUID
    value: str
    valid_from: datetime
    valid_until: datetime | None
    stated_at: list[datetime]
    doubted_at: datetime | None = None
    was_past: bool = False

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

    def outlasts(self, at: datetime, until: datetime) -> bool:
        """Return whether it has a known end that a word of a moment moves to an earlier time.

        It began by then, and was not stated again while it held.
        """
        end = self.valid_until
        if end is None or end <= until or self.valid_from > until:
            return False
        return not any(at < stated < end for stated in self.stated_at)


@dataclass(frozen=True, slots=True)
class ValidityEnd:
    """An end of validity: when it was stated, its effective time, and the stating row."""

    said_at: datetime
    until: datetime
    row_id: UUID

    def of(self, begins: datetime) -> datetime:
        """Return the end of a period that began at a moment; one that is denied never held."""
        if self.until == UNKNOWN_START:
            return begins
        return self.until if self.until > begins else max(self.said_at, begins)


def next_ends(
    at: datetime, same: Iterable[Stated], others: Iterable[Stated], ends: Sequence[ValidityEnd] = ()
) -> list[ValidityEnd]:
    """Return the ends of a statement made at a moment, in the order in which they were stated.

    same: statements of the same value, whose ends apply to it. others: statements that exclude it
    and end it. ends: its retractions. What fell through ends nothing, nor does what was told as
    past: see next_value.
    """
    same, others = still_ending(same, others)
    found = [end for end in ends if end.said_at > at]
    for other in others:
        later = [moment for moment in other.stated_at if moment > at]
        if later and not other.was_past:
            first = later[0] == other.stated_at[0] and other.valid_from > at
            until = other.valid_from if first else later[0]
            found.append(ValidityEnd(later[0], until, other.row_id))
    for one in same:
        if one.valid_until is not None and one.valid_until > at:
            found.append(ValidityEnd(one.valid_until, one.valid_until, one.row_id))
    return sorted(found, key=lambda end: end.said_at)


def first_of(ends: Iterable[ValidityEnd], begins: datetime) -> ValidityEnd | None:
    """Return the end that comes first for a period that began at a moment."""
    return min(ends, key=lambda end: end.of(begins), default=None)


def next_value(
    begins: datetime, until: datetime, others: Iterable[Stated], stated_at: Sequence[datetime] = ()
) -> datetime:
    """Return when another value began in a period that has an end, or that end.

    stated_at: times at which the value was stated; it holds at each.
    """
    begun = (one.valid_from for one in others if not one.fell_through)
    found = (
        one
        for one in begun
        if begins < one < until and not any(one < stated < until for stated in stated_at)
    )
    return min(found, default=until)


def still_ending(
    same: Iterable[Stated], others: Iterable[Stated]
) -> tuple[list[Stated], list[Stated]]:
    """Return the statements without those that fell through, and those that these were to end."""
    same, others = list(same), list(others)
    moot = {one.valid_from for one in others if one.fell_through}
    kept = [one for one in same if not one.fell_through and one.valid_until not in moot]
    return kept, [one for one in others if not one.fell_through]


def same_spell(at: datetime, same: Iterable[Stated], ends: Sequence[ValidityEnd]) -> Stated | None:
    """Return the equal statement that holds at a moment, or is made before the first end."""
    for one in same:
        held = one.valid_until is None or one.valid_until > at
        if held and (not ends or one.stated_at[0] <= ends[0].said_at):
            return one
    return None
