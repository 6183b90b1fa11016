"""Reads everything about one memory: its retention, value, provenance, reasons and accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from shared_core.core.domain import JsonValue, Memory, ThreadId
from shared_core.core.namespaces import memories_namespace
from shared_core.core.timestamps import moment_of
from shared_core.ports.items import Item, ReadItem
from shared_core.ports.retention import Accesses
from shared_core.ports.runs import Fact
from shared_core.retention.statistics import RetentionCurve
from shared_core.ui.pages.memory_table import MOST_OF_A_THREAD
from shared_core.ui.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """One memory and what belongs to it.

    memory: None unless recall can find it. turns: its provenance that is still remembered.
    lost_turns: number of its turns that are not. derived: memories with its turn in their
    provenance. same_slot: facts of its slot, ended ones too.
    """

    curve: RetentionCurve
    value: Mapping[str, JsonValue]
    updated_at: datetime | None
    memory: Memory | None
    accesses: Accesses | None
    turns: Sequence[Memory]
    lost_turns: int
    derived: Sequence[Memory]
    fact: Fact | None
    same_slot: Sequence[Fact]

    @property
    def key(self) -> str:
        return self.curve.kept.key

    @property
    def thread_id(self) -> ThreadId | None:
        named = self.value.get("thread_id")
        return ThreadId(named) if isinstance(named, str) else None

    @property
    def occurred_at(self) -> datetime | None:
        if self.memory is not None:
            return self.memory.occurred_at
        named = self.value.get("occurred_at")
        return moment_of(named, "occurred_at") if isinstance(named, str) else None


async def details_of(view: View, key: str) -> Details:
    """Return a memory by its key or id. Raises NotFound for an unknown one."""
    memory = view.memory
    curve = await memory.retention.curve(view.user, key)
    kept = curve.kept
    address = (memories_namespace(view.user), kept.key)
    [item] = await memory.run_item_ops([ReadItem(address=address, refresh=False)])
    value = item.value if isinstance(item, Item) else {}
    thread = value.get("thread_id")
    of_thread: Sequence[Memory] = ()
    if isinstance(thread, str):
        of_thread = await memory.list_memories(view.user, thread_id=thread, limit=MOST_OF_A_THREAD)
    own = next((one for one in of_thread if one.memory_id == kept.memory_id), None)
    own = own or await _by_text(view, kept.text, kept.memory_id)
    fact, same_slot = await _fact(view, curve, value)
    sources = set(own.source_event_ids if own else fact.source_event_ids if fact else ())
    is_turn = kept.kind == "episodic"
    related = [
        one for one in of_thread
        if one.memory_id != kept.memory_id and sources & set(one.source_event_ids)
    ]  # fmt: skip
    turns = [] if is_turn else [one for one in related if one.kind == "episodic"]
    known = {event for one in turns for event in one.source_event_ids}
    accesses = await memory.accesses(view.user, [kept.memory_id])
    return Details(
        curve=curve, value=value, updated_at=item.updated_at if isinstance(item, Item) else None,
        memory=own, accesses=accesses.get(kept.memory_id),
        turns=sorted(turns, key=lambda one: one.occurred_at),
        lost_turns=0 if is_turn else len(sources - known),
        derived=[one for one in related if one.kind != "episodic"] if is_turn else [],
        fact=fact, same_slot=same_slot,
    )  # fmt: skip


async def _by_text(view: View, text: str, memory_id: object) -> Memory | None:
    """Return a memory without a thread, which only its text finds; None if recall cannot."""
    found = await view.memory.list_memories(view.user, contains=text, limit=50)
    return next((one for one in found if one.memory_id == memory_id), None)


async def _fact(
    view: View, curve: RetentionCurve, value: Mapping[str, JsonValue]
) -> tuple[Fact | None, Sequence[Fact]]:
    """Return the fact that a memory is, with its reasons, and all facts of its slot."""
    about = value.get("metadata")
    slot = about.get("slot") if isinstance(about, Mapping) else None
    if curve.kept.kind != "semantic" or not isinstance(slot, str):
        return None, ()
    facts = await view.memory.facts(view.user, slot, history=True, why=True)
    return next((one for one in facts if one.memory_id == curve.kept.memory_id), None), facts
