"""EventMemory: what happened, as paragraphs in time order, the newest so many. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from shared_core.core.domain import JsonValue, Turn
from shared_core.core.ids import uuid7
from shared_core.errors import InvalidInput
from shared_core.nlp.text import language, search_terms, sentences
from shared_core.profiles.entries import Basis, EventParagraph, checked_text, language_of, moment_of
from shared_core.recall.mmr import jaccard

MAX_EVENTS: Final = 50
MOST_EVENTS: Final = 1_000
RELATED: Final = 0.6
"""So much of the words of two events is the same where they tell of one matter."""
TOGETHER: Final = timedelta(days=1)
MERGED_CHARACTERS: Final = 1_200
"""What would be longer stays apart."""
HEADINGS: Final[Mapping[str, str]] = {"en": "## Related events", "zh": "## 相关事件"}
IN_A_ROW: Final = timedelta(microseconds=1)


class EventMemory:
    """Paragraphs about what happened, oldest first; of more than max_events the oldest go.

    Events are merged where they tell of one matter: of one conversation, or within a day in nearly
    the same words. A merged event has every sentence once, and the time of the later one.
    """

    def __init__(
        self, events: Iterable[EventParagraph] = (), *, max_events: int = MAX_EVENTS
    ) -> None:
        whole = isinstance(max_events, int) and not isinstance(max_events, bool)
        if not (whole and 1 <= max_events <= MOST_EVENTS):
            raise InvalidInput(
                f"max_events must be a whole number from 1 to {MOST_EVENTS:,}, not {max_events!r}"
            )
        self.max_events = max_events
        self._events = list(events)
        self._settle()

    @property
    def events(self) -> tuple[EventParagraph, ...]:
        """The events, oldest first."""
        return tuple(self._events)

    def get_content(self) -> list[str]:
        """Return the paragraphs, oldest first."""
        return [one.shown for one in self._events]

    def add_event(
        self,
        event: str | EventParagraph,
        *,
        at: datetime | None = None,
        thread_id: str | None = None,
        basis: Basis = (),
    ) -> bool:
        """Add an event, or merge it with what it belongs to; return whether anything changed.

        at: when it happened, aware; now if left out. thread_id, basis: the conversation and the
        turns that tell of it. Raises InvalidInput for a blank text, or one above 20,000 characters.
        """
        if not isinstance(event, EventParagraph):
            event = EventParagraph(
                event_id=uuid7(),
                text=checked_text(event, "event"),
                occurred_at=moment_of(at, "at"),
                thread_id=thread_id,
                bases=(basis,) if basis else (),
            )
        before = self._events.copy()
        if not self._merged(event):
            self._events.append(event)
        self._settle()
        return self._events != before

    def update_recent_events(
        self,
        events: Sequence[str | EventParagraph | tuple[str, datetime]],
        *,
        at: datetime | None = None,
    ) -> bool:
        """Add events in the order they happened; return whether anything changed.

        A text alone happened at the moment at, in the order given; (text, moment) says when.
        """
        if isinstance(events, str) or not isinstance(events, Sequence):
            raise InvalidInput(f"events must be a list of texts, e.g. ['...'], not {events!r:.80}")
        moment, changed = moment_of(at, "at"), False
        for place, given in enumerate(events):
            text, when = given if isinstance(given, tuple) else (given, moment + place * IN_A_ROW)
            changed = self.add_event(text, at=when) or changed
        return changed

    def to_prompt(self, language: str | None = None) -> str:
        """Return the events as a list under a heading, in a language ("en", "zh", or their own)."""
        content = self.get_content()
        return "\n".join(
            [HEADINGS[language_of(content, language)], *(f"- {one}" for one in content)]
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return all of it as what JSON can hold."""
        return {
            "max_events": self.max_events,
            "paragraphs": list(self.get_content()),
            "events": [one.to_dict() for one in self._events],
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> EventMemory:
        """Return the events of a dict."""
        if not isinstance(given, Mapping) or "events" not in given:
            raise InvalidInput("events are a dict as EventMemory.to_dict() returns it")
        return cls(
            [EventParagraph.from_dict(one) for one in given["events"]],
            max_events=given.get("max_events", MAX_EVENTS),
        )

    def copy(self) -> EventMemory:
        """Return the same events, to be changed on their own."""
        return EventMemory(self._events, max_events=self.max_events)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventMemory) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment] # it changes

    def _merged(self, event: EventParagraph) -> bool:
        for place in reversed(range(len(self._events))):
            known = self._events[place]
            if not _related(known, event):
                continue
            one = _merge(known, event)
            if one is not None:
                self._events[place] = one
                return True
        return False

    def _settle(self) -> None:
        self._events.sort(key=lambda one: one.occurred_at)
        del self._events[: -self.max_events]


def _related(known: EventParagraph, event: EventParagraph) -> bool:
    """Tell whether two events tell of one matter."""
    if abs(known.occurred_at - event.occurred_at) > TOGETHER:
        return False
    if known.quoted != event.quoted:
        return False
    if known.thread_id is not None and known.thread_id == event.thread_id:
        return True
    words = frozenset(search_terms(known.text)), frozenset(search_terms(event.text))
    return known.text == event.text or jaccard(*words) >= RELATED


def _merge(known: EventParagraph, event: EventParagraph) -> EventParagraph | None:
    """Return both as one; None if that is too long. What was read anew replaces what it covers."""
    earlier, later = sorted((known, event), key=lambda one: one.occurred_at)
    turns_known, turns = _turns(known), _turns(event)
    if turns_known and turns_known.keys() <= turns.keys() and known.thread_id == event.thread_id:
        merged = event
    else:
        said = dict.fromkeys([*sentences(earlier.text), *sentences(later.text)])
        text = ("" if language(earlier.text) == "zh" else " ").join(said)
        if len(text) > MERGED_CHARACTERS:
            return None
        together = tuple(turns_known | turns)
        merged = replace(
            later,
            text=text,
            bases=(together,) if together else (),
            thread_id=known.thread_id if known.thread_id == event.thread_id else None,
        )
    same = replace(merged, event_id=known.event_id) == known
    return known if same else replace(merged, event_id=uuid7())


def _turns(event: EventParagraph) -> dict[Turn, None]:
    return {turn: None for basis in event.bases for turn in basis}
