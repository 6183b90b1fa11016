"""Which turns left a thread: a branch that was abandoned, or messages that were removed. Pure.

A middleware that trims or summarises cuts turns away within a run; they stay in the memory. So a
state is compared with the one that the last run left, and what is missing since was removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from langchain_core.runnables import RunnableConfig

from langgraph_store.messages import digest_of
from shared_core import Event

NEVER = datetime.max.replace(tzinfo=UTC)
"""For a graph below another one, whose state need not have any turn of the thread."""
_GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)


class SeenTurn(NamedTuple):
    """A turn of a state. words: digest_of() its text."""

    event_id: str
    role: str
    words: int


def seen(turns: Iterable[Event]) -> list[SeenTurn]:
    """Return what is compared of turns."""
    return [SeenTurn(turn.event_id, turn.role, digest_of(turn.text)) for turn in turns]


def removed(last: Sequence[SeenTurn], now: Sequence[SeenTurn], *, at_begin: bool) -> list[str]:
    """Return the ids of the turns that a thread lost between two states, oldest first.

    A missing beginning was trimmed, but for the user's message before an answer that is there. If
    nothing of the last state is left, all was cut. A message that is there under a new id is the
    same: add_messages() gives one to each message that has none.

    Args:
        last: the turns of the state after the last run.
        now: those of the present one.
        at_begin: the present state is that of the beginning of a run. Otherwise the run may have
            trimmed it: a kept first message and recent ones look like a gap, or like a branch.
    """
    known, words = {turn.event_id for turn in last}, {turn[1:] for turn in last}
    renamed = {turn[1:] for turn in now if turn.event_id not in known}
    there = {turn.event_id for turn in now}
    there |= {turn.event_id for turn in last if turn.event_id not in there and turn[1:] in renamed}
    common = [place for place, turn in enumerate(last) if turn.event_id in there]
    if not common:
        return []
    first, end = common[0], common[-1]
    gap = [turn for turn in last[first:end] if turn.event_id not in there]
    tail = list(last[end + 1 :])
    # A kept first message and recent ones look like a gap: a client, or a trimmer, sends a window.
    if len(common) < 2 or common[1] > first + 1:
        gap = []
    if at_begin:
        while first and last[first - 1].role == "user" != last[common[0]].role:
            first -= 1
        return [turn.event_id for turn in (*last[first : common[0]], *gap, *tail)]
    new = [turn.role for turn in now if turn.event_id not in known and turn[1:] not in words]
    goes_on = last[end].role == "agent" and new[:1] == ["user"]
    return [turn.event_id for turn in (*gap, *(tail if goes_on else ()))]


def abandoned(stored: Sequence[Event], now: Sequence[SeenTurn], forked_at: datetime) -> list[str]:
    """Return the ids of the stored turns of a branch that a run left by a checkpoint.

    stored: the last turns of the thread. now: the turns of the state. forked_at: the time of the
    checkpoint, for a state that has no stored turn: what was stored later is of the other branch.
    """
    there = {turn.event_id for turn in now}
    common = [place for place, turn in enumerate(stored) if turn.event_id in there]
    if common:
        return [turn.event_id for turn in stored[common[-1] + 1 :]]
    return [turn.event_id for turn in stored if turn.occurred_at > forked_at]


def is_checkpointed(config: RunnableConfig) -> bool:
    """Tell whether the state of a run is its thread's, not a window that a client sent."""
    return bool((config.get("configurable") or {}).get("__pregel_checkpointer"))


def forked_at(config: RunnableConfig) -> datetime | None:
    """Return the time of the checkpoint that a run was told to start from, or None.

    LangGraph keeps the id in the metadata; its checkpoints have UUIDs of version 6.
    """
    named = (config.get("metadata") or {}).get("checkpoint_id") if is_checkpointed(config) else None
    try:
        checkpoint = UUID(str(named)) if named else None
    except ValueError:
        return None
    if checkpoint is None or checkpoint.version != 6:
        return None
    high, middle, low = str(checkpoint).split("-")[:3]
    ticks = int(high + middle + low[1:], 16)  # of 100 ns
    return _GREGORIAN + timedelta(microseconds=ticks // 10)
