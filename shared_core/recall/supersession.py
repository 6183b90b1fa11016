"""Finds turns that a later turn supersedes: same speaker, same topic, and a change. Pure.

"The budget is 500" and, a week later, "we increased the budget to 620" match a question about the
budget equally well. The later one ranks first, unless the question asks about the past. The words
of change are data: nlp/rules/changes.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from shared_core.core.digest_cache import DigestCache
from shared_core.core.domain import MemoryKind, Role
from shared_core.nlp.changes import TEXTS, asks_how_it_was, asks_how_it_was_before, tells_change
from shared_core.nlp.text import search_terms
from shared_core.ports.recall import KINDS, Candidates
from shared_core.recall.matches import Matches

if TYPE_CHECKING:
    from shared_core.ports.recall import Flags, Numbers, Places

Overtaken: TypeAlias = Sequence[tuple[int, int]]
"""Pairs of indexes of candidates, (superseded, superseding), by the time of the second."""

LEAST_SHARED: Final = 0.3
"""Minimum idf share of the query's words that both must hold."""
LEAST_SIMILAR: Final = 0.5
"""Minimum similarity of the later one to the query, relative to the most similar memory."""
LEAD: Final = 0.05
"""The later one leads by at least this score; it only fixes the order."""
MOST_COMPARED: Final = 200
"""Maximum number of compared candidates: those with the largest share, then similarity."""


class CandidateRoles:
    """Who said each candidate, and which are turns of people or facts of the user, (K,) each."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self.is_agent = self.of_voices(lambda _, role: role == "agent")
        self.is_turn = self.of_kind("episodic") & ~self.is_agent
        self.is_fact = self.of_kind("semantic") & self.of_voices(lambda author, _: author is None)
        """A fact of the user, which a turn of the user can supersede."""

    def of_voices(self, judge: Callable[[str | None, Role | None], bool]) -> Flags:
        """Return what holds of the author and the role of each candidate, (K,)."""
        voices = [judge(author, role) for author, role in self._candidates.voices]
        flags: Flags = np.array(voices, bool)[self._candidates.speakers]
        return flags

    def of_kind(self, kind: MemoryKind) -> Flags:
        """Return which candidates are of a kind, (K,)."""
        flags: Flags = self._candidates.kinds == KINDS.index(kind)
        return flags


def overtaken(
    matches: Matches, candidates: Candidates, roles: CandidateRoles, query: str
) -> Overtaken:
    """Return the pairs of superseded and superseding candidates.

    matches: of the whole corpus. Turns of an agent supersede nothing, because they repeat the user.
    A query about the past has no pairs; a query about the state before a change reverses them.
    """
    before = asks_how_it_was_before(query)
    if asks_how_it_was(query) and not before:
        return []
    shares = _shares(matches, candidates.numbers)
    about = _about(shares.sum(axis=1), matches.similarity, candidates, roles)
    if len(about) < 2:
        return []
    similarity = matches.similarity[candidates.numbers[about]]
    later = np.flatnonzero(roles.is_turn[about] & _similar(similarity, matches.similarity))
    shares = shares[about]
    # Rows are earlier candidates, columns later ones.
    shared = shares @ (shares[later] > 0).T >= LEAST_SHARED
    shared &= np.arange(len(about))[:, None] < later
    shared &= _same_speaker(candidates, roles, about, about[later])
    tells = np.flatnonzero(shared.any(axis=0))
    tells = tells[candidates.texts.judged(tells_change, about[later[tells]])]
    pairs = [
        (int(about[earlier]), int(about[later[at]]))
        for at in tells.tolist()
        for earlier in np.flatnonzero(shared[:, at]).tolist()
    ]
    return [(later, earlier) for earlier, later in reversed(pairs)] if before else pairs


def told_in_full(candidates: Candidates, roles: CandidateRoles) -> Overtaken:
    """Return the pairs of a fact and the turn of its time that says the same and more.

    A fact says less than its turn, so it must not stand above it: "User has two children" above "I
    have two children, Mila and Jan". A turn with a part that ended stays where it is.
    """
    facts = np.flatnonzero(roles.is_fact)
    turns = np.flatnonzero(roles.is_turn & (candidates.ended == 0))
    if not len(facts) or not len(turns):
        return []
    same = candidates.occurred[facts][:, None] == candidates.occurred[turns]
    text = candidates.texts.text
    return [
        (int(facts[fact]), int(turns[turn]))
        for fact, turn in np.argwhere(same).tolist()
        if _tells_of(_both(text(int(facts[fact])), text(int(turns[turn]))))
    ]


def _both(fact: str, turn: str) -> str:
    return f"{len(fact)} {fact}{turn}"


def _tells_in_full(both: str) -> bool:
    """Tell whether a turn holds the greater part of the words of a fact, beside the user's own."""
    length, _, texts = both.partition(" ")
    fact, turn = texts[: int(length)], texts[int(length) :]
    words = {*search_terms(fact)} - {*search_terms("User 用户")}
    return bool(words) and len(words & {*search_terms(turn)}) * 2 >= len(words)


def _about(
    held: Numbers, similarity: Numbers, candidates: Candidates, roles: CandidateRoles
) -> Places:
    """Return the places of the turns and facts to compare, by time."""
    places = np.flatnonzero((roles.is_turn | roles.is_fact) & (held >= LEAST_SHARED))
    if len(places) > MOST_COMPARED:
        near = np.nan_to_num(similarity[candidates.numbers[places]])
        places = places[np.lexsort((-near, -held[places]))[:MOST_COMPARED]]
    by_time: Places = places[np.lexsort((candidates.numbers[places], candidates.occurred[places]))]
    return by_time


def _shares(matches: Matches, places: Places) -> Numbers:
    """Return the idf share by memory and word, among the words that any memory holds, (K, T)."""
    weights = matches.idf * (np.bincount(matches.words, minlength=matches.terms) > 0)
    shares: Numbers = matches.holds(places) * (weights / max(float(weights.sum()), 1e-9))
    return shares


def _similar(own: Numbers, similarity: Numbers) -> Flags:
    """Return which memories are similar enough to the query; without vectors all are.

    own: their similarity. similarity: of all memories.
    """
    near: Flags = np.isnan(own) | (own >= LEAST_SIMILAR * np.fmax.reduce(similarity))
    return near


def _same_speaker(
    candidates: Candidates, roles: CandidateRoles, earlier: Places, later: Places
) -> Flags:
    """Return which later candidates (columns) are of the speakers of earlier ones (rows)."""
    by_user = roles.of_voices(lambda _, role: role == "user")[later]
    speakers = candidates.speakers
    same: Flags = np.where(
        roles.is_fact[earlier][:, None], by_user, speakers[earlier][:, None] == speakers[later]
    )
    return same


def raised(scores: Numbers, pairs: Overtaken) -> Numbers:
    """Return the additions to scores that rank each turn above those it supersedes, (K,)."""
    reached = scores.copy()
    for earlier, later in pairs:
        reached[later] = max(reached[later], reached[earlier] + LEAD)
    added: Numbers = reached - scores
    return added


_tells_of: Final = DigestCache("told in full", _tells_in_full, TEXTS)
"""Of a fact and a turn, as _both() joins them."""
