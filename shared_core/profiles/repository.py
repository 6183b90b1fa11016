"""MemoryRepository: profiles and conversations of one scope, as stored, with all their versions."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_args
from uuid import UUID

from shared_core.core.domain import Event, JsonValue, Scope, ThreadId
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import check_label, clean_text, scope_path
from shared_core.core.shown import shown
from shared_core.core.telemetry import APPENDED, measured
from shared_core.core.validation import whole_number
from shared_core.errors import Conflict, InvalidInput, NotFound
from shared_core.ingest.events import append_events, texts_of, turn_rows
from shared_core.policies.profile_versions import drop_profile, save_profile
from shared_core.policies.profiles import (
    StoredReading,
    forgotten_turns,
    pipeline_history,
    profile_by_id,
    profile_of,
    reading_of,
    recent_threads,
    select_versions,
    turns_to_profile,
    version_of,
)
from shared_core.policies.setting_aside import turns_set_aside
from shared_core.ports.conversations import CONVERSATION, check_thread
from shared_core.ports.operations import PolicyFactory
from shared_core.ports.profiles import (
    NewVersion,
    ProfileRun,
    ProfileVersion,
    StageLog,
    StageRecord,
    StageStatus,
    StoredProfile,
    ThreadOverview,
    marks_id,
)
from shared_core.ports.storage import Clock
from shared_core.profiles.entries import Subject
from shared_core.profiles.memory import Memory, checked_id
from shared_core.profiles.pipeline import STAGES, PipelineResult, ProfilePipeline, Stages, counts_of
from shared_core.profiles.rows import entries_of, memory_of, redacted, version_draft, without
from shared_core.profiles.transcript import (
    SessionConversation,
    conversation_of,
    event_of,
    summary_of,
    topics_of,
)

if TYPE_CHECKING:
    from shared_core.lifecycle import Handle
    from shared_core.ports.events import EventRow
    from shared_core.ports.items import VectorRows

T = TypeVar("T")
MAX_VERSIONS = 1_000
KEEP_VERSIONS = 100
"""Number of versions kept of a profile; a new one drops the oldest."""


class ProfileStore:
    """Versions of the profiles of one scope: reads, and writes of a new version."""

    def __init__(
        self,
        scope: Scope,
        handle: Handle,
        pipeline: ProfilePipeline,
        keep_versions: int = KEEP_VERSIONS,
    ) -> None:
        is_whole = isinstance(keep_versions, int) and not isinstance(keep_versions, bool)
        if not (is_whole and 2 <= keep_versions <= MAX_VERSIONS):
            raise InvalidInput(
                f"keep_versions must be between 2 and {MAX_VERSIONS:,} (rollback needs an older"
                f" version), got {shown(keep_versions)}"
            )
        self.scope = scope
        self.keep_versions = keep_versions
        self.pipeline = pipeline
        self._handle = handle
        self._embedding = handle.embedding
        self._intake = handle.sanitizer
        self._clock = handle.clock

    @measured("profile_write", APPENDED, lambda written: len(written[1]))
    async def _write(
        self,
        memory: Memory,
        run: ProfileRun,
        turns: Sequence[EventRow] = (),
        *,
        known: StoredProfile | None = None,
    ) -> tuple[Memory, set[str]]:
        """Write the version after memory.version, if the content changed; return the new turns."""
        stored = await self._of(memory.agent_id, memory.subject)
        self._check_version(memory, stored)
        gone = stored.forgotten if stored else frozenset()
        memory = redacted(without(memory, gone), self._intake)
        same = stored is not None and stored.version.content_hash == memory.content_hash()
        entries = {**(entries_of(known) if known else {}), **(entries_of(stored) if stored else {})}
        required = [(run.thread_id, row.event.event_id) for row in turns if run.thread_id]
        draft = version_draft(
            self.scope, memory, entries, run.run_id, required, keep=self.keep_versions, revises=same
        )
        version = draft.version
        vectors = await self._embedding.rows([*texts_of(self.scope, turns), *draft.texts])
        if version is None and not turns and not run.stages and run.undoes is None:
            return memory, set()
        new = await self._save(memory.memory_id, run, version, vectors, turns)
        if version is not None:
            memory.version += not same
            memory.revision = memory.revision + 1 if same else 0
        memory.stored_hash = memory.content_hash()
        return memory, new

    def _check_version(self, memory: Memory, stored: StoredProfile | None) -> None:
        there = stored.version if stored else None
        if there is None and memory.version == 0:
            return
        is_newest = there is not None and (there.memory_id, there.version, there.revision) == (
            memory.memory_id, memory.version, memory.revision,
        )  # fmt: skip
        if not is_newest:
            raise Conflict(
                f"the {memory.subject} profile of {memory.agent_id!r} is at version"
                f" {there.version if there else 0}: it changed since this memory was loaded from"
                f" version {memory.version}. Load it again with"
                f" load_memory_by_agent({memory.agent_id!r}), and repeat the change"
            )

    async def _of(self, agent_id: str, subject: Subject) -> StoredProfile | None:
        if subject not in get_args(Subject):
            raise InvalidInput(f"subject must be 'user' or 'agent', got {shown(subject)}")
        return await self._query(lambda: profile_of(subject, agent_id))

    async def _stored(self, memory_id: UUID | str, version: int | None = None) -> StoredProfile:
        found = checked_id(memory_id)
        whole = version is None or (isinstance(version, int) and not isinstance(version, bool))
        if not whole or (version is not None and not 0 < version < 2**31):
            raise InvalidInput(f"version must be a whole number from 1, got {shown(version)}")
        stored = await self._query(lambda: profile_by_id(found, version))
        if stored is not None:
            return stored
        if known := await self._versions(found, MAX_VERSIONS):
            raise NotFound(
                f"memory {found} has no version {version}: its versions are {known[-1].version} to"
                f" {known[0].version}"
            )
        raise NotFound(
            f"there is no memory {found} in {self.scope}: find one with load_memory_by_agent(), or"
            " store a new one with save_memory()"
        )

    async def _versions(self, memory_id: UUID, limit: int) -> Sequence[ProfileVersion]:
        storage = await self._handle.storage()
        [rows] = await storage.read(scope_path(self.scope), [select_versions(memory_id, limit)])
        return [version_of(row) for row in rows]

    async def _query(self, reader: PolicyFactory[T]) -> T:
        """Return what a policy that only reads returns."""
        storage = await self._handle.storage()
        return await storage.query(scope_path(self.scope), reader)

    async def _save(
        self,
        memory_id: UUID,
        run: ProfileRun,
        version: NewVersion | None = None,
        vectors: VectorRows | None = None,
        turns: Sequence[EventRow] = (),
    ) -> set[str]:
        """Write a version and the record of its run; return the ids of turns that are new.

        Raises Conflict, and writes nothing, if the version is not the next one.
        """
        storage, now = await self._handle.storage(), self._clock()
        policy = partial(save_profile, self.scope, memory_id, run, version, vectors, turns, now)
        try:
            return await storage.transact(scope_path(self.scope), policy)
        except Conflict as error:
            raise Conflict(
                f"another call changed profile {memory_id}, or forgot a turn it was drawn from,"
                " since it was loaded: load it again and repeat"
            ) from error

    def _run(self, counts: Mapping[str, JsonValue]) -> ProfileRun:
        return ProfileRun(
            run_id=uuid7(), extractor=self.pipeline.name, started_at=self._clock(), counts=counts
        )


def checked_limit(limit: int) -> int:
    """Return a limit between 1 and MAX_VERSIONS."""
    return whole_number(limit, "limit", 1, MAX_VERSIONS)


MOST_TURNS: Final = 5_000
LOGGED_CHARACTERS: Final = 100
MARKS: Final = ("to_seq", "read")
"""Keys of a stage's input that mark turns as read; only the library writes them."""


