"""Whole models with their memories: the encoder, the decoder, and the decoder with a cache."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from .._extras import require
from .encoder import encoder_graph, example_ids
from .exporting import (
    CACHED,
    DECODER,
    ENCODER,
    TIERS,
    Exported,
    check_arguments,
    check_folder,
    check_sizes,
    describe,
    memory_of,
    ready,
    write,
)

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

__all__ = ["TIERS", "Exported", "export_seq2seq"]

_KINDS = ("t5", "mt5")


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
        ValueError: An argument is out of range, the model pads with another id than 0 or exceeds ONNX's 2 GiB, or the
            memory is elsewhere, or its scheme has no such form in a graph.
        FileNotFoundError: There is no folder to make the directory in.
    """
    from .calibration import calibrating_feeds
    from .tracing import CachedDecoderGraph, DecoderGraph, trace

    torch = require("torch", "export_seq2seq")
    target = Path(directory)
    config: Any = getattr(model, "config", None)
    if getattr(config, "model_type", None) not in _KINDS or not hasattr(model, "lm_head"):
        raise TypeError(f"model must be a T5ForConditionalGeneration or its like, not {type(model).__name__}")
    if (pad := getattr(config, "pad_token_id", None)) != 0:
        raise ValueError(f"the model's pad_token_id is {pad}; texts of a batch are padded with 0")
    samples = check_arguments(opset, addresses, precision, calibration)
    check_folder(target)
    memory = memory_of(model, "encoder")
    told = describe(memory, addresses, precision)
    whole: Any = model
    decoding = [whole.decoder, whole.lm_head]
    check_sizes({ENCODER: [whole.encoder], DECODER: decoding, CACHED: decoding}, memory, precision)

    copied = ready(model, memory, precision)
    graphs: dict[str, onnx.ModelProto] = {
        ENCODER: encoder_graph(copied.encoder, config, told, opset, "last_hidden_state")
    }
    # Examples tell shapes; their values mean nothing, so no random numbers of the caller's are spent on them.
    start = torch.tensor([[0, 9], [0, 4]])
    states = torch.ones(*example_ids(config).shape, config.d_model, dtype=copied.dtype)
    names = ["input_ids", "encoder_hidden_states"]
    graphs[DECODER] = trace(DecoderGraph(copied).eval(), (start, states), names, ["logits"], opset)
    pairs = [f"{what}_{layer}" for layer in range(config.num_decoder_layers) for what in ("key", "value")]
    pasts = [torch.ones(2, config.num_heads, 3, config.d_kv, dtype=copied.dtype) for _ in pairs]
    graphs[CACHED] = trace(
        CachedDecoderGraph(copied).eval(),
        (start, states, *pasts),
        [*names, *(f"past_{pair}" for pair in pairs)],
        ["logits", *(f"present_{pair}" for pair in pairs)],
        opset,
    )
    feeds = None if samples is None else calibrating_feeds(copied, samples, told)
    del copied
    paths = write(target, graphs, told, precision, feeds)
    return Exported(paths, told, opset, precision.partition("-")[0])
