"""Reads everything about one memory: its provenance, reasons, retention and relatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared_core.core.domain import Memory, Turn
from shared_core.ports.runs import CitedTurn, Fact
from shared_core.retention.detail import MemoryDetail
from shared_core.retention.statistics import RetentionCurve
from shared_core.ui.pages.memory_table import MOST_OF_A_THREAD
from shared_core.ui.view import PageView


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """One memory and what belongs to it.

    keys: of the turns that are remembered. same_slot: facts of its slot, ended ones too.
    """

    detail: MemoryDetail
    curve: RetentionCurve
    keys: Mapping[Turn, str]
    same_slot: Sequence[Fact]

    @property
    def memory(self) -> Memory:
        return self.detail.memory

    @property
    def fact(self) -> Fact | None:
        return self.detail.fact


async def details_of(view: PageView, key: str) -> Details:
    """Return a memory by its key or id. Raises NotFound for an unknown one."""
    memory = view.memory
    detail = await memory.memory(view.user, key)
    fact = detail.fact
    return Details(
        detail=detail,
        curve=await memory.retention.curve(view.user, detail.memory.memory_id),
        keys={} if detail.memory.kind == "episodic" else await _keys(view, detail.turns),
        same_slot=await memory.facts(view.user, fact.slot, history=True) if fact else (),
    )


async def _keys(view: PageView, turns: Sequence[CitedTurn]) -> Mapping[Turn, str]:
    """Return the keys of turns, by thread and event id; a forgotten or faded one has none."""
    found: dict[Turn, str] = {}
    for thread_id in dict.fromkeys(one.thread_id for one in turns):
        of_thread = await view.memory.list_memories(
            view.user, thread_id=thread_id, kinds=["episodic"], limit=MOST_OF_A_THREAD
        )
        found |= {
            (thread_id, event): one.key for one in of_thread for event in one.source_event_ids
        }
    return found
