"""Finds turns that a later turn supersedes: same speaker, same topic, and a change. Pure.

"The budget is 500" and, a week later, "we increased the budget to 620" match a question about the
budget equally well. The later one ranks first, unless the question asks about the past. The words
of change are data: nlp/rules/changes.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from shared_core.core.digest_cache import DigestCache
from shared_core.nlp.text import search_terms
from shared_core.ports.recall import Candidate
from shared_core.recall.bm25 import Matches

if TYPE_CHECKING:
    from shared_core.ports.recall import Flags, Numbers

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
READ_CHARACTERS: Final = 2_000
"""Maximum characters of a text that are searched for words of change."""
TEXTS: Final = 16_384
"""Size of the cache of texts that were searched; the same texts are candidates again."""


def overtaken(matches: Matches, candidates: Sequence[Candidate], query: str) -> Overtaken:
    """Return the pairs of superseded and superseding candidates.

    matches: of the whole corpus. Turns of an agent supersede nothing, because they repeat the user.
    A query about the past has no pairs; a query about the state before a change reverses them.
    """
    before = asks_how_it_was_before(query)
    if asks_how_it_was(query) and not before:
        return []
    shares = _held(matches)
    about = _about(shares.sum(axis=1), matches.similarity, candidates)
    numbers = [candidates[place].number for place in about]
    shared = shares[numbers] @ (shares[numbers] > 0).T >= LEAST_SHARED
    is_similar = _similar(matches.similarity)[numbers]
    pairs = [
        (about[earlier], place)
        for at, place in enumerate(about)
        if is_similar[at] and shared[:at, at].any() and _tells_change(candidates[place])
        for earlier in range(at)
        if shared[earlier, at] and _same_speaker(candidates[about[earlier]], candidates[place])
    ]
    return [(later, earlier) for earlier, later in reversed(pairs)] if before else pairs


def told_in_full(candidates: Sequence[Candidate]) -> Overtaken:
    """Return the pairs of a fact and the turn of its time that says the same and more.

    A fact says less than its turn, so it must not stand above it: "User has two children" above "I
    have two children, Mila and Jan". A turn with a part that ended stays where it is.
    """
    turns: dict[datetime, list[int]] = {}
    for place, one in enumerate(candidates):
        if _is_turn(one) and not one.ended:
            turns.setdefault(one.occurred_at, []).append(place)
    return [
        (place, turn)
        for place, fact in enumerate(candidates)
        if _is_fact(fact)
        for turn in turns.get(fact.occurred_at, ())
        if _tells_of(fact.text, candidates[turn].text)
    ]


def _tells_of(fact: str, turn: str) -> bool:
    """Tell whether a turn holds the greater part of the words of a fact, beside the user's own."""
    words = {*search_terms(fact)} - {*search_terms("User 用户")}
    return bool(words) and len(words & {*search_terms(turn)}) * 2 >= len(words)


def _about(held: Numbers, similarity: Numbers, candidates: Sequence[Candidate]) -> list[int]:
    """Return the indexes of the turns and facts to compare, by time."""
    turns = [
        place
        for place, one in enumerate(candidates)
        if (_is_turn(one) or _is_fact(one)) and held[one.number] >= LEAST_SHARED
    ]
    near = np.nan_to_num(similarity)
    turns.sort(key=lambda place: -near[candidates[place].number])
    turns.sort(key=lambda place: -held[candidates[place].number])
    return sorted(
        turns[:MOST_COMPARED],
        key=lambda place: (candidates[place].occurred_at, candidates[place].number),
    )


def _held(matches: Matches) -> Numbers:
    """Return the idf share by memory and word, among the words that any memory holds, (N, T)."""
    weights = matches.idf * matches.holds.any(axis=0)
    shares: Numbers = matches.holds * (weights / max(float(weights.sum()), 1e-9))
    return shares


def _similar(similarity: Numbers) -> Flags:
    """Return which memories are similar enough to the query; without vectors all are, (N,)."""
    best = np.nanmax(similarity) if not np.isnan(similarity).all() else 0.0
    near: Flags = np.isnan(similarity) | (similarity >= LEAST_SIMILAR * best)
    return near


def _is_turn(one: Candidate) -> bool:
    return one.kind == "episodic" and one.role != "agent"


def _is_fact(one: Candidate) -> bool:
    """Return whether this is a fact of the user, which a turn of the user can supersede."""
    return one.kind == "semantic" and one.author is None


def _tells_change(one: Candidate) -> bool:
    return _is_turn(one) and tells_change(one.text)


def _same_speaker(earlier: Candidate, later: Candidate) -> bool:
    if _is_fact(earlier):
        return later.role == "user"
    return (earlier.author, earlier.role) == (later.author, later.role)


def raised(scores: Numbers, pairs: Overtaken) -> Numbers:
    """Return the additions to scores that rank each turn above those it supersedes, (K,)."""
    reached = scores.copy()
    for earlier, later in pairs:
        reached[later] = max(reached[later], reached[earlier] + LEAD)
    added: Numbers = reached - scores
    return added


def tells_change(text: str) -> bool:
    """Return whether a text reports a change."""
    return _changes(text[:READ_CHARACTERS])


def asks_how_it_was(query: str) -> bool:
    """Return whether a question asks about the past or about a change."""
    asks = _words("past").search(query[:READ_CHARACTERS]) is not None
    return asks or asks_how_it_was_before(query)


def asks_how_it_was_before(query: str) -> bool:
    """Return whether a question asks for the state before a change."""
    return _words("before").search(query[:READ_CHARACTERS]) is not None


@lru_cache
def _words(table: Literal["change", "past", "before"]) -> re.Pattern[str]:
    text = (files("shared_core.nlp.rules") / "changes.toml").read_text(encoding="utf-8")
    words = tomllib.loads(text)[table]
    either = rf"\b(?:{'|'.join(words['en'])})\b|{'|'.join(words['zh'])}"
    return re.compile(either, re.IGNORECASE)


_changes: Final = DigestCache(
    "changes", lambda text: _words("change").search(text) is not None, TEXTS
)
