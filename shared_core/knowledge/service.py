"""How memories form: consolidation of threads, reflection across them, the record, and the undo."""

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
from shared_core.models.embedding import Embedding
from shared_core.ports.jobs import OF_A_THREAD, JobType, ReflectionDue
from shared_core.ports.storage import Extractor, Reflector

if TYPE_CHECKING:
    from shared_core.nlp.relation_schema import Relations
    from shared_core.ports.runs import RunRecord
    from shared_core.ports.storage import Clock, Storage

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


class Formation:
    """Runs, of one storage with one extractor. Every verb opens the memory first.

    reflect_every: every so many extractions ask for a reflection over the user; None for none.
    relations: as in consolidate(). reader_for: returns the extractor of a thread that belongs to
    the conversation layer, None for any other thread.
    """

    def __init__(
        self,
        storage: Storage,
        embedding: Embedding,
        extractor: Extractor,
        clock: Clock,
        open_memory: Callable[[], Awaitable[None]],
        reflect_every: int | None,
        relations: Relations | None,
        reader_for: ReaderFor | None = None,
    ) -> None:
        self._storage = storage
        self._embedding = embedding
        self._extractor = extractor
        self._reflector = extractor if isinstance(extractor, Reflector) else RuleReflector()
        self._clock = clock
        self._relations = relations
        self._reader_for = reader_for
        self._open = open_memory
        # Rules find patterns when they are asked; by itself only a model has something new to say.
        self._follow: Follow | None = None
        self._reflect_every = reflect_every if isinstance(extractor, Reflector) else None

    def followed_by(self, follow: Follow) -> None:
        """Call follow after all that is new of a thread was read for facts."""
        self._follow = follow

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
        await self._open()
        extractor, instead_of = self._extractor, None
        if by_rules:
            extractor, instead_of = RuleExtractor(), self._extractor.name
        reader = await self._reader_for(scope, thread_id, extractor) if self._reader_for else None
        if reader:
            extractor, job_type = reader, JobType.DEEP_REFLECTION
        drawn = reader is None or reader.with_graph
        report = await consolidate(
            self._storage,
            self._embedding,
            extractor,
            self._clock,
            scope,
            thread_id,
            self._relations if drawn else None,
            job_type=job_type,
            instead_of=instead_of,
            reflection=self._reflection_due(job_type),
            private_only=reader is not None and reader.private_only,
        )
        if reader and not report.more:
            await self._storage.finish_conversation(scope, thread_id)
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
        await self._open()
        return await reflect(
            self._storage, self._embedding, self._reflector, self._clock, scope, limit
        )

    async def list_runs(
        self, scope: Scope, thread_id: str | None, limit: int
    ) -> Sequence[RunRecord]:
        """Return what was done, newest first."""
        limit, _ = page_bounds(limit, 0)
        await self._open()
        thread = None if thread_id is None else ThreadId(thread_id)
        return await self._storage.list_runs(scope, thread, limit)

    async def undo(self, scope: Scope, run_id: UUID | str) -> None:
        """Restore what was before a run."""
        try:
            run = UUID(str(run_id))
        except ValueError as error:
            raise InvalidInput(f"run_id must be a UUID, not {run_id!r}") from error
        await self._open()
        await self._storage.undo_run(scope, run)
