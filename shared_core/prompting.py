"""What a model should read before it answers: gathered from memory, packed into a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from shared_core.context import ContextAssembler
from shared_core.context_window import ContextWindow
from shared_core.domain import AsOf, Hit, Scope, ThreadId
from shared_core.embedding import Embedding
from shared_core.intake import Intake
from shared_core.item_ports import ItemAddress
from shared_core.namespaces import memories_namespace, summary_key
from shared_core.ports import MemoryQuery, Storage
from shared_core.recall import Wanted, recall
from shared_core.run_ports import Fact

MOST_MEMORIES = 50
MOST_TURNS = 150
"""More than fits any usual budget; the rest would only be counted and dropped."""


async def context_window(
    storage: Storage,
    embedding: Embedding,
    scope: Scope,
    thread_id: ThreadId,
    query: str,
    *,
    system_prompt: str,
    assembler: ContextAssembler,
    intake: Intake,
    now: datetime,
    as_of: AsOf | None = None,
) -> ContextWindow:
    """Return what the scope remembers about query and what was said last, within the budget.

    Facts: those that answer the query first, then the others that hold now. Memories: turns and
    summaries of other threads and of this one before its shown history. The query comes last.
    intake: what a session log holds unredacted is shown redacted. as_of: all of it as of a moment.
    """
    wanted = Wanted(limit=MOST_MEMORIES, now=now, as_of=as_of)
    hits = await recall(storage, embedding, scope, query, wanted)
    history = await storage.thread_history(scope, thread_id, MOST_TURNS, as_of)
    own_summary, summary = await _summary(storage, scope, thread_id, as_of)
    others = await storage.list_facts(scope, history=False, as_of=as_of)
    facts = [hit for hit in hits if hit.memory.kind == "semantic"]
    told = {hit.memory.memory_id for hit in facts}
    return assembler.assemble(
        system_prompt=system_prompt,
        query=query,
        facts=[
            *_with_ends(facts, others),
            *(fact for fact in others[:MOST_MEMORIES] if fact.memory_id not in told),
        ],
        memories=[
            hit
            for hit in hits
            if hit.memory.kind != "semantic"
            and (hit.memory.namespace, hit.memory.key) != own_summary
        ],
        summary=summary,
        history=[intake.shown(event) for event in history],
    )


async def _summary(
    storage: Storage, scope: Scope, thread_id: ThreadId, as_of: AsOf | None
) -> tuple[ItemAddress, str | None]:
    """Return the summary of a thread that stands, or stood: where, and its text if there is one."""
    own = (memories_namespace(scope), summary_key(thread_id))
    if as_of is None:
        items = await storage.get_items([own])
        return own, str(items[0].value["content"]) if items else None
    query = MemoryQuery(
        scope=scope,
        namespace=own[0],
        kinds=["summary"],
        limit=1,
        offset=0,
        as_of=as_of,
        thread_id=thread_id,
    )
    found = await storage.list_memories(query)
    return ((own[0], found[0].key), found[0].text) if found else (own, None)


def _with_ends(hits: Sequence[Hit], facts: Sequence[Fact]) -> list[Hit]:
    """Return facts that were found with the moment they ended, not the one it became known at."""
    ends = {fact.memory_id: fact.valid_until for fact in facts}
    return [
        replace(
            hit,
            memory=replace(
                hit.memory,
                superseded_at=ends.get(hit.memory.memory_id, hit.memory.superseded_at),
            ),
        )
        for hit in hits
    ]
