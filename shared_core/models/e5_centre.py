"""Spread the vectors of multilingual-e5-small, which all point in nearly one direction. Pure.

The model gives two unrelated English sentences a cosine of about 0.72, two Chinese ones 0.83, and
an English and a Chinese one 0.76. So each vector is centred: the mean of many vectors of its kind
is subtracted, and its part along the axis between English and Chinese removed. It is normalised,
and then gets a small part along that axis, equal for all texts, which shifts every cosine to the
scale of the model "use": about 0.1 for unrelated texts, of one language or of two.

e5_centre.npz holds the numbers; benchmarks/e5_centre.py measures them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal, TypeAlias

import numpy as np

from shared_core.models.e5_file import Array

NUMBERS: Final = "e5_centre.npz"

TextKind: TypeAlias = Literal["query", "passage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Centre:
    """means: of the vectors of each kind. axis: between the languages, of length 1.

    shift: the cosine that two texts without anything in common get, 0 to 1.
    """

    means: dict[TextKind, Array]
    axis: Array
    shift: float

    def centred(self, vectors: Array, kind: TextKind) -> Array:
        """Return vectors of one kind, shape (texts, dimensions), as they are stored; normalised."""
        moved = vectors - self.means[kind]
        moved -= (moved @ self.axis)[:, None] * self.axis
        lengths = np.linalg.norm(moved, axis=1, keepdims=True)
        moved /= np.maximum(lengths, np.finfo(np.float32).tiny)
        stored: Array = np.sqrt(1 - self.shift) * moved + np.sqrt(self.shift) * self.axis
        return stored.astype(np.float32)


def shipped_centre() -> Centre:
    """Return the measured numbers of the package."""
    with files(__package__).joinpath(NUMBERS).open("rb") as file, np.load(file) as stored:
        return Centre(
            means={"query": stored["query"], "passage": stored["passage"]},
            axis=stored["axis"],
            shift=float(stored["shift"]),
        )
