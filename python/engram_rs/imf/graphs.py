"""What a runtime relies on in the graphs of a zip: names, types, shapes, operators, and that nothing lies outside."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import onnx

from .metadata import Metadata

__all__ = ["Graph", "Tensor", "check_graphs", "describe"]

_DEFAULT_DOMAINS = ("", "ai.onnx")
# ONNX has no 4-bit type up to opset 14, so that int4 weights need ONNX Runtime's own operator.
_FOREIGN = {"int4": {("com.microsoft", "MatMulNBits")}}
_FLOATS = ("FLOAT", "FLOAT16")
_DYNAMIC, _ANY = "dynamic", "any"
_BATCH_SEQUENCE = (_DYNAMIC, _DYNAMIC)
_STATES = (*_BATCH_SEQUENCE, _ANY)
_PAST = (_DYNAMIC, _ANY, _DYNAMIC, _ANY)
_LONGEST_NAME = 256
_KEY = re.compile(r"past_key_[0-9]+")


@dataclass(frozen=True)
class Tensor:
    """An input or output of a graph.

    Attributes:
        name: Its name.
        dtype: As ONNX names it: `INT64`, `FLOAT`.
        shape: Numbers for fixed dimensions, names for dynamic ones (`?` where they have none); None if untold.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None

    def __str__(self) -> str:
        shape = "" if self.shape is None else f" [{', '.join(map(str, self.shape))}]"
        return f"{self.name} {self.dtype.lower()}{shape}"


@dataclass(frozen=True)
class Graph:
    """What a graph says of itself.

    Attributes:
        opset: The version of ONNX's own operators.
        ir_version: The version of the file format.
        inputs: Without those that have their value in the graph.
        outputs: In their order.
        foreign: Domain and type of operators that are not ONNX's own.
        properties: The model's metadata.
    """

    opset: int
    ir_version: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    foreign: frozenset[tuple[str, str]]
    properties: dict[str, str]


def describe(model: onnx.ModelProto) -> Graph:
    """Reads a graph off a model, with or without weights.

    Raises:
        ValueError: It keeps weights in other files, has functions of its own, or no single opset.
    """
    foreign = set()
    for message in _messages(model):
        if isinstance(message, onnx.TensorProto) and (message.data_location or message.external_data):
            place = {entry.key: entry.value for entry in message.external_data}.get("location")
            where = f"the tensor {message.name!r:.100} lies outside, in {place!r:.100}"
            raise ValueError(f"{where}; all weights must be in the graph")
        if isinstance(message, onnx.NodeProto) and message.domain not in _DEFAULT_DOMAINS:
            foreign.add((_printable(message.domain), _printable(message.op_type)))
    if model.functions:
        raise ValueError("it defines functions of its own, which old runtimes do not know")
    opsets = [entry.version for entry in model.opset_import if entry.domain in _DEFAULT_DOMAINS]
    if len(opsets) != 1:
        raise ValueError(f"it imports {len(opsets)} versions of ONNX's operators; wanted one")
    filled = {tensor.name for tensor in model.graph.initializer}
    filled |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    return Graph(
        opsets[0],
        model.ir_version,
        tuple(_tensor(value) for value in model.graph.input if value.name not in filled),
        tuple(_tensor(value) for value in model.graph.output),
        frozenset(foreign),
        {entry.key: entry.value for entry in model.metadata_props},
    )


def _messages(model: onnx.ModelProto) -> Iterator[Any]:
    """The model and all messages within it."""
    waiting: list[Any] = [model]
    while waiting:
        yield (last := waiting.pop())
        for field, value in last.ListFields():
            if field.message_type is not None:
                waiting.extend([value] if hasattr(value, "ListFields") else value)


def _printable(text: str) -> str:
    """The name, if it can be shown to a user: errors and reports will."""
    if not text.isprintable() or len(text) > _LONGEST_NAME:
        raise ValueError(f"the name {text!r:.100} is not printable or has more than {_LONGEST_NAME} characters")
    return text


def _tensor(value: onnx.ValueInfoProto) -> Tensor:
    name, kind = _printable(value.name), value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return Tensor(name, f"a {value.type.WhichOneof('value') or 'value of no type'}", None)
    known = onnx.TensorProto.DataType.values()
    dtype = onnx.TensorProto.DataType.Name(kind.elem_type) if kind.elem_type in known else f"type {kind.elem_type}"
    if not kind.HasField("shape"):
        return Tensor(name, dtype, None)
    return Tensor(name, dtype, tuple(map(_dimension, kind.shape.dim)))


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    return dim.dim_value if dim.WhichOneof("value") == "dim_value" else _printable(dim.dim_param) or "?"


