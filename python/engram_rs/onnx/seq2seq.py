"""Whole models with their memories: the encoder, the decoder, and the decoder with a cache."""

import copy
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from .._core import __version__
from .._extras import require
from .._files import replacing
from ..memory_graph import INPUT, MODES, EncoderMetadata

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

__all__ = ["TIERS", "Exported", "export_encoder", "export_seq2seq"]

# The zip's own precisions, and a second way to int8.
TIERS = ("fp32", "fp16", "int8", "int8-static", "int4")
# Scaled dot product attention needs 14; 18 changes operators that the tracing exporter does not know.
_OPSETS = range(14, 18)
_KINDS = ("t5", "mt5")
ENCODER, DECODER, CACHED = "encoder.onnx", "decoder.onnx", "decoder-kv.onnx"


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        paths: The files by their names in a model zip.
        memory: What the encoder says of its memory; None if it has none.
        opset: The ONNX operator set.
        precision: As the zip's metadata have it: `fp32`, `fp16`, `int8` or `int4`.
    """

    paths: dict[str, Path]
    memory: EncoderMetadata | None
    opset: int
    precision: str

    def zip_fields(self) -> dict[str, Any]:
        """The metadata of a model zip that follow from the graphs; the others are the author's to give."""
        takes = self.memory is not None and self.memory.mode == "input"
        fields: dict[str, Any] = {
            "format": "imf-v2" if takes else "imf-v1",
            "tokenizer": "bytes",
            "opset": self.opset,
            "decoder": "kv" if CACHED in self.paths else "plain",
            "precision": self.precision,
        }
        if takes:
            assert self.memory is not None
            fields["engram"] = {
                "addressing": self.memory.addressing.to_json(),
                "input": INPUT,
                "dim": self.memory.dim,
                "block": self.memory.block,
            }
        return fields


