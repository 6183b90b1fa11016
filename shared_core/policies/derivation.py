"""Reads where a memory comes from, and what was derived from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared_core.core.domain import Memory, MemoryId, Scope
from shared_core.policies.fact_reasons import cited, shown_events
from shared_core.policies.facts import sources_of
from shared_core.policies.memories import MEMORY, memory_of, select_sources
from shared_core.ports.operations import Policy, Select, equal, one_of, open_after
from shared_core.ports.runs import CitedTurn

_TURN = ("thread_id", "event_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """A memory with its relatives.

    turns: its provenance. models: names of the models that have vectors of it. bases: the memories
    that a reflection was drawn from. derived: memories drawn from it; of a turn, all that have it
    among their sources.
    """

    memory: Memory
    turns: tuple[CitedTurn, ...]
    models: tuple[str, ...]
    bases: tuple[Memory, ...]
    derived: tuple[Memory, ...]


def derivation(scope: Scope, memory_id: MemoryId, now: datetime) -> Policy[Derivation | None]:
    """Return a memory with its relatives, or None if it is gone or has expired."""
    of_memory = equal("memory_id", memory_id)
    kinds, sources, models, bases, reflections = yield [
        Select("memories", ("kind",), (of_memory,)),
        Select("memory_sources", _TURN, (of_memory,), is_distinct=True),
        Select("embeddings", ("model",), (of_memory,), is_distinct=True),
        Select("memory_bases", ("basis_id",), (of_memory,)),
        Select("memory_bases", ("memory_id",), (equal("basis_id", memory_id),)),
    ]
    beside: Sequence[Sequence[Any]] = ()
    if kinds == [("episodic",)] and sources:
        # One turn, compared by "=": for a list, a plan may read all sources of a large user.
        turn = tuple(map(equal, _TURN, sources[0]))
        [beside] = yield [Select("memory_sources", ("memory_id",), turn, is_distinct=True)]
    derived_ids = {row[0] for row in (*beside, *reflections)} - {memory_id}
    basis_ids = {row[0] for row in bases}
    found = yield from _memories(scope, {memory_id, *derived_ids, *basis_ids}, now)
    if memory_id not in found:
        return None
    events = yield from shown_events(sources, now)
    return Derivation(
        memory=found[memory_id],
        turns=cited(sources, events),
        models=tuple(sorted(row[0] for row in models)),
        bases=_in_order(found, basis_ids),
        derived=_in_order(found, derived_ids),
    )


def _memories(scope: Scope, ids: set[UUID], now: datetime) -> Policy[dict[UUID, Memory]]:
    """Return those of some memories that have not expired."""
    named = sorted(ids)
    rows, turns = yield [
        Select("memories", MEMORY, (one_of("memory_id", named), open_after("expires_at", now))),
        select_sources(named),
    ]
    sources = sources_of(turns)
    return {row[0]: memory_of(scope, row, sources) for row in rows}


def _in_order(found: Mapping[UUID, Memory], ids: set[UUID]) -> tuple[Memory, ...]:
    some = (found[one] for one in ids if one in found)
    return tuple(sorted(some, key=lambda one: (one.occurred_at, one.memory_id), reverse=True))