def check_graphs(graphs: dict[str, Graph], metadata: Metadata) -> None:
    """Whether the graphs are what the metadata and the format tell a runtime.

    Raises:
        ValueError: An opset, operator, name, type or shape is another; the error names the graph.
    """
    for name, graph in graphs.items():
        _check_operators(name, graph, metadata)
    encoder, decoder = graphs["encoder.onnx"], graphs["decoder.onnx"]
    memory = metadata.engram
    _check_names("encoder.onnx", "inputs", encoder.inputs, ["input_ids", *([memory.input] if memory else [])])
    if len(encoder.outputs) != 1:
        raise ValueError(f"encoder.onnx has {len(encoder.outputs)} outputs; wanted one, the last hidden state")
    _check("encoder.onnx", encoder.inputs, "input_ids", ["INT64"], _BATCH_SEQUENCE)
    states = _check("encoder.onnx", encoder.outputs, encoder.outputs[0].name, _FLOATS, _STATES)
    if memory:
        columns = memory.scheme.num_columns
        _check("encoder.onnx", encoder.inputs, memory.input, ["INT64"], (*_BATCH_SEQUENCE, columns))
        _check_properties(encoder.properties, metadata)
    _check_names("decoder.onnx", "inputs", decoder.inputs, ["input_ids", "encoder_hidden_states"])
    _check_names("decoder.onnx", "outputs", decoder.outputs, ["logits"])
    _check_decoder("decoder.onnx", decoder, states)
    if "decoder-kv.onnx" in graphs:
        _check_kv("decoder-kv.onnx", graphs["decoder-kv.onnx"], states)


def _check_operators(name: str, graph: Graph, metadata: Metadata) -> None:
    if graph.opset != metadata.opset:
        raise ValueError(f"{name} has opset {graph.opset}, but the metadata {metadata.opset}")
    if refused := graph.foreign - _FOREIGN.get(metadata.precision, set()):
        told = _listed([f"{domain}.{kind}" for domain, kind in sorted(refused)])
        raise ValueError(f"{name} uses {told}; at {metadata.precision} all operators must be ONNX's own")


def _check_kv(name: str, graph: Graph, states: Tensor) -> None:
    layers = sum(bool(_KEY.fullmatch(tensor.name)) for tensor in graph.inputs)
    if not layers:
        raise ValueError(f"{name} has no input past_key_0")
    pairs = [f"{what}_{layer}" for layer in range(layers) for what in ("key", "value")]
    pasts, presents = [f"past_{pair}" for pair in pairs], [f"present_{pair}" for pair in pairs]
    _check_names(name, "inputs", graph.inputs, ["input_ids", "encoder_hidden_states", *pasts])
    _check_names(name, "outputs", graph.outputs, ["logits", *presents])
    _check_decoder(name, graph, states)
    for past, present in zip(pasts, presents, strict=True):
        given = _check(name, graph.inputs, past, _FLOATS, _PAST)
        _check(name, graph.outputs, present, [given.dtype], _PAST)


def _check_decoder(name: str, graph: Graph, states: Tensor) -> None:
    _check(name, graph.inputs, "input_ids", ["INT64"], _BATCH_SEQUENCE)
    wanted = _check(name, graph.inputs, "encoder_hidden_states", [states.dtype], _STATES)
    _check(name, graph.outputs, "logits", _FLOATS, _STATES)
    widths = {tensor.shape[2] for tensor in (states, wanted) if tensor.shape and isinstance(tensor.shape[2], int)}
    if len(widths) > 1:
        raise ValueError(f"{name} takes {wanted}, but the encoder gives {states}")


def _check_names(name: str, what: str, tensors: Collection[Tensor], wanted: list[str]) -> None:
    given, needed = Counter(tensor.name for tensor in tensors), Counter(wanted)
    if given != needed:
        missing, more = needed - given, given - needed
        differences = {"missing": missing, "unexpected": more}
        told = [f"{word} {_listed(list(names))}" for word, names in differences.items() if names]
        raise ValueError(f"{name}: the {what} are not exactly {_listed(wanted)}: {'; '.join(told)}")


def _listed(names: list[str]) -> str:
    """Some of the names: a hostile graph may have a million."""
    return ", ".join(names[:8]) + (f", … ({len(names)} in all)" if len(names) > 8 else "")


def _check(
    graph: str, tensors: Collection[Tensor], name: str, dtypes: Collection[str], shape: tuple[int | str, ...]
) -> Tensor:
    """The tensor of this name, if its type is one of `dtypes` and its shape is `shape`."""
    (tensor,) = (tensor for tensor in tensors if tensor.name == name)
    if tensor.dtype not in dtypes:
        raise ValueError(f"{graph}: {tensor} is not of type {' or '.join(dtypes).lower()}")
    given = tensor.shape
    if given is None or len(given) != len(shape) or not all(_fits(*pair) for pair in zip(given, shape, strict=True)):
        raise ValueError(f"{graph}: the shape of {tensor} does not fit [{', '.join(map(str, shape))}]")
    return tensor


def _fits(given: int | str, wanted: int | str) -> bool:
    if wanted == _DYNAMIC:
        return isinstance(given, str)
    return wanted == _ANY or given == wanted


def _check_properties(properties: dict[str, str], metadata: Metadata) -> None:
    """Whether what the encoder itself carries of its memory is what the metadata say."""
    memory = metadata.engram
    assert memory is not None
    for key, wanted in (
        ("addressing", memory.scheme.to_json()),
        ("addressing_digest", memory.addressing_digest),
        ("dim", str(memory.dim)),
    ):
        if (given := properties.get(f"engram.{key}", wanted)) != wanted:
            raise ValueError(f"encoder.onnx carries engram.{key} {given!r:.200}, but the metadata say {wanted!r:.200}")