def export_seq2seq(
    model: "torch.nn.Module",
    directory: str | os.PathLike[str],
    *,
    opset: int = 14,
    addresses: str = "input",
    precision: str = "fp32",
    calibration: "Iterable[NDArray[np.int64]] | None" = None,
) -> Exported:
    """Writes a T5 or ByT5 and the memory in its encoder as `encoder.onnx`, `decoder.onnx` and `decoder-kv.onnx`.

    Inputs and outputs are those of the model zip: `input_ids` int64 `[batch, sequence]` to `last_hidden_state`;
    `input_ids` and `encoder_hidden_states` to `logits`; and `past_key_i`, `past_value_i` to `present_key_i`,
    `present_value_i`, `[batch, heads, past, d_kv]`, of self-attention, with none at the first call and any number of
    new tokens in each. Batch and lengths are free.

    There is no mask among them. Texts of a batch are padded at the right with the model's padding id: the encoder
    hides it and writes rows of zeros there, and the decoders take such rows for padding.

    Args:
        model: With one memory at a block of the encoder, or none. It is copied, and not changed.
        directory: Where the files go, made if its parent is there. Files of those names stay until all new ones are
            whole.
        opset: The ONNX operator set, 14 … 17; the model zip takes 14.
        addresses: `"input"`: the encoder takes `engram_addresses` too, int64 `[batch, sequence, K]`, hashes before the
            remainder or rows. `"graph"`: the hash is in the encoder, in ONNX's own operators. `"ort"`: the same by
            ONNX Runtime's operator `NGramHashMapping`. Without a memory it means nothing.
        precision: `"fp32"`; `"fp16"`: all weights, and the states between the graphs; `"int8"`: matrices at int8, with
            scales of activations found at run time; `"int8-static"`: found now, from `calibration`; `"int4"`: matrices
            in blocks of 32 values. From int8 on, the head stays as it is, and the memory is its published artifact: an
            int8 table and an fp16 projection. int4 needs ONNX Runtime.
        calibration: For `"int8-static"`: ids `[T]` of some real inputs.

    Returns:
        The paths, and what a model zip's metadata need.

    Raises:
        TypeError: `model` is no T5.
        ValueError: An argument is out of range, the memory is elsewhere, or its scheme has no such form in a graph.
        FileNotFoundError: There is no folder to make the directory in.
    """
    from .calibration import calibrating_feeds
    from .tracing import CachedDecoderGraph, DecoderGraph, trace

    torch = require("torch", "export_seq2seq")
    target = Path(directory)
    config: Any = getattr(model, "config", None)
    if getattr(config, "model_type", None) not in _KINDS or not hasattr(model, "lm_head"):
        raise TypeError(f"model must be a T5ForConditionalGeneration or its like, not {type(model).__name__}")
    samples = _check(opset, addresses, precision, calibration)
    _check_folder(target)
    memory = _memory_of(model, "encoder")
    told = _describe(memory, addresses, precision)

    ready = _ready(model, memory, precision)
    ids, states = _example_ids(config), None
    graphs: dict[str, onnx.ModelProto] = {ENCODER: _encoder(ready.encoder, config, told, opset, "last_hidden_state")}
    start = torch.tensor([[0, 9], [0, 4]])
    states = torch.randn(*ids.shape, config.d_model, dtype=ready.dtype)
    names = ["input_ids", "encoder_hidden_states"]
    graphs[DECODER] = trace(DecoderGraph(ready).eval(), (start, states), names, ["logits"], opset)
    pairs = [f"{what}_{layer}" for layer in range(config.num_decoder_layers) for what in ("key", "value")]
    pasts = [torch.randn(2, config.num_heads, 3, config.d_kv, dtype=ready.dtype) for _ in pairs]
    graphs[CACHED] = trace(
        CachedDecoderGraph(ready).eval(),
        (start, states, *pasts),
        [*names, *(f"past_{pair}" for pair in pairs)],
        ["logits", *(f"present_{pair}" for pair in pairs)],
        opset,
    )
    feeds = None if samples is None else calibrating_feeds(ready, samples, told)
    del ready
    paths = _write(target, graphs, told, precision, feeds)
    return Exported(paths, told, opset, precision.partition("-")[0])


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
        TypeError: `model` is no encoder of transformers.
        ValueError: As in `export_seq2seq`.
    """
    from .calibration import encoder_feeds

    target = Path(path)
    config = getattr(model, "config", None)
    if config is None or hasattr(model, "decoder"):
        raise TypeError(f"model must be an encoder of transformers, not {type(model).__name__}")
    if not isinstance(getattr(config, "pad_token_id", None), int):
        raise ValueError(f"the configuration of {type(model).__name__} has no pad_token_id, which tells padding")
    samples = _check(opset, addresses, precision, calibration)
    _check_folder(target.parent)
    if target.is_dir():
        raise ValueError(f"{target} is a folder; path must name a file")
    memory = _memory_of(model, None)
    told = _describe(memory, addresses, precision)
    ready = _ready(model, memory, precision)
    graph = _encoder(ready, config, told, opset, "logits" if _has_head(ready, told) else "last_hidden_state")
    feeds = None if samples is None else {target.name: encoder_feeds(samples, told)}
    paths = _write(target.parent, {target.name: graph}, told, precision, feeds)
    return Exported(paths, told, opset, precision.partition("-")[0])


def _check(opset: int, addresses: str, precision: str, calibration: Any) -> "list[NDArray[np.int64]] | None":  # noqa: ANN401
    if isinstance(opset, bool) or not isinstance(opset, int) or opset not in _OPSETS:
        raise ValueError(f"opset must be {_OPSETS[0]} … {_OPSETS[-1]}, not {opset!r}")
    if addresses not in MODES:
        raise ValueError(f"addresses must be one of {', '.join(MODES)}, not {addresses!r}")
    if precision not in TIERS:
        raise ValueError(f"precision must be one of {', '.join(TIERS)}, not {precision!r}")
    if (precision == "int8-static") != (calibration is not None):
        raise ValueError("calibration belongs to the precision int8-static, and only to it")
    if calibration is None:
        return None
    samples = [np.asarray(ids) for ids in calibration]
    if not samples or any(ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iu" for ids in samples):
        raise ValueError("calibration must be at least one array of integers [T], each with at least one id")
    return [ids.astype(np.int64) for ids in samples]


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is no folder")
    if not folder.resolve().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {folder.resolve().parent}")


def _memory_of(model: Any, stack: str | None) -> Any:  # noqa: ANN401
    """The handle of a model's one memory, or None."""
    from ..torch import memories

    handles = memories(model)
    if len(handles) > 1:
        raise ValueError(f"the model has {len(handles)} memories; a graph can have one")
    if handles and stack is not None and not handles[0].name.startswith(f"{stack}."):
        raise ValueError(f"the memory is at {handles[0].name}; a graph has it in the encoder")
    return handles[0] if handles else None


