"""Caches the results of a function of a text, without keeping the text."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Generic, TypeVar

from shared_core.core.telemetry import cache_counts

V = TypeVar("V")


class DigestCache(Generic[V]):
    """A pure function of a text with a cache of its last size to 2 * size results.

    The key is a digest of 16 bytes, so that the cache keeps no erased text. The function must never
    return None. Thread-safe. name: of the cache in metrics.
    """

    def __init__(self, name: str, function: Callable[[str], V], size: int) -> None:
        self._function = function
        self._size = size
        self._counts = cache_counts(name)
        self._young: dict[bytes, V] = {}
        self._old: dict[bytes, V] = {}

    def __call__(self, text: str) -> V:
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                self._counts.misses += 1
                found = self._function(text)
            else:
                self._counts.hits += 1
            if len(self._young) >= self._size:
                self._old, self._young = self._young, {}
            self._young[key] = found
        else:
            self._counts.hits += 1
        return found