class ConversationRecords(ProfileStore):
    """Conversations of a scope, and the log of pipelines."""

    async def save_conversation(self, conversation: object) -> str:
        """Store a conversation as a thread; return its id. Known messages are skipped."""
        given = conversation_of(conversation, self._clock())
        await self._append(given.conversation_id, given.events)
        return given.conversation_id

    async def save_conversation_message(self, conversation_id: str, message: object) -> str:
        """Store one message of a conversation; return its id.

        A message without an id is new each time. Set "message_id" to make a repeated call safe.
        """
        thread_id = check_thread(conversation_id, "conversation_id")
        event = event_of(message, 0, self._clock())
        await self._append(thread_id, [event])
        return event.event_id

    async def load_conversation(self, conversation_id: str) -> SessionConversation:
        """Return the last 5,000 messages of a conversation. Raises NotFound without any."""
        thread_id = ThreadId(check_label(conversation_id, "conversation_id"))
        storage = await self._handle.storage()
        events = await storage.events.thread_events(self.scope, thread_id, MOST_TURNS)
        if not events:
            raise NotFound(
                f"there is no conversation {conversation_id!r} in {self.scope}:"
                " get_recent_conversations() lists them"
            )
        return SessionConversation(conversation_id=thread_id, events=tuple(events))

    async def get_recent_conversations(
        self, agent_id: str | None = None, limit: int = 10
    ) -> Sequence[ThreadOverview]:
        """Return the latest conversations, newest first. agent_id: only those with this author.

        Each has its summary (by default, the user's most telling sentences) and its topics, both
        of the last 50 turns.
        """
        most, now = checked_limit(limit), self._clock()
        found = await self._query(lambda: recent_threads(agent_id, most, now))
        return await asyncio.to_thread(lambda: [_about(one) for one in found])

    async def log_pipeline_execution(
        self,
        memory_id: UUID | str,
        conversation_id: str | None,
        stage: str,
        result: StageRecord | Mapping[str, JsonValue],
    ) -> UUID:
        """Log a stage that a caller executed; return the id of its run.

        result: counts and ids, no text of a user, because a log outlives forgotten memories.
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
        await self._save(stored.version.memory_id, run)
        return run.run_id

    async def get_pipeline_history(
        self, memory_id: UUID | str, limit: int = 100
    ) -> Sequence[StageLog]:
        """Return the logged stages of a memory, newest run first."""
        found, most = checked_id(memory_id), checked_limit(limit)
        return await self._query(lambda: pipeline_history(found, most))

    async def _as_stored(
        self, given: SessionConversation, *, follows: bool
    ) -> tuple[SessionConversation, set[str]]:
        """Return a conversation with its known turns as stored, and the ids of forgotten turns.

        follows: whether it was read from the thread itself. Otherwise raises InvalidInput for a
        known id with a different text, and for a new turn of a process_memory() thread.
        """
        storage = await self._handle.storage()
        thread_id, ids = given.conversation_id, [event.event_id for event in given.events]
        known = await storage.events.thread_events(self.scope, thread_id, MOST_TURNS)
        [buried] = await storage.read(scope_path(self.scope), [forgotten_turns(thread_id, ids)])
        hidden, _ = await self._query(partial(turns_set_aside, thread_id, ids))
        forgotten = {row[0] for row in buried} | hidden
        by_id = {event.event_id: event for event in known}
        masked = () if follows else self._intake.events(given.events)
        for event, stored in zip(given.events, masked, strict=False):
            self._check_known(thread_id, (event, stored), by_id.get(event.event_id), forgotten)
        events = tuple(by_id.get(event.event_id, event) for event in given.events)
        return replace(given, events=events), forgotten

    def _check_known(
        self,
        thread_id: ThreadId,
        forms: tuple[Event, Event],
        known: Event | None,
        forgotten: set[str],
    ) -> None:
        """forms: the event as it was given, and as it may be stored."""
        event = forms[0]
        if known is None:
            if thread_id.startswith(CONVERSATION) and event.event_id not in forgotten:
                check_thread(thread_id, "conversation_id")
            return
        if known.text not in [form.text for form in forms]:
            raise InvalidInput(
                f"conversation {thread_id!r} already has another message {event.event_id!r}: give"
                " a message with a different text a different id"
            )

    async def _append(self, thread_id: ThreadId, events: Sequence[Event]) -> None:
        storage = await self._handle.storage()
        await append_events(
            storage, self._embedding, self.scope, thread_id, events,
            clock=self._handle.clock, intake=self._intake,
        )  # fmt: skip


def _about(thread: ThreadOverview) -> ThreadOverview:
    summary = thread.summary or summary_of(thread.user_texts)
    return replace(thread, summary=summary, topics=topics_of(thread.user_texts))


def _of_others(stage: str, record: StageRecord) -> StageRecord:
    """Return the record of a stage that a caller executed. It marks no turn as read."""
    if not math.isfinite(record.duration_s):
        raise InvalidInput(f"the time of a stage must be a finite number, got {record.duration_s}")
    given = {name: value for name, value in record.input.items() if name not in MARKS}
    error = None if record.error is None else clean_text(record.error)
    return replace(record, stage=stage, input=given, error=error)


def _record(stage: str, result: Mapping[str, JsonValue], clock: Clock) -> StageRecord:
    """Return the record of a stage from a dict, by the documented names."""
    if not isinstance(result, Mapping):
        raise InvalidInput(
            f"result of a stage must be a StageRecord or a dict, got {shown(result)}"
        )
    known = ("status", "error_message", "execution_time_ms")
    status, error, spent = (result.get(name) for name in known)
    if status is not None and status not in get_args(StageStatus):
        raise InvalidInput(
            f"status must be one of {', '.join(get_args(StageStatus))}, got {shown(status)}"
        )
    output = {name: value for name, value in result.items() if name not in known}
    for name, value in {**output, "error_message": error}.items():
        is_text = isinstance(value, str) and len(value) > LOGGED_CHARACTERS
        if is_text or isinstance(value, Mapping):
            raise InvalidInput(
                f"{name!r} of a stage must be a number, an id or a short word: a log outlives"
                " forgotten memories, so it holds no text of a user"
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


FOLLOWED_AT_ONCE: Final = 200
"""Most turns read into one version when a profile follows a thread."""
MAX_TRIES: Final = 64
"""Maximum tries of one update. A try fails only if another writer succeeds, so this many writers
may update one profile together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDiff:
    """The texts that differ between two versions, in their order."""

    from_version: int
    to_version: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    added_events: tuple[str, ...]
    removed_events: tuple[str, ...]
    added_findings: tuple[str, ...]
    removed_findings: tuple[str, ...]


