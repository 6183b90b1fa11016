"""Classify a text as private (the user's life) or public (the world). Pure.

Unclear texts are private. A slot of a person, a word for the user or a secret decides. Otherwise
the nearest examples do, and the public ones must be nearer by a margin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from shared_core.core.domain import FactDraft, Privacy
from shared_core.nlp.rules import read_rule_file
from shared_core.nlp.slots import ABOUT, slot_of
from shared_core.nlp.text import Language, language
from shared_core.privacy.redaction import PRESETS

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors

NEIGHBOURS: Final = 8
"""Number of nearest examples of each class that are compared."""
MARGIN: Final = 0.8
"""Required lead of the public examples, in standard deviations of the examples' own scores.

Relative, because models spread texts differently. Chosen with `python -m benchmarks.privacy` on the
parts "tuning" and "seen"; see docs/benchmarks.md.
"""
MOST_STRAY: Final = 0.1
"""Maximum share of private examples that a usable model takes for public."""

OF_THE_USER: Final[Mapping[Language, re.Pattern[str]]] = {
    "en": re.compile(
        r"\b(?:I|[Mm]e|[Mm]y|[Mm]ine|[Mm]yself|[Ww]e|us|[Oo]urs?|[Oo]urselves|[Tt]he user)\b"
        r"|\A\W*[Uu]ser\b|\b[Uu]ser['’]s\b"
    ),
    "zh": re.compile(r"我(?!国)|咱|俺|用户"),
}
REDACTED: Final = "[REDACTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prototypes:
    """The examples of one language as vectors, one per row.

    margin: required lead of the public ones; infinite for a model that cannot tell them apart.
    """

    private: Vectors
    public: Vectors
    margin: float


@lru_cache
def prototype_texts() -> Mapping[Language, Mapping[Privacy, Sequence[str]]]:
    """Return the examples of rules/privacy.toml."""
    return cast(
        "Mapping[Language, Mapping[Privacy, Sequence[str]]]", read_rule_file("privacy.toml")
    )


def examples(lang: Language) -> list[str]:
    """Return the examples of a language, in the order that prototypes_of() expects."""
    texts = prototype_texts()[lang]
    return [*texts["private"], *texts["public"]]


def prototypes_of(lang: Language, vectors: Vectors) -> Prototypes:
    """Return the prototypes for the normalised vectors of examples().

    Raises ValueError unless there is one vector for each example.
    """
    expected, most = len(examples(lang)), len(prototype_texts()[lang]["private"])
    if len(vectors) != expected:
        raise ValueError(f"{len(vectors)} vectors for {expected} examples")
    private, public = vectors[:most], vectors[most:]
    return Prototypes(private=private, public=public, margin=margin_between(private, public))


def margin_between(private: Vectors, public: Vectors) -> float:
    """Return the margin at which a model separates the examples, each scored against all others."""
    import numpy as np

    strays = _nearness(private, public) - _nearness(private, private, itself=True)
    world = _nearness(public, public, itself=True) - _nearness(public, private)
    margin = MARGIN * float(np.concatenate([strays, world]).std())
    clear = margin > 0 and float((strays > margin).mean()) <= MOST_STRAY
    return margin if clear else float("inf")


def private_by_words(text: str) -> bool:
    """Tell whether a text mentions the user, or holds a secret or a personal number."""
    return (
        bool(OF_THE_USER[language(text)].search(text))
        or REDACTED in text
        or bool(PRESETS["strict"].redact(text).found)
    )


def private_by_slot(fact: FactDraft) -> bool:
    """Tell whether a fact's slot is one of persons, as far as the rules know it."""
    if fact.fact_type in ("preference", "rule"):
        return True
    parts = fact.slot.split(".")
    names = parts[2:] if parts[0] == ABOUT else parts
    slots = [slot_of(".".join(names[first:])) for first in range(len(names))]
    return any(slot is None or slot.known for slot in slots)


def class_by_example(vector: Vectors, near: Prototypes | None) -> Privacy:
    """Return "public" only if a text is clearly nearer to the public examples of its language.

    vector: the normalised embedding, shape (dimensions,). near: None without examples.
    """
    import numpy as np

    if near is None or vector.shape != near.public.shape[1:] or not np.isfinite(vector).all():
        return "private"
    one = vector[None, :]
    score = float((_nearness(one, near.public) - _nearness(one, near.private))[0])
    return "public" if score > near.margin else "private"


def _nearness(vectors: Vectors, examples: Vectors, *, itself: bool = False) -> Vectors:
    """Return each row's mean cosine with its nearest examples; itself: skip the row itself."""
    import numpy as np

    cosines = vectors @ examples.T
    if itself:
        np.fill_diagonal(cosines, -np.inf)
    nearest: Vectors = np.sort(cosines, axis=1)[:, -NEIGHBOURS:].mean(axis=1, dtype=np.float32)
    return nearest
