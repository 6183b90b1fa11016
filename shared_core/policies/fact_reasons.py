"""Why facts are held: the turns that state them, and those that doubt or ended them.

Nothing of it is stored for this purpose. The cause of an end is the retraction, or the fact in the
same place, whose time is the end; else only the run that ended the fact is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from shared_core.core.domain import ThreadId
from shared_core.nlp.text import normalised
from shared_core.policies.batches import Found, Reads, read
from shared_core.policies.facts import keys_of_place
from shared_core.policies.setting_aside import EDIT, FORGET_REQUEST
from shared_core.ports.operations import (
    Join,
    Policy,
    Row,
    Select,
    equal,
    is_not_null,
    is_null,
    one_of,
    one_of_rows,
    open_after,
)
from shared_core.ports.runs import CitedTurn, Fact, FactReason, FactReasons

Turn: TypeAlias = tuple[str, str]
_LEFT_BEHIND = {"work_city": "residence"}
"""Slots that a fact of another slot may end, as fact_planning.LEFT_BEHIND says."""
_KEY = ("memory_id", "fact_type", "key", "m.run_id")
_RETRACTED = (
    "run_id", "fact_type", "subject_key", "value", "said_at", "valid_until", "thread_id",
    "event_ids", "pattern", "is_doubt", "r.extractor",
)  # fmt: skip
_FOLLOWER = (
    "memory_id", "fact_type", "key", "extractor", "pattern", "valid_from", "value", "m.run_id",
)  # fmt: skip
_EVENT = ("thread_id", "event_id", "text", "author", "occurred_at")
_MEMORY = (Join("memories", "m", (("memory_id", "memory_id"),)),)
_MEMORY_OF_TURN = (
    Join("memory_sources", "s", (("thread_id", "thread_id"), ("event_id", "event_id"))),
    Join("memories", "m", (("s.memory_id", "memory_id"),)),
)
"""From an event: named in memory_sources, many turns may be found by reading all of a user."""
_RUN = (Join("runs", "r", (("run_id", "run_id"),)),)


class _Retracted(NamedTuple):
    """A row of retractions."""

    run_id: UUID
    fact_type: str
    subject_key: str
    value: str
    said_at: datetime
    valid_until: datetime | None
    thread_id: str
    event_ids: Sequence[str]
    pattern: str
    is_doubt: bool
    extractor: str

    @property
    def turns(self) -> list[Turn]:
        return [(self.thread_id, one) for one in self.event_ids]


class _FactPlace(NamedTuple):
    """What only one current fact may have, and the run that wrote the fact."""

    fact_type: str
    key: str
    run_id: UUID | None


class _Follower(NamedTuple):
    """A fact that may have taken the place of another."""

    memory_id: UUID
    fact_type: str
    key: str
    extractor: str
    pattern: str
    valid_from: datetime
    value: Any
    run_id: UUID | None


class _Ending(NamedTuple):
    """The run that gave a fact its end."""

    target: UUID
    run_id: UUID
    kind: str
    extractor: str
    number: int


def explained(facts: Sequence[Fact], now: datetime) -> Policy[list[Fact]]:
    """Return facts with their reasons, in their order.

    The texts of turns that were forgotten, set aside or have expired are not shown.
    """
    if not facts:
        return []
    ids = sorted(one.memory_id for one in facts)
    [keys] = yield [Select("facts", _KEY, (one_of("memory_id", ids),), _MEMORY)]
    places = {row[0]: _FactPlace(*row[1:]) for row in keys}
    found = yield from read(_selects(facts, places))
    followers = [_Follower(*row) for row in found["followers"]]
    [sources] = yield [_select_sources({*ids, *(one.memory_id for one in followers)})]
    turns_of: defaultdict[UUID, list[Turn]] = defaultdict(list)
    for memory_id, thread_id, event_id in sources:
        turns_of[memory_id].append((thread_id, event_id))
    retracted = [_Retracted(*row) for row in found["retracted"]]
    named = {turn for turns in turns_of.values() for turn in turns}
    named |= {turn for one in retracted for turn in one.turns}
    events = yield from shown_events(named, now)
    reasons = _Reasons(
        places=places,
        retracted=sorted(retracted, key=lambda one: one.said_at),
        followers=followers,
        endings=_endings(found),
        turns_of=turns_of,
        events=events,
    )
    return [replace(one, why=reasons.of(one)) for one in facts if one.memory_id in places]


def shown_events(turns: Iterable[Turn], now: datetime) -> Policy[dict[Turn, Row]]:
    """Return the stored turns, without those that were forgotten, set aside or have expired."""
    named = one_of_rows(_EVENT[:2], sorted(turns))
    remembered = (is_not_null("memory_seq"), open_after("expires_at", now))
    aside = (equal("m.kind", "episodic"), is_not_null("m.superseded_at"))
    events, hidden = yield [
        Select("events", _EVENT, (named, *remembered)),
        Select("events", _EVENT[:2], (named, *aside), _MEMORY_OF_TURN),
    ]
    aside_turns = {(row[0], row[1]) for row in hidden}
    return {(row[0], row[1]): row for row in events if (row[0], row[1]) not in aside_turns}


def cited(turns: Iterable[Turn], events: Mapping[Turn, Row]) -> tuple[CitedTurn, ...]:
    """Return turns in the order they were said, then those that are not shown.

    events: as shown_events() returns them.
    """
    found = [_cited(turn, events.get(turn)) for turn in turns]
    last = [one for one in found if one.said_at is None]
    said = [one for one in found if one.said_at is not None]
    return (*sorted(said, key=lambda one: (one.said_at, one.event_id)), *last)


def _cited(turn: Turn, event: Row | None) -> CitedTurn:
    thread_id, event_id = ThreadId(turn[0]), turn[1]
    if event is None:
        return CitedTurn(thread_id=thread_id, event_id=event_id)
    _, _, text, author, said_at = event
    return CitedTurn(
        thread_id=thread_id, event_id=event_id, text=text, author=author, said_at=said_at
    )


def _selects(facts: Sequence[Fact], places: Mapping[UUID, _FactPlace]) -> Reads:
    """Return what reads whatever may have ended or doubted facts."""
    near = {(one.fact_type, key) for one in places.values() for key in keys_of_place(one.key)}
    near |= {(one.fact_type, _LEFT_BEHIND[one.slot]) for one in facts if one.slot in _LEFT_BEHIND}
    in_place = one_of_rows(("fact_type", "key"), sorted(near))
    of_slots = one_of("slot", sorted({one.slot for one in facts}))
    ended = (one_of("target", sorted(places)), one_of("change", ["closed", "moved"]))
    by_run = ("target", "run_id", "r.kind", "r.extractor", "r.number")
    return {
        "retracted": Select("retractions", _RETRACTED, (of_slots,), _RUN),
        "followers": Select("facts", _FOLLOWER, (in_place,), _MEMORY),
        "endings": Select("run_changes", by_run, (*ended, is_null("r.undone_at")), _RUN),
    }


def _select_sources(memory_ids: Iterable[UUID]) -> Select:
    columns, named = ("memory_id", "thread_id", "event_id"), one_of("memory_id", sorted(memory_ids))
    return Select("memory_sources", columns, (named,), is_distinct=True)


def _endings(found: Found) -> dict[UUID, _Ending]:
    """Return the last run that gave each fact an end."""
    last: dict[UUID, _Ending] = {}
    for one in sorted(map(_Ending._make, found["endings"]), key=lambda row: row.number):
        last[one.target] = one
    return last


@dataclass(frozen=True, slots=True)
class _Reasons:
    """What was read to explain facts. retracted: the earliest first."""

    places: Mapping[UUID, _FactPlace]
    retracted: Sequence[_Retracted]
    followers: Sequence[_Follower]
    endings: Mapping[UUID, _Ending]
    turns_of: Mapping[UUID, Sequence[Turn]]
    events: Mapping[Turn, Row]

    def of(self, fact: Fact) -> FactReasons:
        """Return the reasons of one fact."""
        stated = FactReason(
            turns=cited(self.turns_of.get(fact.memory_id, ()), self.events),
            extractor=fact.extractor,
            pattern=fact.pattern,
            run_id=self.places[fact.memory_id].run_id,
        )
        return FactReasons(
            stated=stated,
            doubted=self._doubted(fact) if fact.is_doubtful else None,
            ended=self._ended(fact, stated) if fact.superseded_at is not None else None,
        )

    def _doubted(self, fact: Fact) -> FactReason:
        for one in self._against(fact):
            if one.is_doubt and one.said_at == fact.doubted_at:
                return self._by(one)
        return FactReason()

    def _ended(self, fact: Fact, stated: FactReason) -> FactReason:
        ending = self.endings.get(fact.memory_id)
        if ending is not None and ending.kind in ("retraction", EDIT, FORGET_REQUEST):
            return FactReason(extractor=ending.extractor, run_id=ending.run_id)
        ends = [one for one in self._against(fact) if not one.is_doubt]
        for one in ends:
            if (one.valid_until or one.said_at) == fact.valid_until:
                return self._by(one)
        for follower in self._followers(fact):
            return FactReason(
                turns=cited(self.turns_of.get(follower.memory_id, ()), self.events),
                extractor=follower.extractor,
                pattern=follower.pattern,
                run_id=ending.run_id if ending else follower.run_id,
                fact_key=str(follower.memory_id),
            )
        for one in ends:  # the fact never held, or began only when it was said to have ended
            if fact.valid_until == fact.valid_from and one.said_at >= fact.valid_from:
                return self._by(one)
        if ending is not None:
            return FactReason(extractor=ending.extractor, run_id=ending.run_id)
        # "until Friday": the end was told together with the fact
        return stated if fact.superseded_at == fact.recorded_at else FactReason()

    def _against(self, fact: Fact) -> Iterator[_Retracted]:
        """Yield the retractions and doubts of a fact."""
        fact_type, key, _ = self.places[fact.memory_id]
        value = normalised(str(fact.value))
        for one in self.retracted:
            is_place = key == one.subject_key or key.startswith(f"{one.subject_key}:")
            if one.fact_type == fact_type and is_place and one.value in ("", value):
                yield one

    def _followers(self, fact: Fact) -> Iterator[_Follower]:
        """Yield the facts that took the place of a fact, the likeliest first."""
        fact_type, key, _ = self.places[fact.memory_id]
        keys, same = {*keys_of_place(key), _LEFT_BEHIND.get(fact.slot, key)}, (key, fact.value)
        others = [
            one
            for one in self.followers
            if one.fact_type == fact_type and one.key in keys and (one.key, one.value) != same
        ]
        yield from (one for one in others if one.valid_from == fact.valid_until)
        for one in others:
            said = [self.events[turn][4] for turn in self.turns_of.get(one.memory_id, ())
                    if turn in self.events]  # fmt: skip
            if one.valid_from != fact.valid_until and fact.valid_until in said:
                yield one

    def _by(self, one: _Retracted) -> FactReason:
        return FactReason(
            turns=cited(one.turns, self.events),
            extractor=one.extractor,
            pattern=one.pattern,
            run_id=one.run_id,
        )
