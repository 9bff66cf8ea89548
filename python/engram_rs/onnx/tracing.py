"""Whole models as graphs, by torch's tracing exporter.

`torch.onnx.export(dynamo=False)` is what is used. The newer exporter has its operators at opset 18 and says itself
that a conversion to an older one may fail and is given up then; runtimes of the model zip's age cannot load more than
14. The tracing one writes 14 itself.

A graph's inputs are the ones that the model zip names, and there is no mask among them. So padding is told by the
data: the encoder hides what is padding by its ids, and writes rows of zeros there; a decoder takes rows of zeros in the
encoder's output for padding. No real row is all zeros, since a layer's norm leaves none. A runtime that runs one text
at a time sees no difference.
"""

import contextlib
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

from .._extras import require

__all__ = ["CachedDecoderGraph", "DecoderGraph", "EncoderGraph", "trace"]

_DYNAMIC = {
    "input_ids": {0: "batch", 1: "sequence"},
    "engram_addresses": {0: "batch", 1: "sequence"},
    "last_hidden_state": {0: "batch", 1: "sequence"},
    "encoder_hidden_states": {0: "batch", 1: "source"},
    "logits": {0: "batch", 1: "sequence"},
}


class EncoderGraph(nn.Module):
    """Ids, and addresses where there is a memory, to hidden states (or logits, of a model with a head)."""

    def __init__(self, encoder: nn.Module, pad: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.pad = pad

    def forward(self, input_ids: torch.Tensor, engram_addresses: torch.Tensor | None = None) -> torch.Tensor:
        """`[B, S]` and `[B, S, K]` to `[B, S, …]`, zeros where there is padding."""
        mask = input_ids != self.pad
        more = {} if engram_addresses is None else {"engram_addresses": engram_addresses}
        states: torch.Tensor = self.encoder(input_ids=input_ids, attention_mask=mask.long(), **more)[0]
        return states * mask.unsqueeze(-1).to(states.dtype)


class DecoderGraph(nn.Module):
    """Tokens and the encoder's hidden states to logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, encoder_hidden_states: torch.Tensor) -> torch.Tensor:
        """`[B, T]` and `[B, S, d_model]` to `[B, T, V]`."""
        logits: torch.Tensor = self._decode(input_ids, encoder_hidden_states, None).logits
        return logits

    def _decode(self, ids: torch.Tensor, states: torch.Tensor, cache: Any) -> Any:  # noqa: ANN401
        outputs = require("transformers.modeling_outputs", "export_seq2seq", "train")
        return self.model(
            encoder_outputs=outputs.BaseModelOutput(states),
            attention_mask=(states != 0).any(-1).long(),
            decoder_input_ids=ids,
            cache=cache,
            use_cache=cache is not None,
        )


class CachedDecoderGraph(DecoderGraph):
    """The same from a cache of self-attention on: any number of new tokens in a call."""

    def forward(self, input_ids: torch.Tensor, encoder_hidden_states: torch.Tensor, *pasts: torch.Tensor) -> Any:  # noqa: ANN401
        """Keys and values of each layer, `[B, heads, past, d_kv]`, to logits and the same with the new tokens."""
        transformers = require("transformers", "export_seq2seq", "train")
        cache = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
        for layer in range(len(pasts) // 2):
            cache.self_attention_cache.update(pasts[2 * layer], pasts[2 * layer + 1], layer)
        found = self._decode(input_ids, encoder_hidden_states, cache)
        layers = found.cache.self_attention_cache.layers
        return found.logits, *(part for layer in layers for part in (layer.keys, layer.values))


def trace(
    module: nn.Module, inputs: Sequence[torch.Tensor], names: Sequence[str], outputs: Sequence[str], opset: int
) -> onnx.ModelProto:
    """Runs a module once and writes down what it did.

    Args:
        module: On the CPU, in evaluation mode.
        inputs: Examples.
        names: Their names, which tell what is dynamic.
        outputs: The names of the outputs.
        opset: The ONNX operator set.
    """
    axes = {}
    for name in (*names, *outputs):
        if name.startswith(("past_", "present_")):
            axes[name] = {0: "batch", 2: "past" if name.startswith("past_") else "total"}
        else:
            axes[name] = _DYNAMIC[name]
    with tempfile.TemporaryDirectory(prefix="engram_rs-") as folder, torch.no_grad(), _quiet():
        written = Path(folder, "traced.onnx")
        torch.onnx.export(
            module,
            tuple(inputs),
            written,
            input_names=list(names),
            output_names=list(outputs),
            opset_version=opset,
            dynamic_axes=axes,
            dynamo=False,
        )
        model = onnx.load_model(written)
    imports = {entry.domain: entry.version for entry in model.opset_import}
    if imports != {"": opset}:
        raise RuntimeError(f"torch wrote the operator sets {imports}, asked was opset {opset}")
    model.ir_version = onnx.helper.find_min_ir_version_for(list(model.opset_import))
    return model


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says about itself, and about branches that the models take by their own settings."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
