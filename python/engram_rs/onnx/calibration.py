"""What the graphs of a model see when it decodes real inputs: for the scales of static quantization."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..memory_graph import INPUT, EncoderMetadata
from .tracing import CachedDecoderGraph, EncoderGraph

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Feed = dict[str, NDArray[np.generic]]

__all__ = ["calibrating_feeds", "encoder_feeds"]

# Scales settle long before a text ends.
_MOST_TOKENS = 32


def encoder_feeds(samples: "Sequence[NDArray[np.int64]]", told: EncoderMetadata | None) -> "list[Feed]":
    """One feed of the encoder for every sample of ids `[T]`."""
    takes = told is not None and told.mode == "input"
    return [{"input_ids": ids[None], **({INPUT: _addresses(ids, told)} if takes else {})} for ids in samples]


def calibrating_feeds(
    model: nn.Module, samples: "Sequence[NDArray[np.int64]]", told: EncoderMetadata | None
) -> "dict[str, list[Feed]]":
    """Feeds of all three graphs: the model itself encodes the samples and decodes them."""
    whole: Any = model
    encoder = EncoderGraph(whole.encoder, whole.config.pad_token_id).eval()
    cached = CachedDecoderGraph(model).eval()
    config = whole.config
    empty = torch.zeros(1, config.num_heads, 0, config.d_kv, dtype=whole.dtype)
    pairs = [f"{what}_{layer}" for layer in range(config.num_decoder_layers) for what in ("key", "value")]
    decoders: tuple[list[Feed], list[Feed]] = ([], [])
    with torch.no_grad():
        for ids in samples:
            given = [torch.from_numpy(ids[None])]
            if told is not None:
                given.append(torch.from_numpy(_addresses(ids, told)))
            states = encoder(*given)
            tokens = torch.full((1, 1), config.decoder_start_token_id)
            pasts, new = [empty] * len(pairs), tokens
            common = {"encoder_hidden_states": states.numpy()}
            while True:
                named = {f"past_{pair}": past.numpy() for pair, past in zip(pairs, pasts, strict=True)}
                decoders[1].append({"input_ids": new.numpy(), **common, **named})
                logits, *pasts = cached(new, states, *pasts)
                new = logits[:, -1:].argmax(-1)
                if new.item() == config.eos_token_id or tokens.shape[1] == _MOST_TOKENS:
                    break
                tokens = torch.cat([tokens, new], 1)
            decoders[0].append({"input_ids": tokens.numpy(), **common})
    return {"encoder.onnx": encoder_feeds(samples, told), "decoder.onnx": decoders[0], "decoder-kv.onnx": decoders[1]}


def _addresses(ids: "NDArray[np.int64]", told: EncoderMetadata | None) -> "NDArray[np.int64]":
    assert told is not None
    return told.addressing(ids[None])
