"""Make the graphs that shared_core.models.e5_network and e5_reader run.

    python -m benchmarks.e5_graph

Needs the package onnx. The graphs hold no weights: each is declared as external data, with its
shape. Inputs: x (texts, tokens, 384), the summed vectors of word, place and type, or for the reader
the states after the shared layers; lengths (texts,), tokens of each text; mask (texts, tokens, 1),
1 / length for a token and 0 for padding. Outputs: mean (texts, 384), and states.

Matrices are multiplied in int8. Each token is divided by its largest activation, so that one fixed
scale serves all: then a vector does not depend on its batch, as it does with the scale of a whole
batch that onnxruntime's own quantisation takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from shared_core.models import e5_network, e5_reader
from shared_core.models.e5_file import E5File, shipped_file

MICROSOFT = "com.microsoft"
"""The operators that onnxruntime adds to ONNX."""
ONNX_OPERATORS, FORMAT = 18, 9
"""Versions of ONNX that each onnxruntime since 1.16 reads."""
MOST_BYTES = 64
"""Largest constant that stays in the graph."""


class Graph:
    """Collects nodes and constants."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(
        self, kind: str, inputs: Sequence[str], *outputs: str, domain: str = "", **options: Any
    ) -> str:
        """Add a node and return the name of its first output."""
        name = f"n{len(self.nodes)}"
        made = helper.make_node(kind, inputs, outputs, name, domain=domain, **options)
        self.nodes.append(made)
        return outputs[0]

    def constant(self, name: str, value: Any) -> str:
        """Add a constant and return its name."""
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def declare(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Declare weights that are given when the graph is loaded."""
        for name, array in arrays.items():
            tensor = onnx.TensorProto(
                name=name, dims=array.shape, data_type=helper.np_dtype_to_tensor_dtype(array.dtype),
                data_location=TensorProto.EXTERNAL,
            )  # fmt: skip
            place = {"location": "given-at-load", "offset": "0", "length": str(array.nbytes)}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=value)
            self.constants.append(tensor)

    def dense(self, x: str, name: str) -> str:
        """Add x @ weights + bias, in int8."""
        sizes = self.node("Abs", [x], f"{name}.abs")
        largest = self.node("ReduceMax", [sizes, "last"], f"{name}.max")
        unit = self.node("Div", [x, largest], f"{name}.unit")
        whole = self.node("QuantizeLinear", [unit, "step", "middle"], f"{name}.q")
        product = self.node(
            "MatMulIntegerToFloat", [whole, f"{name}.w", "step", f"{name}.s", "middle"],
            f"{name}.y", domain=MICROSOFT,
        )  # fmt: skip
        scaled = self.node("Mul", [product, largest], f"{name}.z")
        return self.node("Add", [scaled, f"{name}.b"], name)

    def norm(self, x: str, name: str, epsilon: float) -> str:
        """Add a layer normalisation."""
        inputs = [x, f"{name}.w", f"{name}.b"]
        return self.node("LayerNormalization", inputs, name, axis=-1, epsilon=epsilon)


def build(file: E5File) -> dict[str, onnx.ModelProto]:
    """Return the graphs for the model in a file, by their names."""
    shared = e5_network.SHARED_LAYERS
    lower, upper, reader = (Graph() for _ in range(3))
    lower.declare(e5_network.lower_weights(file))
    states = _layers(lower, lower.norm("x", "e", file.epsilon), range(shared), file)
    made = {e5_network.LOWER: _made(lower, file, [], _value(states, file))}
    above = range(shared, file.layers)
    upper.declare(e5_network.layer_weights(file, above))
    x = _layers(upper, "x", above, file)
    upper.constant("tokens", np.array([1], np.int64))
    upper.node("Mul", [x, "mask"], "masked")
    upper.node("ReduceSum", ["masked", "tokens"], "mean", keepdims=0)
    mask = helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["B", "L", 1])
    mean = helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["B", file.hidden])
    made[e5_network.UPPER] = _made(upper, file, [mask], mean)
    reader.declare(e5_network.layer_weights(file, e5_reader.LAYERS))
    states = _layers(reader, "x", e5_reader.LAYERS, file)
    made[e5_reader.GRAPH] = _made(reader, file, [], _value(states, file))
    return made


def _layers(graph: Graph, x: str, numbers: Iterable[int], file: E5File) -> str:
    """Add layers and return the name of the states after them."""
    graph.constant("last", np.array([-1], np.int64))
    graph.constant("thirds", np.array([file.hidden] * 3, np.int64))
    graph.constant("step", np.array(1 / 127, np.float32))
    graph.constant("middle", np.array(128, np.uint8))
    for number in numbers:
        x = _layer(graph, x, f"l{number}.", file)
    return x


def _value(name: str, file: E5File) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", "L", file.hidden])


def _made(
    graph: Graph, file: E5File, inputs: Sequence[onnx.ValueInfoProto], output: onnx.ValueInfoProto
) -> onnx.ModelProto:
    lengths = helper.make_tensor_value_info("lengths", TensorProto.INT32, ["B"])
    made = helper.make_graph(
        graph.nodes, "multilingual-e5-small", [_value("x", file), lengths, *inputs], [output],
        graph.constants,
    )  # fmt: skip
    operators = [helper.make_opsetid("", ONNX_OPERATORS), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(made, opset_imports=operators, ir_version=FORMAT)


def _layer(graph: Graph, x: str, name: str, file: E5File) -> str:
    parts = [f"{name}q", f"{name}k", f"{name}v"]
    graph.node("Split", [graph.dense(x, f"{name}qkv"), "thirds"], *parts, axis=-1)
    context = graph.node(
        "MultiHeadAttention", [*parts, "", "lengths"], f"{name}context", domain=MICROSOFT,
        num_heads=file.heads,
    )  # fmt: skip
    # Not SkipLayerNormalization, which joins both and is six times slower.
    sum_ = graph.node("Add", [graph.dense(context, f"{name}ao"), x], f"{name}aln.sum")
    x = graph.norm(sum_, f"{name}aln", file.epsilon)
    inner = graph.node("Gelu", [graph.dense(x, f"{name}fi")], f"{name}gelu", domain=MICROSOFT)
    sum_ = graph.node("Add", [graph.dense(inner, f"{name}fo"), x], f"{name}oln.sum")
    return graph.norm(sum_, f"{name}oln", file.epsilon)


def main() -> None:
    folder = Path(e5_network.__file__).parent
    for name, graph in build(E5File(shipped_file())).items():
        stored = graph.SerializeToString(deterministic=True)
        folder.joinpath(name).write_bytes(stored)
        print(f"{name}: {len(stored):,} bytes")


if __name__ == "__main__":
    main()
