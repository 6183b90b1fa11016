"""Turns candidates into ranked hits: learned weights, matched query words, fusion. Pure."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from shared_core.core.decay import AROUSAL_SLOWDOWN, SECONDS_A_DAY
from shared_core.core.domain import Hit, Memory
from shared_core.nlp.text import TERM, search_terms
from shared_core.nlp.uncertainty import shown_text
from shared_core.ports.recall import Candidate, Corpus, Ranking, RankingQuery, Recalled, ThreeFactor
from shared_core.recall.bm25 import Matches, matched
from shared_core.recall.features import BY_VOICES, features, overtakings
from shared_core.recall.supersession import raised, told_in_full

if TYPE_CHECKING:
    from shared_core.ports.recall import Numbers


_PARTS: Final = {
    "similarity": "meaning",
    "z_similarity": "meaning",
    "similar_and_worded": "meaning",
    "z_bm25": "words",
    "coverage": "words",
    "z_bm25_with_previous": "context",
    "z_bm25_with_next": "context",
    "z_bm25_around": "context",
    "z_similarity_previous": "context",
    "z_similarity_next": "context",
    "z_similarity_two_before": "context",
    "z_similarity_two_after": "context",
    "coverage_with_previous": "context",
    "coverage_around": "context",
    "coverage_wide": "context",
    "z_session": "session",
    "z_session_similarity": "session",
    "z_session_words": "session",
    "opens_session": "session",
    "named_speaker": "speaker",
    "other_speaker": "speaker",
    "agent": "speaker",
    "agent_asks": "form",
    "log_length": "form",
    "is_question": "form",
    "echo": "form",
    "time_fit": "time",
    "when_told": "time",
    "recency": "time",
    "ended": "time",
    "fact": "kind",
    "summary": "kind",
}
PART_OF: Final[Mapping[str, str]] = _PARTS | {
    f"{voices}_{name}": _PARTS[name] for voices, names in BY_VOICES.items() for name in names
}
"""Maps each weighted feature to its part of the score."""


def linear_parts(known: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Return the parts of the scores of K candidates, (K,) each."""
    parts: dict[str, Numbers] = {}
    for name, weight in weights().items():
        part = PART_OF[name]
        parts[part] = parts.get(part, np.zeros(1)) + weight * known[name]
    return parts


_in_use: ContextVar[Mapping[str, float] | None] = ContextVar("weights", default=None)


@contextmanager
def use_weights(others: Mapping[str, float]) -> Iterator[None]:
    """Rank with these weights in this context and the tasks it starts.

    Benchmarks use it to measure weights on data that they were not trained on. Raises ValueError
    for the weight of an unknown feature.
    """
    token = _in_use.set(_checked(others, "the weights given"))
    try:
        yield
    finally:
        _in_use.reset(token)


def weights() -> Mapping[str, float]:
    """Return the weight of each feature: those of use_weights(), else the shipped ones."""
    return _in_use.get() or _shipped()


@cache
def _shipped() -> Mapping[str, float]:
    text = (files("shared_core.recall") / "weights" / "linear.v1.json").read_text(encoding="utf-8")
    return _checked(json.loads(text)["weights"], "linear.v1.json")


