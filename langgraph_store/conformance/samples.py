"""Sample data of the suite, and helpers that read the results of a store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

from langgraph.store.base import BaseStore, Item, SearchItem

MODES = ("sync", "async")
DIMENSIONS = 64

HERE = ("conformance", "alice")
"""The default namespace of the tests."""

ODD_LABELS = {
    "slash": "a/b",
    "percent": "100%",
    "underscore": "a_b",
    "quotes": 'it\'s "quoted" \\ `so`',
    "statement": "'; DROP TABLE store; --",
    "colon": "user:app",
    "spaces": " two words ",
    "braces": "{0} %s $1 ?",
    "star": "*x",
    "newline": "a\nb",
    "chinese": "用户",
    "emoji": "🦜👍🏽",
    "long": "x" * 300,
}
"""Unusual labels and keys that a store must support, by name."""


def word_vectors(texts: Sequence[str]) -> list[list[float]]:
    """Return bag-of-words vectors: texts with common words are near; no words give zeros."""
    words = [re.findall(r"\w+", text.lower()) for text in texts]
    bags = [[crc32(word.encode()) % DIMENSIONS for word in found] for found in words]
    return [[float(bag.count(n)) for n in range(DIMENSIONS)] for bag in bags]


def plane_vectors(texts: Sequence[str]) -> list[list[float]]:
    """Return the two numbers that each text consists of."""
    return [[float(number) for number in text.split()] for text in texts]


INDEX: Any = {"dims": DIMENSIONS, "embed": word_vectors, "fields": ["text"]}
"""The index configuration of the store under test."""


class Face:
    """A store in sync or async mode. Sync calls come from a thread, as those of a node do."""

    def __init__(self, store: BaseStore, mode: str) -> None:
        self.store = store
        self.mode = mode

    async def put(self, *arguments: Any, **options: Any) -> None:
        await self._call("put", *arguments, **options)

    async def get(self, *arguments: Any, **options: Any) -> Item | None:
        found: Item | None = await self._call("get", *arguments, **options)
        return found

    async def delete(self, *arguments: Any) -> None:
        await self._call("delete", *arguments)

    async def search(self, *arguments: Any, **options: Any) -> list[SearchItem]:
        found: list[SearchItem] = await self._call("search", *arguments, **options)
        return found

    async def list_namespaces(self, **options: Any) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = await self._call("list_namespaces", **options)
        return found

    async def batch(self, ops: Iterable[Any]) -> list[Any]:
        results: list[Any] = await self._call("batch", ops)
        return results

    async def value(self, key: str, namespace: Sequence[str] = HERE) -> Any:
        """Return the value of a key, or None."""
        item = await self.get(namespace, key)
        return item and item.value

    async def keys(self, namespace: Sequence[str] = HERE, **options: Any) -> list[str]:
        """Return the keys that a search finds, in order."""
        return [item.key for item in await self.search(namespace, **options)]

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        if self.mode == "async":
            return await getattr(self.store, f"a{name}")(*arguments, **options)
        return await asyncio.to_thread(getattr(self.store, name), *arguments, **options)