def _describe(memory: Any, mode: str, precision: str) -> EncoderMetadata | None:  # noqa: ANN401
    if memory is None:
        return None
    module = memory.module
    told = EncoderMetadata(
        module.addressing, mode, precision.partition("-")[0], module.d_model, module.dim, module.block_index
    )
    if mode != "input":
        # Refuses a scheme that has no such form before anything is traced.
        _hash_nodes(told)
    return told


def _hash_nodes(told: EncoderMetadata) -> Any:  # noqa: ANN401
    from .hashing import hash_nodes

    return hash_nodes(told.addressing, "input_ids", INPUT, told.mode, "engram.hash.")


def _ready(model: Any, memory: Any, precision: str) -> Any:  # noqa: ANN401
    """A copy to trace: on the CPU, at its precision, with the memory in its graph's form."""
    import torch

    from ..torch.hooks import CHILD
    from .traced_memory import TracedMemory

    copied = copy.deepcopy(model).cpu().eval()
    traced = None if memory is None else TracedMemory(memory.module, precision.partition("-")[0])
    copied = copied.to(torch.float16 if precision == "fp16" else torch.float32)
    if traced is not None:
        setattr(copied.get_submodule(memory.name), CHILD, traced)
    return copied


def _has_head(model: Any, told: EncoderMetadata | None) -> bool:  # noqa: ANN401
    import torch

    ids = _example_ids(model.config)
    with torch.no_grad():
        return "logits" in model(input_ids=ids, attention_mask=torch.ones_like(ids), **_example_addresses(ids, told))


def _example_addresses(ids: Any, told: EncoderMetadata | None) -> dict[str, Any]:  # noqa: ANN401
    import torch

    if told is None:
        return {}
    columns = told.addressing.num_columns
    return {INPUT: torch.arange(ids.numel() * columns).reshape(*ids.shape, columns)}


def _example_ids(config: Any) -> Any:  # noqa: ANN401
    import torch

    # Two texts of four ids, the second padded.
    pad = config.pad_token_id
    some = [number for number in range(8) if number != pad][:5]
    return torch.tensor([[*some[:4]], [*some[3:5], pad, pad]])


def _encoder(
    encoder: Any,  # noqa: ANN401
    config: Any,  # noqa: ANN401
    told: EncoderMetadata | None,
    opset: int,
    output: str,
) -> onnx.ModelProto:
    from .tracing import EncoderGraph, trace

    ids = _example_ids(config)
    inputs = {"input_ids": ids, **_example_addresses(ids, told)}
    module = EncoderGraph(encoder, config.pad_token_id).eval()
    graph = trace(module, list(inputs.values()), list(inputs), [output], opset)
    if told is not None:
        _name_memory(graph)
        if told.mode != "input":
            _splice(graph, _hash_nodes(told))
    return graph


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


def _write(
    folder: Path,
    graphs: dict[str, onnx.ModelProto],
    told: EncoderMetadata | None,
    precision: str,
    feeds: Any,  # noqa: ANN401
) -> dict[str, Path]:
    """Finishes all graphs in a folder of their own, then puts them in their places."""
    from .precision import lowered

    with tempfile.TemporaryDirectory(prefix="engram_rs-") as temporary:
        made = lowered(graphs, Path(temporary), precision, feeds)
        for name, model in made.items():
            model.producer_name, model.producer_version = "engram_rs", __version__
            # Whoever batches texts asks for this.
            properties = {"engram.padding": "zero-rows"}
            if told is not None and name not in (DECODER, CACHED):
                properties |= told.to_properties()
            onnx.helper.set_model_props(model, properties)
            onnx.checker.check_model(model)
        folder.mkdir(exist_ok=True)
        for name, model in made.items():
            with replacing(folder / name) as place:
                onnx.save_model(model, os.fspath(place))
    return {name: folder / name for name in made}