class MemoryRepository(ConversationRecords):
    """The profiles and conversations of one scope: engine.profiles.repository(scope).

    Saving a memory writes a new version if its content changed. If another writer stored a version
    since it was loaded, saving raises Conflict: load it again.
    """

    async def save_memory(self, memory: Memory) -> Memory:
        """Store a memory as a new version, if its content changed; return the stored memory.

        Raises Conflict if another writer stored a version since it was loaded.
        """
        _check_memory(memory)
        stored, _ = await self._write(memory, self._run({"told": True}))
        memory.version, memory.revision = stored.version, stored.revision
        memory.stored_hash = stored.stored_hash
        self._bound_to(memory)
        return self._bound_to(stored)

    async def load_memory(self, memory_id: UUID | str, version: int | None = None) -> Memory:
        """Return the newest version of a memory, or a given one. Raises NotFound without it."""
        return self._bound(await self._stored(memory_id, version))

    async def load_memory_by_agent(
        self, agent_id: str, *, subject: Subject = "user"
    ) -> Memory | None:
        """Return the memory an agent has of the user, or of itself, or None."""
        stored = await self._of(check_label(agent_id, "agent_id"), subject)
        return None if stored is None else self._bound(stored)

    async def load_or_create(self, agent_id: str, *, subject: Subject = "user") -> Memory:
        """Return the memory of an agent, or an empty one that is not stored."""
        memory = await self.load_memory_by_agent(agent_id, subject=subject)
        if memory is None:
            memory = self._bound_to(Memory(agent_id, subject=subject))
        return memory

    async def update_memory_profile(self, memory_id: UUID | str, profile_content: str) -> Memory:
        """Merge a text into a stored profile and store it; retry on conflicts."""
        return await self._changed(memory_id, lambda one: one.update_profile(profile_content))

    async def update_memory_events(self, memory_id: UUID | str, events: Sequence[str]) -> Memory:
        """Add events to a stored memory and store it; retry on conflicts."""
        return await self._changed(memory_id, lambda one: one.update_events(events))

    async def delete_memory(self, memory_id: UUID | str) -> int:
        """Delete a memory with its versions, search entries and log; return the number of versions.

        Its conversations stay. Their turns so far are not read into the agent's next profile.
        """
        newest = await self._versions(checked_id(memory_id), 1)
        if not newest:
            return 0
        storage, run_id, now = await self._handle.storage(), uuid7(), self._clock()
        policy = partial(drop_profile, self.scope, newest[0], run_id, now)
        return await storage.transact(scope_path(self.scope), policy)

    async def save_memory_content(
        self, memory_id: UUID | str, content_type: str, content_data: Mapping[str, Any]
    ) -> Memory:
        """Merge content of type "profile" (with "paragraph") or "event" (with "events")."""
        if content_type not in ("profile", "event"):
            raise InvalidInput(
                f"content_type must be 'profile' or 'event', got {shown(content_type)}"
            )
        name = "paragraph" if content_type == "profile" else "events"
        if not isinstance(content_data, Mapping) or name not in content_data:
            raise InvalidInput(f"content of type {content_type!r} must be a dict with {name!r}")
        if content_type == "profile":
            return await self.update_memory_profile(memory_id, content_data[name])
        return await self.update_memory_events(memory_id, content_data[name])

    async def load_memory_contents(self, memory_id: UUID | str) -> list[dict[str, JsonValue]]:
        """Return profile and events, each as a dict with content_type and content_data."""
        memory = await self.load_memory(memory_id)
        events: JsonValue = list(memory.get_event_content())
        return [
            {"content_type": "profile",
             "content_data": {"paragraph": memory.get_profile_content()}},
            {"content_type": "event",
             "content_data": {"events": events, "max_events": memory.event_memory.max_events}},
        ]  # fmt: skip

    async def load_profile_content(self, memory_id: UUID | str) -> str:
        """Return the paragraph of a memory."""
        return (await self.load_memory(memory_id)).get_profile_content()

    async def load_event_content(self, memory_id: UUID | str) -> list[str]:
        """Return the events of a memory, oldest first."""
        return (await self.load_memory(memory_id)).get_event_content()

    async def versions(self, memory_id: UUID | str, limit: int = 100) -> Sequence[ProfileVersion]:
        """Return the versions of a memory, newest first."""
        return await self._versions(checked_id(memory_id), checked_limit(limit))

    async def diff(self, memory_id: UUID | str, from_version: int, to_version: int) -> ProfileDiff:
        """Return the difference between two versions, in either order."""
        old = await self.load_memory(memory_id, from_version)
        new = await self.load_memory(memory_id, to_version)
        statements, events, minds = (
            (_only(new_texts, old_texts), _only(old_texts, new_texts))
            for old_texts, new_texts in zip(_texts(old), _texts(new), strict=True)
        )
        return ProfileDiff(
            from_version=old.version, to_version=new.version, added=statements[0],
            removed=statements[1], added_events=events[0], removed_events=events[1],
            added_findings=minds[0], removed_findings=minds[1],
        )  # fmt: skip

    async def rollback_memory(self, memory_id: UUID | str, version: int) -> Memory:
        """Store a new version with the content of an earlier one, and return it.

        What was forgotten since stays forgotten. Raises NotFound for an unknown version.
        """
        memory_id = checked_id(memory_id)
        return await _retried(lambda: self.roll_back(memory_id, version))

    async def roll_back(
        self, memory_id: UUID | str, version: int, *, undoes: UUID | None = None
    ) -> Memory:
        """Roll back once, without a retry; 0 is the empty memory. undoes: the run to undo."""
        newest = await self._stored(memory_id)
        target = await self._stored(memory_id, version) if version else None
        before = memory_of(newest)
        memory = memory_of(target) if target else _blank(before)
        memory.version, memory.revision = before.version, before.revision
        memory.created_at = before.created_at
        memory.updated_at = self._clock()
        run = replace(self._run({"rolled_back_to": version}), undoes=undoes)
        stored, _ = await self._write(memory, run, known=target)
        return self._bound_to(stored)

    async def update_with_pipeline(
        self, previous_memory: Memory, session_conversation: object
    ) -> tuple[Memory, PipelineResult]:
        """Read a conversation into a memory; return the stored memory and the pipeline's result.

        One transaction stores the conversation as a thread together with the memory. If another
        writer stored a version meanwhile, the update is repeated on it without a second model call.
        The same conversation again makes no new version.

        Raises:
            Conflict: Another writer came first, and previous_memory was edited since its loading.
        """
        _check_memory(previous_memory)
        given = conversation_of(session_conversation, self._clock())
        # Open here: a database that cannot be opened is no failure of the pipeline to log.
        await self._handle.storage()
        return await self._piped(previous_memory, given)

    async def follow(self, agent_id: str, thread_id: ThreadId) -> int:
        """Read the newly consolidated turns of a thread into an agent's memory of the user.

        Return the number of turns. A turn is read only once, even after a failure.
        """
        read = 0
        while True:
            known = await self.load_or_create(agent_id)
            readers, now = (known.memory_id, marks_id(agent_id)), self._clock()
            turns = await self._query(
                partial(turns_to_profile, readers, thread_id, FOLLOWED_AT_ONCE, now)
            )
            if not turns:
                return read
            given = SessionConversation(
                conversation_id=thread_id, events=tuple(event for _, event in turns)
            )
            await self._piped(known, given, to_seq=turns[-1][0])
            read += len(turns)

    async def _piped(
        self, previous_memory: Memory, given: SessionConversation, *, to_seq: int | None = None
    ) -> tuple[Memory, PipelineResult]:
        """Run the pipeline. to_seq: number of the last turn when it follows a thread."""
        stages = Stages(self._clock)
        run = replace(self._run({}), thread_id=given.conversation_id)
        try:
            return await self._updated(previous_memory, given, stages, run, to_seq)
        except Conflict:
            raise
        except Exception:
            if stages.done and previous_memory.version:
                failed = replace(run, stages=stages.done, counts={"failed": True})
                await self._save(previous_memory.memory_id, failed)
            raise

    async def _updated(
        self,
        previous: Memory,
        given: SessionConversation,
        stages: Stages,
        run: ProfileRun,
        to_seq: int | None,
    ) -> tuple[Memory, PipelineResult]:
        mark: dict[str, JsonValue] = {} if to_seq is None else {"to_seq": to_seq}
        with stages.timed("modification", {"messages": len(given.events), **mark}) as out:
            given, forgotten = await self._as_stored(given, follows=to_seq is not None)
            reading = await self._reading(given) if previous.subject == "user" else None
            modification = await self.pipeline.modification_stage(
                given, subject=previous.subject, forgotten=forgotten, stored=reading
            )
            out |= counts_of(modification)
        turns = turn_rows(given.conversation_id, modification.events, intake=self._intake)
        memory, concluded = previous, None
        for tries in range(1, MAX_TRIES + 1):
            after, profile, events, concluded = await self.pipeline.updated(
                memory, modification, stages, concluded
            )
            after.updated_at = self._clock()
            record = replace(
                run, stages=stages.done, extractor=modification.extractor,
                counts={"turns": len(modification.read), "opened": profile.opened,
                        "closed": len(profile.ended), "findings": len(concluded.found)},
            )  # fmt: skip
            try:
                stored, new = await self._write(after, record, turns)
            except Conflict:
                if tries == MAX_TRIES or _was_changed(previous):
                    raise
                memory = await self._newest(memory)
                continue
            return self._bound_to(stored), PipelineResult(
                run_id=run.run_id, stages=stages.done, modification=modification,
                profile_update=profile, event_update=events, theory_of_mind=concluded,
                previous_version=memory.version, version=stored.version,
                changed=stored.version != memory.version, new_turns=len(new), tries=tries,
            )  # fmt: skip
        raise AssertionError("unreachable")

    async def _reading(self, given: SessionConversation) -> StoredReading | None:
        """Return what consolidation drew from turns; None without a model, or for unread turns."""
        if not self.pipeline.by_model:
            return None
        ids = [event.event_id for event in given.events]
        return await self._query(partial(reading_of, given.conversation_id, ids))

    async def _newest(self, memory: Memory) -> Memory:
        stored = await self._of(memory.agent_id, memory.subject)
        if stored is None:  # deleted meanwhile
            return Memory(memory.agent_id, subject=memory.subject)
        return self._bound(stored)

    async def _changed(self, memory_id: UUID | str, change: Callable[[Memory], bool]) -> Memory:
        async def changed() -> Memory:
            memory = await self.load_memory(memory_id)
            change(memory)
            return await self.save_memory(memory)

        return await _retried(changed)

    def _bound(self, stored: StoredProfile) -> Memory:
        return self._bound_to(memory_of(stored))

    def _bound_to(self, memory: Memory) -> Memory:
        memory.bound_to = self
        return memory


async def _retried(write: Callable[[], Awaitable[Memory]]) -> Memory:
    """Return the result of a write, repeated while another writer comes first."""
    for _ in range(MAX_TRIES - 1):
        try:
            return await write()
        except Conflict:
            continue
    return await write()


def _blank(memory: Memory) -> Memory:
    """Return an empty memory with the same id, agent and limit."""
    max_events = memory.event_memory.max_events
    return Memory(memory.agent_id, memory.memory_id, subject=memory.subject, max_events=max_events)


def _check_memory(memory: object) -> None:
    if not isinstance(memory, Memory):
        raise InvalidInput(
            "memory must be a shared_core.profiles.Memory, e.g. Memory(agent_id='assistant'), got"
            f" {type(memory).__name__}"
        )


def _was_changed(memory: Memory) -> bool:
    """Return whether the content of a memory changed since it was loaded or created."""
    if memory.stored_hash is None:
        return memory.content_hash() != _blank(memory).content_hash()
    return memory.content_hash() != memory.stored_hash


def _texts(memory: Memory) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    return (
        tuple(one.text for one in memory.profile_memory.statements),
        tuple(memory.get_event_content()),
        tuple(one.text for one in memory.mind.findings),
    )


def _only(texts: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for text in texts if text not in others)
