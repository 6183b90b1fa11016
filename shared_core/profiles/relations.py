"""How the memories of a profile hang together: derived from their facts, turns and topics. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from shared_core.core.domain import JsonValue, Turn
from shared_core.nlp.keywords_and_topics import derived
from shared_core.profiles.parts import Basis, EventParagraph, Mind, Statement, plain

RelationKind = Literal["replaces", "tells_of", "concluded_from", "follows"]

BY_TOPIC: Final = 0.6
"""Two events of the same topics belong together so surely at most: no turn says so."""
BACK: Final = 20
"""An event is compared with so many before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A relation from one memory of a profile to another. confidence: 0 to 1.

    "replaces": a statement took the place of one that ended. "tells_of": an event tells of the
    turns that a statement was drawn from. "concluded_from": a finding rests on turns that a
    statement or an event was drawn from. "follows": an event goes on with the topics of an earlier
    one.
    """

    kind: RelationKind
    source_id: UUID
    target_id: UUID
    confidence: float

    def to_dict(self) -> dict[str, JsonValue]:
        """Return what JSON can hold."""
        return plain(self)


def relations_of(
    statements: Sequence[Statement],
    history: Sequence[Statement],
    events: Sequence[EventParagraph],
    mind: Mind,
) -> tuple[Relation, ...]:
    """Return the relations between the memories of a profile, each pair once a kind.

    history: what held once, as ProfileMemory.history. events: oldest first.
    """
    by_turn: dict[Turn, list[tuple[str, UUID]]] = {}
    for one in (*statements, *history):
        _note(by_turn, one.bases, "statement", one.statement_id)
    for event in events:
        _note(by_turn, event.bases, "event", event.event_id)
    found = [*_replaced(statements, history)]
    for event in events:
        found += [
            Relation(kind="tells_of", source_id=event.event_id, target_id=one, confidence=1.0)
            for what, one in _sharing(by_turn, event.bases)
            if what == "statement"
        ]
    for finding in mind.findings:
        found += [
            Relation(kind="concluded_from", source_id=finding.finding_id, target_id=one,
                     confidence=finding.confidence)
            for _, one in _sharing(by_turn, (finding.basis,))
        ]  # fmt: skip
    return tuple([*found, *_followed(events)])


def _note(
    by_turn: dict[Turn, list[tuple[str, UUID]]], bases: Iterable[Basis], what: str, one: UUID
) -> None:
    for turn in dict.fromkeys(turn for basis in bases for turn in basis):
        by_turn.setdefault(turn, []).append((what, one))


def _sharing(
    by_turn: dict[Turn, list[tuple[str, UUID]]], bases: Iterable[Basis]
) -> Iterable[tuple[str, UUID]]:
    """Return what was drawn from one of these turns, once each."""
    return dict.fromkeys(
        named for basis in bases for turn in basis for named in by_turn.get(turn, ())
    )


def _replaced(statements: Sequence[Statement], history: Sequence[Statement]) -> list[Relation]:
    """Return which statements began as another of the same place ended."""
    began = {
        (fact.key, one.valid_from): one.statement_id
        for one in (*history, *statements)
        for fact in one.facts
    }
    found = []
    for old in history:
        places = ((fact.key, old.valid_until) for fact in old.facts)
        for new in dict.fromkeys(began[at] for at in places if at in began):
            if new != old.statement_id:
                sure = min(fact.confidence for fact in old.facts)
                found.append(
                    Relation(
                        kind="replaces", source_id=new, target_id=old.statement_id, confidence=sure
                    )
                )  # fmt: skip
    return found


def _followed(events: Sequence[EventParagraph]) -> list[Relation]:
    """Return for each event the nearest earlier one that shares a topic with it."""
    topics = [frozenset(derived(event.text).topics) for event in events]
    found = []
    for place, event in enumerate(events):
        for back in reversed(range(max(0, place - BACK), place)):
            shared = topics[place] & topics[back]
            if shared:
                found.append(
                    Relation(
                        kind="follows", source_id=event.event_id,
                        target_id=events[back].event_id,
                        confidence=BY_TOPIC * len(shared) / len(topics[place] | topics[back]),
                    )
                )  # fmt: skip
                break
    return found
