"""Finds how well each memory of a corpus, read with its neighbours, holds the query's words. Pure.

The words are pairs of a memory and a word that it holds, because most memories hold none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from shared_core.nlp.bm25 import (
    Spread,
    after,
    before,
    bm25,
    damped,
    inverse_document_frequency,
    own_damped,
    spread,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    from shared_core.ports.recall import Corpus, Flags, Numbers, Places, TurnOrder

    Pairs: TypeAlias = tuple[Places, Places, Numbers | float]
    """Texts, the words that they hold, and how often, (H,) each."""

BEST_OF_SESSION: Final = 3
"""Number of best turns of a session whose mean counts."""
_PADDING: Final = 2
"""Rows without a word before and after the memories: a look two turns back or ahead finds them."""


class Matches:
    """The words of a query in the N memories of a corpus; what is not asked is not computed.

    holders, words: (H,), as in Corpus. idf: (T,), how rare each word is.
    """

    def __init__(
        self, similarity: Numbers, order: TurnOrder, holders: Places, words: Places, terms: int
    ) -> None:
        self.similarity = similarity
        self.order = order
        self.holders = holders
        self.words = words
        self.terms = terms
        self.size = len(similarity)
        self.idf = inverse_document_frequency(words, terms, self.size)

    @classmethod
    def of(cls, corpus: Corpus) -> Matches:
        """Return the matches of all words of the query."""
        return cls(corpus.similarity, corpus.order, corpus.holders, corpus.words, corpus.terms)

    def only(self, kept: Sequence[int]) -> Matches:
        """Return the matches of some of the words."""
        numbers = np.full(self.terms, -1, np.intp)
        numbers[kept] = np.arange(len(kept))
        words = numbers[self.words]
        stays = words >= 0
        return Matches(self.similarity, self.order, self.holders[stays], words[stays], len(kept))

    def holds(self, places: Places) -> Flags:
        """Return which words some memories hold: the shape of places, and T."""
        return self._held[places + _PADDING]

    def coverage(self, holds: Flags) -> Numbers:
        """Return the share, 0 to 1, of the query's idf in some words; holds: (..., T)."""
        total = float(self.idf.sum())
        weights = self.idf / total if total > 0 else np.zeros(len(self.idf))
        share: Numbers = np.where(holds, weights, 0.0).sum(axis=-1)
        return share

    @cached_property
    def bm25(self) -> Numbers:
        """BM25 of each memory, (N,)."""
        return bm25(self.holders, self.words, 1.0, self.order.once(own_damped), self.idf)

    @cached_property
    def worded(self) -> Spread:
        """The spread of bm25."""
        return spread(self.bm25)

    def z_around(self, at: Places) -> dict[str, Numbers]:
        """Return standardised BM25 of memories read as one with their neighbours, (K,) each.

        It has the scores of the memories at these places: with the turn before ("previous"), with
        the turn after ("next"), and with both ("around").
        """
        if not self.order.once(_has_neighbours):  # each is read alone then
            own = self.worded.standardised(self.bm25[at])
            return {"previous": own, "next": own, "around": own}
        previous, following, around = self._read_with_neighbours()
        damping = self.order.once(_damped_with_neighbours)
        return {
            "previous": _standardised_at(at, self._scores(previous, damping["previous"])),
            "next": _standardised_at(at, self._scores(following, damping["next"])),
            "around": _standardised_at(at, self._scores(around, damping["around"])),
        }

    def z_sessions(self, at: Places) -> dict[str, Numbers]:
        """Return standardised scores of whole sessions, and of the mean of their three best turns.

        It has the scores of the sessions of the memories at these places, (K,) each.
        """
        similarity = np.where(np.isnan(self.similarity), 0.0, self.similarity)
        if not self.order.once(_has_neighbours):  # each is a session
            own = self.worded.standardised(self.bm25[at])
            meant = _standardised_at(at, similarity)
            return {"z_session": own, "z_session_similarity": meant, "z_session_words": own}
        found = self.order.once(_sessions)
        pairs = _counted(found.of[self.holders], self.words)
        whole = self._scores(pairs, self.order.once(_damped_sessions))
        scores = {
            "z_session": whole,
            "z_session_similarity": found.mean_of_best(similarity),
            "z_session_words": found.mean_of_best(self.bm25),
        }
        return {name: _standardised_at(at, each[found.of]) for name, each in scores.items()}

    @cached_property
    def _held(self) -> Flags:
        """Which memory holds which word, (N + 2 * _PADDING, T)."""
        held = np.zeros((self.size + 2 * _PADDING, self.terms), bool)
        held[self.holders + _PADDING, self.words] = True
        return held

    def _read_with_neighbours(self) -> tuple[Pairs, Pairs, Pairs]:
        """Return which words memories hold with the turn before, the turn after, and both."""
        flat, step = self._held.reshape(-1), self.terms
        texts, words = self.holders, self.words
        cells = (texts + _PADDING) * step + words
        follows, leads = ~self.order.opens, self.order.once(has_next)
        has_before, has_after = follows[texts], leads[texts]
        held_before, held_after = has_before & flat[cells - step], has_after & flat[cells + step]
        # A word also counts for the next turn, and for the one before, if they do not hold it.
        on = np.flatnonzero(has_after & ~held_after)
        back = np.flatnonzero(has_before & ~held_before)
        later, earlier = texts[on] + 1, texts[back] - 1
        twice = leads[later] & flat[cells[on] + 2 * step]
        once = ~(follows[earlier] & flat[cells[back] - 2 * step])
        previous = (
            np.concatenate([texts, later]),
            np.concatenate([words, words[on]]),
            np.concatenate([1.0 + held_before, np.ones(len(on))]),
        )
        following = (
            np.concatenate([texts, earlier]),
            np.concatenate([words, words[back]]),
            np.concatenate([1.0 + held_after, np.ones(len(back))]),
        )
        around = (
            np.concatenate([texts, later, earlier[once]]),
            np.concatenate([words, words[on], words[back[once]]]),
            np.concatenate([1.0 + held_before + held_after, 1.0 + twice, np.ones(int(once.sum()))]),
        )
        return previous, following, around

    def _scores(self, pairs: Pairs, damping: Numbers) -> Numbers:
        texts, words, frequency = pairs
        idf = inverse_document_frequency(words, self.terms, len(damping))
        return bm25(texts, words, frequency, damping, idf)


