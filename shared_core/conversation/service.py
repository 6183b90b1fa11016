"""The conversation layer: conversations that open and end by themselves, and answers to inputs.

Document 003: one call stores an input and returns the memories relevant to it. The turns of the
conversation itself resolve the pronouns of the input, and are never returned.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

from shared_core.conversation.answers import (
    CANDIDATES,
    AnswerHit,
    DebuggedInput,
    FoundRelation,
    ProcessedInput,
    StatusOfSession,
    answer_hits,
    debug_answer,
    found_memories,
    past_relations,
    past_text,
    status_answer,
)
from shared_core.conversation.settings import (
    CHECK_INTERVAL_S,
    VARIABLES,
    ConversationSettings,
    load_conversation_settings,
)
from shared_core.conversation.strategies import (
    MemoryStrategy,
    StrategyExtractor,
    resolve_strategies,
)
from shared_core.core.domain import Event, Hit, Scope, ThreadId
from shared_core.core.environment import PREFIX
from shared_core.core.event_loops import PeriodicTask, in_background
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import check_label, clean_text, scope_path
from shared_core.core.telemetry import measured
from shared_core.errors import Conflict, InvalidInput, MemoryCoreError, StorageUnavailable
from shared_core.ingest.events import checked_event
from shared_core.ingest.items import page_bounds
from shared_core.jobs.scheduled_task import ScheduledTask
from shared_core.knowledge.facts import list_facts
from shared_core.knowledge.past_facts import ended_facts, past_slots
from shared_core.nlp.coreference import has_pronoun, resolve_query
from shared_core.nlp.question_subject import mentioned
from shared_core.nlp.relation_phrases import asked_kin, relations_for_question
from shared_core.policies import conversations as policies
from shared_core.policies.facts import FactQuery
from shared_core.ports.conversations import CONVERSATION, Heard, Session, Speaker
from shared_core.ports.jobs import JobPriority, JobType, NewJob
from shared_core.ports.operations import PolicyFactory
from shared_core.ports.runs import Fact
from shared_core.privacy.sanitizing import ASKED_BEFORE, asks_before, off_loop
from shared_core.recall.query import RecallOptions

if TYPE_CHECKING:
    from shared_core.jobs.worker import Worker
    from shared_core.lifecycle import Handle
    from shared_core.ports.storage import Extractor, Vectors
    from shared_core.recall.service import Recall

T = TypeVar("T")
log = logging.getLogger("hippocampus")

MOST_RELATIONS: Final = 10
MAX_INPUT_CHARACTERS: Final = 100_000
MAX_QUERY_CHARACTERS: Final = 2_000
"""Maximum characters of the end of an input that recall searches with."""
MAX_TURN_CHARACTERS: Final = 4_000
"""Maximum characters of the end of each earlier turn that may resolve a pronoun."""
SENTENCE_BEGINS: Final = re.compile(r"[.!?]\s+|[。！？\n]\s*")
TRIES: Final = 64
"""Most tries to store an input. A try fails only if the conversation ended meanwhile."""


class ConversationOptions:
    """Settings and strategies of the conversation layer, resolved at first use.

    given: settings that replace those of the environment.
    """

    def __init__(self, given: ConversationSettings | None = None) -> None:
        self._given = given

    @cached_property
    def settings(self) -> ConversationSettings:
        """When a conversation ends. Raises InvalidInput for an invalid environment variable."""
        return self._given or load_conversation_settings()

    @cached_property
    def strategies(self) -> Sequence[MemoryStrategy]:
        """The strategies, in the order they run. Raises InvalidInput for an unknown name."""
        return resolve_strategies(self.settings.strategies)

    def check(self) -> None:
        """Raise InvalidInput for an invalid environment variable or an unknown strategy."""
        _ = self.strategies


def check_conversation_variables() -> None:
    """Raise InvalidInput, naming the variable, for a setting with our prefix and a wrong value."""
    named = load_conversation_settings(without_prefix=False).strategies
    try:
        resolve_strategies(named)
    except InvalidInput as error:
        variable = f"{PREFIX}{VARIABLES['strategies']}"
        raise InvalidInput(f"{variable} is not valid: {error}") from error


async def strategy_extractor(
    handle: Handle,
    options: ConversationOptions,
    scope: Scope,
    thread_id: ThreadId,
    extractor: Extractor,
) -> StrategyExtractor | None:
    """Return the extractor of a conversation, or None for a thread of another layer."""
    if not thread_id.startswith(CONVERSATION):
        return None
    storage = await handle.storage()
    [found] = await storage.read(scope_path(scope), [policies.conversation_of_thread(thread_id)])
    if not found:
        return None
    return StrategyExtractor(extractor, options.strategies, scope.user, thread_id)


class Conversations:
    """Conversations of users, and answers to their inputs: engine.conversations.

    in_background: whether this process ends conversations that are over; if not, others do.
    """

    def __init__(
        self,
        handle: Handle,
        recall: Recall,
        worker: Worker,
        options: ConversationOptions,
        *,
        in_background: bool = True,
    ) -> None:
        self._handle = handle
        self._clock = handle.clock
        self._recall = recall
        self._worker = worker
        self._options = options
        self.expiry = ConversationExpiry(
            handle, self._end_if_over, self._check_interval_s, in_background=in_background
        )

    @property
    def settings(self) -> ConversationSettings:
        """When a conversation ends. Raises InvalidInput for an environment that cannot be used."""
        return self._options.settings

    def check(self) -> None:
        """Raise InvalidInput for an invalid environment variable or an unknown strategy."""
        self._options.check()

    def scope(self, user_id: str | None, app: str | None) -> Scope:
        """Return the scope of a user. Raises InvalidInput for an unusable id or application."""
        scope = Scope(
            self.settings.app if app is None else check_label(app, "app"),
            check_label(user_id, "user_id"),
        )
        scope_path(scope)
        return scope

    @measured("process")
    async def process(
        self, input: str, scope: Scope, event_id: str | None = None
    ) -> ProcessedInput:
        """Store an input in the conversation of a user, and return the memories relevant to it.

        event_id: an input with a known id is stored once, even after its conversation ended. With
        a different text in a later conversation it counts as new. An input with the id of a
        forgotten or erased one is not stored, and the metadata say so.
        """
        text = checked_input(input)
        if event_id is not None:
            check_label(event_id, "event_id")
        self._options.check()  # before anything is stored
        await self._handle.storage()
        began = time.perf_counter()
        turn, once = await self._turn(scope, text, event_id), event_id is not None
        heard, embedded = await self._heard_and_embedded(text, turn, scope, once=once)
        found = await self._find(
            scope, text, heard, heard.session.events, embedded,
            known_in=heard.earlier, event_id=turn.event_id,
        )  # fmt: skip
        self._recall.count(scope, [one.hit for one in found.answers])
        self.expiry.nudge()
        return _answer(found, began, forgotten=heard.forgotten)

    async def debug(self, input: str, scope: Scope, limit: int = CANDIDATES) -> DebuggedInput:
        """Return what process() would answer, and why, without storing the input or counting reads.

        limit: maximum number of the candidates that the answer shows, best first.
        """
        limit, _ = page_bounds(limit, 0)
        text = checked_input(input)
        session = await self.active(scope)
        began = time.perf_counter()
        kin = asked_kin(text[-MAX_QUERY_CHARACTERS:])
        thread, size = session.session_id if session else None, self.settings.context_size
        storage = await self._handle.storage()
        around = await storage.conversations.around_input(scope, thread, size, kin)
        found = await self._find(scope, text, around, around.turns)
        answer, hits = _answer(found, began), found.candidates[:limit]
        return debug_answer(input, answer, session, hits, self._clock())

    async def _find(
        self,
        scope: Scope,
        text: str,
        speaker: Speaker,
        earlier: Sequence[Event],
        embedded: tuple[Vectors | None, bool] | None = None,
        *,
        known_in: ThreadId | None = None,
        event_id: str = "",
    ) -> _InputRecall:
        """Return the memories and relations relevant to an input.

        earlier: the turns before it. known_in: the ended conversation that holds the input already;
        its memories and the edges of the turn event_id are left out.
        """
        resolved = resolve_query(text, ends_of(earlier))
        asked = resolved[-MAX_QUERY_CHARACTERS:]
        named = [*mentioned(asked), *speaker.kin]
        options = RecallOptions(
            now=self._clock(), limit=CANDIDATES, about=speaker.kin, least_candidates=0,
            embedded=embedded if resolved == text else None, merged_only=True,
        )  # fmt: skip
        found = await self._recall.find(scope, asked, options, counted=False)
        past = await self._past(scope, asked)
        hits, edges = [*found.merged], [*found.graph_results]
        if known_in:
            hits = [hit for hit in hits if hit.memory.thread_id != known_in]
            edges = [edge for edge in edges if event_id not in edge.source_event_ids]
        return _InputRecall(
            resolved=resolved,
            candidates=hits,
            answers=await off_loop(
                (hit.memory.text for hit in hits), lambda: answer_hits(hits, asked, edges)
            ),
            past=past,
            relations=[
                *past_relations(past, asked, speaker.user_name),
                *relations_for_question(edges, asked, speaker.user_name, named, MOST_RELATIONS),
            ][:MOST_RELATIONS],
        )

    async def _past(self, scope: Scope, asked: str) -> list[Fact]:
        """Return the ended facts that an input about the past asks for."""
        storage = await self._handle.storage()
        now = self._clock()
        kept: list[Fact] = []
        for slot in sorted(past_slots(asked)):
            query = FactQuery(now=now, slot=slot, history=True)
            kept += await list_facts(storage, scope, query)
        return ended_facts(kept, now)

    async def _heard_and_embedded(
        self, text: str, turn: Event, scope: Scope, *, once: bool
    ) -> tuple[Heard, tuple[Vectors | None, bool] | None]:
        """Store an input, and embed it meanwhile unless earlier turns may change its words."""
        asked = text[-MAX_QUERY_CHARACTERS:]
        storing = self.hear(scope, turn, asked_kin(asked), once=once)
        if asked == text and has_pronoun(text):
            return await storing, None
        embedding = self._recall.embedded(asked)
        return await asyncio.gather(storing, embedding)

    async def hear(
        self, scope: Scope, turn: Event, kin: Sequence[str] = (), *, once: bool = False
    ) -> Heard:
        """Append a turn to the active session, or to a new one if that is over.

        once: do not append it again if an earlier session holds it.
        """
        storage = await self._handle.storage()
        size = self.settings.context_size
        for _ in range(TRIES):
            heard = await storage.conversations.hear_turn(
                scope, self.new_id(), turn, self.settings.rules, size, kin, once=once
            )
            if heard.stored:
                return heard
            await self.end(scope, if_over=True)
        raise Conflict(f"the session of {scope.user!r} ended {TRIES} times while an input came")

    async def open(self, scope: Scope) -> Session:
        """Return the active session of a user; a new one if there is none, or it is over."""
        await self.end(scope, if_over=True)
        rules, now = self.settings.rules, self._clock()
        return await self._transact(
            scope, partial(policies.open_conversation, scope, self.new_id(), rules, now)
        )

    async def add(self, scope: Scope, event: Event | str) -> Session:
        """Append an event, or a text of the user, to the active session; return the session."""
        if isinstance(event, Event):
            turn = await self._storable(scope, checked_event(event))
        else:
            turn = await self._turn(scope, checked_input(event))
        return (await self.hear(scope, turn)).session

    async def events(self, scope: Scope, limit: int) -> Sequence[Event]:
        """Return the last events of the active session of a user, oldest first."""
        limit, _ = page_bounds(limit, 0)
        session = await self.active(scope)
        if session is None:
            return []
        storage = await self._handle.storage()
        return await storage.events.thread_events(scope, session.session_id, limit)

    async def end(self, scope: Scope, *, if_over: bool = False) -> Session | None:
        """End the session of a user, enqueue its consolidation, and return it, or None."""
        rules, now = self.settings.rules, self._clock()
        job = NewJob(
            job_id=uuid7(), job_type=JobType.DEEP_REFLECTION, run_after=now,
            priority=JobPriority.SESSION_END,
        )  # fmt: skip
        ended = await self._transact(
            scope, partial(policies.end_conversation, scope, job, rules, now, if_over=if_over)
        )
        if ended and ended.event_count:
            self._worker.hand_over(scope, ended.session_id)
        return ended

    async def active(self, scope: Scope) -> Session | None:
        """Return the active session of a user without events, or None."""
        storage = await self._handle.storage()
        [found] = await storage.read(scope_path(scope), [policies.active_conversation()])
        session = policies.session_of(scope, found[0]) if found else None
        if session is None or policies.is_over(session, self.settings.rules, self._clock()):
            return None
        return session

    async def _transact(self, scope: Scope, policy: PolicyFactory[T]) -> T:
        """Run a policy, and once more if a turn opened a session meanwhile."""
        storage = await self._handle.storage()
        try:
            return await storage.transact(scope_path(scope), policy)
        except Conflict:
            return await storage.transact(scope_path(scope), policy)

    async def status(self, scope: Scope) -> StatusOfSession:
        """Return whether a user has an active session, and its state."""
        return status_answer(await self.active(scope), self._clock())

    async def _end_if_over(self, scope: Scope) -> bool:
        return await self.end(scope, if_over=True) is not None

    def _check_interval_s(self) -> float:
        try:
            return self.settings.check_interval_s
        except InvalidInput:  # process() and each search raise it themselves
            return CHECK_INTERVAL_S

    def new_id(self) -> ThreadId:
        """Return an id for a new session."""
        return ThreadId(f"{CONVERSATION}{uuid7()}")

    async def _turn(self, scope: Scope, text: str, event_id: str | None = None) -> Event:
        event = Event(
            event_id=event_id or str(uuid7()), author="user", role="user", text=text,
            occurred_at=self._clock(),
        )  # fmt: skip
        return await self._storable(scope, event)

    async def _storable(self, scope: Scope, event: Event) -> Event:
        """Return a turn as it may be stored. An earlier turn may name what its value opens."""
        earlier = await self.events(scope, ASKED_BEFORE) if asks_before([event]) else []
        mask = self._handle.sanitizer.events
        [turn] = await off_loop([event.text], lambda: mask([event], earlier))
        return turn


@dataclass(frozen=True, slots=True, kw_only=True)
class _InputRecall:
    """The memories relevant to an input. answers: the hits that answer it; candidates: all hits.

    past: ended facts that the input asks for.
    """

    resolved: str
    candidates: Sequence[Hit]
    answers: Sequence[AnswerHit]
    past: Sequence[Fact]
    relations: Sequence[tuple[str, str, str]]


def _answer(found: _InputRecall, began: float, *, forgotten: bool = False) -> ProcessedInput:
    memories = found_memories(found.answers, [past_text(fact) for fact in found.past])
    relations: list[FoundRelation] = [
        {"source": source, "relation": relation, "target": target}
        for source, relation, target in found.relations
    ]
    answer: ProcessedInput = {
        "status": "success",
        "resolved_query": found.resolved,
        "memories": memories,
        "relations": relations,
        "metadata": {
            "retrieval_time_ms": round(1000 * (time.perf_counter() - began)),
            "has_memory": bool(memories or relations),
        },
    }
    if forgotten:
        answer["metadata"]["taken_in"] = False
    return answer


def ends_of(events: Sequence[Event]) -> list[Event]:
    """Return events with only the end of long texts, from the start of a sentence if possible."""
    return [
        replace(one, text=_end_of(one.text)) if len(one.text) > MAX_TURN_CHARACTERS else one
        for one in events
    ]


def _end_of(text: str) -> str:
    end = text[-MAX_TURN_CHARACTERS:]
    begins = SENTENCE_BEGINS.search(end)
    return end[begins.end() :] if begins else end


def checked_input(input: object) -> str:
    """Return an input as it can be stored, with U+FFFD for characters no database holds.

    Raises InvalidInput unless it is a text with words of at most MAX_INPUT_CHARACTERS.
    """
    if not isinstance(input, str):
        raise InvalidInput(f"input must be a text, got {type(input).__name__}")
    if not input.strip():
        raise InvalidInput("input must not be empty or blank: pass the text of the user")
    if len(input) > MAX_INPUT_CHARACTERS:
        raise InvalidInput(
            f"input must have at most {MAX_INPUT_CHARACTERS:,} characters, got {len(input):,}: pass"
            " the text of the user, and store documents elsewhere"
        )
    return clean_text(input).strip()


EXPIRY: Final = "end_sessions"
LEASE_S: Final = 60.0
BATCH: Final = 100
"""Number of conversations ended between two renewals of the lease."""


class ConversationExpiry(PeriodicTask):
    """Ends conversations that are over, of all users, in one process at a time.

    end: ends the conversation of one scope if it is over, and returns whether it did. every_s:
    least seconds between two searches. After an input, the search sleeps until the next
    conversation ends; it stops when none is active.
    """

    def __init__(
        self,
        handle: Handle,
        end: Callable[[Scope], Awaitable[bool]],
        every_s: Callable[[], float],
        *,
        in_background: bool = True,
    ) -> None:
        super().__init__()
        self._handle = handle
        self._clock = handle.clock
        self._end = end
        self._every_s = every_s
        self._in_background = in_background

    async def run(self) -> int:
        """End the conversations that are over, unless another process does; return the number."""
        return (await self._run())[0]

    async def _run(self) -> tuple[int, datetime | None]:
        """Return the number of ended conversations, and when the next one ends, or None."""
        storage = await self._handle.storage()
        worker_id = uuid4().hex
        task = ScheduledTask(storage, EXPIRY)
        if not await task.take(worker_id, self._clock(), LEASE_S):
            return 0, self._clock()
        ended = 0
        try:
            while True:
                over, next_end = await storage.conversations.conversations_over(BATCH)
                went = [await self._end(scope) for scope in over]
                ended += sum(went)
                if not any(went):
                    return ended, next_end
                await task.keep(worker_id, self._clock(), LEASE_S)
        finally:
            now = self._clock()
            await task.end(worker_id, now, now, {"ended": ended})
            if ended:
                log.info("%d conversations ended: jobs of the queue draw their facts", ended)

    def _waits_s(self) -> tuple[float, float]:
        return 0.0, self._every_s()

    async def _look(self) -> None:
        try:
            await self.run()
        except MemoryCoreError as error:
            log.warning("conversations that are over are not ended: %s", error)

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        in_background.set(True)
        while True:
            try:
                _, next_end = await self._run()
            except StorageUnavailable:
                return  # the next input starts it again
            except MemoryCoreError as error:
                log.warning("conversations that are over are not ended: %s", error)
                next_end = self._clock()
            if next_end is None:
                return
            rest = next_end - self._clock()
            await asyncio.sleep(max(rest, timedelta(seconds=self._every_s())).total_seconds())
