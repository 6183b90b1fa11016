"""MemoryRepository: profiles and conversations of one scope, as stored, with all their versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from shared_core.core.domain import JsonValue, ThreadId
from shared_core.core.namespaces import check_label
from shared_core.errors import Conflict, InvalidInput
from shared_core.ingest.events import turn_rows
from shared_core.ports.profiles import ProfileRun, ProfileVersion
from shared_core.profiles.memory import Memory, checked_id
from shared_core.profiles.parts import Subject
from shared_core.profiles.results import PipelineResult, TheoryOfMind, counts_of
from shared_core.profiles.rows import memory_of
from shared_core.profiles.stage_log import Stages
from shared_core.profiles.transcript import SessionConversation, conversation_of
from shared_core.profiles.transcript_repository import ConversationRecords
from shared_core.profiles.versions import checked_limit

FOLLOWED_AT_ONCE: Final = 200
"""So many turns make one version where a profile follows a thread by itself."""
MAX_TRIES: Final = 64
"""A try fails only where another came through, so as many may update one profile at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDiff:
    """What changed from one version to another, by texts, in their order."""

    from_version: int
    to_version: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    added_events: tuple[str, ...]
    removed_events: tuple[str, ...]
    added_findings: tuple[str, ...]
    removed_findings: tuple[str, ...]