def _checked(read: Mapping[str, float], name: str) -> Mapping[str, float]:
    if unknown := read.keys() - PART_OF.keys():
        raise ValueError(f"{name}: a weight for unknown features: {sorted(unknown)}")
    return read


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word as spelled in the query and its search terms, or a run without spaces."""

    word: str
    terms: tuple[str, ...]
    is_run: bool


def query_words(query: str, terms: Collection[str]) -> list[QueryWord]:
    """Return the distinct words of a query that are among the search terms, in order."""
    searched = frozenset(terms)
    found: dict[str, QueryWord] = {}
    for run, word, _ in TERM.findall(unicodedata.normalize("NFKC", query)):
        one = QueryWord(run or word, tuple(search_terms(run or word)), bool(run))
        if not searched.isdisjoint(one.terms):
            found.setdefault(one.word.casefold(), one)
    return list(found.values())


def words_held(words: Sequence[QueryWord], held: Collection[str]) -> tuple[str, ...]:
    """Return the words whose terms a text holds, and the parts of runs that it holds."""
    shown: list[str] = []
    for one in words:
        if one.is_run:
            shown += parts_held(one.word, held)
        elif all(term in held for term in one.terms):
            shown.append(one.word)
    return tuple(dict.fromkeys(shown))


def parts_held(run: str, held: Collection[str]) -> list[str]:
    """Return the longest parts of a run whose pairs of characters are all held."""
    parts: list[str] = []
    start = at = 0
    while at < len(run):
        start = at
        while run[at : at + 2] in held and at + 1 < len(run):
            at += 1
        if at > start or run[start] in held:
            parts.append(run[start : at + 1])
        at += 1
    return parts


WORDS: Final = re.compile(r"\w+")
NOTED: Final = re.compile(r"^(?:user said |用户说 ?)")
"""What stands before the words of the user in a note (slot `note`)."""
LEAST_CHARACTERS: Final = 200
"""Minimum characters of a truncated text, unless it is the only one."""


def rank(
    recalled: Recalled, asked: RankingQuery, *, limit: int, by: Ranking | ThreeFactor = "linear"
) -> list[Hit]:
    """Return the best candidates, best first, with the parts of their scores.

    by: "linear", the learned weights plus the gain of superseding turns (recall.supersession);
    "fusion", standardised scores with weights set by hand; "rrf", reciprocal rank fusion; "vector"
    or "bm25", one channel; "three_factor", relevance x recency x importance (Park et al., 2023), or
    a ThreeFactor with weights. Of equal scores doubtful facts rank last, and the newest first.
    """
    return [one.hit() for one in islice(ranked(recalled, asked, by=by), limit)]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score: a hit whose memory may still have to be read."""

    candidate: Candidate
    score: float
    parts: Mapping[str, float]
    matched: tuple[str, ...] = ()

    def hit(self) -> Hit:
        """Return the hit, with the complete memory."""
        memory = self.candidate.memory()
        return Hit(memory=memory, score=self.score, parts=self.parts, matched=self.matched)


def ranked(
    recalled: Recalled, asked: RankingQuery, *, by: Ranking | ThreeFactor = "linear"
) -> Iterator[Ranked]:
    """Yield all candidates in the order of rank(), lazily."""
    candidates, corpus = recalled.candidates, recalled.corpus
    if corpus is None or not candidates:
        return
    matches = matched(corpus)
    known = features(corpus, matches, candidates, asked)
    if isinstance(by, ThreeFactor):
        parts = _three_factor(known, candidates, asked, by)
    else:
        parts = _RANKINGS[by](known, candidates, asked)
    scores: Numbers = np.add.reduce(list(parts.values()))
    shown = _raw(corpus, known, candidates) | parts
    if by == "linear":
        changed = _changed(corpus, matches, candidates, asked, scores)
        scores = scores + changed["raised"]
        shown |= changed | {"time": shown.get("time", 0.0) + changed["raised"]}
    table = np.column_stack([np.broadcast_to(values, scores.shape) for values in shown.values()])
    words = query_words(asked.text, asked.terms)
    for at in _in_order(scores, candidates):
        holds = matches.holds[candidates[at].number]
        held = {term for term, is_held in zip(asked.terms, holds, strict=False) if is_held}
        yield Ranked(
            candidate=candidates[at],
            score=float(scores[at]),
            parts={
                name: value
                for name, value in zip(shown, table[at].tolist(), strict=True)
                if not math.isnan(value)
            },
            matched=words_held(words, held),
        )


