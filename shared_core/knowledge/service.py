"""engine.runs: consolidate threads, reflect on users, list and undo runs; perform their jobs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, TypeAlias
from uuid import UUID

from shared_core.core.domain import NO_USAGE, JsonValue, ModelUsage, Scope, ThreadId
from shared_core.core.failure_reason import reason
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import check_label, scope_path
from shared_core.core.shown import shown
from shared_core.core.telemetry import CONSOLIDATED, forgotten, measured
from shared_core.core.validation import id_of
from shared_core.errors import (
    Conflict,
    InvalidInput,
    ModelKeyRefused,
    ModelOutputInvalid,
    ModelQuotaExceeded,
    ModelUnavailable,
)
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.ingest import events as ingest
from shared_core.ingest.expiry import sweep
from shared_core.ingest.item_vectors import embed_items
from shared_core.ingest.items import page_bounds
from shared_core.jobs.retries import MAX_ATTEMPTS, Postponed
from shared_core.jobs.runner import Perform
from shared_core.knowledge.consolidation import NOTHING_NEW, Consolidation, Forget, RunReport
from shared_core.knowledge.model_state import ModelState
from shared_core.knowledge.reflection import ReflectionReport, RuleReflector, reflect
from shared_core.lifecycle import Handle
from shared_core.policies.conversations import finish_conversation
from shared_core.policies.run_reads import run_of, select_runs
from shared_core.policies.run_undo import undo_run
from shared_core.ports.jobs import OF_A_THREAD, Capability, Job, JobType, NewJob, ReflectionDue
from shared_core.ports.storage import Extractor, Reflector, Sparing

if TYPE_CHECKING:
    from shared_core.nlp.relation_schema import Relations
    from shared_core.ports.runs import RunRecord

log = logging.getLogger("hippocampus")

MOST_RUNS = 1_000
"""Maximum number of runs that read_skipped() looks at."""
STAND_INS = 20
"""Maximum number of runs of a thread that are searched for those in which rules stood in."""

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
        relations: the relations that edges may have; None if the graph is switched off.
        reflect_every: number of extractions after which a reflection is enqueued; None for never.
        reader_for: returns the extractor of a conversation, and None for any other thread.
        follow: called after all new turns of a thread were consolidated.
        forget: carries out the requests of the user to forget something; None if they are not.
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
        forget: Forget | None = None,
    ) -> None:
        self._handle = handle
        self._forget = forget
        self._extractor = extractor
        self.model = ModelState(extractor.name, handle.clock)
        self._reflector = extractor if isinstance(extractor, Reflector) else RuleReflector()
        self._relations = relations
        self._reader_for = reader_for
        self._follow = follow
        # Rules reflect only on request: a scheduled reflection needs a model to find anything new.
        self._reflect_every = reflect_every if isinstance(extractor, Reflector) else None

    async def __call__(
        self, scope: Scope, *, thread_id: str | None = None, limit: int = 50
    ) -> Sequence[RunRecord]:
        """Return the runs of consolidation, reflection and callers, newest first.

        This is the documented verb `engine.runs(...)`.

        Args:
            thread_id: only runs of this thread.
        """
        limit, _ = page_bounds(limit, 0)
        scope_path(scope)
        thread = None if thread_id is None else ThreadId(check_label(thread_id, "thread_id"))
        storage = await self._handle.storage()
        [rows] = await storage.read(scope_path(scope), [select_runs(thread, limit)])
        return [run_of(row) for row in rows]

    @property
    def by_model(self) -> bool:
        """Whether the extractor uses a model; the rules replace a model that fails."""
        return type(self._extractor) is not RuleExtractor

    @property
    def failed_model_calls(self) -> int:
        """Number of calls of the language model that failed, or whose answer was of no use.

        Calls of this memory in this process, since it was made.
        """
        usage: ModelUsage = getattr(self._extractor, "usage", NO_USAGE)
        return usage.failed + self.model.unusable

    @measured("consolidate", CONSOLIDATED, attrgetter("events"))
    async def consolidate_next(
        self,
        scope: Scope,
        thread_id: ThreadId,
        *,
        job_type: JobType = JobType.FULL_CONSOLIDATION,
        by_rules: bool = False,
        reads_all: bool = False,
    ) -> RunReport:
        """Do one run over the next turns.

        by_rules: use the rules instead of a failing model. reads_all: ask a model also about
        sessions that tell nothing.

        Calls follow when no turns remain, even if there were none, to repeat a failed call. A
        conversation gets no summary, and ends when all its turns are read. Raises InvalidInput for
        a job_type that needs no thread.
        """
        if job_type not in OF_A_THREAD:
            raise InvalidInput(
                f"job_type must be one of {', '.join(OF_A_THREAD)}, got {shown(job_type)}"
            )
        scope_path(scope)
        check_label(thread_id, "thread_id")
        job_type = JobType(job_type)
        storage = await self._handle.storage()
        extractor, instead_of = self._extractor, None
        if by_rules:
            extractor, instead_of = RuleExtractor(), self._extractor.name
        elif reads_all and isinstance(extractor, Sparing):
            extractor = extractor.reading_all()
        reader = await self._reader_for(scope, thread_id, extractor) if self._reader_for else None
        if reader:
            extractor, job_type = reader, JobType.DEEP_REFLECTION
        with_graph = reader is None or reader.with_graph
        run = Consolidation(
            storage=storage,
            embedding=self._handle.embedding,
            extractor=extractor,
            clock=self._handle.clock,
            scope=scope,
            thread_id=thread_id,
            relations=self._relations if with_graph else None,
            job_type=job_type,
            instead_of=instead_of,
            reflection=self._reflection_due(job_type),
            private_only=reader is not None and reader.private_only,
            forget=self._forget,
        )
        try:
            report = await run.run()
        except ModelUnavailable as error:
            if not by_rules:
                self.model.failed(error)
            raise
        if report.usage.calls:
            self.model.answered()
        if reader and not report.more:
            finishing = partial(finish_conversation, thread_id)
            await storage.transact(scope_path(scope), finishing, lock="none")
        if self._follow and not report.more and job_type is not JobType.FAST_REPLAY:
            await self._follow(scope, thread_id)
        return report

    async def consolidate(
        self,
        scope: Scope,
        thread_id: ThreadId,
        *,
        job_type: JobType = JobType.FULL_CONSOLIDATION,
        reads_all: bool = False,
    ) -> RunReport:
        """Do runs until all turns of the thread are read; reads_all as in consolidate_next()."""
        report = await self.read_next(scope, thread_id, job_type=job_type, reads_all=reads_all)
        while report.more:
            report += await self.consolidate_next(
                scope, thread_id, job_type=job_type, reads_all=reads_all
            )
        return report

    async def read_skipped(self, scope: Scope) -> tuple[RunReport, Sequence[RunRecord]]:
        """Have a model read the turns that runs skipped; return what it did, and the runs left.

        Each such run is undone, so that its turns are unread, and its thread is consolidated. A run
        that later ones build on is left. Raises InvalidInput without a language model.
        """
        if not self.by_model:
            raise InvalidInput(
                "no language model can read what was skipped: name one by llm=, --llm MODEL or"
                " HIPPOCAMPUS_LLM"
            )
        skipped = [
            run
            for run in await self(scope, limit=MOST_RUNS)
            if run.counts.get("skipped") and run.undone_at is None and run.thread_id
        ]
        left, threads = [], dict[ThreadId, None]()
        for run in skipped:
            try:
                await self.undo(scope, run.run_id)
            except Conflict:
                left.append(run)
            else:
                threads[ThreadId(run.thread_id or "")] = None
        report = NOTHING_NEW
        for thread_id in threads:
            report += await self.consolidate(scope, thread_id, reads_all=True)
        return report, left

    async def read_next(
        self,
        scope: Scope,
        thread_id: ThreadId,
        *,
        job_type: JobType = JobType.FULL_CONSOLIDATION,
        reads_all: bool = False,
    ) -> RunReport:
        """Do as consolidate_next(); the model also reads the turns that rules read in its place.

        Their runs are undone first, unless the model failed a moment ago. If it fails then, the
        rules read the turns again before the error is raised.
        """
        undone = 0
        if self.by_model and self.model.failing_until is None:
            for run in await self.stand_ins(scope, thread_id):
                if job_type not in (JobType.FULL_CONSOLIDATION, run.kind):
                    break  # this job would not read all that the run did
                try:
                    await self.undo(scope, run.run_id)
                except Conflict as error:
                    log.debug("what rules read stays: %s", error)
                    break
                undone += 1
        try:
            return await self.consolidate_next(
                scope, thread_id, job_type=job_type, reads_all=reads_all
            )
        except ModelUnavailable:
            more = undone > 0
            while more:
                report = await self.consolidate_next(
                    scope, thread_id, job_type=job_type, by_rules=True
                )
                more = report.more
            raise

    async def stand_ins(self, scope: Scope, thread_id: ThreadId) -> Sequence[RunRecord]:
        """Return the last runs of a thread in which rules stood in for the model, newest first.

        Those before the last run of the model are left out.
        """
        runs = await self(scope, thread_id=thread_id, limit=STAND_INS)
        standing = [run for run in runs if run.undone_at is None]
        return [*takewhile(lambda run: "instead_of" in run.counts, standing)]

    def _reflection_due(self, job_type: JobType) -> ReflectionDue | None:
        if self._reflect_every is None or job_type is JobType.FAST_REPLAY:
            return None
        return ReflectionDue(job_id=uuid7(), interval=self._reflect_every)

    @measured("reflect")
    async def reflect(self, scope: Scope, limit: int) -> ReflectionReport:
        """Reflect on the newest memories of a user."""
        scope_path(scope)
        storage = await self._handle.storage()
        try:
            return await reflect(
                storage, self._handle.embedding, self._reflector, self._handle.clock, scope, limit,
                self._relations,
            )  # fmt: skip
        except ModelUnavailable as error:
            self.model.failed(error)
            raise

    async def undo(self, scope: Scope, run_id: UUID | str) -> None:
        """Undo a run."""
        run = id_of(run_id, "run_id")
        tenant = scope_path(scope)
        storage, now = await self._handle.storage(), self._handle.clock()
        await storage.transact(tenant, lambda: undo_run(scope, run, now))


SWEEP = 1000
"""Maximum number of expired memories deleted by one job."""
KEY_REFUSED = "the key of the language model is refused, mend it"
REFLECTED = 50
"""Number of the newest memories of a user that a reflection reads."""


class ConsolidationJobs:
    """Performs jobs with the same runs as the verbs of the engine."""

    def __init__(self, handle: Handle, runs: Runs) -> None:
        self._handle = handle
        self._runs = runs

    def performers(self) -> Mapping[Capability, Perform]:
        """Return the performer of each type of job."""
        of_threads = dict.fromkeys(map(Capability, OF_A_THREAD), self.perform)
        return {
            **of_threads,
            Capability(JobType.REFLECTION): self.reflect,
            Capability(JobType.ITEM_VECTORS): partial(embed_items, self._handle),
        }

    async def perform(self, job: Job) -> dict[str, JsonValue]:
        """Perform a job on a thread; enqueue another for the rest, if any."""
        assert job.thread_id is not None
        storage = await self._handle.storage()
        handle = self._handle
        embedded = await ingest.embed_waiting(
            storage, handle.embedding, handle.clock, job.scope, job.thread_id
        )
        report = await self._consolidated(job)
        if report.more or embedded == ingest.EMBED_BATCH * ingest.EMBED_BATCHES:
            rest = NewJob(job_id=uuid7(), job_type=job.job_type, run_after=self._handle.clock())
            await storage.jobs.enqueue(job.scope, job.thread_id, rest)
        of_user = (job.scope.app, job.scope.user)
        swept = await sweep(storage, of_user, SWEEP, self._handle.clock())
        forgotten("sweep_expired", swept)
        result: dict[str, JsonValue] = {
            "embedded": embedded,
            "events": report.events,
            "facts": report.facts_opened,
        }
        if report.run_id is None:
            result["message"] = "No events to consolidate"
        return result

    async def reflect(self, job: Job) -> dict[str, JsonValue]:
        """Reflect on the user of a job."""
        self._wait_for_key()
        try:
            report = await self._runs.reflect(job.scope, REFLECTED)
        except ModelKeyRefused as error:
            raise self._waiting(error) from error
        return {"reflections": report.reflections_generated, "ended": len(report.ended)}

    async def _consolidated(self, job: Job) -> RunReport:
        """Do a run. At the last attempt rules stand in for a model that fails.

        Then, or if the key of the model is refused, the job waits until the model answers.
        """
        assert job.thread_id is not None
        runs, thread = self._runs, (job.scope, job.thread_id)
        self._wait_for_key()
        try:
            report = await runs.read_next(*thread, job_type=job.job_type)
        except ModelKeyRefused as error:
            raise self._waiting(error) from error
        except ModelQuotaExceeded:
            raise
        except ModelUnavailable as error:
            if job.attempts < MAX_ATTEMPTS or not runs.by_model:
                raise
            log.warning("job %s goes on by rules: %s", job.job_id, reason(error))
            report = await runs.consolidate_next(*thread, job_type=job.job_type, by_rules=True)
            if isinstance(error, ModelOutputInvalid):  # asked again, it would hardly say better
                return report
        until = runs.model.failing_until
        if until and not report.more and await runs.stand_ins(*thread):
            raise Postponed(
                "rules stand in for the model, which reads again once it answers", until
            )
        return report

    def _wait_for_key(self) -> None:
        """Raise Postponed if the key of the model was refused a moment ago."""
        if until := self._runs.model.refused_until:
            raise Postponed(KEY_REFUSED, until)

    def _waiting(self, error: ModelKeyRefused) -> Postponed:
        return Postponed(f"{KEY_REFUSED}: {error}", self._runs.model.failed(error))
