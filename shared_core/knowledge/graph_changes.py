"""What becomes of the edges of a relation when one is added or retracted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import MemoryId
from shared_core.ports.graph import Operation, Spell


@dataclass(slots=True)
class Ends:
    """What ends as of when: edges that were open, edges of which a later end was known, facts."""

    close: list[tuple[UUID, datetime]] = field(default_factory=list)
    move: list[tuple[UUID, datetime]] = field(default_factory=list)
    facts: list[tuple[MemoryId, datetime]] = field(default_factory=list)

    @property
    def edge_ids(self) -> tuple[UUID, ...]:
        """The edges that end."""
        return tuple(edge_id for edge_id, _ in (*self.close, *self.move))

    def add(self, spell: Spell, until: datetime) -> None:
        """Note that a spell ends."""
        until = max(until, spell.valid_from)
        if spell.valid_until is not None:
            self.move.append((spell.edge_id, until))
        else:
            self.close.append((spell.edge_id, until))
        if spell.fact_id is not None:
            self.facts.append((spell.fact_id, until))


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What add() does. edge_id: of what says it already. valid_until: None if it holds to this day.

    ends: what it takes the place of. bounds: the edges that begin when it ends.
    """

    operation: Operation
    edge_id: UUID | None
    valid_until: datetime | None
    ends: Ends
    bounds: Sequence[UUID] = ()


def plan_addition(
    spells: Sequence[Spell], value: str, begins: datetime, *, functional: bool
) -> Addition:
    """Return what changes if a subject has a value as of begins, until something else follows.

    No spell of the relation at that moment: ADD. One of the same value: NOOP. One of another value
    and a functional relation: UPDATE, it ends and the new one begins. What begins later stays, and
    the new one lasts until then: of a functional relation whatever it is, else the same value.
    """
    at_once = [one for one in spells if _holds(one, begins)]
    for one in at_once:
        if one.value == value:
            return Addition(
                operation=Operation.NOOP, edge_id=one.edge_id, valid_until=None, ends=Ends()
            )
    ends = Ends()
    for one in at_once if functional else ():
        ends.add(one, begins)
    later = [
        one
        for one in spells
        if one.valid_from > begins
        and one.valid_until != one.valid_from
        and (functional or one.value == value)
    ]
    until = min((one.valid_from for one in later), default=None)
    return Addition(
        operation=Operation.UPDATE if ends.edge_ids else Operation.ADD,
        edge_id=None,
        valid_until=until,
        ends=ends,
        bounds=[one.edge_id for one in later if one.valid_from == until],
    )


def plan_retraction(spells: Sequence[Spell], value: str | None, until: datetime) -> Ends:
    """Return what ends if a relation has no such value as of until; None for any value."""
    ends = Ends()
    for one in spells:
        holds_on = one.valid_until is None or one.valid_until > max(until, one.valid_from)
        if holds_on and (value is None or one.value == value):
            ends.add(one, until)
    return ends


def _holds(spell: Spell, at: datetime) -> bool:
    return spell.valid_from <= at and (spell.valid_until is None or spell.valid_until > at)