def nearest(recalled: Recalled, limit: int) -> list[Ranked]:
    """Return the candidates with a vector, nearest first; the score is the cosine similarity."""
    if recalled.corpus is None or not recalled.candidates:
        return []
    similarity = recalled.corpus.similarity[[one.number for one in recalled.candidates]]
    order = _in_order(np.nan_to_num(similarity, nan=-np.inf), recalled.candidates)
    return [
        Ranked(
            candidate=recalled.candidates[at],
            score=float(similarity[at]),
            parts={"meaning": float(similarity[at]), "similarity": float(similarity[at])},
        )
        for at in order[:limit]
        if not math.isnan(similarity[at])
    ]


def _in_order(scores: Numbers, candidates: Sequence[Candidate]) -> list[int]:
    return sorted(
        range(len(candidates)),
        key=lambda at: (
            scores[at],
            not candidates[at].is_doubtful,
            candidates[at].occurred_at,
            candidates[at].memory_id.int,
        ),
        reverse=True,
    )


def _raw(
    corpus: Corpus, known: Mapping[str, Numbers], candidates: Sequence[Candidate]
) -> dict[str, Numbers]:
    """Return the features for the parts of hits; NaN marks an absent one."""
    at = [candidate.number for candidate in candidates]
    first = corpus.opens[at] | np.array([candidate.role == "agent" for candidate in candidates])
    previous = np.maximum(known["similarity_previous"], known["coverage_previous"])
    return {
        **known,
        "similarity": corpus.similarity[at],
        "previous": np.where(first, np.nan, previous),
    }


def _changed(
    corpus: Corpus,
    matches: Matches,
    candidates: Sequence[Candidate],
    asked: RankingQuery,
    scores: Numbers,
) -> dict[str, Numbers]:
    """Return flags of superseded and superseding candidates, and the gain of the latter."""
    pairs = overtakings(corpus, matches, candidates, asked)
    found = {name: np.zeros(len(candidates)) for name in ("is_overtaken", "overtakes")}
    for earlier, later in pairs:
        found["is_overtaken"][earlier] = found["overtakes"][later] = 1.0
    return {**found, "raised": raised(scores, [*told_in_full(candidates), *pairs])}


def _linear(known: Mapping[str, Numbers], *_: object) -> dict[str, Numbers]:
    """Fall back to cosine and coverage where all candidates score alike."""
    return linear_parts(known) if _differ(known) else _themselves(known)


def _differ(known: Mapping[str, Numbers]) -> bool:
    return bool(known["z_similarity"].any() or known["z_bm25"].any())


def _themselves(known: Mapping[str, Numbers]) -> dict[str, Numbers]:
    return {"meaning": known["similarity"], "words": known["coverage"]}


def _fusion(known: Mapping[str, Numbers], *_: object) -> dict[str, Numbers]:
    """Return hand-weighted parts; docs/benchmarks.md has the measurements.

    The turn before counts 0.4 as context, except for an agent's turn, which only answers. Coverage
    damps BM25, which one rare word, such as a name, lifts by five deviations. Turns of an agent
    lose points, because they mostly repeat the user.
    """
    channels = {
        "meaning": known["z_similarity"],
        "words": np.sqrt(known["coverage"]) * known["z_bm25"],
    }
    before = (
        known["z_similarity_previous"]
        + np.sqrt(known["coverage_previous"]) * known["z_bm25_previous"]
    )
    nobody_named = 1 - np.maximum(known["named_speaker"], known["other_speaker"])
    return {
        **(channels if _differ(known) else _themselves(known)),
        "context": 0.4 * before * (1 - known["agent"]),
        "form": -1.0 * known["is_question"],
        "speaker": -1.0 * known["other_speaker"] - 2.0 * known["agent"] * nobody_named,
        "kind": 0.5 * known["fact"] - 0.5 * known["summary"],
    }


