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
from itertools import compress, islice
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from shared_core.core.decay import AROUSAL_SLOWDOWN, SECONDS_A_DAY
from shared_core.core.delimiters import OUR_TAGS
from shared_core.core.domain import Hit, Memory, MemoryId
from shared_core.nlp.text import TERM, search_terms
from shared_core.nlp.uncertainty import shown_text
from shared_core.ports.recall import Candidates, Ranking, RankingQuery, Recalled, ThreeFactor
from shared_core.recall.features import (
    BY_VOICES,
    TOPIC_EXCESS,
    Matched,
    brief_excess,
    features,
    fuller_turns,
    overtakings,
    repeated_questions,
)
from shared_core.recall.supersession import raised

if TYPE_CHECKING:
    from shared_core.ports.recall import Flags, Numbers, Places


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
    "of_another": "speaker",
    "agent": "speaker",
    "agent_asks": "form",
    "log_length": "form",
    "is_question": "form",
    "echo": "form",
    "time_fit": "time",
    "when_told": "time",
    "recency": "time",
    "ended": "time",
    "told_later": "time",
    "recency_past": "time",
    "recency_before": "time",
    "user_length": "form",
    "fact": "kind",
    "asked": "kind",
    "summary": "kind",
}
PART_OF: Final[Mapping[str, str]] = _PARTS | {
    f"{voices}_{name}": _PARTS[name] for voices, names in BY_VOICES.items() for name in names
}
"""Maps each weighted feature to its part of the score."""


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """Weights by feature, and as arrays: features of the same part stand side by side."""

    by_feature: Mapping[str, float]
    names: Sequence[str]
    column: Numbers
    parts: Sequence[str]
    first: Places

    @classmethod
    def of(cls, given: Mapping[str, float], name: str) -> _Weights:
        """Return checked weights. Raises ValueError for the weight of an unknown feature."""
        if unknown := given.keys() - PART_OF.keys():
            raise ValueError(f"{name}: a weight for unknown features: {sorted(unknown)}")
        names = sorted(given, key=PART_OF.__getitem__)
        parts = [PART_OF[name] for name in names]
        return cls(
            by_feature=given,
            names=names,
            column=np.array([given[name] for name in names])[:, None],
            parts=[*dict.fromkeys(parts)],
            first=np.array([parts.index(part) for part in dict.fromkeys(parts)], np.intp),
        )

    def parts_of(self, known: Mapping[str, Numbers]) -> dict[str, Numbers]:
        """Return the parts of the scores of K candidates, (K,) each."""
        weighted = self.column * np.array([known[name] for name in self.names])
        return dict(zip(self.parts, np.add.reduceat(weighted, self.first), strict=True))


Purpose: TypeAlias = Literal["general", "chat"]
"""What weights are for: any memories, or the chat of a user with an agent."""


