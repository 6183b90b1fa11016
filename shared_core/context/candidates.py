"""What may go into a context: instructions, facts, memories and turns as candidates. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from shared_core.context.window import ContextItem
from shared_core.core.delimiters import Section
from shared_core.core.domain import Event, Hit
from shared_core.core.namespaces import clean_text
from shared_core.core.timestamps import check_moment
from shared_core.errors import InvalidInput
from shared_core.nlp.text import language, sentences
from shared_core.ports.runs import Fact

Mark: TypeAlias = tuple[str, str]
"""By what duplicates know each other: an id, or words and whether they were said or are told."""


@dataclass(slots=True)
class WindowCandidate:
    """An item that may be shown, of one assembly, which counts it.

    tells: what is known once it is shown. repeats: what makes it a duplicate once it is known.
    all_of: what makes it a duplicate once all of it is known. at_least: how many tokens its
    beginning takes, where it was not worth counting the rest.
    """

    item: ContextItem
    tells: tuple[Mark, ...] = ()
    repeats: tuple[Mark, ...] = ()
    all_of: tuple[Mark, ...] = ()
    at_least: int = 0


def instruction_of(number: int, text: str) -> WindowCandidate:
    """Return an instruction; the same one is shown once."""
    item = ContextItem(section="instructions", number=number, text=clean_text(text).strip())
    told = (("told", same_words(item.text)),)
    return WindowCandidate(item, told, told)


def fact_of(number: int, fact: Fact | Hit) -> WindowCandidate:
    """Return a fact; it stays when its turn is shown as well, because it says what still holds."""
    if not isinstance(fact, Fact | Hit):
        raise InvalidInput(f"facts must be Fact or Hit objects, not {fact!r:.80}")
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
        score=fact.confidence,
        source_event_ids=fact.source_event_ids,
        thread_id=fact.thread_id,
    )
    told = (("memory", str(fact.memory_id)), ("told", same_words(item.text)))
    return WindowCandidate(item, told, told)


def memory_of(section: Section, number: int, hit: Hit) -> WindowCandidate:
    """Return a memory; it goes when its words are shown by a turn, a fact or a better memory."""
    if not isinstance(hit, Hit):
        raise InvalidInput(
            f"{section} must be Hit objects, as recall() returns them, not {hit!r:.80}"
        )
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
        author=memory.author,
        score=hit.score,
        score_parts=hit.parts,
        importance=memory.importance,
        source_event_ids=memory.source_event_ids,
        thread_id=memory.thread_id,
    )
    told = (("memory", str(memory.memory_id)), ("told", same_words(item.text)))
    return WindowCandidate(item, told, (*told, ("said", same_words(item.text))))


def turns_of(history: Sequence[Event]) -> list[WindowCandidate]:
    """Return the turns newest first, numbered oldest first.

    The same words may be said twice; only the newest turn can be the query itself.
    """
    for event in history:
        if not isinstance(event, Event):
            raise InvalidInput(f"history must be Event objects, not {event!r:.80}")
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
        tells = (("event", event.event_id), ("said", same))
        repeats = [("event", event.event_id), ("told", same)]
        if number == len(history) and event.role == "user":
            repeats.append(("asked", same))
        turns.append(WindowCandidate(item, tells, tuple(repeats)))
    return turns[::-1]


def paragraph_of(section: Section, text: str) -> WindowCandidate:
    """Return the one text of a section."""
    what = "system_prompt" if section == "system" else section
    return WindowCandidate(ContextItem(section=section, text=_clean(text, what)))


def summary_of(text: str, event_ids: Sequence[str]) -> WindowCandidate:
    """Return a summary; it goes when every turn it was made of is shown."""
    entry = paragraph_of("summary", text)
    item = replace(entry.item, source_event_ids=tuple(event_ids))
    return replace(entry, item=item, all_of=tuple(("event", one) for one in event_ids))


def without_shown(item: ContextItem, shown: Sequence[ContextItem]) -> ContextItem:
    """Return a summary without the sentences that stand in shown turns, word for word.

    Summaries without a model are made of sentences of the turns.
    """
    said = [f" {same_words(turn.text)} " for turn in shown if not turn.cut]
    told = sentences(item.text)
    new = [one for one in told if not any(_bare(one) in turn for turn in said)]
    if len(new) == len(told):
        return item
    space = "" if language(item.text) == "zh" else " "
    return replace(item, text=space.join(new), tokens=0)


def _bare(sentence: str) -> str:
    return same_words(sentence).rstrip(".。")


def _clean(text: str, what: str) -> str:
    """Return a text as it is shown. Raises InvalidInput, naming what, for what is none."""
    if not isinstance(text, str):
        raise InvalidInput(
            f'{what} must be a text, not {type(text).__name__}: {text!r:.80}; "" is shown nowhere'
        )
    return clean_text(text).strip()


def same_words(text: str) -> str:
    """Return what texts have in common that differ only in case and white space."""
    return " ".join(clean_text(text).split()).casefold()
