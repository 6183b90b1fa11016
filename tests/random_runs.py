"""Makes random runs over a few threads, slots and names, so that the runs interact."""

from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import numpy as np
from both_engines import DIMENSIONS, MODEL, NOW

from shared_core import Event, Scope
from shared_core.core.domain import Emotion, FactDraft, MemoryId, ThreadId, TripleDraft
from shared_core.core.namespaces import memories_namespace, summary_key
from shared_core.ports import runs
from shared_core.ports.events import EventRow
from shared_core.ports.items import ItemAddress, MemoryRow, VectorRows
from shared_core.ports.jobs import JobType, ReflectionDue

SCOPE = Scope("app", "ann 安")
THREADS = (ThreadId("t"), ThreadId("聊天"))
SLOTS = ("city", "like", "dislike", "relation.son", "relation.son.age")
VALUES = ("Rome", "Bonn", "茶", "Emil")
NAMES = ("user", "emil", "bonn")


class RandomRuns:
    """Makes runs from one seed; the caller reports each applied run by applied().

    retired: memories that no run may build on; the caller may keep them, so that fewer runs are
    refused.
    """

    def __init__(self, seed: int, scope: Scope = SCOPE) -> None:
        self.random = Random(seed)
        self.scope = scope
        self.turn_counts: dict[ThreadId, int] = dict.fromkeys(THREADS, 0)
        self.read: dict[ThreadId, int] = dict.fromkeys(THREADS, 0)
        self.summed: dict[ThreadId, int] = dict.fromkeys(THREADS, 0)
        self.summary_runs: dict[ThreadId, UUID | None] = dict.fromkeys(THREADS)
        self.facts: list[UUID] = []
        self.edges: list[UUID] = []
        self.memories: list[UUID] = []
        self.retired: set[UUID] = set()
        self.runs: list[UUID] = []
        self._last_id = 0

    def id(self) -> UUID:
        self._last_id += 1
        return UUID(int=self._last_id)

    def moment(self) -> datetime:
        return NOW + timedelta(minutes=self.random.randrange(-200, 200))

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def turns(self, thread: ThreadId, number: int) -> list[EventRow]:
        return [self._turn(thread) for _ in range(number)]

    def _turn(self, thread: ThreadId) -> EventRow:
        self.turn_counts[thread] += 1
        value = self.random.choice(VALUES)
        event = Event(
            event_id=f"{thread}{self.turn_counts[thread]}", author="ann",
            role=self.random.choice(("user", "agent")),
            text=f"about {value} {self.turn_counts[thread]}", occurred_at=self.moment(),
            importance=self.random.choice((5.0, 7.5)),
            expires_at=NOW + timedelta(hours=self.random.randrange(2, 60))
            if self.maybe(0.2)
            else None,
            metadata={"emotion": {"label": "joy"}} if self.maybe(0.2) else {},
        )  # fmt: skip
        memory_id = MemoryId(self.id())
        value_of = {"metadata": {"place": "屋", **event.metadata}} if self.maybe(0.7) else {}
        return EventRow(
            event=event, memory_id=memory_id, logged=False, value=value_of, terms=["about", value]
        )

    def vectors(self, addresses: list[ItemAddress]) -> VectorRows | None:
        if not addresses:
            return None
        numbers = [[self.random.choice((-1.0, 0.5, 1.0)) for _ in range(DIMENSIONS)]
                   for _ in addresses]  # fmt: skip
        return VectorRows(
            model=MODEL, addresses=addresses, fields=["text"] * len(addresses),
            vectors=np.array(numbers, dtype=np.float32),
        )  # fmt: skip

    def plan(self, known_number: int) -> runs.RunPlan:
        """Return a run of a thread; some of them come too late."""
        run_id, thread = self.id(), self.random.choice(THREADS)
        facts = [self._fact() for _ in range(self.random.randrange(3))]
        edges = [self._edge(facts) for _ in range(self.random.randrange(3))]
        rows = [self._row(run_id, thread, fact.memory_id, "semantic") for fact in facts]
        rows += [
            self._row(run_id, thread, MemoryId(self.id()), "semantic")
            for _ in range(self.random.randrange(2))
        ]
        living = [one for one in self.memories if one not in self.retired]
        again = self.random.sample(living, min(len(living), 2))
        with_sources = [row.memory_id for row in rows] + again
        drawn = [self._row(run_id, thread, MemoryId(self.id()), "reflection", of_thread=False)]
        inherited = [
            ((drawn[0].namespace, drawn[0].key), MemoryId(one))
            for one in self.random.sample(living, min(len(living), 2))
        ]
        close = self._ends(self.facts)
        sums = self.maybe(0.5)
        late = self.maybe(0.05)
        read = runs.Passage(
            mark=self.read[thread] + late,
            to=self.random.randint(self.read[thread], self.turn_counts[thread]),
        )
        summed = runs.Passage(mark=self.summed[thread], to=self.turn_counts[thread])
        if sums:
            rows.append(self._summary(run_id, thread))
        rows += drawn if inherited else []
        moved = self.random.sample(self.edges, min(len(self.edges), 1))
        return runs.RunPlan(
            run_id=run_id, kind=self.random.choice((JobType.FULL_CONSOLIDATION, "retraction")),
            scope=self.scope, thread_id=thread, extractor="rules", started_at=NOW,
            read=read if self.maybe(0.8) else None, summed=summed if sums else None, close=close,
            ended=[one for one, _ in close] + self._retired(again[:1], inherited), facts=facts,
            memories=rows, sources=self._sources(with_sources), inherited=inherited,
            summary_key=summary_key(thread) if sums else None,
            summary_run=self.summary_runs[thread] if sums else None, edges=edges,
            edge_sources=sorted(
                {
                    (one, self._random_turn(), self.random.randrange(2))
                    for one in [edge.edge_id for edge in edges] + moved
                    for _ in range(self.random.randrange(3))
                }
            ),
            close_edges=self._ends(self.edges),
            annotations=self._annotations(thread),
            drawn_from=[self._random_turn() for _ in range(2)],
            vectors=self.vectors([(row.namespace, row.key) for row in rows]),
            counts={"facts": len(facts)},
            reflection=ReflectionDue(job_id=self.id(), interval=3) if self.maybe(0.3) else None,
            unsaid=[self._words_key()] if self.maybe(0.1) else [],
            slots=["city"] if self.maybe(0.2) else [],
            relations=[("user", "lives_in")] if self.maybe(0.2) else [],
            known_number=known_number - self.maybe(0.2), retractions=self._retractions(thread),
            bounds=self.random.sample(self.facts, min(len(self.facts), 1)),
            move_edges=[(one, self.moment()) for one in moved], doubted=self._doubted(),
        )  # fmt: skip

    def applied(self, plan: runs.RunPlan) -> None:
        """Record the rows of an applied run, for later runs."""
        thread = plan.thread_id
        assert thread
        self.runs.append(plan.run_id)
        self.facts += [fact.memory_id for fact in plan.facts]
        self.edges += [edge.edge_id for edge in plan.edges]
        self.memories += [row.memory_id for row in plan.memories if row.kind == "semantic"]
        if plan.read:
            self.read[thread] = plan.read.to
        if plan.summed:
            self.summed[thread] = plan.summed.to
            self.summary_runs[thread] = plan.run_id

    def _words_key(self) -> UUID:
        return UUID(int=10_000 + self.random.randrange(30))

    def _fact(self) -> runs.PlannedFact:
        slot, value = self.random.choice(SLOTS), self.random.choice(VALUES)
        functional = slot in ("city", "relation.son.age")
        key = slot if functional else f"{slot}:{value.lower()}"
        begins = self.moment()
        draft = FactDraft(
            fact_type="preference" if "like" in slot else "profile", slot=slot, value=value,
            statement=f"{slot} is {value}", event_id="e", functional=functional, confidence=0.5,
            pattern="p", language="en",
        )  # fmt: skip
        return runs.PlannedFact(
            memory_id=MemoryId(self.id()), draft=draft, key=key, valid_from=begins,
            valid_until=self._end_after(begins),
        )  # fmt: skip

    def _end_after(self, begins: datetime) -> datetime | None:
        return begins + timedelta(minutes=self.random.randrange(300)) if self.maybe(0.4) else None

    def _edge(self, facts: list[runs.PlannedFact]) -> runs.PlannedEdge:
        subject, object_ = self.random.sample(NAMES, 2)
        relation, begins = self.random.choice(("lives_in", "knows")), self.moment()
        fact_id = self.random.choice(facts).memory_id if facts and self.maybe(0.6) else None
        return runs.PlannedEdge(
            edge_id=self.id(),
            draft=TripleDraft(
                subject=subject.title(), relation=relation, object=object_.title(), event_id="e",
                functional=relation == "lives_in", confidence=0.5,
            ),
            subject_key=subject, object_key=object_, memory_id=fact_id if self.maybe(0.5) else None,
            fact_id=fact_id, valid_from=begins, valid_until=self._end_after(begins),
        )  # fmt: skip

    def _row(
        self,
        run_id: UUID,
        thread: ThreadId,
        memory_id: MemoryId,
        kind: Any,
        *,
        of_thread: bool = True,
    ) -> MemoryRow:
        value = self.random.choice(VALUES)
        return MemoryRow(
            memory_id=memory_id, namespace=memories_namespace(self.scope), key=str(memory_id),
            kind=kind, text=f"told of {value}",
            value={"content": value, "metadata": {"slot": "city"}}, terms=["told", value],
            occurred_at=self.moment(), author="ann", importance=self.random.choice((5.0, 8.0)),
            expires_at=NOW + timedelta(hours=3) if self.maybe(0.3) else None,
            thread_id=thread if of_thread else None, run_id=run_id,
            words_key=self._words_key() if self.maybe(0.5) else None,
        )  # fmt: skip

    def _summary(self, run_id: UUID, thread: ThreadId) -> MemoryRow:
        return MemoryRow(
            memory_id=MemoryId(self.id()), namespace=memories_namespace(self.scope),
            key=summary_key(thread), kind="summary", text=f"chapter {run_id.int}",
            value={"content": "chapter"}, terms=["chapter"], occurred_at=self.moment(),
            expires_at=NOW + timedelta(hours=self.random.randrange(30, 60))
            if self.maybe(0.3)
            else None, thread_id=thread, run_id=run_id,
        )  # fmt: skip

    def _random_turn(self) -> tuple[ThreadId, str]:
        thread = self.random.choice([one for one in THREADS if self.turn_counts[one]])
        return thread, f"{thread}{self.random.randint(1, self.turn_counts[thread])}"

    def _sources(self, memory_ids: list[Any]) -> list[runs.Source]:
        found = {
            (one, self._random_turn(), basis)
            for one in memory_ids
            for basis in range(self.random.randrange(3))
            for _ in range(self.random.randint(1, 2))
        }
        return [
            runs.Source(address=(memories_namespace(self.scope), str(one)), turn=turn, basis=basis)
            for one, turn, basis in sorted(found)
        ]

    def _ends(self, ids: list[UUID]) -> list[tuple[Any, datetime]]:
        if not self.maybe(0.5):
            return []
        return [(one, self.moment()) for one in self.random.sample(ids, min(len(ids), 1))]

    def _doubted(self) -> list[tuple[Any, datetime | None]]:
        """Return facts that a run makes doubtful, or certain again."""
        some = self.random.sample(self.facts, min(len(self.facts), 2)) if self.maybe(0.5) else []
        return [(one, self.moment() if self.maybe(0.7) else None) for one in some]

    def _retired(self, some: list[UUID], inherited: list[tuple[Any, MemoryId]]) -> list[UUID]:
        """Return what a run retires: seldom what it also draws from, which is refused."""
        drawn_from = {basis for _, basis in inherited}
        return [one for one in some if one not in drawn_from or self.maybe(0.1)]

    def _annotations(self, thread: ThreadId) -> list[runs.Annotation]:
        if not self.turn_counts[thread]:
            return []
        numbers = {self.random.randint(1, self.turn_counts[thread]) for _ in range(2)}
        joy = Emotion(valence=0.5, arousal=0.25, label="joy")
        return [
            runs.Annotation(event_id=f"{thread}{number}", emotion=joy if self.maybe(0.5) else None,
                       importance=9.0 if self.maybe(0.5) else None)
            for number in sorted(numbers)
        ]  # fmt: skip

    def _retractions(self, thread: ThreadId) -> list[tuple[runs.Retraction, tuple[str, ...]]]:
        if not self.maybe(0.3):
            return []
        slot = self.random.choice(SLOTS)
        return [
            (
                runs.Retraction(
                    retraction_id=self.id(), fact_type="profile", slot=slot, subject_key=slot,
                    value="rome", said_at=self.moment(), valid_until=None, pattern="p",
                    is_doubt=self.maybe(0.5),
                ),
                (f"{thread}1", f"{thread}2"),
            )
        ]  # fmt: skip
