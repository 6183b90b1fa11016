"""Conversations as a repository keeps them, threads of memory, and the log of pipelines."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, cast, get_args
from uuid import UUID

from shared_core.core.domain import Event, JsonValue, ThreadId
from shared_core.core.namespaces import check_label, clean_text
from shared_core.errors import InvalidInput, NotFound
from shared_core.ingest.events import append_events
from shared_core.ports.conversations import CONVERSATION, check_thread
from shared_core.ports.profiles import StageLog, StageRecord, StageStatus, ThreadOverview
from shared_core.ports.storage import Clock
from shared_core.profiles.memory import checked_id
from shared_core.profiles.stage_log import STAGES
from shared_core.profiles.transcript import (
    SessionConversation,
    conversation_of,
    event_of,
    summary_of,
    topics_of,
)
from shared_core.profiles.versions import ProfileStore, checked_limit

MOST_TURNS: Final = 5_000
LOGGED_CHARACTERS: Final = 100
MARKS: Final = ("to_seq", "read")
"""What the input of a stage says of the turns that a profile has read: the library's own."""


class ConversationRecords(ProfileStore):
    """Conversations of a scope, and the log of pipelines."""

    async def save_conversation(self, conversation: object) -> str:
        """Remember a conversation as a thread; return its id. Known messages are passed over."""
        given = conversation_of(conversation, self._clock())
        await self._append(given.conversation_id, given.events)
        return given.conversation_id

    async def save_conversation_message(self, conversation_id: str, message: object) -> str:
        """Remember one message of a conversation; return its id.

        One without an id is a new one each time, whatever it says: give it a "message_id" to send
        it again after a lost answer.
        """
        thread_id = check_thread(conversation_id, "conversation_id")
        await self._open()
        event = event_of(message, 0, self._clock())
        await self._append(thread_id, [event])
        return event.event_id

    async def load_conversation(self, conversation_id: str) -> SessionConversation:
        """Return the remembered messages of a conversation, the last 5,000. NotFound for none."""
        thread_id = ThreadId(check_label(conversation_id, "conversation_id"))
        await self._open()
        events = await self._storage.thread_events(self.scope, thread_id, MOST_TURNS)
        if not events:
            raise NotFound(
                f"there is no conversation {conversation_id!r} in {self.scope}:"
                " get_recent_conversations() lists them"
            )
        return SessionConversation(conversation_id=thread_id, events=tuple(events))

    async def get_recent_conversations(
        self, agent_id: str | None = None, limit: int = 10
    ) -> Sequence[ThreadOverview]:
        """Return the conversations of last, newest first; agent_id: in which this author spoke.

        Each with what it is about: its summary, where consolidation wrote none the sentences of the
        user that say most, and its topics, of the last fifty turns.
        """
        await self._open()
        found = await self._storage.recent_threads(self.scope, agent_id, checked_limit(limit))
        return await asyncio.to_thread(lambda: [_about(one) for one in found])

    async def log_pipeline_execution(
        self,
        memory_id: UUID | str,
        conversation_id: str | None,
        stage: str,
        result: StageRecord | Mapping[str, JsonValue],
    ) -> UUID:
        """Log a stage that somebody else executed; return the id of its run.

        result: counts and ids, no text of a user: a log outlives what is forgotten.
        """
        if stage not in STAGES:
            raise InvalidInput(f"stage {stage!r} is not known: take one of {', '.join(STAGES)}")
        stored = await self._stored(memory_id)
        record = result if isinstance(result, StageRecord) else _record(stage, result, self._clock)
        named = None if conversation_id is None else check_label(conversation_id, "conversation_id")
        run = replace(
            self._run({"logged": True}), stages=(_of_others(stage, record),),
            thread_id=None if named is None else ThreadId(named),
        )  # fmt: skip
        await self._storage.save_profile(self.scope, stored.version.memory_id, run, None, None)
        return run.run_id

    async def get_pipeline_history(
        self, memory_id: UUID | str, limit: int = 100
    ) -> Sequence[StageLog]:
        """Return the stages of the last runs about a memory, newest run first."""
        await self._open()
        found = checked_id(memory_id)
        return await self._storage.pipeline_history(self.scope, found, checked_limit(limit))

    async def _as_remembered(
        self, given: SessionConversation, *, follows: bool
    ) -> tuple[SessionConversation, set[str]]:
        """Return a conversation with the turns that are known as they were remembered.

        And the ids of those that were forgotten: nothing is to be learned from them again. follows:
        it was read from the thread itself; else raises InvalidInput for another text under a known
        id, and for a new turn of a session.
        """
        thread_id, ids = given.conversation_id, [event.event_id for event in given.events]
        known = await self._storage.thread_events(self.scope, thread_id, MOST_TURNS)
        forgotten = await self._storage.forgotten_turns(self.scope, thread_id, ids)
        by_id = {event.event_id: event for event in known}
        for event in () if follows else given.events:
            self._check_known(thread_id, event, by_id.get(event.event_id), forgotten)
        events = tuple(by_id.get(event.event_id, event) for event in given.events)
        return replace(given, events=events), forgotten

    def _check_known(
        self, thread_id: ThreadId, event: Event, known: Event | None, forgotten: set[str]
    ) -> None:
        if known is None:
            if thread_id.startswith(CONVERSATION) and event.event_id not in forgotten:
                check_thread(thread_id, "conversation_id")
            return
        if known.text not in (event.text, self._intake.event(event).text):
            raise InvalidInput(
                f"conversation {thread_id!r} has another message {event.event_id!r} already: give"
                " a message that says something else an id of its own"
            )

    async def _append(self, thread_id: ThreadId, events: Sequence[Event]) -> None:
        await self._open()
        await append_events(
            self._storage, self._embedding, self.scope, thread_id, events, intake=self._intake
        )


