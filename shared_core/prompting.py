"""What a model should read before it answers: gathered from memory, packed into a budget."""

from __future__ import annotations

from datetime import datetime

from shared_core.context import ContextAssembler
from shared_core.context_window import ContextWindow
from shared_core.domain import Scope, ThreadId
from shared_core.embedding import Embedding
from shared_core.intake import Intake
from shared_core.namespaces import memories_namespace
from shared_core.ports import Storage
from shared_core.recall import Wanted, recall

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
) -> ContextWindow:
    """Return what the scope remembers about query and what was said last, within the budget.

    Facts: those that answer the query first, then the others that hold now. Memories: turns and
    summaries of other threads and of this one before its shown history. The query comes last.
    intake: what a session log holds unredacted is shown redacted.
    """
    wanted = Wanted(limit=MOST_MEMORIES, now=now)
    hits = await recall(storage, embedding, scope, query, wanted)
    history = await storage.thread_history(scope, thread_id, MOST_TURNS)
    own_summary = (memories_namespace(scope), f"summary/{thread_id}")
    summaries = await storage.get_items([own_summary])
    facts = [hit for hit in hits if hit.memory.kind == "semantic"]
    told = {hit.memory.memory_id for hit in facts}
    others = await storage.list_facts(scope, history=False)
    return assembler.assemble(
        system_prompt=system_prompt,
        query=query,
        facts=[*facts, *(fact for fact in others[:MOST_MEMORIES] if fact.memory_id not in told)],
        memories=[
            hit
            for hit in hits
            if hit.memory.kind != "semantic"
            and (hit.memory.namespace, hit.memory.key) != own_summary
        ],
        summary=str(summaries[0].value["content"]) if summaries else None,
        history=[intake.shown(event) for event in history],
    )