@dataclass(frozen=True, slots=True)
class _Sessions:
    """of: the session of each memory, (N,). first: the first memory of each, (S,). size: (S,)."""

    of: Places
    first: Places
    size: Places

    def mean_of_best(self, scores: Numbers) -> Numbers:
        """Return the mean of the three best scores of each session, (S,)."""
        rest, total = scores.copy(), np.zeros(len(self.first))
        for taken in range(BEST_OF_SESSION):
            best = np.maximum.reduceat(rest, self.first)
            total += np.where(self.size > taken, best, 0.0)
            places = np.flatnonzero(rest == best[self.of])
            session = self.of[places]
            rest[places[np.flatnonzero(np.diff(session, prepend=-1))]] = -np.inf
        mean: Numbers = total / np.minimum(self.size, BEST_OF_SESSION)
        return mean


def _sessions(order: TurnOrder) -> _Sessions:
    first = np.flatnonzero(order.opens)
    return _Sessions(
        of=np.cumsum(order.opens) - 1, first=first, size=np.diff(first, append=len(order.opens))
    )


def _has_neighbours(order: TurnOrder) -> bool:
    return not order.opens.all()


def has_next(order: TurnOrder) -> Flags:
    """Return whether a turn of the same session follows each memory, (N,)."""
    leads = np.zeros(len(order.opens), bool)
    leads[:-1] = ~order.opens[1:]
    return leads


def _damped_with_neighbours(order: TurnOrder) -> dict[str, Numbers]:
    length = order.length
    previous, following = before(length, order.opens), after(length, order.opens)
    return {
        "previous": damped(length + previous),
        "next": damped(length + following),
        "around": damped(length + previous + following),
    }


def _damped_sessions(order: TurnOrder) -> Numbers:
    return damped(np.add.reduceat(order.length, order.once(_sessions).first))


def _counted(sessions: Places, words: Places) -> Pairs:
    """Return the words of sessions with their frequency; equal pairs stand side by side."""
    is_other = np.ones(len(words), bool)
    is_other[1:] = (np.diff(sessions) != 0) | (np.diff(words) != 0)
    first = np.flatnonzero(is_other)
    return sessions[first], words[first], np.diff(first, append=len(words)).astype(np.float64)


def _standardised_at(at: Places, scores: Numbers) -> Numbers:
    return spread(scores).standardised(scores[at])
