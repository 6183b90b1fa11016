"""Appends the new turns of a run to the memory in one round trip, without failing the run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from langgraph_store.messages import turns_of
from langgraph_store.run_identity import RunIdentity, current_config
from shared_core import InvalidInput, MemoryEngine, Scope
from shared_core.core import log_failure
from shared_core.ports import ExtractionStrategy, check_delay

REMEMBERED_THREADS = 1_000
"""Number of threads for which the feed remembers appended turns, to send none twice."""


SPARE_IDS = 200
"""Number of ids to remember beyond twice the messages of a thread."""


class TurnFeed:
    """Appends the new turns of a run, and queues their consolidation.

    The database decides which turns are new; turns that this process has sent are not sent again.
    failures: number of failed hand-overs; each is logged.
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
        self._handed_over: OrderedDict[tuple[Scope, str], frozenset[str]] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, config: RunnableConfig, runtime: Runtime[Any] | None = None) -> tuple[Scope, str]:
        """Return the scope and the thread of a run. Raises InvalidInput without them."""
        return self._identity.scope(config, runtime), self._identity.thread(config, runtime)

    async def hand_over(
        self, scope: Scope, thread_id: str, messages: Sequence[BaseMessage]
    ) -> None:
        """Append the new turns among messages. Raises InvalidInput for turns that cannot be stored.

        Other errors are logged and counted; the next hand-over of the thread sends the turns again.
        """
        try:
            await self.append(scope, thread_id, messages)
        except InvalidInput:
            raise
        except Exception as error:  # noqa: BLE001
            self.failures += 1
            log_failure(f"handing over turns of thread {thread_id!r}", error)

    async def append(self, scope: Scope, thread_id: str, messages: Sequence[BaseMessage]) -> bool:
        """Append the new turns among messages; return whether there were any. Re-raises errors."""
        thread = (scope, thread_id)
        known = self._handed_over.get(thread, frozenset())
        turns = turns_of(
            messages, thread_id, datetime.now(UTC), known=known, tool_results=self._tool_results
        )
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
        known = known | {turn.event_id for turn in turns}
        if len(known) > 2 * len(messages) + SPARE_IDS:
            # Messages that left the state rarely return; if they do, the database knows them.
            known = known & {message.id or "" for message in messages}
        with self._lock:
            self._handed_over[thread] = known
            self._handed_over.move_to_end(thread)
            while len(self._handed_over) > REMEMBERED_THREADS:
                self._handed_over.popitem(last=False)
        return bool(new)
