"""MemoryEngine: one service for each area of a memory, and the documented verbs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence, Set
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, overload
from uuid import UUID

from shared_core.context import service as context
from shared_core.context.assembler import ContextAssembler
from shared_core.context.window import ContextWindow
from shared_core.conversation.answers import (
    CANDIDATES,
    DebuggedInput,
    EndedSession,
    ProcessedInput,
    StatusOfSession,
    ended_answer,
)
from shared_core.conversation.service import ConversationOptions, Conversations, strategy_extractor
from shared_core.conversation.settings import ConversationSettings
from shared_core.core import telemetry
from shared_core.core.domain import (
    AsOf,
    Event,
    Hit,
    Memory,
    MemoryKind,
    Namespace,
    NewMemory,
    Scope,
    ThreadId,
)
from shared_core.core.namespaces import check_label, scope_path
from shared_core.core.retention_policy import POLICIES, RetentionPolicy
from shared_core.core.shown import shown
from shared_core.core.time_zones import clock_in
from shared_core.core.validation import listed, whole_number
from shared_core.errors import InvalidInput
from shared_core.ingest import events as ingest, items
from shared_core.ingest.instructions import Instructions
from shared_core.ingest.items import ImportedItems
from shared_core.ingest.service import Turns
from shared_core.ingest.session_log import SessionLogs
from shared_core.jobs.api_tokens import ApiTokens
from shared_core.jobs.index_maintenance import Indexes
from shared_core.jobs.queue import JobQueue, JobWatch
from shared_core.jobs.queue_size import QueueSizeReader
from shared_core.jobs.worker import DRAIN_S, Worker
from shared_core.knowledge.consolidation import RunReport
from shared_core.knowledge.facts import Facts
from shared_core.knowledge.graph import Graph
from shared_core.knowledge.reflection import ReflectionReport
from shared_core.knowledge.service import ConsolidationJobs, Runs
from shared_core.lifecycle import Background, Handle, StorageLifecycle
from shared_core.models.embedders import resolve_embedder
from shared_core.models.embedding import Embedding
from shared_core.nlp.relation_schema import DECLARED, Relations
from shared_core.nlp.rules import load_all_rules
from shared_core.ports.erasures import ErasureReceipt
from shared_core.ports.items import ItemOp, ItemResult
from shared_core.ports.jobs import ExtractionStrategy, JobType
from shared_core.ports.runs import Fact
from shared_core.ports.storage import Clock, Extractor, Storage, StorageReport, is_judged
from shared_core.privacy.redaction import PRESETS, PrivacyPolicy
from shared_core.privacy.sanitizing import Intake
from shared_core.profiles.pipeline import ProfilePipeline
from shared_core.profiles.service import Profiles, follow_thread
from shared_core.recall import query as queries
from shared_core.recall.access_log import AccessLog
from shared_core.recall.listing import MemoryCounts, Users
from shared_core.recall.service import Recall
from shared_core.recall.timeline import TimeSlices
from shared_core.retention import deletion
from shared_core.retention.cleanup import CleanupReport, ForgettingSchedule
from shared_core.retention.deletion import Erasures
from shared_core.retention.detail import MemoryDetails
from shared_core.retention.forget_requests import CarriedOut, ForgetRequests, NewTurns
from shared_core.retention.service import Retention
from shared_core.transfer import reembedding
from shared_core.transfer.record_import import RecordImports
from shared_core.transfer.reembedding import ReembedReport
from shared_core.transfer.service import ImportedLines, Transfer

if TYPE_CHECKING:
    from shared_core.transfer.reembedding import TextOfField


class MemoryEngine:
    """A memory. Async; from sync code: run_sync(memory.recall(...)).

    It may be used from any threads and event loops at the same time. It connects at first use;
    the caller closes it (`async with`, or close()). Every call raises StorageUnavailable while the
    database cannot be used, and the next call tries again.

    Each area has a service: `memory.retention.pin(...)`, `memory.graph.paths(...)`. The documented
    verbs stand here as well. Some services are documented verbs themselves, so they are called:
    `memory.recall(...)`, `.slice(...)`, `.users(...)`, `.count_memories(...)`, `.memory(...)`,
    `.facts(...)`, `.runs(...)`, `.erasures(...)` and `.accesses(...)` (decision 15).

    Attributes:
        recall: finds memories for a query.
        slice: finds memories of a stretch of time.
        users: lists the users who have memories.
        count_memories: counts what list_memories() lists, also by period.
        memory: reads one memory with its provenance, its retention and what was derived from it.
        accesses: how often memories were read, and when last.
        facts: lists, states, retracts and restores facts.
        graph: the knowledge graph.
        runs: consolidates, reflects, lists runs and undoes them.
        profiles: profiles of users and agents.
        conversations: conversations that open and end by themselves.
        instructions: procedural memory, with versions.
        sessions: session logs of a framework.
        retention: policies, pins, stages, statistics, and the schedule of forgetting.
        forget_requests: forgets topics at the request of a user.
        erasures: erases users and threads, and lists the receipts.
        transfer: exports and imports.
        imports: memories of other products, e.g. ChatGPT, mem0 or Zep.
        imported_items: items of another store, with the times they had there.
        jobs: the durable queue.
        indexes: approximate vector indexes of large tenants.
        tokens: bearer tokens of the HTTP and MCP servers.
    """

    def __init__(
        self,
        storage: Storage,
        embedding: Embedding,
        extractor: Extractor,
        clock: Clock,
        *,
        item_embedding: Embedding | None = None,
        privacy: PrivacyPolicy = PRESETS["default"],
        worker: bool = True,
        strategy: ExtractionStrategy | None = None,
        track_access: bool = True,
        reranker: object = None,
        relations: Relations | None = DECLARED,
        cleanup_hours: float | None = None,
        conversation: ConversationSettings | None = None,
        profiles: bool = False,
        forget_requests: bool = True,
        zone: tzinfo = UTC,
    ) -> None:
        """Build the services. open_memory() explains the arguments.

        relations: None switches the knowledge graph off. cleanup_hours: hours between two runs of
        forgetting; None for no schedule.
        """
        self._storage = storage
        self._lifecycle = StorageLifecycle(storage, clock)
        handle = self._handle = Handle(
            self._lifecycle, embedding, item_embedding or embedding, Intake(privacy, zone),
            clock_in(clock, zone),
        )  # fmt: skip
        strategy = strategy or ExtractionStrategy()
        self._reflects = bool(strategy.reflection_interval)
        self.accesses = AccessLog(self._lifecycle, clock, counts=track_access)
        self.recall = Recall(handle, self.accesses, reranker, with_graph=relations is not None)
        self.slice = TimeSlices(handle, self.recall)
        self.users = Users(handle)
        self.count_memories = MemoryCounts(handle)
        options = ConversationOptions(conversation)
        pipeline = ProfilePipeline(extractor, handle.sanitizer, clock)
        self.forget_requests = ForgetRequests(
            handle, self.recall, is_on=forget_requests, reads=is_judged(extractor)
        )
        self.runs = Runs(
            handle, extractor, relations, reflect_every=strategy.reflection_interval,
            reader_for=partial(strategy_extractor, handle, options),
            follow=partial(follow_thread, handle, pipeline) if profiles else None,
            forget=self.forget_requests.by_model if forget_requests else None,
        )  # fmt: skip
        watch = JobWatch(storage, clock)
        performers = ConsolidationJobs(handle, self.runs).performers()
        self._worker = Worker(
            storage, clock, performers, in_background=worker, tried=watch.look,
            before_claim=self._lifecycle.compare_clock,
        )  # fmt: skip
        self.jobs = JobQueue(handle, self._worker, watch)
        self._queue_size = QueueSizeReader(self._lifecycle)
        self._turns = Turns(handle, self.jobs, self._worker, strategy)
        self.facts = Facts(handle, relations)
        self.graph = Graph(handle, relations, self.facts)
        self.profiles = Profiles(handle, pipeline, self.recall, self.jobs.ask_if_unread)
        self.conversations = Conversations(
            handle, self.recall, self._worker, options, in_background=worker
        )
        self.instructions = Instructions(handle)
        self.sessions = SessionLogs(handle)
        schedule = ForgettingSchedule(handle, cleanup_hours, in_background=worker)
        self.retention = Retention(handle, schedule)
        self.memory = MemoryDetails(handle, self.retention, self.facts, self.accesses)
        self.erasures = Erasures(handle, self.jobs)
        self.transfer = Transfer(handle, self.accesses)
        self.imports = RecordImports(handle, self._turns, self.runs, self.facts)
        self.imported_items = ImportedItems(handle)
        self.indexes = Indexes(handle, in_background=worker)
        self.tokens = ApiTokens(handle)
        background: list[Background] = [
            self._worker, watch, self.indexes, schedule, self.conversations.expiry, self.accesses
        ]  # fmt: skip
        self._lifecycle.attach(background, after_opening=[self._worker.opened, telemetry.start])

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
        await self._lifecycle.open()

    async def now(self) -> datetime:
        """Return the time by the memory's clock: the database server's, or the argument clock."""
        await self.open()
        return self._handle.clock()

    async def warm_up(self, *, model: bool = True, remote_s: float | None = None) -> None:
        """Open the database, load a bundled model, and compile the rules that read texts.

        The first question then waits for none of them. A server calls it when it starts. A failure
        is not raised here: the verb that needs what failed raises it. For a minute after a failure
        nothing is started, so that deadlines hold.

        Args:
            model: whether to load the model.
            remote_s: maximum seconds of waiting for a server that is not embedded. The opening
                goes on after them. Default: no maximum.
        """
        embedding = self._handle.embedding if model else None
        await self._lifecycle.warm_up(embedding, remote_s)
        await asyncio.to_thread(load_all_rules)

    async def load_model(self) -> None:
        """Load a bundled embedder; others have nothing to load. Raises ModelUnavailable."""
        await self.open()  # the database knows which one
        await self._handle.embedding.load(is_open=True)

    async def close(self, *, drain_s: float = DRAIN_S) -> None:
        """Close all connections; an embedded server stops with its last user.

        A running job may take drain_s seconds to finish; else it goes back to the queue. Queued
        jobs stay queued for the next worker: call flush() first to see them done. Background work
        does not open the memory again; a call does. An open memory is closed when the process
        exits.
        """
        await self._lifecycle.close(drain_s)

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
    ) -> NewTurns:
        """Append turns to a thread, remember each that has text; return the ids that were new.

        Idempotent on (scope, thread, event id, text). A known id with another text replaces the
        turn, by a run that can be undone (`edited` of the result). The next recall finds new turns;
        a forgotten turn stays forgotten. A new turn of the user such as "Forget what I said about
        Theo" is carried out as by forget_about(); `set_aside` of the result says what went.

        Args:
            scope: application and user.
            thread_id: the thread, named by the caller.
            events: the turns, oldest first.
            later: leave embedding and consolidation to a job in the queue, and return after two
                round trips to the database. Words find the turns immediately.
            delay_s: seconds until that job is due, instead of the strategy's.
            unseen: the turns are likely new. This saves a round trip for a few turns.
            session_end: the turns end a session, so a job consolidates them now; see end_session().
            strategy: when the job is due, instead of the memory's own strategy.
            history: the events are a whole conversation up to now, and their ids may be new each
                time. Its known beginning is recognised by its words, for one more round trip.
            retry_later: where the embedder fails, store the turns as with `later`, and raise.

        Raises:
            ModelUnavailable: the embedder failed.
        """
        self.retention.schedule.nudge()
        done = await self._turns.append(
            scope, thread_id, events, later=later, delay_s=delay_s, unseen=unseen,
            session_end=session_end, strategy=strategy, history=history, retry_later=retry_later,
        )  # fmt: skip
        asking = [one for one in events if one.event_id in done.new | done.edited]
        gone = await self.forget_requests.in_turns(scope, ThreadId(thread_id), asking)
        return NewTurns(done.new, gone, edited=done.edited)

    async def leave_turns(self, scope: Scope, thread_id: str, ids: Collection[str]) -> Set[str]:
        """Set aside turns that left their thread; return the ids of those that were remembered.

        They go with what rests on them alone, by a run that can be undone; forget_turns() has none.
        """
        return await self._turns.leave(scope, thread_id, ids)

    async def remember(
        self, scope: Scope, memories: str | NewMemory | Sequence[str | NewMemory]
    ) -> list[str]:
        """Store texts or NewMemory objects; return their keys. An existing key is replaced."""
        if isinstance(memories, str | NewMemory):
            memories = [memories]
        many = listed(memories, "memories", '["Ana likes tea."]')
        new = [NewMemory(text=one) if isinstance(one, str) else one for one in many]
        return await ingest.remember(self._handle, scope, new)

    async def process_memory(
        self, input: str, user_id: str, *, app: str | None = None, event_id: str | None = None
    ) -> ProcessedInput:
        """Store what a user says, and return what earlier conversations hold about it.

        The input joins the user's active session, or opens one; that session itself is not
        returned.

        Args:
            input: the text of the user.
            user_id: the user.
            app: the application. Default: that of the settings.
            event_id: an id of the caller. An input that is sent again with it is stored once, also
                after its session ended.

        Returns:
            "status", "resolved_query" (pronouns replaced), "memories" ([{"content", "score"}], best
            first), "relations" ([{"source", "relation", "target"}]) and "metadata"
            ({"retrieval_time_ms", "has_memory"}). Where the input asked to forget a topic, the
            metadata hold "set_aside": what went, as of forget_about(). For the event_id of a
            forgotten or erased input they hold "taken_in": False.

        Raises:
            InvalidInput: for an input or id that cannot be stored.
        """
        scope = self.conversations.scope(user_id, app)
        answer = await self.conversations.process(input, scope, event_id)
        if gone := await self.forget_requests.in_text(scope, input):
            answer["metadata"]["set_aside"] = [one.to_dict() for one in gone]
        return answer

    async def debug_process_memory(
        self, input: str, user_id: str, *, app: str | None = None, limit: int = CANDIDATES
    ) -> DebuggedInput:
        """Return what process_memory() would answer, and why, without storing the input.

        Args:
            limit: maximum number of candidates shown; process_memory() looks at 16.
        """
        return await self.conversations.debug(input, self.conversations.scope(user_id, app), limit)

    @overload
    async def end_session(self, scope: str, *, app: str | None = None) -> EndedSession: ...
    @overload
    async def end_session(self, *, user_id: str, app: str | None = None) -> EndedSession: ...
    @overload
    async def end_session(
        self, scope: Scope, thread_id: str, *, strategy: ExtractionStrategy | None = None
    ) -> bool: ...
    async def end_session(
        self,
        scope: Scope | str | None = None,
        thread_id: str | None = None,
        *,
        strategy: ExtractionStrategy | None = None,
        user_id: str | None = None,
        app: str | None = None,
    ) -> bool | EndedSession:
        """End the active session of a user, or have the unread turns of a thread consolidated now.

        With a user id alone it ends the session, has it consolidated later, and returns now:
        "status", "message", "session_info" (None if there was no session).

        Given a scope and a thread, it returns whether there were unread turns. With a strategy that
        has on_session_end=False nothing happens.
        """
        if isinstance(scope, Scope) and thread_id is not None and user_id is None and app is None:
            return await self._turns.end_session(scope, thread_id, strategy)
        user = scope if user_id is None else user_id
        if isinstance(user, Scope) or thread_id is not None or strategy is not None:
            is_scope = isinstance(scope, Scope) or thread_id is None
            wrong = "" if is_scope else f"scope must be a Scope(app, user), got {shown(scope)}: "
            raise InvalidInput(
                f"{wrong}end_session takes a user id, e.g. end_session('alice', app='my-app'), or a"
                " scope and a thread id"
            )
        return ended_answer(await self.conversations.end(self.conversations.scope(user, app)))

    async def get_session_status(self, user_id: str, *, app: str | None = None) -> StatusOfSession:
        """Return whether a user has an active session, and how it stands; for debugging."""
        return await self.conversations.status(self.conversations.scope(user_id, app))

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all work that was left for later is done; False if time ran out or it failed.

        That is the work that this process left, whichever process does it, and due work of others
        that no worker has taken. Work that waits for its time is done now.
        """
        await self.open()
        await self.accesses.flush()
        return await self._worker.flush(timeout_s)

    async def consolidate(
        self,
        scope: Scope,
        thread_id: str,
        *,
        job_type: JobType = JobType.FULL_CONSOLIDATION,
        retry_later: bool = False,
    ) -> RunReport:
        """Turn the unread turns of a thread into facts, statements, edges and a summary.

        Args:
            job_type: FAST_REPLAY for the summary alone, DEEP_REFLECTION for all but the summary.
            retry_later: if it fails or is cancelled, leave the work to the queue, and raise.
        """
        thread = ThreadId(thread_id)
        async with self.jobs.taking_over(scope, thread, job_type, retry=retry_later):
            report = await self.runs.consolidate(scope, thread, job_type=job_type)
        if report.run_id and self._reflects:
            self._worker.wake()
        return report

    async def reflect(self, scope: Scope, *, limit: int = 50) -> ReflectionReport:
        """Derive patterns and insights from the newest memories of a user, across all threads."""
        return await self.runs.reflect(scope, limit)

    async def undo_run(self, scope: Scope, run_id: UUID | str) -> None:
        """Undo a run: its facts, summary, sources and edges go, and its turns are unread again.

        Memories that were forgotten since stay forgotten.

        Raises:
            NotFound: for an unknown run.
            Conflict: if later runs build on it; the error holds their ids.
        """
        if not await self.profiles.undo(scope, run_id):
            await self.runs.undo(scope, run_id)

    async def state_fact(
        self,
        scope: Scope,
        slot: str,
        value: str,
        *,
        subject: str | None = None,
        valid_from: datetime | None = None,
    ) -> Fact:
        """Store a fact as if the user had stated it; return the stored fact.

        In a slot with one value it ends the fact with another value, as of valid_from; in a slot
        with many ("like") all stay. A known fact is returned as it is. A fact that something later
        followed lasts until then. It is a run of its own, which undo_run() undoes.

        Args:
            scope: application and user.
            slot: e.g. "employer", or another name of it ("company", "公司"), or a slot of your own,
                which holds one value at a time.
            value: 1 to 2,000 characters.
            subject: the person the fact is about. Default: the user.
            valid_from: when it began to hold, aware. Default: now.

        Raises:
            InvalidInput: for a slot, value or moment that cannot be used, and for a slot that
                differs from a known one by a letter.
        """
        return await self.facts.state(scope, slot, value, subject=subject, valid_from=valid_from)

    async def retract(
        self, scope: Scope, key: Fact | UUID | str, *, at: datetime | None = None
    ) -> Fact:
        """End a fact as of a moment; it stays as history. Return the ended fact.

        It is a run of its own, which undo_run() undoes.

        Args:
            scope: application and user.
            key: the fact, its key or its memory id.
            at: aware; not before the fact began, and not in the future. Default: now.

        Raises:
            NotFound: there is no such memory.
            Conflict: the fact has ended already.
            InvalidInput: for a memory that is no fact, or a moment that is not allowed.
        """
        return await self.facts.retract(scope, key, at=at)

    async def restore(self, scope: Scope, key: Fact | UUID | str) -> Fact:
        """Let a fact that ended hold again, whatever ended it, with what ended with it.

        Raises:
            NotFound: there is no such memory.
            InvalidInput: for a memory that is no fact.
            Conflict: the fact holds, or a current fact or edge cannot hold beside it.
        """
        return await self.facts.restore(scope, key)

    async def search(
        self,
        scope: Scope,
        query: str,
        limit: int = 5,
        *,
        kinds: Sequence[MemoryKind] | None = None,
        as_of: AsOf | None = None,
    ) -> list[Hit]:
        """Return the memories nearest to a query by meaning alone; the score is cosine similarity.

        Raises:
            ModelUnavailable: while the embedder is down; recall() then finds by words.
        """
        storage = await self._handle.storage()
        hits = await queries.search(
            storage, self._handle.embedding, scope, query, limit=limit, kinds=kinds, as_of=as_of
        )
        self.recall.count(scope, hits)
        return hits

    async def list_memories(
        self,
        scope: Scope,
        *,
        kinds: Sequence[MemoryKind] | None = None,
        thread_id: str | None = None,
        contains: str = "",
        begin: datetime | None = None,
        end: datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        as_of: AsOf | None = None,
    ) -> Sequence[Memory]:
        """Return a page of the memories of a scope, newest first, now or as of a moment.

        Args:
            thread_id: derived from a turn of this thread.
            contains: a part of the text, in upper or lower case.
            begin: the start of the period in which they occurred, aware.
            end: its end, aware, exclusive.
        """
        page = queries.page(
            scope, kinds, limit, offset, thread_id=thread_id, contains=contains, begin=begin,
            end=end, as_of=as_of,
        )  # fmt: skip
        storage = await self._handle.storage()
        return await storage.events.list_memories(page, "newest", limit, offset)

    async def thread_summary(self, scope: Scope, thread_id: str) -> Memory | None:
        """Return the summary of a thread, or None before its first consolidation.

        Its source_event_ids name every turn that it covers.
        """
        scope_path(scope)
        check_label(thread_id, "thread_id")
        storage, now = await self._handle.storage(), self._handle.clock()
        return await context.summary_of_thread(storage, scope, ThreadId(thread_id), None, now)

    async def thread_turns(
        self, scope: Scope, thread_id: str, *, limit: int = 50
    ) -> Sequence[Event]:
        """Return the last turns with text of a thread, oldest first; none that was set aside."""
        scope_path(scope)
        check_label(thread_id, "thread_id")
        whole_number(limit, "limit", 1, 1000)
        storage = await self._handle.storage()
        return await storage.events.thread_history(scope, ThreadId(thread_id), limit)

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

        Args:
            scope: application and user.
            thread_id: the thread whose history is shown.
            query: what the user asks now.
            system_prompt: comes first.
            max_tokens: the budget, in tokens.
            assembler: with shares or a tokenizer of your own; its max_tokens counts.
            instructions: your instructions, packed with the rest.
            profile: your text instead of the stored profiles; "" for none.
            as_of: what held at a moment, as it was known at a moment.
        """
        return await context.context_window(
            self._handle, scope, thread_id, query, system_prompt=system_prompt,
            assembler=assembler or ContextAssembler(max_tokens), instructions=instructions,
            profile=profile, as_of=as_of,
        )  # fmt: skip

    async def run_item_ops(self, ops: Sequence[ItemOp]) -> list[ItemResult]:
        """Run a batch of key-value operations; see shared_core.ingest.items."""
        handle, enqueued = self._handle, self._worker.hand_over
        storage = await handle.storage()
        self.indexes.nudge()
        return await items.run_item_ops(storage, handle.embedding_of, handle.clock, ops, enqueued)

    async def forget_about(self, scope: Scope, topic: str) -> CarriedOut:
        """Set aside what is about a topic: it leaves recall now, and is erased after 30 days.

        Turns, facts, statements, entries of profiles and items of the memory go if their text names
        the topic, and so do edges of the graph. Until then undo_run() brings all back, by
        `done.run_id`.

        Args:
            scope: the user.
            topic: a name or a thing in the user's words: "Theo", "my brother", 面试.

        Raises:
            InvalidInput: the topic names nothing.
        """
        return await self.forget_requests.about(scope, topic)

    async def forget(self, scope: Scope, keys: str | UUID | Sequence[str | UUID]) -> int:
        """Delete memories by key or memory id; return the number of deleted rows.

        Unknown keys are passed over; retention.unknown_keys() returns them. With a turn go its
        event, facts derived from it alone, and summaries that cover it. A tombstone keeps the turn
        from coming back when its thread is ingested again.
        """
        return await deletion.forget(self._handle, scope, keys)

    async def forget_turns(self, scope: Scope, thread_id: str, event_ids: Sequence[str]) -> int:
        """Delete turns of a thread for good, by event id; return the number of deleted memories.

        A turn that is not remembered yet never will be.
        """
        return await deletion.forget_turns(self._handle, scope, thread_id, event_ids)

    async def forget_events(self, scope: Scope, event_ids: Sequence[str]) -> int:
        """Do as forget_turns() in every thread that remembers one of the turns."""
        return await deletion.forget_events(self._handle, scope, event_ids)

    async def forget_thread(self, scope: Scope, thread_id: str) -> int:
        """Delete everything derived from a thread alone; return the number of deleted memories.

        Its turns leave tombstones; its session log, if there is one, stays.
        """
        deleted = await deletion.forget_thread(self._handle, scope, thread_id)
        self.jobs.look()
        return deleted

    async def forget_scope(self, scope: Scope) -> int:
        """Delete all memories of a user, in every namespace, with facts, profiles and jobs.

        Turns leave tombstones; session logs and their states stay. Return the number of deleted
        memories.
        """
        deleted = await deletion.forget_scope(self._handle, scope)
        self.jobs.look()
        return deleted

    async def sweep_expired(self, prefix: Namespace = (), *, limit: int = 1000) -> int:
        """Delete at most `limit` expired memories below a namespace; return their number."""
        return await deletion.sweep_expired(self._handle, prefix, limit)

    async def erase(self, scope: Scope, thread_id: str | None = None) -> ErasureReceipt:
        """Erase everything of a user, or of one thread, for good; return the receipt, which stays.

        Of a user it erases memories in every namespace with all that was derived from them, session
        logs and their states, sessions, profiles, runs, jobs, policies and indexes. Tokens for this
        user alone are revoked, and all tokens lose the name. Of a thread it erases turns, session
        log, jobs and runs, and what was derived from the thread alone. Receipts stay, and a
        tombstone of each turn, so that the same turns are not remembered again.
        """
        return await self.erasures.erase(scope, thread_id)

    async def cleanup(
        self,
        scope: Scope,
        policy: RetentionPolicy | str = POLICIES["default"],
        *,
        dry_run: bool = False,
    ) -> CleanupReport:
        """Erase turns and summaries below a threshold of the caller now, in any stage.

        Facts do not fade. Adding forgotten turns again brings no memory of them back. Their text
        stays in the history of the thread, and the next summary may cover it: only
        retention.forget_faded(), forget_turns() and forget_thread() delete it too.

        Args:
            scope: application and user.
            policy: a RetentionPolicy or its name. Its later stages do not count here.
            dry_run: only report what would be erased.
        """
        return await self.retention.cleanup(scope, policy, dry_run=dry_run)

    def export(
        self, scope: Scope | None = None, *, app: str | None = None, vectors: bool = False
    ) -> AsyncGenerator[str, None]:
        """Yield everything of a user, or of all users of an application, as lines of JSON.

        The lines are of one moment and have no line ends: a header, the rows in a fixed order, an
        end that counts them. So two exports of the same are equal. Memory use does not grow with
        them. Close the iterator (contextlib.aclosing) if you leave it early.

        Args:
            vectors: include the vectors; without them an import computes them.
        """
        return self.transfer.export(scope, app=app, vectors=vectors)

    async def import_lines(
        self,
        source: str | Path | Iterable[bytes | str],
        *,
        restore: bool = False,
        text_of_field: TextOfField | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ImportedLines:
        """Write the rows of an export that are not here, for the user or application it names.

        Rows are written in batches, each a transaction. The same export may be imported again, also
        after an interruption: rows that are here stay as they are. An active session of the export
        has ended if the user has another one here.

        Args:
            source: a file, which is checked to its end before anything is written; or lines,
                checked as they come. A list is first checked for what was forgotten here.
            restore: bring back what was forgotten or erased here, instead of refusing it.
            text_of_field: returns the text that was embedded under a name of a value, for items
                with fields of their own.
            progress: called with the number of lines read.

        Raises:
            InvalidInput: a line cannot be read; the message names it.
            Conflict: a line cannot be written beside what is here; the message names it.
            NotFound: there is no such file.
        """
        return await self.transfer.import_lines(
            source, restore=restore, text_of_field=text_of_field, progress=progress
        )

    async def reembed(
        self,
        embedder: object,
        *,
        drop_old: bool = False,
        text_of_field: TextOfField | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ReembedReport:
        """Compute the vectors of another model for everything that has some, then switch to it.

        Until the switch the old model serves everybody; afterwards a memory must be opened with the
        new one. Called again after an interruption, it computes the rest; called again later, also
        what others stored with the old model meanwhile.

        Args:
            embedder: the new model, in the forms of open_memory().
            drop_old: delete the old vectors at the end.
            text_of_field: returns the text that was embedded under a name of a value, for items
                with fields of their own.
            progress: called with the number of vectors computed.

        Raises:
            ModelUnavailable: the embedder failed. Its vectors so far stay; nothing else changed.
        """
        return await reembedding.reembed(
            self._handle, resolve_embedder(embedder), drop_old=drop_old,
            text_of_field=text_of_field, progress=progress,
        )  # fmt: skip

    async def dsn(self) -> str:
        """Return how to connect to the database of this memory, password included.

        A libpq string, e.g. for LangGraph's PostgreSQL checkpointer; on SeekDB and OceanBase the
        uri itself, which that checkpointer cannot use. An embedded server runs as long as this
        memory, or another user of its folder, is open.
        """
        storage = await self._handle.storage()
        return await storage.dsn()

    async def report(self) -> StorageReport:
        """Return the engine behind this memory, with its versions, role, model and size."""
        storage = await self._handle.storage()
        return await storage.report()