def _about(thread: ThreadOverview) -> ThreadOverview:
    summary = thread.summary or summary_of(thread.said)
    return replace(thread, summary=summary, topics=topics_of(thread.said))


def _of_others(stage: str, record: StageRecord) -> StageRecord:
    """Return the record of a stage that somebody else executed: it marks no turn as read."""
    if not math.isfinite(record.duration_s):
        raise InvalidInput(f"the time of a stage must be a finite number, not {record.duration_s}")
    given = {name: value for name, value in record.input.items() if name not in MARKS}
    error = None if record.error is None else clean_text(record.error)
    return replace(record, stage=stage, input=given, error=error)


def _record(stage: str, result: Mapping[str, JsonValue], clock: Clock) -> StageRecord:
    """Return the record of a stage from a dict, by the documented names."""
    if not isinstance(result, Mapping):
        raise InvalidInput(f"the result of a stage is a StageRecord or a dict, not {result!r:.80}")
    known = ("status", "error_message", "execution_time_ms")
    status, error, spent = (result.get(name) for name in known)
    if status is not None and status not in get_args(StageStatus):
        raise InvalidInput(
            f"status must be one of {', '.join(get_args(StageStatus))}, not {status!r}"
        )
    output = {name: value for name, value in result.items() if name not in known}
    for name, value in {**output, "error_message": error}.items():
        is_text = isinstance(value, str) and len(value) > LOGGED_CHARACTERS
        if is_text or isinstance(value, Mapping):
            raise InvalidInput(
                f"{name!r} of a stage must be a number, an id or a short word: a log outlives what"
                " is forgotten, so it holds no text of a user"
            )
    return StageRecord(
        stage=stage,
        status=cast(StageStatus, status or ("error" if error else "success")),
        input={},
        output=output,
        started_at=clock(),
        duration_s=float(spent) / 1000 if isinstance(spent, int | float) else 0.0,
        error=None if error is None else str(error),
    )