def _rrf(known: Mapping[str, Numbers], *_: object) -> dict[str, Numbers]:
    """Reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009) of both channels, k = 60."""

    def fused(scores: Numbers) -> Numbers:
        places = np.empty(len(scores))
        places[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
        shares: Numbers = np.where(scores > 0, 1 / (60 + places), 0.0)
        return shares

    return {"meaning": fused(known["similarity"]), "words": fused(known["bm25"])}


def _three_factor(
    known: Mapping[str, Numbers],
    candidates: Sequence[Candidate],
    asked: RankingQuery,
    weights: ThreeFactor = ThreeFactor(),  # noqa: B008 # it is frozen
) -> dict[str, Numbers]:
    """Return the product of the three factors as the part "meaning"."""
    memories = [candidate.memory() for candidate in candidates]
    relevance = np.maximum(np.clip(known["similarity"], 0, 1), known["coverage"])
    recency = np.array([_recency(memory, asked.now, weights.recency_days) for memory in memories])
    importance = np.array([memory.importance / 10 for memory in memories])
    product = (
        relevance**weights.relevance * recency**weights.recency * importance**weights.importance
    )
    return {"meaning": product}


def _recency(memory: Memory, now: datetime, recency_days: float) -> float:
    """Return e^(-t/S) of the age t; S = recency_days, doubled at arousal 1."""
    emotion = memory.value.get("emotion")
    arousal = emotion.get("arousal", 0.0) if isinstance(emotion, Mapping) else 0.0
    days = max((now - memory.occurred_at).total_seconds(), 0.0) / SECONDS_A_DAY
    excited = min(max(arousal, 0.0), 1.0) if isinstance(arousal, int | float) else 0.0
    slowed = 1 - AROUSAL_SLOWDOWN * excited
    return math.exp(-days * slowed / recency_days)


_RANKINGS: Final[Mapping[Ranking, Callable[..., dict[str, Numbers]]]] = {
    "linear": _linear,
    "fusion": _fusion,
    "rrf": _rrf,
    "vector": lambda known, *_: {"meaning": known["similarity"]},
    "bm25": lambda known, *_: {"words": known["bm25"]},
    "three_factor": _three_factor,
}


def relevance(hit: Hit | Ranked) -> float:
    """Return the relevance of a hit to its query, 0 to 1, comparable between results.

    It is the largest of cosine similarity and word coverage, of the memory or of the turn before:
    a text is relevant if it means the same, says the same, or answers such a text. Hits without a
    vector that were found by words have relevance 1.
    """
    if "similarity" not in hit.parts and hit.parts.get("coverage", 1.0) > 0:
        return 1.0
    return max(hit.parts.get(part, 0.0) for part in ("similarity", "coverage", "previous"))


def collapsed(hits: Iterable[Hit], limit: int) -> list[Hit]:
    """Return the first hits without duplicates.

    A duplicate has the same words in the same order, ignoring case, punctuation and spaces. Other
    similar texts stay, because one extra word may be a "not". A turn replaces an equal summary or
    note.
    """
    kept: dict[str, Hit] = {}
    for hit in hits:
        words = " ".join(WORDS.findall(unicodedata.normalize("NFKC", hit.memory.text).casefold()))
        words = NOTED.sub("", words)
        if words not in kept:
            if len(kept) == limit:
                break
            kept[words] = hit
        elif hit.memory.kind == "episodic" != kept[words].memory.kind:
            kept[words] = hit
    return list(kept.values())


def fitting(hits: Sequence[Hit], max_characters: int) -> list[tuple[Hit, str]]:
    """Return hits with their texts, doubtful facts marked, up to max_characters in total.

    A text that does not fit is truncated with an ellipsis if at least LEAST_CHARACTERS remain, or
    if it is the first. Otherwise it is skipped, and a later shorter one may still fit.
    """
    shown: list[tuple[Hit, str]] = []
    remaining = max_characters
    for hit in hits:
        text = shown_text(hit.memory)
        if len(text) > remaining:
            if remaining < LEAST_CHARACTERS and shown:
                continue
            text = text[: remaining - 1] + "…"
        shown.append((hit, text))
        remaining -= len(text)
        if remaining <= 0:
            break
    return shown
