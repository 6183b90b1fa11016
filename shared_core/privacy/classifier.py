"""Whether a text is about the user's life ("private") or about the world ("public"). Pure.

What is not clear is private: a slot of a person, a word for the user or a secret settles it, and
else the nearest examples do, of which the public ones must be nearer by a margin.
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
"""So many examples of each class, the nearest, stand for it."""
MARGIN: Final = 0.8
"""By so much the public examples must be nearer, in standard deviations of the examples' own
scores: models differ in how far apart they put texts. Chosen with `python -m benchmarks.privacy`
on the parts "tuning" and "seen"; see docs/benchmarks.md."""
MOST_STRAY: Final = 0.1
"""A model that takes more than this share of the private examples for public tells nothing."""

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
    """The examples of one language as vectors, a row each.

    margin: by how much the public ones must be nearer; infinite for a model that cannot tell.
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
    """Return the examples of a language, in the order in which prototypes_of() takes them."""
    texts = prototype_texts()[lang]
    return [*texts["private"], *texts["public"]]


def prototypes_of(lang: Language, vectors: Vectors) -> Prototypes:
    """Return the vectors of examples(), normalised, with the margin their model needs.

    Raises ValueError if there is not one vector for each example.
    """
    expected, most = len(examples(lang)), len(prototype_texts()[lang]["private"])
    if len(vectors) != expected:
        raise ValueError(f"{len(vectors)} vectors for {expected} examples")
    private, public = vectors[:most], vectors[most:]
    return Prototypes(private=private, public=public, margin=margin_between(private, public))


def margin_between(private: Vectors, public: Vectors) -> float:
    """Return the margin at which a model tells examples apart, each judged by all the others."""
    import numpy as np

    strays = _nearness(private, public) - _nearness(private, private, itself=True)
    world = _nearness(public, public, itself=True) - _nearness(public, private)
    margin = MARGIN * float(np.concatenate([strays, world]).std())
    clear = margin > 0 and float((strays > margin).mean()) <= MOST_STRAY
    return margin if clear else float("inf")


def private_by_words(text: str) -> bool:
    """Tell whether a text speaks of the user, or holds a secret or a personal number."""
    return (
        bool(OF_THE_USER[language(text)].search(text))
        or REDACTED in text
        or bool(PRESETS["strict"].redact(text).found)
    )


def private_by_slot(fact: FactDraft) -> bool:
    """Tell whether what a fact says is said of persons only, as far as the rules know its slot."""
    if fact.fact_type in ("preference", "rule"):
        return True
    parts = fact.slot.split(".")
    names = parts[2:] if parts[0] == ABOUT else parts
    slots = [slot_of(".".join(names[first:])) for first in range(len(names))]
    return any(slot is None or slot.known for slot in slots)


def class_by_example(vector: Vectors, near: Prototypes | None) -> Privacy:
    """Return "public" only if a text is clearly nearer to the public examples of its language.

    vector: of the text, shape (dimensions,), normalised. near: None if there are none.
    """
    import numpy as np

    if near is None or vector.shape != near.public.shape[1:] or not np.isfinite(vector).all():
        return "private"
    one = vector[None, :]
    score = float((_nearness(one, near.public) - _nearness(one, near.private))[0])
    return "public" if score > near.margin else "private"


def _nearness(vectors: Vectors, examples: Vectors, *, itself: bool = False) -> Vectors:
    """Return for each row the mean cosine of its nearest examples; itself: leave out the same."""
    import numpy as np

    cosines = vectors @ examples.T
    if itself:
        np.fill_diagonal(cosines, -np.inf)
    nearest: Vectors = np.sort(cosines, axis=1)[:, -NEIGHBOURS:].mean(axis=1)
    return nearest
