"""MemoryEngine, the verbs of the project, and open_memory, the one place that builds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from uuid import UUID

from shared_core.context import service as context
from shared_core.context.assembler import ContextAssembler
from shared_core.context.window import ContextWindow
from shared_core.conversation.service import Conversations
from shared_core.conversation.settings import ConversationSettings
from shared_core.conversation.verbs import ConversationVerbs
from shared_core.core.domain import (
    AsOf,
    Event,
    Hit,
    Memory,
    MemoryId,
    MemoryKind,
    Namespace,
    NewMemory,
    Scope,
    ThreadId,
)
from shared_core.core.namespaces import check_label
from shared_core.errors import MemoryCoreError
from shared_core.ingest import items
from shared_core.ingest.imported_items import ImportedItems
from shared_core.ingest.instructions import Instructions
from shared_core.ingest.items import ItemOp, ItemResult
from shared_core.ingest.service import Remembering
from shared_core.ingest.session_log import SessionLog
from shared_core.jobs.api_tokens import ApiTokens
from shared_core.jobs.index_maintenance import Indexes
from shared_core.jobs.queue import JobQueue
from shared_core.jobs.worker import DRAIN_S, Worker
from shared_core.knowledge.consolidation import RunReport
from shared_core.knowledge.facts import FactVerbs
from shared_core.knowledge.graph import Graph
from shared_core.knowledge.job_handlers import ConsolidationJobs
from shared_core.knowledge.reflection import ReflectionReport
from shared_core.knowledge.service import Formation
from shared_core.knowledge.stated import Stating
from shared_core.lifecycle import Lifetime
from shared_core.models.embedding import Embedding
from shared_core.nlp.relation_schema import DECLARED, Relations
from shared_core.ports.jobs import ExtractionStrategy, JobType
from shared_core.ports.recall import Ranking, RecallResult, ThreeFactor
from shared_core.ports.retention import Accesses
from shared_core.ports.runs import RunRecord
from shared_core.ports.storage import Clock, Extractor, Storage, StorageReport
from shared_core.privacy.redaction import PRESETS, PrivacyPolicy
from shared_core.privacy.sanitizing import Intake
from shared_core.profiles.service import Profiles
from shared_core.recall.access_log import AccessLog
from shared_core.recall.query import RecallOptions
from shared_core.recall.service import Recalling
from shared_core.recall.timeline import SliceVerbs
from shared_core.retention.deletion import Forgetting
from shared_core.retention.policies import KeepingVerbs
from shared_core.retention.schedule import ForgettingSchedule
from shared_core.transfer.reembedding import ReembedVerbs
from shared_core.transfer.verbs import TransferVerbs


class MemoryEngine(
    ConversationVerbs, FactVerbs, KeepingVerbs, ReembedVerbs, SliceVerbs, TransferVerbs
):
    """Remembers, recalls and forgets. Async; from sync code: run_sync(engine.recall(...)).

    Usable from any thread and any event loop, several at once. It connects at first use; closing
    it is the caller's duty (`async with`, or close()). Raises StorageUnavailable while the
    database cannot be used; the next call tries again.
    """

    def __init__(
        self,
        storage: Storage,
        embedding: Embedding,
        extractor: Extractor,
        clock: Clock,
        *,
        privacy: PrivacyPolicy = PRESETS["default"],
        worker: bool = True,
        strategy: ExtractionStrategy | None = None,
        track_access: bool = True,
        reranker: object = None,
        relations: Relations | None = DECLARED,
        cleanup_hours: float | None = None,
        conversation: ConversationSettings | None = None,
        profiles: bool = False,
    ) -> None:
        """relations: None switches the knowledge graph off. cleanup_hours: None for no schedule."""
        self._storage = storage
        self._intake = Intake(privacy)
        self._embedding = embedding
        self._clock = clock
        self._strategy = strategy or ExtractionStrategy()
        self._formation = Formation(
            storage, embedding, extractor, clock, self.open, self._strategy.reflection_interval,
            relations, lambda scope, thread, extractor: self.conversations.strategy_extractor(
                scope, thread, extractor),
        )  # fmt: skip
        performers = ConsolidationJobs(storage, embedding, self._formation, clock).performers()
        self._worker = Worker(storage, clock, performers, in_background=worker)
        self._lifetime = Lifetime(storage, self._worker.opened)
        self._accesses = AccessLog(
            storage, clock, lambda: self._lifetime.is_open, wanted=track_access
        )
        self._recalling = Recalling(
            storage, embedding, self.open, self._accesses, reranker, relations is not None
        )  # fmt: skip
        self.jobs = JobQueue(storage, clock, self._worker, self.open, self._intake)
        self._remembering = Remembering(
            storage, embedding, self._intake, clock, self.open, self.jobs, self._worker
        )
        self._forgetting = Forgetting(storage, clock, self.open, self.jobs.look)
        self.indexes = Indexes(storage, self.open, in_background=worker)
        self.forgetting_schedule = ForgettingSchedule(
            storage, clock, self.open, cleanup_hours, in_background=worker
        )
        self.conversations = Conversations(
            storage, self._intake, clock, self.open, self._recalling, self._worker, conversation
        )
        self.session_ends = self.conversations.ends(in_background=worker)
        self._lifetime.ends_with(self.jobs, self.indexes, self._accesses, self.forgetting_schedule,
                                 self.session_ends)  # fmt: skip
        self.sessions = SessionLog(storage, self._intake, self.open)
        self.profiles = Profiles(
            storage, embedding, self._intake, clock, extractor, self._recalling, self.open,
            self._formation if profiles else None, self.jobs.ask_if_unread,
        )  # fmt: skip
        self.instructions = Instructions(storage, embedding, clock, self.open)
        self.imported = ImportedItems(storage, embedding, clock, self.open)
        self._stating = Stating(storage, embedding, self._intake, clock, relations)
        self.tokens = ApiTokens(storage, clock, self.open)
        self.graph = Graph(storage, clock, self.open, relations, self._stating)

    async def __aenter__(self) -> MemoryEngine:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.close()

    async def open(self) -> None:
        """Start or reach the database and bring its schema up to date. Every verb does it too."""
        await self._lifetime.open()

    async def warm_up(self, *, model: bool = True) -> None:
        """Start an embedded server and load a bundled model, so that no deadline pays for them.

        A remote database or model is not called. A failure is not raised here: the verb that
        needs what failed raises it.
        """
        with suppress(MemoryCoreError):
            if self._storage.is_embedded:
                await self.open()
            if model:
                await self._embedding.load()

    async def close(self, *, drain_s: float = DRAIN_S) -> None:
        """Close all connections; an embedded server stops when its last user has left.

        A job in work is finished if that takes no longer than drain_s; else it goes back. What is
        queued stays queued, and the next worker does it; flush() first to see it done. Background
        work does not open it again; a call does. What is open still is closed as the process exits.
        """
        await self._lifetime.close(drain_s)

    async def append_events(
        self,
        scope: Scope,
        thread_id: str,
        events: Sequence[Event],
        *,
        later: bool = False,
        delay_s: float | None = None,
        unseen: bool = False,
        session_end: bool = False,
        strategy: ExtractionStrategy | None = None,
        history: bool = False,
        retry_later: bool = False,
    ) -> set[str]:
        """Append turns to a thread and remember each that has text; return the ids that were new.

        Idempotent on (scope, thread, event id). The next recall finds what was new; a turn that
        was forgotten stays forgotten. later: return after two round trips to the database, one if
        a few turns are likely unseen; words find the turns at once, and a job in the queue embeds
        and consolidates them, when the strategy (by default the memory's) says. delay_s: instead
        of the strategy's. session_end: they end a session, as end_session() does. history: the
        events are all of a conversation up to now, and their ids may be new every time: what its
        beginning says in the words of remembered turns is known (one more round trip). retry_later:
        when the embedder fails, the turns are stored as with later, and the error is raised.
        """
        self.forgetting_schedule.nudge()
        return await self._remembering.append_events(
            scope, thread_id, events, later=later, delay_s=delay_s, unseen=unseen,
            session_end=session_end, strategy=strategy or self._strategy, history=history,
            retry_later=retry_later,
        )  # fmt: skip

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all that was left for later is done; False if time ran out or it failed.

        That is what this process left, whichever process does it, and what is due of others that
        no worker has taken. What waits for its time is done now.
        """
        await self.open()
        await self._accesses.flush()
        return await self._worker.flush(timeout_s)

    async def consolidate(
        self,
        scope: Scope,
        thread_id: str,
        *,
        job_type: JobType = JobType.FULL_CONSOLIDATION,
        retry_later: bool = False,
    ) -> RunReport:
        """Draw facts and a summary out of the turns of a thread that were not read yet.

        job_type: FAST_REPLAY for the summary alone, DEEP_REFLECTION for all but the summary.
        retry_later: what fails or is cancelled is left to the queue, and the error is raised.
        """
        thread = ThreadId(thread_id)
        async with self.jobs.taking_over(scope, thread, job_type, wanted=retry_later):
            report = await self._formation.consolidate(scope, thread, job_type=job_type)
        if report.run_id and self._strategy.reflection_interval:
            self._worker.wake()
        return report

    async def reflect(self, scope: Scope, *, limit: int = 50) -> ReflectionReport:
        """Draw patterns and insights out of the newest memories of a user, of all threads."""
        return await self._formation.reflect(scope, limit)

    async def runs(
        self, scope: Scope, *, thread_id: str | None = None, limit: int = 50
    ) -> Sequence[RunRecord]:
        """Return what consolidation and reflection did, newest first."""
        return await self._formation.list_runs(scope, thread_id, limit)

    async def undo_run(self, scope: Scope, run_id: UUID | str) -> None:
        """Restore what was before a run: facts, summary, sources, edges, and what was unread.

        Raises NotFound for an unknown run, Conflict if later runs build on it, and names them.
        What was forgotten since stays forgotten.
        """
        if not await self.profiles.undo(scope, run_id):
            await self._formation.undo(scope, run_id)

    async def remember(
        self, scope: Scope, memories: str | NewMemory | Sequence[str | NewMemory]
    ) -> list[str]:
        """Remember texts or NewMemory objects; return their keys. An existing key is replaced."""
        return await self._remembering.remember(scope, memories)

    async def recall(
        self,
        scope: Scope,
        query: str,
        *,
        limit: int = 10,
        kinds: Sequence[MemoryKind] | None = None,
        namespace: Namespace | None = None,
        ranking: Ranking | ThreeFactor = "linear",
        asked_at: datetime | None = None,
        as_of: AsOf | None = None,
        min_relevance: float = 0.0,
        min_importance: float = 0.0,
        distinct: bool = False,
        diversity: float = 0.0,
        reranker: object = None,
    ) -> RecallResult:
        """Return what the scope remembers about query, by meaning and by words, best first.

        The answer is a sequence of hits that also tells what each way of finding found. namespace:
        search below another one of the scope than (app, user, "memories"). ranking: "linear"
        (learned weights), "fusion", "rrf", "vector", "bm25", "three_factor", or a ThreeFactor with
        weights. asked_at: aware; "last week" is resolved against it; now if left out.
        min_relevance: 0 to 1, leaves out what has less to do with query
        (shared_core.recall); 0 keeps all. min_importance: 1 to 10; 0 for all. distinct:
        leave out what repeats a better hit. diversity: 0 to 1, how much likeness to a better hit
        counts against one (MMR). reranker: for the memory's own; False for none. as_of: what held
        at a moment, as it was known at a moment; None for what is current.
        """
        wanted = RecallOptions(
            now=self._clock() if asked_at is None else asked_at, limit=limit, kinds=kinds,
            namespace=namespace, ranking=ranking, min_relevance=min_relevance, distinct=distinct,
            min_importance=min_importance, diversity=diversity, as_of=as_of,
        )  # fmt: skip
        return await self._recalling.recall(scope, query, wanted, reranker)

    async def search(
        self,
        scope: Scope,
        query: str,
        limit: int = 5,
        *,
        kinds: Sequence[MemoryKind] | None = None,
        as_of: AsOf | None = None,
    ) -> list[Hit]:
        """Return what is nearest to query by meaning alone; the score is the cosine similarity.

        Raises ModelUnavailable while the embedder is down; recall() then goes on by words.
        """
        return await self._recalling.search(scope, query, limit=limit, kinds=kinds, as_of=as_of)

    async def accesses(
        self, scope: Scope, memory_ids: Sequence[UUID | str]
    ) -> Mapping[MemoryId, Accesses]:
        """Return how often memories were returned by recall() and search(), and when last.

        Those that never were are not in it.
        """
        return await self._recalling.accesses(scope, memory_ids)

    async def forget(self, scope: Scope, keys: str | UUID | Sequence[str | UUID]) -> int:
        """Delete memories by key or memory id; return how many rows went.

        Unknown keys are passed over; unknown_keys() tells which. With a turn go its event, facts
        drawn from it alone, and summaries that told of it. A tombstone keeps it from coming back
        when its thread is ingested again.
        """
        return await self._forgetting.forget(scope, keys)

    async def forget_turns(self, scope: Scope, thread_id: str, event_ids: Sequence[str]) -> int:
        """Forget turns of a thread for good, by their event ids; return how many memories went.

        A turn that is not remembered yet never will be.
        """
        return await self._forgetting.turns(scope, thread_id, event_ids)

    async def forget_thread(self, scope: Scope, thread_id: str) -> int:
        """Erase all that was drawn from a thread alone; return how many memories went.

        Its turns leave tombstones; its session log, if there is one, stays.
        """
        return await self._forgetting.thread(scope, thread_id)

    async def forget_scope(self, scope: Scope) -> int:
        """Erase all memories of a user, in every namespace, with facts, profiles and jobs.

        Turns leave tombstones; session logs and their states stay. Returns how many memories went.
        """
        return await self._forgetting.scope(scope)

    async def list_memories(
        self,
        scope: Scope,
        *,
        kinds: Sequence[MemoryKind] | None = None,
        limit: int = 50,
        offset: int = 0,
        as_of: AsOf | None = None,
    ) -> Sequence[Memory]:
        """Return what a scope remembers, newest first, a page at a time; now or as of a moment."""
        return await self._recalling.list_memories(scope, kinds, limit, offset, as_of)

    async def context_window(
        self,
        scope: Scope,
        thread_id: str,
        query: str,
        *,
        system_prompt: str = "",
        max_tokens: int = 8000,
        assembler: ContextAssembler | None = None,
        instructions: Sequence[str] = (),
        profile: str | None = None,
        as_of: AsOf | None = None,
    ) -> ContextWindow:
        """Return facts, memories and recent history for a query, packed into a token budget.

        assembler: with shares or a tokenizer of your own; then its max_tokens counts. instructions:
        yours, packed with the rest. profile: yours, instead of what engine.profiles has; "" for
        none. as_of: what held at a moment, as it was known then.
        """
        check_label(thread_id, "thread_id")
        await self.open()
        return await context.context_window(
            self._storage, self._embedding, scope, ThreadId(thread_id), query,
            system_prompt=system_prompt, assembler=assembler or ContextAssembler(max_tokens),
            instructions=instructions, profile=profile, intake=self._intake, now=self._clock(),
            as_of=as_of,
        )  # fmt: skip

    async def run_item_ops(self, ops: Sequence[ItemOp]) -> list[ItemResult]:
        """Run a batch of key-value operations; see shared_core.ingest.items."""
        await self.open()
        self.indexes.nudge()
        return await items.run_item_ops(self._storage, self._embedding, self._clock, ops)

    async def sweep_expired(self, prefix: Namespace = (), *, limit: int = 1000) -> int:
        """Delete at most limit expired memories below a namespace; return how many went."""
        return await self._forgetting.expired(prefix, limit)

    async def dsn(self) -> str:
        """Return how to connect to the database behind, password included.

        A libpq string, for what shall live beside the memory, e.g. LangGraph's PostgreSQL
        checkpointer; the uri itself on SeekDB and OceanBase, which that cannot use. An embedded
        server runs as long as this memory, or another user of its folder, is open.
        """
        await self.open()
        return await self._storage.dsn()

    async def report(self) -> StorageReport:
        """Return what is behind this memory: engine, versions, role, model, size."""
        await self.open()
        return await self._storage.report()
