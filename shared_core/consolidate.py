"""Consolidation of one thread: its new turns become facts, the whole of it one short summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from shared_core.domain import Event, MemoryId, Scope, ThreadId
from shared_core.embedding import Embedding
from shared_core.errors import Conflict
from shared_core.facts import FactPlan, plan_facts, slots_to_read
from shared_core.ids import uuid7
from shared_core.ingest import TEXT_FIELD, memory_value
from shared_core.item_ports import ItemAddress
from shared_core.namespaces import memories_namespace
from shared_core.ports import Clock, Extractor, MemoryRow, PlannedFact, RunPlan, Storage
from shared_core.text import search_terms

MAX_TRIES = 5
WINDOW = 500
"""So many turns are read in one run; what is left is for the next."""
SUMMARY_TURNS = 1000
"""A summary tells of so many last turns."""
SUMMARY_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What consolidation did. events: how many new turns it read; 0 when there were none.

    more: whether it stopped at WINDOW turns. run_id: of its last run.
    """

    run_id: UUID | None
    events: int
    facts_opened: int
    facts_closed: int
    summary: str
    more: bool = False

    def __add__(self, later: RunReport) -> RunReport:
        """Return both as one."""
        return replace(
            later,
            events=self.events + later.events,
            facts_opened=self.facts_opened + later.facts_opened,
            facts_closed=self.facts_closed + later.facts_closed,
            run_id=later.run_id or self.run_id,
            summary=later.summary or self.summary,
        )


NOTHING_NEW = RunReport(run_id=None, events=0, facts_opened=0, facts_closed=0, summary="")


async def consolidate(
    storage: Storage,
    embedding: Embedding,
    extractor: Extractor,
    clock: Clock,
    scope: Scope,
    thread_id: ThreadId,
) -> RunReport:
    """Read the next turns of a thread that no run has read yet, and apply what they say, whole.

    A second run over the same turns changes nothing. If another run comes first, this one starts
    over from what that one left.
    """
    for tries_left in reversed(range(MAX_TRIES)):
        started_at = clock()
        from_seq, numbered = await storage.events_to_consolidate(scope, thread_id, WINDOW)
        if not numbered:
            return NOTHING_NEW
        events = [event for _, event in numbered]
        drafts = (await extractor.extract(events, ())).facts
        known = await storage.current_facts(scope, slots_to_read(drafts))
        said_at = {event.event_id: event.occurred_at for event in events}
        facts = plan_facts(drafts, known, said_at, lambda: MemoryId(uuid7()))
        thread = await storage.thread_events(scope, thread_id, SUMMARY_TURNS)
        summary, _ = await extractor.summarise(thread, "", SUMMARY_CHARACTERS)
        run = _Run(scope, thread_id, MemoryId(uuid7()), clock(), _expiries([*events, *thread]))
        memories = run.rows(facts, summary, thread)
        plan = RunPlan(
            run_id=run.run_id,
            scope=scope,
            thread_id=thread_id,
            extractor=extractor.name,
            from_seq=from_seq,
            to_seq=max(number for number, _ in numbered),
            started_at=started_at,
            close=list(facts.closed.items()),
            facts=facts.opened,
            memories=memories,
            sources=run.sources(facts),
            summary_key=run.summary_key if summary else None,
            told=[event.event_id for event in thread] if summary else (),
            vectors=await embedding.rows(
                [((row.namespace, row.key), TEXT_FIELD, row.text) for row in memories]
            ),
        )
        try:
            await storage.apply_run(plan)
        except Conflict:
            if not tries_left:
                raise
        else:
            return _report(plan, len(events), summary)
    raise AssertionError("unreachable")


def _report(plan: RunPlan, events: int, summary: str) -> RunReport:
    return RunReport(
        run_id=plan.run_id,
        events=events,
        facts_opened=len(plan.facts),
        facts_closed=len(plan.close),
        summary=summary,
        more=events == WINDOW,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """Builds the rows of one run."""

    scope: Scope
    thread_id: ThreadId
    run_id: UUID
    now: datetime
    expiries: Mapping[str, datetime]

    def rows(self, facts: FactPlan, summary: str, thread: Sequence[Event]) -> list[MemoryRow]:
        """Return the memories to write: one per new fact, and the summary if there is one."""
        rows = [self.fact_row(fact) for fact in facts.opened]
        if summary:
            rows.append(self.summary_row(summary, thread[-1].occurred_at))
        return rows

    def fact_row(self, fact: PlannedFact) -> MemoryRow:
        draft = fact.draft
        return MemoryRow(
            memory_id=fact.memory_id,
            namespace=memories_namespace(self.scope),
            key=str(fact.memory_id),
            kind="semantic",
            text=draft.statement,
            value=memory_value(
                "semantic",
                draft.statement,
                occurred_at=fact.valid_from,
                thread_id=self.thread_id,
                metadata={
                    "fact_type": draft.fact_type,
                    "slot": draft.slot,
                    "value": draft.value,
                    "confidence": draft.confidence,
                    "pattern": draft.pattern,
                },
            ),
            terms=search_terms(draft.statement),
            occurred_at=fact.valid_from,
            thread_id=self.thread_id,
            run_id=self.run_id,
            superseded_at=self.now if fact.valid_until else None,
            expires_at=self.expiries.get(draft.event_id),
        )

    def summary_row(self, summary: str, occurred_at: datetime) -> MemoryRow:
        return MemoryRow(
            memory_id=MemoryId(uuid7()),
            namespace=memories_namespace(self.scope),
            key=self.summary_key,
            kind="summary",
            text=summary,
            value=memory_value(
                "summary", summary, occurred_at=occurred_at, thread_id=self.thread_id
            ),
            terms=search_terms(summary),
            occurred_at=occurred_at,
            thread_id=self.thread_id,
            run_id=self.run_id,
            expires_at=min(self.expiries.values(), default=None),
        )

    def sources(self, plan: FactPlan) -> list[tuple[ItemAddress, str]]:
        """Return which fact was drawn from which turn."""
        namespace = memories_namespace(self.scope)
        drawn = [(str(fact.memory_id), fact.draft.event_id) for fact in plan.opened]
        drawn += [(str(memory_id), event_id) for memory_id, event_id in plan.seen_again]
        return [((namespace, key), event_id) for key, event_id in dict.fromkeys(drawn)]

    @property
    def summary_key(self) -> str:
        """The key of the thread's one summary."""
        return f"summary/{self.thread_id}"


def _expiries(thread: Sequence[Event]) -> dict[str, datetime]:
    """Return when turns expire, of those that do: what is drawn from them expires as well."""
    return {event.event_id: event.expires_at for event in thread if event.expires_at}
