"""Which turns a later one overtakes: the same speaker on the same matter, who tells a change. Pure.

"The budget is 500" and, a week later, "we increased the budget to 620": both hold what a question
about the budget holds, and similarity cannot tell which is true now. The later one stands first,
unless the question asks how it was. Words of change are data: rules/changes.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from shared_core.core.digest_cache import DigestCache
from shared_core.ports.recall import Candidate
from shared_core.recall.bm25 import Matches

if TYPE_CHECKING:
    from shared_core.ports.recall import Flags, Numbers

Overtaken: TypeAlias = Sequence[tuple[int, int]]
"""Pairs of an earlier and a later one, as places among the candidates, by the later one's time."""

LEAST_SHARED: Final = 0.3
"""Both hold so much of what the words of the query tell, of those that any memory holds."""
LEAST_SIMILAR: Final = 0.5
"""The later one is so similar to the query, relative to the most similar memory."""
LEAD: Final = 0.05
"""The later one scores so much more than the earlier: an order, not a degree."""
MOST_COMPARED: Final = 200
"""So many are compared with each other: those that hold most, and of equals the most similar."""
READ_CHARACTERS: Final = 2_000
"""So much of a text is looked at for words of change."""
TEXTS: Final = 16_384
"""Of so many it is remembered whether they tell a change: the same ones are candidates again."""


def overtaken(matches: Matches, candidates: Sequence[Candidate], query: str) -> Overtaken:
    """Return which candidates later ones overtake; none where the query asks what happened.

    matches: of the whole corpus. What an agent says overtakes nothing: it repeats. Where the query
    asks how it was before, the earlier of each pair overtakes the later.
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


def _about(held: Numbers, similarity: Numbers, candidates: Sequence[Candidate]) -> list[int]:
    """Return the places of the turns and facts that may overtake or be overtaken, by time."""
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
    """Return the share of what the words that are held at all tell, by memory and word, (N, T)."""
    weights = matches.idf * matches.holds.any(axis=0)
    shares: Numbers = matches.holds * (weights / max(float(weights.sum()), 1e-9))
    return shares


def _similar(similarity: Numbers) -> Flags:
    """Return which memories are about as similar as the best; without vectors all are, (N,)."""
    best = np.nanmax(similarity) if not np.isnan(similarity).all() else 0.0
    near: Flags = np.isnan(similarity) | (similarity >= LEAST_SIMILAR * best)
    return near


def _is_turn(one: Candidate) -> bool:
    return one.kind == "episodic" and one.role != "agent"


def _is_fact(one: Candidate) -> bool:
    """Tell whether this is a fact of the user, which a turn of theirs can overtake."""
    return one.kind == "semantic" and one.author is None


def _tells_change(one: Candidate) -> bool:
    return _is_turn(one) and tells_change(one.text)


def _same_speaker(earlier: Candidate, later: Candidate) -> bool:
    if _is_fact(earlier):
        return later.role == "user"
    return (earlier.author, earlier.role) == (later.author, later.role)


def raised(scores: Numbers, pairs: Overtaken) -> Numbers:
    """Return what is added to scores, so that a turn stands just above those it overtakes, (K,)."""
    reached = scores.copy()
    for earlier, later in pairs:
        reached[later] = max(reached[later], reached[earlier] + LEAD)
    added: Numbers = reached - scores
    return added


def tells_change(text: str) -> bool:
    """Tell whether a text says that something is no longer as it was."""
    return _changes(text[:READ_CHARACTERS])


def asks_how_it_was(query: str) -> bool:
    """Tell whether a question asks for what was, or for how it has changed."""
    asks = _words("past").search(query[:READ_CHARACTERS]) is not None
    return asks or asks_how_it_was_before(query)


def asks_how_it_was_before(query: str) -> bool:
    """Tell whether a question asks for what was before it changed."""
    return _words("before").search(query[:READ_CHARACTERS]) is not None


@lru_cache
def _words(table: Literal["change", "past", "before"]) -> re.Pattern[str]:
    text = (files("shared_core.nlp.rules") / "changes.toml").read_text(encoding="utf-8")
    words = tomllib.loads(text)[table]
    either = rf"\b(?:{'|'.join(words['en'])})\b|{'|'.join(words['zh'])}"
    return re.compile(either, re.IGNORECASE)


_changes: Final = DigestCache(lambda text: _words("change").search(text) is not None, TEXTS)
