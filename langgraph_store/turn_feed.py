"""Appends the new turns of a run to the memory in one round trip, without failing the run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from langgraph_store.branches import SeenTurn, abandoned, removed, seen
from langgraph_store.messages import NOTHING_KNOWN, digest_of, turns_of
from langgraph_store.run_identity import RunIdentity, current_config
from shared_core import Event, InvalidInput, MemoryEngine, Scope
from shared_core.core import log_failure
from shared_core.ports import ExtractionStrategy, check_delay

REMEMBERED_THREADS = 1_000
"""Number of threads for which the feed remembers appended turns, to send none twice."""


SPARE_IDS = 200
"""Number of ids to remember beyond twice the messages of a thread."""

MOST_READ = 1_000
"""Number of the last turns of a thread in which a branch is looked for."""


class _Thread(NamedTuple):
    """What this process knows of a thread.

    words: the turns that it handed over, by their ids, with digest_of() their texts. state: the
    turns of the state after the last run.
    """

    words: Mapping[str, int] = NOTHING_KNOWN
    state: Sequence[SeenTurn] = ()


class TurnFeed:
    """Appends the new turns of a run, and queues their consolidation.

    The database decides which turns are new; turns that this process has sent are not sent again
    unless their words changed. failures: number of failed hand-overs; each is logged.
    """

    def __init__(
        self,
        engine: MemoryEngine,
        identity: RunIdentity,
        *,
        delay_s: float | None = None,
        tool_results: bool = False,
        strategy: ExtractionStrategy | None = None,
        session_end: bool = False,
    ) -> None:
        if delay_s is not None:
            check_delay(delay_s)
        self.failures = 0
        self._engine = engine
        self._identity = identity
        self._delay_s = delay_s
        self._strategy = strategy
        self._session_end = session_end
        self._tool_results = tool_results
        self._threads: OrderedDict[tuple[Scope, str], _Thread] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, config: RunnableConfig, runtime: Runtime[Any] | None = None) -> tuple[Scope, str]:
        """Return the scope and the thread of a run. Raises InvalidInput without them."""
        return self._identity.scope(config, runtime), self._identity.thread(config, runtime)

    def removed(
        self, scope: Scope, thread_id: str, messages: Sequence[BaseMessage], *, at_begin: bool
    ) -> list[str]:
        """Return the ids of the turns that left the state since the last run of the thread.

        Known in the process that did that run; at_begin as of branches.removed().
        """
        last = self._threads.get((scope, thread_id), _Thread()).state
        return removed(last, seen(self._turns(messages, thread_id)), at_begin=at_begin)

    async def hand_over(
        self,
        scope: Scope,
        thread_id: str,
        messages: Sequence[BaseMessage],
        *,
        left: Sequence[str] = (),
        forked_at: datetime | None = None,
        state: Sequence[BaseMessage] | None = None,
    ) -> None:
        """Append the new turns among messages. Raises InvalidInput for turns that cannot be stored.

        Other errors are logged and counted; the next hand-over of the thread sends the turns again.

        Args:
            left: ids of turns that left the thread.
            forked_at: the run was told to start from a checkpoint of this time.
            state: the messages that the next run begins with, if these are others.
        """
        try:
            if forked_at is not None:
                left = [*left, *await self._abandoned(scope, thread_id, messages, forked_at)]
            if left:
                await self._engine.leave_turns(scope, thread_id, left)
                self._note(scope, thread_id, gone=left)
            await self.append(scope, thread_id, messages)
            turns = self._turns(messages if state is None else state, thread_id)
            self._note(scope, thread_id, state=seen(turns))
        except InvalidInput:
            raise
        except Exception as error:  # noqa: BLE001
            self.failures += 1
            log_failure(f"handing over turns of thread {thread_id!r}", error)

    async def append(self, scope: Scope, thread_id: str, messages: Sequence[BaseMessage]) -> bool:
        """Append the new turns among messages; return whether there were any. Re-raises errors."""
        known = self._threads.get((scope, thread_id), _Thread()).words
        turns = self._turns(messages, thread_id, known)
        if not turns:
            if self._session_end:
                await self._engine.end_session(scope, thread_id, strategy=self._strategy)
            return False
        now = await self._engine.now()  # of the server; needs the database
        if zone := self._identity.zone(current_config()):
            now = now.astimezone(zone)
        turns = [replace(turn, occurred_at=now) for turn in turns]
        # If this process knows none of the ids, each run may make new ones.
        new = await self._engine.append_events(
            scope,
            thread_id,
            turns,
            later=True,
            delay_s=self._delay_s,
            unseen=True,
            session_end=self._session_end,
            strategy=self._strategy,
            history=not any(message.id in known for message in messages),
        )
        words = {**known, **{turn.event_id: digest_of(turn.text) for turn in turns}}
        if len(words) > 2 * len(messages) + SPARE_IDS:
            # Messages that left the state rarely return; if they do, the database knows them.
            here = {message.id for message in messages}
            words = {event_id: digest for event_id, digest in words.items() if event_id in here}
        self._note(scope, thread_id, words=words)
        return bool(new or new.edited)

    async def _abandoned(
        self, scope: Scope, thread_id: str, messages: Sequence[BaseMessage], forked_at: datetime
    ) -> list[str]:
        stored = await self._engine.thread_turns(scope, thread_id, limit=MOST_READ)
        return abandoned(stored, seen(self._turns(messages, thread_id)), forked_at)

    def _turns(
        self,
        messages: Sequence[BaseMessage],
        thread_id: str,
        known: Mapping[str, int] = NOTHING_KNOWN,
    ) -> list[Event]:
        return turns_of(
            messages, thread_id, datetime.now(UTC), known=known, tool_results=self._tool_results
        )

    def _note(
        self,
        scope: Scope,
        thread_id: str,
        *,
        words: Mapping[str, int] | None = None,
        state: Sequence[SeenTurn] | None = None,
        gone: Collection[str] = (),
    ) -> None:
        """Note what this process knows of a thread now; gone: ids that it knows no more."""
        thread = (scope, thread_id)
        with self._lock:
            known = self._threads.get(thread, _Thread())
            kept = known.words if words is None else words
            kept = {event_id: digest for event_id, digest in kept.items() if event_id not in gone}
            self._threads[thread] = _Thread(kept, known.state if state is None else state)
            self._threads.move_to_end(thread)
            while len(self._threads) > REMEMBERED_THREADS:
                self._threads.popitem(last=False)