class MemoryRepository(ConversationRecords):
    """Profiles of one scope: engine.profiles.repository(scope).

    A memory is written as a new version if its content changed, and only onto the version it was
    loaded from: who comes late gets a Conflict, and loads it again.
    """

    async def save_memory(self, memory: Memory) -> Memory:
        """Store a memory as a new version, if its content changed; return it as it is stored.

        Raises Conflict if somebody else stored a version since it was loaded.
        """
        _check_memory(memory)
        await self._open()
        stored = await self._written(memory, self._run({"told": True}))
        memory.version, memory.revision = stored.version, stored.revision
        memory.stored_hash = stored.stored_hash
        memory.bound_to = self
        return stored

    async def load_memory(self, memory_id: UUID | str, version: int | None = None) -> Memory:
        """Return the newest version of a memory, or one by number. NotFound if it is not there."""
        return self._bound(await self._stored(memory_id, version))

    async def load_memory_by_agent(
        self, agent_id: str, *, subject: Subject = "user"
    ) -> Memory | None:
        """Return what an agent knows of the user, or of itself; None if there is nothing."""
        stored = await self._of(check_label(agent_id, "agent_id"), subject)
        return None if stored is None else self._bound(stored)

    async def load_or_create(self, agent_id: str, *, subject: Subject = "user") -> Memory:
        """Return the memory of an agent, or an empty one that is not stored yet."""
        memory = await self.load_memory_by_agent(agent_id, subject=subject)
        if memory is None:
            memory = Memory(agent_id, subject=subject)
            memory.bound_to = self
        return memory

    async def update_memory_profile(self, memory_id: UUID | str, profile_content: str) -> Memory:
        """Merge a text into a stored profile and store it, whoever writes at the same time."""
        return await self._changed(memory_id, lambda one: one.update_profile(profile_content))

    async def update_memory_events(self, memory_id: UUID | str, events: Sequence[str]) -> Memory:
        """Add events to a stored memory and store it, whoever writes at the same time."""
        return await self._changed(memory_id, lambda one: one.update_events(events))

    async def delete_memory(self, memory_id: UUID | str) -> int:
        """Delete a memory with all its versions, its search entries and its log.

        Return how many versions went. The conversations it was drawn from stay, and what was said
        in them up to now is not read into the next profile of this agent by itself.
        """
        await self._open()
        stored = await self._storage.profile_by_id(self.scope, checked_id(memory_id))
        if stored is None:
            return 0
        of = stored.version
        return await self._storage.drop_profile(self.scope, of.memory_id, of.subject, of.agent_id)

    async def save_memory_content(
        self, memory_id: UUID | str, content_type: str, content_data: Mapping[str, Any]
    ) -> Memory:
        """Merge content of one type: "profile" with "paragraph", or "event" with "events"."""
        _check_type(content_type)
        name = "paragraph" if content_type == "profile" else "events"
        if not isinstance(content_data, Mapping) or name not in content_data:
            raise InvalidInput(f"content of type {content_type!r} is a dict with {name!r}")
        if content_type == "profile":
            return await self.update_memory_profile(memory_id, content_data[name])
        return await self.update_memory_events(memory_id, content_data[name])

    async def load_memory_contents(self, memory_id: UUID | str) -> list[dict[str, JsonValue]]:
        """Return profile and events as documented: content_type and content_data of each."""
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
        await self._open()
        found = checked_id(memory_id)
        return await self._storage.profile_versions(self.scope, found, checked_limit(limit))

    async def diff(self, memory_id: UUID | str, from_version: int, to_version: int) -> ProfileDiff:
        """Return what changed from one version to another, in either direction."""
        old = await self.load_memory(memory_id, from_version)
        new = await self.load_memory(memory_id, to_version)
        said, events, minds = (
            (_only(new_texts, old_texts), _only(old_texts, new_texts))
            for old_texts, new_texts in zip(_texts(old), _texts(new), strict=True)
        )
        return ProfileDiff(
            from_version=old.version, to_version=new.version, added=said[0], removed=said[1],
            added_events=events[0], removed_events=events[1], added_findings=minds[0],
            removed_findings=minds[1],
        )  # fmt: skip

    async def rollback_memory(self, memory_id: UUID | str, version: int) -> Memory:
        """Make a new version that says what an earlier one said, and return it.

        What was forgotten since stays forgotten. NotFound for a version that is not there.
        """
        return await self.taken_back(checked_id(memory_id), version, None)

    async def taken_back(self, memory_id: UUID, version: int, undoes: UUID | None) -> Memory:
        """Roll back; version 0 is the empty memory. undoes: the run that is marked as undone."""
        for last_try in [False] * (MAX_TRIES - 1) + [True]:
            newest = await self._stored(memory_id)
            target = await self._stored(memory_id, version) if version else None
            before = memory_of(newest)
            memory = memory_of(target) if target else Memory(
                before.agent_id, memory_id, subject=before.subject,
                max_events=before.event_memory.max_events,
            )  # fmt: skip
            memory.version, memory.revision = before.version, before.revision
            memory.created_at = before.created_at
            memory.updated_at = self._clock()
            run = replace(self._run({"rolled_back_to": version}), undoes=undoes)
            try:
                return await self._written(memory, run, known=target)
            except Conflict:
                if last_try or undoes is not None:
                    raise
        raise AssertionError("unreachable")

    async def update_with_pipeline(
        self, previous_memory: Memory, session_conversation: object
    ) -> tuple[Memory, PipelineResult]:
        """Return the memory after a conversation, stored, and what the pipeline did.

        The conversation is remembered as a thread, and the memory stored with it, in one
        transaction; nothing is written before. Where somebody else stored a version meanwhile, the
        update is done again on that one, and no model is asked twice; Conflict only if
        previous_memory was changed by hand since it was loaded. The same conversation again makes
        no new version.
        """
        _check_memory(previous_memory)
        given = conversation_of(session_conversation, self._clock())
        await self._open()
        return await self._piped(previous_memory, given)

    async def follow(self, agent_id: str, thread_id: ThreadId) -> int:
        """Update what an agent knows of the user from what was consolidated of a thread since.

        Return how many turns were read. Turns that were read are not read again, whatever fails.
        """
        read = 0
        while True:
            known = await self.load_or_create(agent_id)
            turns = await self._storage.turns_to_profile(
                self.scope, agent_id, known.memory_id, thread_id, FOLLOWED_AT_ONCE
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
        """Run the pipeline. to_seq: of the last turn, where it follows a thread."""
        stages = Stages(self._clock)
        run = replace(self._run({}), thread_id=given.conversation_id)
        try:
            return await self._updated(previous_memory, given, stages, run, to_seq)
        except Conflict:
            raise
        except Exception:
            await self._log_failure(previous_memory, run, stages)
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
            given, forgotten = await self._as_remembered(given, follows=to_seq is not None)
            modification = await self.pipeline.modification_stage(
                given, subject=previous.subject, forgotten=forgotten
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
                stored, new = await self._written_with(after, record, turns)
            except Conflict:
                if tries == MAX_TRIES or _was_changed(previous):
                    raise
                memory = await self._newest(memory)
                continue
            return stored, self._result(
                record, modification, profile, events, concluded, memory, stored, new, tries
            )
        raise AssertionError("unreachable")

    @staticmethod
    def _result(
        run: ProfileRun, modification: Any, profile: Any, events: Any, concluded: TheoryOfMind,
        previous: Memory, stored: Memory, new: set[str], tries: int,
    ) -> PipelineResult:  # fmt: skip
        return PipelineResult(
            run_id=run.run_id, stages=tuple(run.stages), modification=modification,
            profile_update=profile, event_update=events, theory_of_mind=concluded,
            previous_version=previous.version, version=stored.version,
            changed=stored.version != previous.version, new_turns=len(new), tries=tries,
        )  # fmt: skip

    async def _newest(self, memory: Memory) -> Memory:
        stored = await self._of(memory.agent_id, memory.subject)
        if stored is None:  # deleted meanwhile
            return Memory(memory.agent_id, subject=memory.subject)
        return self._bound(stored)

    async def _changed(self, memory_id: UUID | str, change: Callable[[Memory], bool]) -> Memory:
        for last_try in [False] * (MAX_TRIES - 1) + [True]:
            memory = await self.load_memory(memory_id)
            change(memory)
            try:
                return await self.save_memory(memory)
            except Conflict:
                if last_try:
                    raise
        raise AssertionError("unreachable")

    async def _log_failure(self, memory: Memory, run: ProfileRun, stages: Stages) -> None:
        """Log the stages of a run that failed, if the memory is stored at all."""
        if stages.done and memory.version:
            failed = replace(run, stages=stages.done, counts={"failed": True})
            await self._storage.save_profile(self.scope, memory.memory_id, failed, None, None)

    def _bound_to(self, memory: Memory) -> Memory:
        memory.bound_to = self
        return memory


def _check_memory(memory: object) -> None:
    if not isinstance(memory, Memory):
        raise InvalidInput(
            "a memory is a shared_core.profiles.Memory, e.g. Memory(agent_id='assistant'), not"
            f" {type(memory).__name__}"
        )


def _check_type(content_type: str) -> None:
    if content_type not in ("profile", "event"):
        raise InvalidInput(f"content_type must be 'profile' or 'event', not {content_type!r}")


def _was_changed(memory: Memory) -> bool:
    """Tell whether a memory says something else than when it was loaded, or was created."""
    if memory.stored_hash is None:
        memory = memory.copy()
        blank = Memory(memory.agent_id, subject=memory.subject,
                       max_events=memory.event_memory.max_events)  # fmt: skip
        return memory.content_hash() != blank.content_hash()
    return memory.content_hash() != memory.stored_hash


def _texts(memory: Memory) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    return (
        tuple(one.text for one in memory.profile_memory.statements),
        tuple(memory.get_event_content()),
        tuple(one.text for one in memory.mind.findings),
    )


def _only(texts: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for text in texts if text not in others)
