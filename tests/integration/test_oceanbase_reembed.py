"""One embedding model in the place of another, on SeekDB."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from seekdb_databases import SeekdbDatabases

from shared_core import EmbeddingMismatch, Scope, open_memory

ANA = Scope("app", "ana")
TEXTS = [f"Ana has seen {name}." for name in ("a zebra", "a quail", "an ox", "a lynx")]


class Letters:
    """An embedder of another model: how often each letter occurs."""

    model = "letters"

    def __init__(self, dimensions: int = 26) -> None:
        self.dimensions = dimensions

    async def embed_passages(self, texts: Any) -> Any:
        letters = [chr(97 + n) for n in range(self.dimensions)]
        rows = np.array([[1 + 9 * text.count(one) for one in letters] for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    async def embed_query(self, text: str) -> Any:
        return await self.embed_passages([text])


async def test_another_model_takes_over(seekdb: SeekdbDatabases) -> None:
    lent = seekdb.lend()
    uri = next(lent)
    async with open_memory(uri, worker=False) as memory:
        await memory.remember(ANA, TEXTS)
        report = await memory.reembed(Letters())
        assert (4, 0, 0) == (report.embedded, report.left, report.dropped)
    async with open_memory(uri, embedder=Letters(), worker=False) as memory:
        [hit, *_] = await memory.search(ANA, "zebra zebra")
        assert TEXTS[0] == hit.memory.text
        await memory.remember(ANA, "Ana has seen an emu.")
        report = await memory.reembed(Letters(), drop_old=True)
        assert (0, 0, 4) == (report.embedded, report.left, report.dropped)
        with pytest.raises(EmbeddingMismatch, match="26 dimensions here before"):
            await memory.reembed(Letters(20))
    with pytest.raises(EmbeddingMismatch, match="letters"):
        async with open_memory(uri, worker=False) as memory:
            await memory.remember(ANA, "With the old one.")
    next(lent, None)
