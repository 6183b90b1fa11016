"""Selects what a search returns: turns, facts or all; puts facts below their turns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from adk_memory.options import Returned
from shared_core import Hit, Memory
from shared_core.core import MemoryKind
from shared_core.nlp import search_terms, sentences, words_of

KINDS: Final[Mapping[Returned, Sequence[MemoryKind] | None]] = {
    "all": None,
    "turns": ("episodic", "semantic"),
    "facts": ("semantic", "reflection", "item"),
}
"""Kinds that a search reads. With "turns" the entries that a caller added come along."""
MAX_RUN: Final = 4
"""Characters up to which a run without spaces, as Chinese is written, counts as one word."""
MOST_SAID: Final = 2.0
"""Length of a session, as a multiple of its summary, up to which the summary may repeat it."""
SHORT_SESSION: Final = 20
"""Turns up to which a session may be short."""


def was_said(memory: Memory) -> bool:
    """Return whether a memory is a turn, or an entry that a caller added: nothing derived."""
    return memory.kind == "episodic" or memory.thread_id is None


def looked_up(query: str) -> Callable[[str], bool] | None:
    """Return the test of a query that is one word: whether a text holds it; else None.

    A model finds "Java" near a text about Python, but who looks up one word wants that word. A run
    of Chinese is found within a longer one, any other word as a whole, in any of its forms.
    """
    words = words_of(query)
    if len(words) != 1:
        return None
    [(word, is_run)] = words
    if is_run:
        if len(word) > MAX_RUN:
            return None
        return lambda text: any(word in one for one, _ in words_of(text))
    terms = {*search_terms(word)}
    if not terms:  # a stop word
        return lambda text: word in {one for one, _ in words_of(text)}
    return lambda text: terms <= {*search_terms(text)}


def facts_below_turns(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits with each fact below the turn that it was drawn from.

    A turn stays where it is if a part of it has ended.
    """
    ordered = [*hits]
    for turn in hits:
        if turn.memory.kind != "episodic" or turn.parts.get("ended", 0.0) > 0:
            continue
        above = [
            place
            for place, fact in enumerate(ordered[: ordered.index(turn)])
            if _is_drawn_from(fact.memory, turn.memory)
        ]
        if above:
            ordered.remove(turn)
            ordered.insert(above[0], turn)
    return ordered


def _is_drawn_from(fact: Memory, turn: Memory) -> bool:
    same_thread = fact.kind == "semantic" and fact.thread_id == turn.thread_id
    return same_thread and not {*turn.source_event_ids}.isdisjoint(fact.source_event_ids)


def repeats(summary: str, turns: Sequence[str]) -> bool:
    """Return whether a summary repeats a short session: every sentence word for word.

    A session that says more than twice as much as its summary is not short.
    """
    whole, own = _words("\n".join(turns)), _words(summary)
    if len(whole) > MOST_SAID * len(own):
        return False
    return all(_words(sentence) in whole for sentence in sentences(summary))


def _words(text: str) -> str:
    """Return the words of a text without case, punctuation and spaces between them."""
    return " ".join(word for word, _ in words_of(text))
