"""What goes out of recall with ended facts: statements of their turns, reflections on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from shared_core.policies.batches import Found, Reads
from shared_core.policies.reopening import shown
from shared_core.policies.run_memories import Place, PlacedMemory
from shared_core.policies.run_records import RunChange
from shared_core.policies.run_sources import SourceRow, StoredTurn, TurnKey
from shared_core.ports.operations import Join, Select, equal, is_null, one_of, one_of_rows
from shared_core.ports.runs import RunPlan

_TURN = (("thread_id", "thread_id"), ("event_id", "event_id"))
_SOURCE = ("thread_id", "event_id")
_STATEMENTS = (equal("m.kind", "semantic"), is_null("f.memory_id"))
_FACTS = Join("facts", "f", (("m.memory_id", "memory_id"),), is_left=True)


@dataclass(slots=True)
class _Memory:
    """A memory that may be retired. is_stored: its turns are stored."""

    superseded_at: datetime | None
    run_id: UUID | None
    text: str = ""
    is_stored: bool = True


@dataclass(slots=True)
class Retiring:
    """The ended facts of a run, and statements of the same turns that contain their values.

    values: of facts, with the moment when each ended. turns: of the ended memories. said_at: the
    turns of statements, and when each occurred. pairs: a fact, and a statement with its value.
    keys: of facts.
    """

    memories: dict[UUID, _Memory] = field(default_factory=dict)
    values: dict[UUID, tuple[str, datetime | None]] = field(default_factory=dict)
    turns: dict[UUID, set[TurnKey]] = field(default_factory=lambda: defaultdict(set))
    said_at: dict[UUID, dict[TurnKey, datetime]] = field(default_factory=lambda: defaultdict(dict))
    pairs: set[tuple[UUID, UUID]] = field(default_factory=set)
    keys: dict[UUID, str | None] = field(default_factory=dict)

    @property
    def statements(self) -> list[UUID]:
        """The stored statements that may retire."""
        return sorted({one for _, one in self.pairs if self.memories[one].is_stored})


def select_ended(plan: RunPlan) -> Reads:
    """Return what reads the memories that a run ends, and the statements of their turns."""
    if not plan.ended:
        return {}
    ended = (one_of("memory_id", sorted({*plan.ended})),)
    facts = Join("facts", "f", (("memory_id", "memory_id"),), is_left=True)
    others = Join("memory_sources", "o", _TURN)
    of_others = Join("memories", "m", (("o.memory_id", "memory_id"),))
    statement = ("m.memory_id", "m.superseded_at", "m.run_id", "m.text")
    reads = {
        "ended": Select(
            "memories",
            ("memory_id", "superseded_at", "run_id", "f.value", "f.valid_until", "f.key"),
            ended,
            (facts,),
        ),
        "ended_turns": Select("memory_sources", ("memory_id", *_SOURCE), ended),
        "told": Select(
            "memory_sources",
            (*_SOURCE, *statement),
            (*ended, *_STATEMENTS),
            (others, of_others, _FACTS),
            is_distinct=True,
        ),
        "drawn": select_drawn(sorted({*plan.ended})),
    }
    keys = set(map(str, plan.ended))
    if turns := sorted({one.turn for one in plan.sources if one.address[1] in keys}):
        reads["told_again"] = Select(
            "memory_sources",
            (*_SOURCE, *statement),
            (one_of_rows(_SOURCE, turns), *_STATEMENTS),
            (Join("memories", "m", (("memory_id", "memory_id"),)), _FACTS),
            is_distinct=True,
        )
    return reads


def select_drawn(basis_ids: Sequence[UUID]) -> Select:
    """Return what reads the memories drawn from others."""
    drawn = Join("memories", "d", (("memory_id", "memory_id"),))
    columns = ("basis_id", "memory_id", "d.superseded_at")
    return Select("memory_bases", columns, (one_of("basis_id", basis_ids),), (drawn,))


def select_statement_turns(statements: Sequence[UUID]) -> Reads:
    """Return what reads the turns of stored statements, and what was drawn from them."""
    if not statements:
        return {}
    columns = ("memory_id", *_SOURCE, "e.occurred_at")
    of_statements = (one_of("memory_id", statements),)
    events = Join("events", "e", _TURN)
    return {
        "statement_turns": Select("memory_sources", columns, of_statements, (events,)),
        "drawn_from_statements": select_drawn(statements),
    }


def retiring(
    plan: RunPlan,
    found: Found,
    placed: Mapping[Place, PlacedMemory],
    added: Iterable[SourceRow],
    turns: Mapping[TurnKey, StoredTurn],
    ends: Mapping[UUID, datetime],
) -> Retiring:
    """Return the memories that a run ends, and the statements that may retire with them.

    added: the sources that the run adds. ends: the new ends of stored facts.
    """
    found_here = Retiring()
    if not plan.ended:
        return found_here
    written = {one.memory_id: one for one in placed.values()}
    gone = {one.memory_id for one in placed.values() if not one.keeps_sources}
    _add_ended(found_here, plan, found, written, ends)
    for memory_id, thread_id, event_id in found["ended_turns"]:
        if memory_id not in gone:
            found_here.turns[memory_id].add((thread_id, event_id))
    sources = list(added)
    for row in sources:
        found_here.turns[row.target].add(row.turn)
        found_here.said_at[row.target][row.turn] = turns[row.turn].occurred_at
    said_in: dict[TurnKey, set[UUID]] = defaultdict(set)
    for name in ("told", "told_again"):
        for thread_id, event_id, memory_id, superseded_at, run_id, text in found[name]:
            if memory_id in gone or (memory_id in written and written[memory_id].is_written):
                continue
            said_in[thread_id, event_id].add(memory_id)
            found_here.memories.setdefault(memory_id, _Memory(superseded_at, run_id, text))
    for row in sources:
        memory = written.get(row.target)
        if memory is not None and memory.kind == "semantic" and not memory.is_fact:
            said_in[row.turn].add(row.target)
            found_here.memories.setdefault(row.target, _memory_of(memory))
    for fact, value in _given_up(found_here, plan):
        for turn in found_here.turns[fact]:
            found_here.pairs |= {
                (fact, one)
                for one in said_in[turn]
                if value in found_here.memories[one].text.lower()
            }
    return found_here


def _given_up(retired: Retiring, plan: RunPlan) -> list[tuple[UUID, str]]:
    """Return the ended facts and their values, without those that the run states in other words."""
    anew = {
        (one.key, shown(one.draft.value).lower()) for one in plan.facts if one.valid_until is None
    }
    return [
        (fact, value)
        for fact, (value, _) in retired.values.items()
        if (retired.keys.get(fact), value) not in anew
    ]


def _add_ended(
    retired: Retiring,
    plan: RunPlan,
    found: Found,
    written: Mapping[UUID, PlacedMemory],
    ends: Mapping[UUID, datetime],
) -> None:
    """Add the ended memories, and the values and ends of those that are facts."""
    for memory_id, superseded_at, run_id, value, valid_until, key in found["ended"]:
        retired.keys[memory_id] = key
        retired.memories[memory_id] = _Memory(superseded_at, run_id)
        if value is not None:
            retired.values[memory_id] = (shown(value).lower(), ends.get(memory_id, valid_until))
    for memory_id in {*plan.ended} & written.keys():
        if written[memory_id].is_written:
            retired.memories[memory_id] = _memory_of(written[memory_id])
            retired.values.pop(memory_id, None)
    for fact in plan.facts:
        if fact.memory_id in retired.memories:
            retired.values[fact.memory_id] = (shown(fact.draft.value).lower(), fact.valid_until)


def _memory_of(memory: PlacedMemory) -> _Memory:
    return _Memory(memory.superseded_at, memory.run_id, memory.text, not memory.is_written)


def retire(
    plan: RunPlan, found: Found, later: Found, candidates: Retiring, log: list[RunChange]
) -> set[UUID]:
    """Return the memories that go out of recall with the run, and note those from before it.

    found, later: rows of select_ended() and of select_statement_turns(). A statement that another
    turn has repeated since the end of the fact stays.
    """
    for memory_id, thread_id, event_id, at in later["statement_turns"]:
        candidates.said_at[memory_id][thread_id, event_id] = at
    statements = {one for fact, one in candidates.pairs if not _is_repeated(candidates, fact, one)}
    ending = statements | ({*plan.ended} & candidates.memories.keys())
    retired = {one for one in ending if candidates.memories[one].superseded_at is None}
    for memory_id in sorted(retired):
        if candidates.memories[memory_id].run_id != plan.run_id:
            log.append(RunChange("retired", memory_id, "", {}))
    drawn = {
        memory_id
        for name in ("drawn", "drawn_from_statements")
        for basis_id, memory_id, superseded_at in (found if name == "drawn" else later)[name]
        if basis_id in ending and superseded_at is None and memory_id not in retired
    }
    for memory_id in sorted(drawn):
        log.append(RunChange("retired", memory_id, "", {}))
    return retired | drawn


def _is_repeated(candidates: Retiring, fact: UUID, statement: UUID) -> bool:
    """Return whether a turn that does not say the fact has said the statement since its end."""
    _, ended_at = candidates.values[fact]
    own = candidates.turns[fact]
    return ended_at is not None and any(
        at >= ended_at and turn not in own for turn, at in candidates.said_at[statement].items()
    )
