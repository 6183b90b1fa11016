"""Run the layers of the reader on the states of multilingual-e5-small.

e5_reader.onnx holds the graph of TRAINED_LAYERS without weights (benchmarks/e5_graph.py makes it).
They take the place of the layers of e5 above the shared ones, and were trained to read facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from shared_core.models.e5_file import Array
from shared_core.models.e5_network import SHARED_LAYERS, E5Network, layer_weights, session

GRAPH: Final = "e5_reader.onnx"
TRAINED_LAYERS: Final = 4
LAYERS: Final = range(SHARED_LAYERS, SHARED_LAYERS + TRAINED_LAYERS)


class StoredLayers:
    """Layers of the reader as they are stored: a matrix in 8 bits, with a scale for each output."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays
        self.hidden = len(arrays[f"l{LAYERS[0]}.oln.w"])
        self.inner = len(arrays[f"l{LAYERS[0]}.fi.b"])

    def matrix(self, name: str, inputs: int) -> Array:
        scaled: Array = self._arrays[name] * self._arrays[f"{name}.scale"][:, None]
        return scaled

    def vector(self, name: str) -> Array:
        return self._arrays[name]


class E5Reader:
    """The layers of the reader above those of e5. Any number of threads may call it."""

    def __init__(self, network: E5Network, arrays: Mapping[str, Array]) -> None:
        self._network = network
        self._session = session(GRAPH, layer_weights(StoredLayers(arrays), LAYERS))

    def pair_means(self, firsts: Sequence[str], second: str, side: Array) -> Array:
        """Return the mean states of two texts that are read beside each other, a row a first text.

        side: is added to the states of the second text before. Shape (firsts, 2 * hidden).
        """
        states = [self._network.lower_states(one)[2] for one in firsts]
        other = self._network.lower_states(second)[2] + side
        rows = [np.concatenate([one, other]) for one in states]
        lengths = np.array([len(row) for row in rows], np.int32)
        x = np.zeros((len(rows), lengths.max(), rows[0].shape[1]), np.float32)
        for place, row in enumerate(rows):
            x[place, : len(row)] = row
        [upper] = self._session.run(None, {"x": x, "lengths": lengths})
        return np.stack([
            np.concatenate([row[: len(one)].mean(axis=0), row[len(one) : length].mean(axis=0)])
            for row, one, length in zip(upper, states, lengths, strict=True)
        ])  # fmt: skip

    def states(self, text: str) -> tuple[list[tuple[int, int]], Array, Array]:
        """Return where the pieces of a text stand in it, their states, and the mean state.

        Reads the first 500 pieces of a longer text.
        """
        pieces, before, lower = self._network.lower_states(text)
        inputs = {"x": lower[None], "lengths": np.array([len(lower)], np.int32)}
        [[upper]] = self._session.run(None, inputs)
        return pieces, upper[before : before + len(pieces)], upper.mean(axis=0)
