"""An encoder with its memory as a graph."""

import inspect
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from ..memory_graph import INPUT, EncoderMetadata
from .exporting import Exported, check_arguments, check_folder, check_sizes, describe, memory_of, ready, write
from .hashing import hash_nodes

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

__all__ = ["encoder_graph", "example_ids", "export_encoder"]


def export_encoder(
    model: "torch.nn.Module",
    path: str | os.PathLike[str],
    *,
    opset: int = 14,
    addresses: str = "input",
    precision: str = "fp32",
    calibration: "Iterable[NDArray[np.int64]] | None" = None,
) -> Exported:
    """Writes an encoder with its memory: `input_ids` to `last_hidden_state`, or to `logits` where it has a head.

    Args:
        model: An encoder of transformers, such as `T5EncoderModel`, `BertModel` or a token classifier, with one memory
            or none.
        path: The file.
        opset: As in `export_seq2seq`.
        addresses: As in `export_seq2seq`.
        precision: As in `export_seq2seq`.
        calibration: As in `export_seq2seq`.

    Raises:
        TypeError: `model` is no encoder of transformers, or one that says nothing of single positions.
        ValueError: As in `export_seq2seq`; the padding id may be any.
        FileNotFoundError: There is no folder for the file.
    """
    from .calibration import encoder_feeds

    target = Path(path)
    config = getattr(model, "config", None)
    if config is None or "decoder_input_ids" in inspect.signature(model.forward).parameters:
        raise TypeError(f"model must be an encoder of transformers, not {type(model).__name__}")
    if not isinstance(getattr(config, "pad_token_id", None), int):
        raise ValueError(f"the configuration of {type(model).__name__} has no pad_token_id, which tells padding")
    samples = check_arguments(opset, addresses, precision, calibration)
    check_folder(target.parent)
    if target.is_dir():
        raise ValueError(f"{target} is a folder; path must name a file")
    memory = memory_of(model, None)
    told = describe(memory, addresses, precision)
    check_sizes({target.name: [model]}, memory, precision)
    copied = ready(model, memory, precision)
    graph = encoder_graph(copied, config, told, opset, _output_of(copied, told))
    feeds = None if samples is None else {target.name: encoder_feeds(samples, told)}
    del copied
    paths = write(target.parent, {target.name: graph}, told, precision, feeds)
    return Exported(paths, told, opset, precision.partition("-")[0])


def encoder_graph(
    encoder: Any,  # noqa: ANN401
    config: Any,  # noqa: ANN401
    told: EncoderMetadata | None,
    opset: int,
    output: str,
) -> onnx.ModelProto:
    """Traces an encoder; puts the hash before it where its mode wants that.

    Args:
        encoder: What `ready` gave, or the encoder in it.
        config: Names the padding id.
        told: What it will say of its memory.
        opset: The ONNX operator set.
        output: What its output is called.
    """
    from .tracing import EncoderGraph, trace

    ids = example_ids(config)
    inputs = {"input_ids": ids, **_example_addresses(ids, told)}
    module = EncoderGraph(encoder, config.pad_token_id).eval()
    graph = trace(module, list(inputs.values()), list(inputs), [output], opset)
    if told is not None:
        _name_memory(graph)
        if told.mode != "input":
            _splice(graph, hash_nodes(told.addressing, "input_ids", INPUT, told.mode, "engram.hash."))
    return graph


def example_ids(config: Any) -> Any:  # noqa: ANN401
    """Two texts of four ids, the second padded."""
    import torch

    pad = config.pad_token_id
    some = [number for number in range(8) if number != pad][:5]
    return torch.tensor([[*some[:4]], [*some[3:5], pad, pad]])


def _output_of(model: Any, told: EncoderMetadata | None) -> str:  # noqa: ANN401
    """The name of what a model says first, which must be a vector for every position."""
    import torch

    ids = example_ids(model.config)
    with torch.no_grad():
        found = model(input_ids=ids, attention_mask=torch.ones_like(ids), **_example_addresses(ids, told))
    for name in ("logits", "last_hidden_state"):
        if name in found and found[name] is found[0] and found[name].ndim == 3:
            return name
    said = ", ".join(f"{name} {list(getattr(value, 'shape', ()))}" for name, value in found.items())
    raise TypeError(
        f"model must give last_hidden_state or logits [batch, sequence, …] first; for ids {list(ids.shape)} "
        f"{type(model).__name__} gives {said}"
    )


def _example_addresses(ids: Any, told: EncoderMetadata | None) -> dict[str, Any]:  # noqa: ANN401
    import torch

    if told is None:
        return {}
    columns = told.addressing.num_columns
    return {INPUT: torch.arange(ids.numel() * columns).reshape(*ids.shape, columns)}


def _name_memory(model: onnx.ModelProto) -> None:
    """Puts `engram.` before the names of the nodes that depend on addresses and constants alone.

    Whoever asks where the memory runs, as `engram_rs.ort.placement` does, finds it by that.
    """
    constants, reached = {one.name for one in model.graph.initializer}, {INPUT}
    for node in model.graph.node:
        if node.op_type == "Constant":
            constants |= set(node.output)
        elif set(node.input) & reached and set(node.input) <= reached | constants:
            node.name = f"engram.{node.name}"
            reached |= set(node.output)


def _splice(model: onnx.ModelProto, hashed: Any) -> None:  # noqa: ANN401
    """Puts the nodes that compute addresses in the place of the input of addresses."""
    kept = [one for one in model.graph.input if one.name != INPUT]
    nodes = [*hashed.nodes, *model.graph.node]
    del model.graph.input[:], model.graph.node[:]
    model.graph.input.extend(kept)
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(hashed.initializers)
    known = {entry.domain for entry in model.opset_import}
    model.opset_import.extend(entry for entry in hashed.opset_imports if entry.domain not in known)
