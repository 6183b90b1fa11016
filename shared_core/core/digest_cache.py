"""Remembers what a function of a text returned, without keeping any text."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Generic, TypeVar

V = TypeVar("V")


class DigestCache(Generic[V]):
    """A function of texts whose last results are remembered, at least size and at most twice that.

    They are found by a digest of 16 bytes, so that what was erased from the memory is not kept
    here. For a function that always returns the same for the same text, and never None. Safe to
    call from many threads.
    """

    def __init__(self, function: Callable[[str], V], size: int) -> None:
        self._function = function
        self._size = size
        self._young: dict[bytes, V] = {}
        self._old: dict[bytes, V] = {}

    def __call__(self, text: str) -> V:
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                found = self._function(text)
            if len(self._young) >= self._size:
                self._old, self._young = self._young, {}
            self._young[key] = found
        return found
