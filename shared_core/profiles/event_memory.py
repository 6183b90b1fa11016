"""EventMemory: the newest events of a profile, as paragraphs in time order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from shared_core.core.domain import JsonValue, Turn
from shared_core.core.ids import uuid7
from shared_core.core.shown import shown
from shared_core.core.validation import whole_number
from shared_core.errors import InvalidInput
from shared_core.nlp.text import language, search_terms, sentences
from shared_core.profiles.entries import Basis, EventParagraph, checked_text, language_of, moment_of
from shared_core.recall.reranking import jaccard

MAX_EVENTS: Final = 50
MOST_EVENTS: Final = 1_000
RELATED: Final = 0.6
"""Least Jaccard similarity, by words, of two events that are merged."""
TOGETHER: Final = timedelta(days=1)
"""Longest time between two events that are merged."""
MERGED_CHARACTERS: Final = 1_200
"""Longest text of a merged event."""
HEADINGS: Final[Mapping[str, str]] = {"en": "## Related events", "zh": "## 相关事件"}
IN_A_ROW: Final = timedelta(microseconds=1)


class EventMemory:
    """Events as paragraphs, oldest first. Beyond max_events, the oldest are dropped.

    Two events within a day are merged if they are from one conversation or nearly the same words.
    A merged event has every sentence once, and the time of the later event.
    """

    def __init__(
        self, events: Iterable[EventParagraph] = (), *, max_events: int = MAX_EVENTS
    ) -> None:
        self.max_events = whole_number(max_events, "max_events", 1, MOST_EVENTS)
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
        """Add an event or merge it with a related one; return whether anything changed.

        at: when it happened, with a time zone; now by default. thread_id, basis: its conversation
        and turns. Raises InvalidInput for a text that is blank or above 20,000 characters.
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

        An event is a text, which happened at the moment at, or a pair (text, moment).
        """
        if isinstance(events, str) or not isinstance(events, Sequence):
            raise InvalidInput(f"events must be a list of texts, e.g. ['...'], got {shown(events)}")
        moment, changed = moment_of(at, "at"), False
        for place, given in enumerate(events):
            text, when = given if isinstance(given, tuple) else (given, moment + place * IN_A_ROW)
            changed = self.add_event(text, at=when) or changed
        return changed

    def to_prompt(self, language: str | None = None) -> str:
        """Return the events as a list with a heading, in "en", "zh" or their own language."""
        content = self.get_content()
        return "\n".join(
            [HEADINGS[language_of(content, language)], *(f"- {one}" for one in content)]
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return all events as JSON values."""
        return {
            "max_events": self.max_events,
            "paragraphs": list(self.get_content()),
            "events": [one.to_dict() for one in self._events],
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> EventMemory:
        """Return the events of a dict."""
        if not isinstance(given, Mapping) or "events" not in given:
            raise InvalidInput("events must be a dict that EventMemory.to_dict() returned")
        return cls(
            [EventParagraph.from_dict(one) for one in given["events"]],
            max_events=given.get("max_events", MAX_EVENTS),
        )

    def copy(self) -> EventMemory:
        """Return an independent copy."""
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
    """Return whether two events belong together."""
    if abs(known.occurred_at - event.occurred_at) > TOGETHER:
        return False
    if known.quoted != event.quoted:
        return False
    if known.thread_id is not None and known.thread_id == event.thread_id:
        return True
    words = frozenset(search_terms(known.text)), frozenset(search_terms(event.text))
    return known.text == event.text or jaccard(*words) >= RELATED


def _merge(known: EventParagraph, event: EventParagraph) -> EventParagraph | None:
    """Return two events as one, or None if that is too long.

    If the new event covers all turns of the known one, it replaces it.
    """
    earlier, later = sorted((known, event), key=lambda one: one.occurred_at)
    turns_known, turns = _turns(known), _turns(event)
    if turns_known and turns_known.keys() <= turns.keys() and known.thread_id == event.thread_id:
        merged = event
    else:
        known_texts = {*sentences(earlier.text)}
        added = dict.fromkeys(one for one in sentences(later.text) if one not in known_texts)
        text = ("" if language(earlier.text) == "zh" else " ").join([earlier.text, *added])
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
