"""Memory: the profile and the events of a user or an agent, as one object with versions.

    from shared_core.profiles import EventMemory, Memory, ProfileMemory

    memory = Memory(agent_id="agent_123")
    memory.update_profile("用户是18岁男学生，喜欢游戏和编程。")
    memory.update_events(["用户今天询问了Python编程问题。"])
    context = memory.to_prompt()

This `Memory` is a profile. `shared_core.Memory` is one stored memory, as recall returns it. A
profile is stored as several memories: see engine.profiles and docs/reference/profiles.md. Only
update_with_pipeline() does I/O, through the repository of the memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Protocol, get_args
from uuid import UUID

from shared_core.core.domain import JsonValue
from shared_core.core.ids import uuid7
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import check_label
from shared_core.core.shown import shown
from shared_core.core.validation import id_of
from shared_core.errors import InvalidInput
from shared_core.profiles.entries import (
    EventParagraph,
    Finding,
    Mind,
    Relation,
    Subject,
    language_of,
    moment_of,
    relations_of,
)
from shared_core.profiles.event_memory import MAX_EVENTS, EventMemory
from shared_core.profiles.profile_memory import ProfileMemory

__all__ = ["EventMemory", "Memory", "ProfileMemory"]


class Updates(Protocol):
    """The repository method that Memory.update_with_pipeline() calls."""

    async def update_with_pipeline(
        self, previous_memory: Memory, session_conversation: Any
    ) -> tuple[Memory, Any]: ...


class Memory:
    """The profile and the events of a user, as an agent knows them, or of an agent itself.

    agent_id: the agent that knows the user, or is the subject. subject: "user" or "agent". version:
    number of the stored version; 0 before the first. revision: how often turns repeated that
    version since. mind: the findings of theory of mind.
    """

    def __init__(
        self,
        agent_id: str,
        memory_id: UUID | str | None = None,
        *,
        subject: Subject = "user",
        max_events: int = MAX_EVENTS,
    ) -> None:
        if subject not in get_args(Subject):
            raise InvalidInput(f"subject must be 'user' or 'agent', got {shown(subject)}")
        self.agent_id = check_label(agent_id, "agent_id")
        self.memory_id = checked_id(memory_id) if memory_id is not None else uuid7()
        self.subject: Subject = subject
        self.profile_memory = ProfileMemory(subject=subject)
        self.event_memory = EventMemory(max_events=max_events)
        self.mind = Mind()
        self.version = self.revision = 0
        self.created_at = self.updated_at = datetime.now(UTC)
        self.bound_to: Updates | None = None
        """The repository it was loaded from or stored in."""
        self.stored_hash: str | None = None
        """The content_hash of the loaded version."""

    def get_profile_content(self) -> str:
        """Return the profile, one paragraph; "" while nothing is known."""
        return self.profile_memory.get_content()

    def get_event_content(self) -> list[str]:
        """Return the events, oldest first."""
        return self.event_memory.get_content()

    def update_profile(self, new_info: str, *, at: datetime | None = None) -> bool:
        """Merge a text into the profile; return whether it changed. at: time of the text."""
        changed = self.profile_memory.update_content(new_info, at=at)
        return self._touched(changed, at)

    def update_events(
        self,
        new_events: Sequence[str | EventParagraph | tuple[str, datetime]],
        *,
        at: datetime | None = None,
    ) -> bool:
        """Add events in the order they happened; return whether anything changed."""
        changed = self.event_memory.update_recent_events(new_events, at=at)
        return self._touched(changed, at)

    def to_prompt(self, language: str | None = None) -> str:
        """Return profile and events for a prompt, or "" if both are empty.

        language: "en", "zh", or by default the language of the texts. An empty part has no heading.
        """
        profile, events = self.get_profile_content(), self.get_event_content()
        spoken = language_of([profile, *events], language)
        parts = [self.profile_memory.to_prompt(spoken)] if profile else []
        parts += [self.event_memory.to_prompt(spoken)] if events else []
        return "\n\n".join(parts)

    def relations(self) -> tuple[Relation, ...]:
        """Return the relations between its statements, events and findings; see Relation."""
        profile = self.profile_memory
        return relations_of(
            profile.statements, profile.history, self.event_memory.events, self.mind
        )

    def content_hash(self) -> str:
        """Return the SHA-256 of its content, in hexadecimal."""
        content: JsonValue = {
            "profile": self.get_profile_content(),
            "history": [one.text for one in self.profile_memory.history],
            "events": [
                [one.shown, one.occurred_at.isoformat()] for one in self.event_memory.events
            ],
            "mind": [[one.dimension, one.text] for one in self.mind.findings],
            "max_events": self.event_memory.max_events,
        }
        return sha256(to_json(content).encode()).hexdigest()

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the whole memory as JSON values, from which from_dict() restores it.

        Derived values are included for readers: hash, number and date of events, confidence,
        relations.
        """
        events = self.event_memory.events
        return {
            "memory_id": str(self.memory_id),
            "agent_id": self.agent_id,
            "subject": self.subject,
            "version": self.version,
            "revision": self.revision,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "content_hash": self.content_hash(),
            "event_count": len(events),
            "last_event_date": events[-1].occurred_at.isoformat() if events else None,
            "profile_memory": self.profile_memory.to_dict(),
            "event_memory": self.event_memory.to_dict(),
            "tom_metadata": [one.to_dict() for one in self.mind.findings],
            "confidence_score": self.mind.confidence,
            "relations": [one.to_dict() for one in self.relations()],
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Memory:
        """Return the memory of a dict from to_dict(). Raises InvalidInput for any other."""
        try:
            memory = cls(given["agent_id"], given["memory_id"], subject=given["subject"])
            memory.profile_memory = ProfileMemory.from_dict(given["profile_memory"])
            memory.event_memory = EventMemory.from_dict(given["event_memory"])
            memory.mind = Mind(findings=tuple(map(Finding.from_dict, given["tom_metadata"])))
            memory.version, memory.revision = int(given["version"]), int(given["revision"])
            memory.created_at = _moment(given["created_at"])
            memory.updated_at = _moment(given["updated_at"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                f"a memory cannot be read ({type(error).__name__}: {error}): pass a dict that"
                " to_dict() returned"
            ) from error
        return memory

    def copy(self) -> Memory:
        """Return an independent copy."""
        other = Memory(self.agent_id, self.memory_id, subject=self.subject)
        other.profile_memory = self.profile_memory.copy()
        other.event_memory = self.event_memory.copy()
        other.mind, other.version, other.revision = self.mind, self.version, self.revision
        other.created_at, other.updated_at = self.created_at, self.updated_at
        other.bound_to, other.stored_hash = self.bound_to, self.stored_hash
        return other

    async def update_with_pipeline(
        self, previous_memory: Memory, session_conversation: Any
    ) -> tuple[Memory, Any]:
        """Call MemoryRepository.update_with_pipeline() of the repository of this memory."""
        if self.bound_to is None:
            raise InvalidInput(
                "this memory belongs to no repository: load or save it with"
                " engine.profiles.repository(scope), or call update_with_pipeline() of that"
            )
        return await self.bound_to.update_with_pipeline(previous_memory, session_conversation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memory) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment] # it changes

    def __repr__(self) -> str:
        return f"Memory({self.subject} of {self.agent_id!r}, version {self.version})"

    def _touched(self, changed: bool, at: datetime | None) -> bool:
        if changed:
            self.updated_at = max(self.updated_at, moment_of(at, "at"))
        return changed


def checked_id(memory_id: UUID | str) -> UUID:
    """Return a memory_id as a UUID. Raises InvalidInput if it is none."""
    return id_of(memory_id, "memory_id")


def _moment(given: str) -> datetime:
    return moment_of(datetime.fromisoformat(given), "a moment of a memory")
