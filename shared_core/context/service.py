"""Gather the context of an answer from memory, and pack it into a token budget."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared_core.context.assembler import ContextAssembler, CountedTurns
from shared_core.context.composition import left_out, shown_memory
from shared_core.context.window import ContextWindow
from shared_core.core.domain import AsOf, Event, Hit, Memory, Scope, ThreadId
from shared_core.core.namespaces import check_label, scope_path
from shared_core.core.shown import shown
from shared_core.core.telemetry import measured
from shared_core.errors import InvalidInput
from shared_core.knowledge.facts import list_facts
from shared_core.lifecycle import Handle
from shared_core.nlp.tokenizer import count_tokens
from shared_core.policies.facts import FactQuery
from shared_core.policies.memories import newest_summary, select_summary
from shared_core.ports.runs import Fact
from shared_core.ports.storage import Storage
from shared_core.privacy.sanitizing import off_loop
from shared_core.profiles.rows import shown_profile
from shared_core.recall.query import RecallOptions, recall

MOST_MEMORIES = 50
"""Most memories recalled; a window rarely holds more."""
MOST_TURNS = 5_000
LABEL_TOKENS = 20
CHARACTERS_A_TOKEN = 6
LONG_TURN_TOKENS = 200
"""Tokens after which a turn counts as long. By o200k, a label takes at least LABEL_TOKENS, and a
token covers at most CHARACTERS_A_TOKEN characters of nearly every text."""
LEAST_TURN_TOKENS = 8
"""Least tokens of a turn by any other usual tokenizer."""


@measured("context")
async def context_window(
    handle: Handle,
    scope: Scope,
    thread_id: str,
    query: str,
    *,
    system_prompt: str,
    assembler: ContextAssembler,
    instructions: Sequence[str],
    profile: str | None,
    as_of: AsOf | None,
) -> ContextWindow:
    """Return memories about a query and the last turns of a thread, within the budget.

    Facts: first those that answer the query, then the others that hold now. Memories: turns and
    summaries of other threads, and of this one before the history shown, each matter once
    (composition.left_out()). The query comes last.
    Turns that a session log holds unredacted are shown redacted.
    """
    if not isinstance(assembler, ContextAssembler):
        raise InvalidInput(f"assembler must be a ContextAssembler, got {shown(assembler)}")
    thread = ThreadId(check_label(thread_id, "thread_id"))
    storage, embedding = await handle.storage(), handle.embedding
    now = handle.clock()
    options = RecallOptions(limit=MOST_MEMORIES, now=now, as_of=as_of, merged_only=True)
    hits, counted, summary, others, stored = await asyncio.gather(
        recall(storage, embedding, scope, query, options),
        _history(handle, scope, thread, assembler, as_of),
        summary_of_thread(storage, scope, thread, as_of, options.now),
        list_facts(storage, scope, FactQuery(now=now, as_of=as_of)),
        _profile(storage, scope, profile, as_of),
    )
    return await asyncio.to_thread(
        _assembled, assembler, hits, others, summary, system_prompt=system_prompt, query=query,
        instructions=instructions, profile=stored or None, history=counted,
    )  # fmt: skip


def _assembled(
    assembler: ContextAssembler,
    hits: Sequence[Hit],
    others: Sequence[Fact],
    summary: Memory | None,
    *,
    query: str,
    **given: Any,
) -> ContextWindow:
    """Return the window of what was found: hits, the facts that hold now, and the summary.

    given: further arguments of ContextAssembler.assemble().
    """
    reasons = left_out(query, [*map(shown_memory, hits)])
    worth = [hit for place, hit in enumerate(hits) if place not in reasons]
    facts = [hit for hit in worth if hit.memory.kind == "semantic"]
    found = {hit.memory.memory_id for hit in hits if hit.memory.kind == "semantic"}
    return assembler.assemble(
        query=query,
        facts=[
            *_with_ends(facts, others),
            *(fact for fact in others[:MOST_MEMORIES] if fact.memory_id not in found),
        ],
        memories=[
            hit
            for hit in worth
            if hit.memory.kind != "semantic"
            and (summary is None or hit.memory.memory_id != summary.memory_id)
        ],
        summary=summary.text if summary else None,
        summarised=summary.source_event_ids if summary else (),
        left_out=[
            (hits[place], reason)
            for place, reason in reasons.items()
            if summary is None or hits[place].memory.memory_id != summary.memory_id
        ],
        **given,
    )


async def _history(
    handle: Handle, scope: Scope, thread: ThreadId, assembler: ContextAssembler, as_of: AsOf | None
) -> CountedTurns:
    """Return the counted last turns. Counting runs while recall waits for the database."""
    least = LABEL_TOKENS if assembler.count is count_tokens else LEAST_TURN_TOKENS
    turns = min(assembler.max_tokens // least + 1, MOST_TURNS)
    storage = await handle.storage()
    found = await storage.events.thread_history(scope, thread, turns, as_of)
    events = _within_reach(found, assembler)
    texts = (event.text for event in events)
    return await off_loop(texts, lambda: assembler.counted(handle.sanitizer.shown(events)))


async def summary_of_thread(
    storage: Storage, scope: Scope, thread_id: ThreadId, as_of: AsOf | None, now: datetime
) -> Memory | None:
    """Return the summary of a thread with its full provenance, now or as of a moment, or None."""
    selects = select_summary(scope, thread_id, as_of, now)
    return newest_summary(scope, *await storage.read(scope_path(scope), selects))


async def _profile(
    storage: Storage, scope: Scope, given: str | None, as_of: AsOf | None
) -> str | None:
    """Return the caller's profile, or by default the stored ones."""
    return given if given is not None else await shown_profile(storage, scope, as_of)


def _within_reach(history: Sequence[Event], assembler: ContextAssembler) -> Sequence[Event]:
    """Return the newest turns that the budget could hold, and one more."""
    if assembler.count is not count_tokens:
        return history
    room = assembler.max_tokens
    for number, event in enumerate(reversed(history), 1):
        # A long turn may be dropped or cut; then earlier turns take its room.
        room -= LABEL_TOKENS + min(len(event.text) // CHARACTERS_A_TOKEN, LONG_TURN_TOKENS)
        if room < 0:
            return history[-number:]
    return history


def _with_ends(hits: Sequence[Hit], facts: Sequence[Fact]) -> list[Hit]:
    """Return hits with the end of their facts, instead of when that end became known."""
    ends = {fact.memory_id: fact.valid_until for fact in facts}
    return [
        replace(
            hit,
            memory=replace(
                hit.memory, superseded_at=ends.get(hit.memory.memory_id, hit.memory.superseded_at)
            ),
        )
        for hit in hits
    ]