def linear_parts(known: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Return the parts of the scores of K candidates, (K,) each.

    The feature "chat" says what the weights for chats count, 0 to 1; the general ones count for the
    rest.
    """
    used = _in_use.get() or _shipped()
    share = float(known["chat"][0])
    if share in (0, 1):
        return used["chat" if share else "general"].parts_of(known)
    general, chat = used["general"].parts_of(known), used["chat"].parts_of(known)
    nothing = np.zeros(len(known["chat"]))
    return {
        part: (1 - share) * general.get(part, nothing) + share * chat.get(part, nothing)
        for part in {**general, **chat}
    }


_in_use: ContextVar[Mapping[Purpose, _Weights] | None] = ContextVar("weights", default=None)


@contextmanager
def use_weights(others: Mapping[str, float]) -> Iterator[None]:
    """Rank with these weights, for chats too, in this context and the tasks it starts.

    Benchmarks use it to measure weights on data that they were not trained on. Raises ValueError
    for the weight of an unknown feature.
    """
    given = _Weights.of(others, "the weights given")
    token = _in_use.set({"general": given, "chat": given})
    try:
        yield
    finally:
        _in_use.reset(token)


def weights(purpose: Purpose = "general") -> Mapping[str, float]:
    """Return the weight of each feature: those of use_weights(), else the shipped ones."""
    return (_in_use.get() or _shipped())[purpose].by_feature


@cache
def _shipped() -> Mapping[Purpose, _Weights]:
    text = (files("shared_core.recall") / "weights" / "linear.v1.json").read_text(encoding="utf-8")
    read = json.loads(text)
    return {
        "general": _Weights.of(read["weights"], "linear.v1.json"),
        "chat": _Weights.of(read["chat"]["weights"], "linear.v1.json, chat"),
    }


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


BELOW_LAST: Final = 0.01
"""Distance in score between the last other hit and the best repeated question."""
WORDS: Final = re.compile(r"\w+")
NOTED: Final = re.compile(r"^(?:user said |用户说 ?)")
"""What stands before the words of the user in a note (slot `note`)."""
LEAST_CHARACTERS: Final = 200
"""Minimum characters of a truncated text, unless it is the only one."""


def rank(
    recalled: Recalled, asked: RankingQuery, *, limit: int, by: Ranking | ThreeFactor = "linear"
) -> list[Hit]:
    """Return the best candidates, best first, with the parts of their scores.

    by: "linear", the learned weights plus the gain of superseding turns (recall.supersession); a
    turn that asked the same question is last; "fusion", standardised scores with weights set by
    hand; "rrf", reciprocal rank fusion; "vector" or "bm25", one channel; "three_factor", relevance
    x recency x importance (Park et al., 2023), or a ThreeFactor with weights. Of equal scores
    doubtful facts rank last, and the newest first.
    """
    return [one.hit() for one in islice(ranked(recalled, asked, by=by), limit)]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score: a hit whose memory may still have to be read."""

    candidates: Candidates
    at: int
    score: float
    parts: Mapping[str, float]
    matched: tuple[str, ...] = ()

    @property
    def memory_id(self) -> MemoryId:
        """The id of the memory."""
        return self.candidates.memory_id(self.at)

    def hit(self) -> Hit:
        """Return the hit, with the complete memory."""
        memory = self.candidates.texts.memory(self.at)
        return Hit(memory=memory, score=self.score, parts=self.parts, matched=self.matched)


def ranked(
    recalled: Recalled, asked: RankingQuery, *, by: Ranking | ThreeFactor = "linear"
) -> Iterator[Ranked]:
    """Yield all candidates in the order of rank(), lazily."""
    candidates, corpus = recalled.candidates, recalled.corpus
    if corpus is None or not candidates:
        return
    found = Matched(corpus, candidates, asked)
    known = features(found)
    if isinstance(by, ThreeFactor):
        parts = _three_factor(known, found, by)
    else:
        parts = _RANKINGS[by](known, found)
    scores: Numbers = np.add.reduce(list(parts.values()))
    shown = _raw(found, known) | parts
    if by == "linear":
        changed = _changed(found, scores)
        scores = scores + changed["raised"]
        shown |= changed | {"time": shown.get("time", 0.0) + changed["raised"]}
        repeats = repeated_questions(found)
        lost = scores - with_last(scores, repeats)
        scores = scores - lost
        shown |= {"repeats": repeats.astype(float), "form": shown.get("form", 0.0) - lost}
    table = np.array([*shown.values()])
    words = query_words(asked.text, asked.terms)
    for at in _in_order(scores, candidates):
        holds = found.words.holds(candidates.numbers[at])
        values = table[:, at]
        known_parts = dict(zip(shown, values.tolist(), strict=True))
        for absent in compress(shown, np.isnan(values).tolist()):
            del known_parts[absent]
        yield Ranked(
            candidates=candidates,
            at=at,
            score=float(scores[at]),
            parts=known_parts,
            matched=words_held(words, {*compress(asked.terms, holds.tolist())}),
        )


def nearest(recalled: Recalled, limit: int) -> list[Ranked]:
    """Return the candidates with a vector, nearest first; the score is the cosine similarity."""
    candidates, corpus = recalled.candidates, recalled.corpus
    if corpus is None or not candidates:
        return []
    similarity = corpus.similarity[candidates.numbers]
    order = _in_order(np.where(np.isnan(similarity), -np.inf, similarity), candidates)
    return [
        Ranked(
            candidates=candidates,
            at=at,
            score=float(similarity[at]),
            parts={"meaning": float(similarity[at]), "similarity": float(similarity[at])},
        )
        for at in order[:limit]
        if not math.isnan(similarity[at])
    ]


def _in_order(scores: Numbers, candidates: Candidates) -> list[int]:
    """Return the places of candidates, best first."""
    order = np.argsort(scores)[::-1]
    sorted_scores = scores[order]
    if (sorted_scores[1:] == sorted_scores[:-1]).any():
        keys = candidates.low, candidates.high, candidates.occurred, ~candidates.doubtful, scores
        order = np.lexsort(keys)[::-1]
    places: list[int] = order.tolist()
    return places


def _raw(found: Matched, known: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Return the features for the parts of hits; NaN marks an absent one."""
    at, moved = found.candidates.numbers, TOPIC_EXCESS * found.asked.pulled
    first = found.corpus.opens[at] | found.roles.is_agent
    excess, excess_previous = brief_excess(found)
    previous = np.maximum(
        known["similarity_previous"] - excess_previous - moved,
        known["coverage_previous"] * (1 - known["one_word_previous"]),
    )
    return {
        **known,
        "similarity": found.corpus.similarity[at] - moved,
        "previous": np.where(first, np.nan, previous),
        "brief": excess,
    }


def _changed(found: Matched, scores: Numbers) -> dict[str, Numbers]:
    """Return flags of superseded and superseding candidates, and the gain of the latter."""
    pairs = overtakings(found)
    flags = {name: np.zeros(len(scores)) for name in ("is_overtaken", "overtakes")}
    for earlier, later in pairs:
        flags["is_overtaken"][earlier] = flags["overtakes"][later] = 1.0
    return {**flags, "raised": raised(scores, [*fuller_turns(found), *pairs])}


def with_last(scores: Numbers, last: Flags) -> Numbers:
    """Return the scores, those of `last` lowered below all others by BELOW_LAST or more."""
    if not last.any() or last.all():
        return scores
    lost = max(0.0, float(scores[last].max() - scores[~last].min()) + BELOW_LAST)
    return np.where(last, scores - lost, scores)


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
    found: Matched,
    weights: ThreeFactor = ThreeFactor(),  # noqa: B008 # it is frozen
) -> dict[str, Numbers]:
    """Return the product of the three factors as the part "meaning"."""
    memories = [found.candidates.texts.memory(at) for at in range(len(found.candidates))]
    relevance = np.maximum(np.clip(known["similarity"], 0, 1), known["coverage"])
    recency = np.array(
        [_recency(memory, found.asked.now, weights.recency_days) for memory in memories]
    )
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


ASKED_RELEVANCE: Final = 0.35
"""Least relevance of a fact that a query asks for, whatever its words."""


def relevance(hit: Hit | Ranked) -> float:
    """Return the relevance of a hit to its query, 0 to 1, comparable between results.

    It is the largest of cosine similarity and word coverage, of the memory or of the turn before:
    a text is relevant if it means the same, says the same, or answers such a text. The similarity
    of two texts of a few words counts less, because a part of it is their form (`brief_excess`).
    Where the query has moved towards answers of a topic, TOPIC_EXCESS does not count, nor does a
    single shared word, unless the query has no other words, or asks for a fact that is held.
    Hits without a vector that were found by words have relevance 1. A fact that the query asks for
    has at least ASKED_RELEVANCE, as far as it counts.
    """
    return relevance_of(hit.parts)


def relevance_of(parts: Mapping[str, float]) -> float:
    """Return the relevance of a hit with these parts, as relevance() does."""
    if "similarity" not in parts and parts.get("coverage", 1.0) > 0:
        return 1.0
    similarity = parts.get("similarity", 0.0) - parts.get("brief", 0.0)
    asked = ASKED_RELEVANCE * parts.get("asked", 0.0)
    worded = parts.get("coverage", 0.0) * (1 - parts.get("one_word", 0.0))
    return max(asked, similarity, worded, parts.get("previous", 0.0))


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
    """Return hits with their texts as a model is shown them, up to max_characters in total.

    Doubtful facts are marked, and no text can forge a tag (delimiters.Tags).

    A text that does not fit is truncated with an ellipsis if at least LEAST_CHARACTERS remain, or
    if it is the first. Otherwise it is skipped, and a later shorter one may still fit.
    """
    shown: list[tuple[Hit, str]] = []
    remaining = max_characters
    for hit in hits:
        text = OUR_TAGS.escaped(shown_text(hit.memory)[: remaining + 1])
        if len(text) > remaining:
            if remaining < LEAST_CHARACTERS and shown:
                continue
            text = text[: remaining - 1] + "…"
        shown.append((hit, text))
        remaining -= len(text)
        if remaining <= 0:
            break
    return shown
