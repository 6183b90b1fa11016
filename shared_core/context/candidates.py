"""Make candidates of a context from instructions, facts, memories and turns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from shared_core.context.window import ContextItem
from shared_core.core.delimiters import Section
from shared_core.core.domain import Event, Hit
from shared_core.core.namespaces import clean_text
from shared_core.core.shown import shown
from shared_core.core.timestamps import check_moment
from shared_core.errors import InvalidInput
from shared_core.nlp.text import language, sentences
from shared_core.ports.runs import Fact

ContentKey: TypeAlias = tuple[str, str]
"""A key that duplicates share: an id, or the words of a turn, a memory or the query."""


@dataclass(slots=True)
class WindowCandidate:
    """An item that one assembly may show. The assembly counts it.

    tells: its content keys, known once it is shown. repeats: it is a duplicate if one of these is
    known. all_of: it is a duplicate if all of these are known. at_least: tokens of its beginning,
    if the rest was not counted. is_best: no section may take the room that it needs.
    """

    item: ContextItem
    tells: tuple[ContentKey, ...] = ()
    repeats: tuple[ContentKey, ...] = ()
    all_of: tuple[ContentKey, ...] = ()
    at_least: int = 0
    is_best: bool = False


def instruction_of(number: int, text: str) -> WindowCandidate:
    """Return an instruction; an equal one is its duplicate."""
    item = ContextItem(section="instructions", number=number, text=clean_text(text).strip())
    keys = (("memory_text", same_words(item.text)),)
    return WindowCandidate(item, keys, keys)


def fact_of(number: int, fact: Fact | Hit) -> WindowCandidate:
    """Return a fact. It is no duplicate of its turn, because it says what still holds."""
    if not isinstance(fact, Fact | Hit):
        raise InvalidInput(f"facts must be Fact or Hit objects, got {shown(fact)}")
    if isinstance(fact, Hit):
        entry = memory_of("facts", number, fact)
        return replace(entry, repeats=entry.tells)
    check_moment(fact.valid_from, f"valid_from of fact {fact.memory_id}")
    if fact.valid_until is not None:
        check_moment(fact.valid_until, f"valid_until of fact {fact.memory_id}")
    item = ContextItem(
        section="facts",
        number=number,
        text=_clean(fact.statement, f"statement of fact {fact.memory_id}"),
        kind=fact.fact_type,
        source=str(fact.memory_id),
        occurred_at=fact.valid_from,
        valid_until=fact.valid_until,
        is_doubtful=fact.is_doubtful,
        score=fact.confidence,
        source_event_ids=fact.source_event_ids,
        thread_id=fact.thread_id,
    )
    keys = (("memory", str(fact.memory_id)), ("memory_text", same_words(item.text)))
    return WindowCandidate(item, keys, keys)


def memory_of(section: Section, number: int, hit: Hit) -> WindowCandidate:
    """Return a memory. It is a duplicate of a turn, fact or better memory in the same words."""
    if not isinstance(hit, Hit):
        raise InvalidInput(f"{section} must be Hit objects from recall(), got {shown(hit)}")
    memory = hit.memory
    check_moment(memory.occurred_at, f"occurred_at of memory {memory.memory_id}")
    if memory.superseded_at is not None:
        check_moment(memory.superseded_at, f"superseded_at of memory {memory.memory_id}")
    item = ContextItem(
        section=section,
        number=number,
        text=_clean(memory.text, f"text of memory {memory.memory_id}"),
        kind=memory.kind,
        source=str(memory.memory_id),
        occurred_at=memory.occurred_at,
        valid_until=memory.superseded_at,
        is_doubtful=memory.doubted_at is not None,
        author=memory.author,
        score=hit.score,
        score_parts=hit.parts,
        importance=memory.importance,
        source_event_ids=memory.source_event_ids,
        thread_id=memory.thread_id,
    )
    keys = (("memory", str(memory.memory_id)), ("memory_text", same_words(item.text)))
    return WindowCandidate(item, keys, (*keys, ("turn_text", same_words(item.text))))


def turns_of(history: Sequence[Event]) -> list[WindowCandidate]:
    """Return the turns newest first, numbered from the oldest.

    Turns in the same words are no duplicates. Only the newest turn can duplicate the query.
    """
    for event in history:
        if not isinstance(event, Event):
            raise InvalidInput(f"history must be Event objects, got {shown(event)}")
        check_moment(event.occurred_at, f"occurred_at of event {event.event_id!r}")
    turns = []
    for number, event in enumerate(sorted(history, key=lambda event: event.occurred_at), 1):
        item = ContextItem(
            section="history",
            number=number,
            text=_clean(event.text, f"text of event {event.event_id!r}"),
            source=event.event_id,
            occurred_at=event.occurred_at,
            author=event.author,
            role=event.role,
        )
        same = same_words(item.text)
        tells = (("event", event.event_id), ("turn_text", same))
        repeats = [("event", event.event_id), ("memory_text", same)]
        if number == len(history) and event.role == "user":
            repeats.append(("query_text", same))
        turns.append(WindowCandidate(item, tells, tuple(repeats)))
    return turns[::-1]


def paragraph_of(section: Section, text: str) -> WindowCandidate:
    """Return the one text of a section."""
    what = "system_prompt" if section == "system" else section
    return WindowCandidate(ContextItem(section=section, text=_clean(text, what)))


def summary_of(text: str, event_ids: Sequence[str]) -> WindowCandidate:
    """Return a summary. It is a duplicate once all its turns are shown."""
    entry = paragraph_of("summary", text)
    item = replace(entry.item, source_event_ids=tuple(event_ids))
    return replace(entry, item=item, all_of=tuple(("event", one) for one in event_ids))


def without_shown(item: ContextItem, shown: Sequence[ContextItem]) -> ContextItem:
    """Return a summary without the sentences that shown turns contain word for word.

    Summaries written without a language model consist of sentences of the turns.
    """
    turns = [f" {same_words(turn.text)} " for turn in shown if not turn.cut]
    known = sentences(item.text)
    new = [one for one in known if not any(_bare(one) in turn for turn in turns)]
    if len(new) == len(known):
        return item
    space = "" if language(item.text) == "zh" else " "
    return replace(item, text=space.join(new), tokens=0)


def _bare(sentence: str) -> str:
    return same_words(sentence).rstrip(".。")


def _clean(text: str, what: str) -> str:
    """Return a text as it is shown. Raises InvalidInput if it is no string."""
    if not isinstance(text, str):
        raise InvalidInput(
            f'{what} must be a text, got {type(text).__name__} {shown(text)}: pass "" for none'
        )
    return clean_text(text).strip()


def same_words(text: str) -> str:
    """Return a text without its differences in case and white space."""
    return " ".join(clean_text(text).split()).casefold()
