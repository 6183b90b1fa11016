"""Turns candidates into ranked hits. Pure."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from shared_core.domain import Hit, MemoryKind
from shared_core.ports import Candidate, Match, Spread
from shared_core.text import search_terms

QUESTION: Final = re.compile(r"[?？][\"'”’」』）)\]\s]*\Z")
CLOSING_CHARACTERS: Final = 8
"""A question mark is looked for before at most so many quotes, brackets and spaces."""
WORDS: Final = re.compile(r"\w+")
LEAST_DEVIATION: Final = 1e-9
"""Less is the noise of adding up equal scores."""
LEAST_CHARACTERS: Final = 200
"""A text is not cut to less than this, unless nothing else is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each part adds to a score, in standard deviations of the scope's own scores.

    Measured in docs/benchmarks.md. similarity, words: the two channels. context: the share of what
    the turn before scores; an answer seldom repeats the words of its question. question: a turn
    that asks seldom answers. agent: what the agent said is long and on topic, and mostly came out
    of what the user said. other_speaker: the query names one speaker, and the turn is another's.
    fact: a fact was found worth keeping. summary: its sentences are remembered as turns as well.
    """

    similarity: float = 1.0
    words: float = 1.0
    context: float = 0.4
    question: float = -1.0
    agent: float = -2.0
    other_speaker: float = -1.0
    fact: float = 0.5
    summary: float = -0.5


def rank(
    candidates: Sequence[Candidate],
    spread: Spread,
    *,
    asked: Collection[str] = (),
    limit: int,
    weights: Weights = Weights(),
) -> list[Hit]:
    """Return the best candidates, best first, with the parts of their scores.

    Each score is standardised over all living memories of the scope, then summed: a rank fusion
    throws the confidence of either channel away (docs/benchmarks.md). Where no memory of the scope
    differs from another in either, such as the only one there is, the cosine and the coverage
    count themselves. Equal scores: newest first. asked: the search terms of the query.
    """
    scoring = _Scoring(spread, weights, _speakers_named(candidates, frozenset(asked)))
    ranked = sorted(
        [(scoring.added(candidate), candidate) for candidate in candidates],
        key=lambda pair: (sum(pair[0].values()), pair[1].occurred_at, pair[1].memory_id.int),
        reverse=True,
    )
    return [
        Hit(
            memory=candidate.memory(),
            score=sum(added.values()),
            parts=scoring.raw(candidate) | added,
        )
        for added, candidate in ranked[:limit]
    ]


@dataclass(frozen=True, slots=True)
class _Scoring:
    """Scores the candidates of one query. named: the speakers it names."""

    spread: Spread
    weights: Weights
    named: Collection[str]

    def added(self, candidate: Candidate) -> dict[str, float]:
        """Return the parts whose sum is the score."""
        match = candidate.match
        meaning, words = self._z_similarity(match), self._words(match)
        if self._all_alike:
            meaning, words = match.similarity or 0.0, match.coverage
        return {
            "meaning": self.weights.similarity * meaning,
            "words": self.weights.words * words,
            "context": self._context(candidate),
            "question": self.weights.question if is_question(candidate.text) else 0.0,
            "speaker": self._speaker(candidate),
            "kind": self._kind(candidate.kind),
        }

    def raw(self, candidate: Candidate) -> dict[str, float]:
        """Return what the parts were made from."""
        match = candidate.match
        raw = {"bm25": match.bm25, "coverage": match.coverage, "z_bm25": self._z_bm25(match)}
        if match.similarity is not None:
            raw["similarity"] = match.similarity
            raw["z_similarity"] = self._z_similarity(match)
        if candidate.previous is not None:
            raw["previous"] = max(candidate.previous.similarity or 0.0, candidate.previous.coverage)
        return raw

    @property
    def _all_alike(self) -> bool:
        """Whether there is no deviation to count in."""
        return max(self.spread.similarity_sd, self.spread.bm25_sd) <= LEAST_DEVIATION

    def _context(self, candidate: Candidate) -> float:
        """An agent's turn gets nothing from the one before: it answers, and the user told."""
        if candidate.previous is None or candidate.role == "agent":
            return 0.0
        return self.weights.context * (
            self.weights.similarity * self._z_similarity(candidate.previous)
            + self.weights.words * self._words(candidate.previous)
        )

    def _speaker(self, candidate: Candidate) -> float:
        author = candidate.author
        if self.named and author is not None:
            return 0.0 if author in self.named else self.weights.other_speaker
        return self.weights.agent if candidate.role == "agent" else 0.0

    def _kind(self, kind: MemoryKind) -> float:
        if kind == "semantic":
            return self.weights.fact
        return self.weights.summary if kind == "summary" else 0.0

    def _z_similarity(self, match: Match) -> float:
        if match.similarity is None:
            return 0.0
        return _standardised(
            match.similarity, self.spread.similarity_mean, self.spread.similarity_sd
        )

    def _z_bm25(self, match: Match) -> float:
        return _standardised(match.bm25, self.spread.bm25_mean, self.spread.bm25_sd)

    def _words(self, match: Match) -> float:
        """One rare word of five, such as a name, lifts BM25 by five deviations: coverage damps."""
        return math.sqrt(match.coverage) * self._z_bm25(match)


def relevance(hit: Hit) -> float:
    """Return how much a hit has to do with its query, 0 to 1, comparable between answers.

    The largest of the cosine similarity, the coverage of the query's words, and either of the turn
    before: a text is relevant if it means the same, says the same, or answers what does. 1 for what
    has no vector to compare and was found by its words.
    """
    if "similarity" not in hit.parts:
        return 1.0
    return max(hit.parts.get(part, 0.0) for part in ("similarity", "coverage", "previous"))


def collapsed(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """Return the first hits that do not repeat a better one.

    A text repeats another when it has the same words in the same order; case, punctuation and
    spaces do not count. One word more may be a "not", so anything else stays. A summary that says
    no more than a turn gives way to the turn.
    """
    kept: dict[str, Hit] = {}
    for hit in hits:
        words = " ".join(WORDS.findall(unicodedata.normalize("NFKC", hit.memory.text).casefold()))
        if words not in kept:
            if len(kept) == limit:
                break
            kept[words] = hit
        elif kept[words].memory.kind == "summary":
            kept[words] = hit
    return list(kept.values())


def fitting(hits: Sequence[Hit], max_characters: int) -> list[tuple[Hit, str]]:
    """Return hits with their texts until the characters are used up; the last one may be cut.

    A text is cut, with an ellipsis, when at least LEAST_CHARACTERS of it can be shown, or nothing
    else is; one that does not fit is left out, and a shorter one after it may still be in.
    """
    shown: list[tuple[Hit, str]] = []
    left = max_characters
    for hit in hits:
        text = hit.memory.text
        if len(text) > left:
            if left < LEAST_CHARACTERS and shown:
                continue
            text = text[: left - 1] + "…"
        shown.append((hit, text))
        left -= len(text)
        if left <= 0:
            break
    return shown


def is_question(text: str) -> bool:
    """Tell whether text ends with a question."""
    return QUESTION.search(text[-CLOSING_CHARACTERS:]) is not None


def _speakers_named(candidates: Sequence[Candidate], asked: Collection[str]) -> set[str]:
    """Return the authors of candidates whose first name the query holds, if it names only some."""
    authors = {author for candidate in candidates if (author := candidate.author)}
    named = set()
    for author in authors:
        name = search_terms(author.split(maxsplit=1)[0]) if author.strip() else []
        if name and all(term in asked for term in name):
            named.add(author)
    return named if named != authors else set()


def _standardised(score: float, mean: float, deviation: float) -> float:
    return (score - mean) / deviation if deviation > LEAST_DEVIATION else 0.0
