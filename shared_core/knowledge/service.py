"""engine.runs: consolidate threads, reflect on a user, list what runs did, and undo it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias
from uuid import UUID

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import check_label, scope_path
from shared_core.errors import InvalidInput
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.ingest.items import page_bounds
from shared_core.knowledge.consolidation import RunReport, consolidate
from shared_core.knowledge.reflection import ReflectionReport, RuleReflector, reflect
from shared_core.lifecycle import Handle
from shared_core.ports.jobs import OF_A_THREAD, JobType, ReflectionDue
from shared_core.ports.storage import Extractor, Reflector

if TYPE_CHECKING:
    from shared_core.nlp.relation_schema import Relations
    from shared_core.ports.runs import RunRecord

Follow: TypeAlias = Callable[[Scope, ThreadId], Awaitable[None]]


class ConversationExtractor(Extractor, Protocol):
    """An extractor of one conversation of the conversation layer, by its strategies."""

    @property
    def private_only(self) -> bool:
        """Whether statements classified as public are not stored."""
        ...

    @property
    def with_graph(self) -> bool:
        """Whether edges of the knowledge graph are extracted."""
        ...


ReaderFor: TypeAlias = Callable[
    [Scope, ThreadId, Extractor], Awaitable[ConversationExtractor | None]
]


class Runs:
    """Runs of one memory. Call it to list them: engine.runs(scope).

    Args:
        handle: storage, embedding and clock of the memory.
        extractor: draws facts, edges and summaries from turns.
        relations: the relations that edges may have; None where the graph is switched off.
        reflect_every: number of extractions after which a reflection is enqueued; None for never.
        reader_for: returns the extractor of a conversation, and None for any other thread.
        follow: called after all new turns of a thread were consolidated.
    """

    def __init__(
        self,
        handle: Handle,
        extractor: Extractor,
        relations: Relations | None,
        *,
        reflect_every: int | None = None,
        reader_for: ReaderFor | None = None,
        follow: Follow | None = None,
    ) -> None:
        self._handle = handle
        self._extractor = extractor
        self._reflector = extractor if isinstance(extractor, Reflector) else RuleReflector()
        self._relations = relations
        self._reader_for = reader_for
        self._follow = follow
        # Rules find patterns when they are asked; by itself only a model has something new to say.
        self._reflect_every = reflect_every if isinstance(extractor, Reflector) else None

    async def __call__(
        self, scope: Scope, *, thread_id: str | None = None, limit: int = 50
    ) -> Sequence[RunRecord]:
        """Return what consolidation, reflection and callers changed, newest run first.

        This is the documented verb `engine.runs(...)`. thread_id: only runs of this thread.
        """
        limit, _ = page_bounds(limit, 0)
        storage = await self._handle.storage()
        thread = None if thread_id is None else ThreadId(thread_id)
        return await storage.runs.list_runs(scope, thread, limit)

    @property
    def by_model(self) -> bool:
        """Whether the extractor is more than the rules, which take its place when it fails."""
        return type(self._extractor) is not RuleExtractor

    async def consolidate_next(
        self,
        scope: Scope,
        thread_id: ThreadId,
        *,
        job_type: JobType = JobType.FULL_CONSOLIDATION,
        by_rules: bool = False,
    ) -> RunReport:
        """Do one run over the next turns. by_rules: in place of a model that keeps failing.

        Who follows consolidation is called when nothing is left, also if nothing was: what failed
        there is made up for by the next call. Of a session of the conversation layer no summary is
        written, and when all of it is read, it has ended. Raises InvalidInput for a job_type that
        is none of a thread.
        """
        if job_type not in OF_A_THREAD:
            raise InvalidInput(f"take one of {', '.join(OF_A_THREAD)}, not {job_type!r}")
        scope_path(scope)
        check_label(thread_id, "thread_id")
        job_type = JobType(job_type)
        storage = await self._handle.storage()
        extractor, instead_of = self._extractor, None
        if by_rules:
            extractor, instead_of = RuleExtractor(), self._extractor.name
        reader = await self._reader_for(scope, thread_id, extractor) if self._reader_for else None
        if reader:
            extractor, job_type = reader, JobType.DEEP_REFLECTION
        drawn = reader is None or reader.with_graph
        report = await consolidate(
            storage,
            self._handle.embedding,
            extractor,
            self._handle.clock,
            scope,
            thread_id,
            self._relations if drawn else None,
            job_type=job_type,
            instead_of=instead_of,
            reflection=self._reflection_due(job_type),
            private_only=reader is not None and reader.private_only,
        )
        if reader and not report.more:
            await storage.conversations.finish_conversation(scope, thread_id)
        if self._follow and not report.more and job_type is not JobType.FAST_REPLAY:
            await self._follow(scope, thread_id)
        return report

    async def consolidate(
        self, scope: Scope, thread_id: ThreadId, *, job_type: JobType = JobType.FULL_CONSOLIDATION
    ) -> RunReport:
        """Do runs until nothing of the thread is left."""
        report = await self.consolidate_next(scope, thread_id, job_type=job_type)
        while report.more:
            report += await self.consolidate_next(scope, thread_id, job_type=job_type)
        return report

    def _reflection_due(self, job_type: JobType) -> ReflectionDue | None:
        if self._reflect_every is None or job_type is JobType.FAST_REPLAY:
            return None
        return ReflectionDue(job_id=uuid7(), interval=self._reflect_every)

    async def reflect(self, scope: Scope, limit: int) -> ReflectionReport:
        """Reflect on the newest memories of a user."""
        scope_path(scope)
        storage = await self._handle.storage()
        return await reflect(
            storage, self._handle.embedding, self._reflector, self._handle.clock, scope, limit
        )

    async def undo(self, scope: Scope, run_id: UUID | str) -> None:
        """Restore what was before a run."""
        try:
            run = UUID(str(run_id))
        except ValueError as error:
            raise InvalidInput(f"run_id must be a UUID, not {run_id!r}") from error
        storage = await self._handle.storage()
        await storage.runs.undo_run(scope, run)
