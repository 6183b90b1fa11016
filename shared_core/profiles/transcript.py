"""The input of a pipeline: a conversation as turns, or as messages in plain dicts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from shared_core.core.domain import ROLES, Event, JsonValue, ThreadId
from shared_core.core.ids import id_of_words, uuid7
from shared_core.core.namespaces import check_label, clean_text
from shared_core.core.shown import shown
from shared_core.core.timestamps import check_moment
from shared_core.errors import InvalidInput
from shared_core.nlp.extractive_summary import summarise
from shared_core.nlp.keywords_and_topics import topics
from shared_core.ports.conversations import check_thread
from shared_core.privacy.sanitizing import is_small_talk

MESSAGE_TYPE: Final = "message_type"
MAX_TYPE: Final = 50
SUMMARY_CHARACTERS: Final = 400
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
IN_A_ROW: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConversation:
    """The turns of one conversation, in order: a thread of memory."""

    conversation_id: ThreadId
    events: tuple[Event, ...]

    @property
    def summary(self) -> str:
        """The most telling sentences of the user, at most 400 characters; "" for small talk."""
        return summary_of(self._user_texts)

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the user's topics."""
        return topics_of(self._user_texts)

    @property
    def _user_texts(self) -> list[str]:
        return [event.text for event in self.events if event.role == "user"]

    def to_dict(self) -> dict[str, JsonValue]:
        """Return its messages as plain dicts, with summary, topics and times."""
        moments = sorted(event.occurred_at for event in self.events)
        return {
            "conversation_id": self.conversation_id,
            "started_at": moments[0].isoformat() if moments else None,
            "ended_at": moments[-1].isoformat() if moments else None,
            "message_count": len(self.events),
            "conversation_summary": self.summary,
            "topics": list(self.topics),
            "messages": [_message(event) for event in self.events],
        }


def summary_of(texts: Sequence[str]) -> str:
    """Return the most telling sentences of users' texts."""
    turns = [
        Event(event_id=str(place), author="user", role="user", text=text, occurred_at=_NO_TIME)
        for place, text in enumerate(texts)
        if not is_small_talk(text)
    ]
    return summarise(turns, max_characters=SUMMARY_CHARACTERS)


def topics_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the topics of users' texts, in the order of the data file."""
    return tuple(topics("\n".join(texts)))


def _message(event: Event) -> dict[str, JsonValue]:
    kept = {name: value for name, value in event.metadata.items() if name != MESSAGE_TYPE}
    return {
        "message_id": event.event_id,
        "role": "assistant" if event.role == "agent" else event.role,
        "author": event.author,
        "content": event.text,
        "timestamp": event.occurred_at.isoformat(),
        MESSAGE_TYPE: event.metadata.get(MESSAGE_TYPE, "text"),
        "metadata": kept,
    }


def conversation_of(given: object, now: datetime) -> SessionConversation:
    """Return the conversation of a caller's value; an InvalidInput names the faulty message.

    The value is a SessionConversation, a dict with "messages" and optionally "conversation_id", or
    the messages alone. A message is an Event, or a dict with:

    - "role" (one of domain.ROLES) and "content";
    - optionally "timestamp" (with a time zone, or ISO 8601) and "message_id";
    - optionally "message_type" ("text", "command", "file_upload" or another word);
    - optionally "metadata", a dict.

    The id of a message without one follows from its conversation, place and words. If the
    conversation has no id either, the message is new each time.
    """
    if isinstance(given, SessionConversation):
        return _spoken(given)
    conversation_id: object = None
    if isinstance(given, Mapping):
        conversation_id = given.get("conversation_id") or given.get("session_id")
        given = given.get("messages")
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidInput(
            "a conversation must be a list of messages, e.g. [{'role': 'user', 'content': '...'}],"
            f" or {{'conversation_id': ..., 'messages': [...]}}, got {type(given).__name__}"
        )
    is_named = conversation_id is not None
    thread = check_thread(conversation_id if is_named else str(uuid7()), "conversation_id")
    return _spoken(
        SessionConversation(
            conversation_id=thread,
            events=tuple(
                event_of(one, place, now, thread_id=thread if is_named else None)
                for place, one in enumerate(given)
            ),
        )
    )


def event_of(given: object, place: int, now: datetime, *, thread_id: str | None = None) -> Event:
    """Return a message as a turn. place: its number in the conversation, from 0.

    thread_id: a message without an id gets one from thread, place and words; None for a new id.
    """
    if isinstance(given, Event):
        check_label(given.event_id, f"the id of message {place}")
        check_moment(given.occurred_at, f"occurred_at of message {place}")
        return given
    if not isinstance(given, Mapping):
        raise InvalidInput(f"message {place} must be a dict or an Event, got {shown(given)}")
    role, content = given.get("role"), given.get("content")
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidInput(
            f"the role of message {place} must be one of {', '.join(ROLES)}, got {shown(role)}"
        )
    if not isinstance(content, str):
        raise InvalidInput(f"the content of message {place} must be a text, got {shown(content)}")
    text = clean_text(content)
    given_id: Any = given.get("message_id") or given.get("event_id")
    new_id = str(uuid7()) if thread_id is None else id_of_words(thread_id, place, ROLES[role], text)
    event_id: Any = given_id or new_id
    author: Any = given.get("author") or role
    return Event(
        event_id=check_label(str(event_id), f"the id of message {place}"),
        author=str(author),
        role=ROLES[role],
        text=text,
        occurred_at=_moment(given.get("timestamp"), place, now),
        metadata=_metadata(given, place),
    )


def _metadata(given: Mapping[Any, Any], place: int) -> dict[str, JsonValue]:
    metadata, kind = given.get("metadata"), given.get(MESSAGE_TYPE)
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidInput(f"the metadata of message {place} must be a dict, got {shown(metadata)}")
    if kind is not None and not (isinstance(kind, str) and 0 < len(kind) <= MAX_TYPE):
        raise InvalidInput(
            f"the message_type of message {place} must be a word of at most {MAX_TYPE} characters,"
            f" e.g. 'text', got {shown(kind)}"
        )
    typed = {} if kind in (None, "text") else {MESSAGE_TYPE: kind}
    return {**(metadata or {}), **typed}


def _spoken(conversation: SessionConversation) -> SessionConversation:
    if not any(event.text.strip() for event in conversation.events):
        raise InvalidInput("the conversation is empty: pass at least one message with words")
    by_id: dict[str, Event] = {}
    for event in conversation.events:
        first = by_id.setdefault(event.event_id, event)
        if (first.role, first.text) != (event.role, event.text):
            raise InvalidInput(
                f"two messages of the conversation have the id {event.event_id!r}: give each a"
                " different id, or none"
            )
    return conversation


def _moment(given: object, place: int, now: datetime) -> datetime:
    if given is None:
        return now + place * IN_A_ROW
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError as error:
        raise InvalidInput(
            f"the timestamp of message {place} must be ISO 8601 with a time zone,"
            f" got {shown(given)}"
        ) from error
    check_moment(moment, f"the timestamp of message {place}")  # type: ignore[arg-type] # checked
    assert isinstance(moment, datetime)
    return moment
