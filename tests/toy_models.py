"""Embedders of tests, whose vectors a reader can tell."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shared_core.errors import ModelUnavailable


class ToyModel:
    """An embedder that embeds questions as it does passages."""

    async def embed_passages(self, texts: Sequence[str]) -> Any:
        raise NotImplementedError

    async def embed_query(self, text: str) -> Any:
        return await self.embed_passages([text])


class Letters(ToyModel):
    """A model: how often each of so many letters occurs."""

    model = "letters"

    def __init__(self, dimensions: int = 26, dies_after: int = 10**9) -> None:
        self.dimensions = dimensions
        self.left = dies_after

    async def embed_passages(self, texts: Sequence[str]) -> Any:
        self.left -= len(texts)
        if self.left < 0:
            raise ModelUnavailable("the model is gone")
        letters = [chr(97 + n) for n in range(self.dimensions)]
        rows = np.array([[1 + 9 * text.count(one) for one in letters] for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
