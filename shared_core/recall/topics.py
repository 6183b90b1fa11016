"""Reads what a question about the user asks for, by its meaning, and how users tell that. Pure.

"What do I do for a living?" and "I'm a roofer." share neither words nor much meaning, but both are
like what people ask, and tell, about work. So the vector of such a question moves towards the
answers of its topic (a hypothetical answer, as in HyDE: Gao et al., 2023). Words with which a topic
is asked, but none is told, are not searched.
The topics are data: nlp/rules/topics.toml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from shared_core.nlp.changes import asks_how_it_was
from shared_core.nlp.question_subject import asks_about_world
from shared_core.nlp.relation_phrases import asked_kin, asks_about_user
from shared_core.nlp.rules import read_rule_file
from shared_core.nlp.text import language, search_terms

if TYPE_CHECKING:
    from shared_core.ports.recall import Numbers, Places, Vectors

NUMBERS: Final = "e5_topics.npz"
TOPICS: Final = "topics.toml"
READ_CHARACTERS: Final = 120
"""Maximum characters of a question that is read; a longer text asks for more than a topic."""
LEAST_LIKE, MOST_LIKE = 0.6, 0.75
"""Cosine with a question of a topic at which it begins to count, and counts in full."""
SHARPNESS: Final = 20.0
"""How much a nearer topic counts more than a farther one."""
PULL: Final = 1.3
"""Weight of the answers of a topic beside the question, where it counts in full."""
LEAST_SHARE: Final = 0.05
"""Smaller shares of topics do not count."""
OTHER: Final = "other"
"""The topic of questions about anything else."""
SURE: Final = 0.5
"""Share of a topic from which the words that ask for it are not searched."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopicVectors:
    """The vectors of one embedder, normalised.

    names: of T topics. asks: of N questions, (N, D). of: the topic of each, (N,). tells: what the
    answers of each topic have beside those of others, (T, D).
    """

    names: Sequence[str]
    asks: Vectors
    of: Places
    tells: Vectors


@dataclass(frozen=True, slots=True)
class ReadQuestion:
    """How recall looks for the answer of a question.

    vector: to look for, (1, D). terms: to search. shares: how far each topic counts, 0 to 1.
    """

    vector: Vectors | None
    terms: Sequence[str]
    shares: Mapping[str, float] = field(default_factory=dict)


def read_question(
    question: str, vector: Vectors | None, terms: Sequence[str], model: str | None
) -> ReadQuestion:
    """Return how to look for the answer; as the question stands where it asks for no topic.

    model: the name of the vector.
    """
    known = topic_vectors(model) if vector is not None and model is not None else None
    if vector is None or known is None or len(question) > READ_CHARACTERS:
        return ReadQuestion(vector, terms)
    if not _is_about_user(question):
        return ReadQuestion(vector, terms)
    shares = _shares(vector[0], known, is_past=asks_how_it_was(question))
    if not shares.any():
        return ReadQuestion(vector, terms)
    moved = vector[0] + PULL * (shares @ known.tells)
    named = dict(zip(known.names, shares.tolist(), strict=True))
    sure = {word for name, share in named.items() if share >= SURE for word in _only_asks(name)}
    return ReadQuestion(
        # In half the digits, as the storage keeps vectors: all engines then measure alike.
        (moved / np.linalg.norm(moved)).astype(np.float16).astype(np.float32)[None],
        [term for term in terms if term not in sure],
        {name: share for name, share in named.items() if share > 0},
    )


def _is_about_user(question: str) -> bool:
    """Tell whether a question is about the user; a Chinese one may leave the subject out."""
    if asks_about_user(question):
        return True
    is_bare = language(question) == "zh" and not asked_kin(question)
    return is_bare and not asks_about_world(question)


def _shares(vector: Vectors, known: TopicVectors, *, is_past: bool) -> Numbers:
    """Return how far a question asks for each topic, (T,); the share of "other" is 0."""
    like = known.asks @ vector
    nearest = np.full(len(known.names), -1.0)
    np.maximum.at(nearest, known.of, like)
    if not is_past:
        nearest[["past_of" in _topics()[name] for name in known.names]] = -1.0
    counts = np.clip((nearest.max() - LEAST_LIKE) / (MOST_LIKE - LEAST_LIKE), 0, 1)
    weights = np.exp(SHARPNESS * (nearest - nearest.max()))
    shares: Numbers = counts * weights / weights.sum()
    shares[[name == OTHER for name in known.names]] = 0.0
    shares[shares < LEAST_SHARE] = 0.0
    return shares


@cache
def _topics() -> Mapping[str, Any]:
    return read_rule_file(TOPICS)


@cache
def _only_asks(topic: str) -> frozenset[str]:
    """Return the words with which a topic is asked, but neither it is told nor its past."""
    told = (one for name, one in _topics().items() if topic in (name, one.get("past_of")))
    return _words(_topics()[topic], "asks").difference(*(_words(one, "tells") for one in told))


def _words(topic: Mapping[str, Any], form: Literal["asks", "tells"]) -> frozenset[str]:
    texts = (text for texts in topic.get(form, {}).values() for text in texts)
    return frozenset(word for text in texts for word in search_terms(text))


@cache
def topic_vectors(model: str) -> TopicVectors | None:
    """Return the vectors of the topics by the embedder of this name, or None."""
    with files("shared_core.models").joinpath(NUMBERS).open("rb") as file, np.load(file) as stored:
        if str(stored["model"]) != model:
            return None
        asks, tells = (_normalised(stored[name].astype(np.float32)) for name in ("asks", "tells"))
        return TopicVectors(
            names=[*map(str, stored["names"])], asks=asks, of=stored["of"].astype(np.intp),
            tells=tells,
        )  # fmt: skip


def _normalised(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit
