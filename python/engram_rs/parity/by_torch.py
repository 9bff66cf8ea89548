"""What a torch model makes of real inputs, for graphs to be compared with."""

import contextlib
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import decode, encode
from ..ort.batches import padded

__all__ = ["ByTorch", "ask", "batches", "evaluated"]

# Texts that are compared at once.
_BATCH = 16


@dataclass(frozen=True)
class ByTorch:
    """What torch makes of a batch.

    Attributes:
        ids: int64 `[B, S]`, padded with 0.
        states: `[B, S, d_model]`.
        fed: int64 `[B, T]`: the start, and the output without its last token.
        valid: Which of these positions belong to an output, `[B, T]`.
        logits: float32 `[B, T, V]`.
        texts: The outputs.
    """

    ids: NDArray[np.int64]
    states: NDArray[np.float32]
    fed: NDArray[np.int64]
    valid: NDArray[np.bool_]
    logits: NDArray[np.float32]
    texts: list[str]


@contextlib.contextmanager
def evaluated(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The model in evaluation mode and at float32; it is left as it was.

    A checkpoint at fewer bits is loaded at them, and torch's own rounding would then count as the graphs'.
    """
    if any(weight.dtype != torch.float32 for weight in model.parameters() if weight.is_floating_point()):
        yield copy.deepcopy(model).float().eval()
        return
    modes = {module: module.training for module in model.modules()}
    try:
        yield model.eval()
    finally:
        for module, mode in modes.items():
            module.training = mode


def batches(model: Any, texts: Sequence[str], limit: int) -> Iterator[tuple[list[int], ByTorch]]:  # noqa: ANN401
    """Texts of nearly one length at a time: their places in `texts`, and what the model makes of them."""
    rows = [encode(text) for text in texts]
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    for start in range(0, len(order), _BATCH):
        indices = order[start : start + _BATCH]
        yield indices, ask(model, [rows[index] for index in indices], limit)


@torch.inference_mode()
def ask(model: Any, rows: list[NDArray[np.int64]], limit: int) -> ByTorch:  # noqa: ANN401
    """Encodes, decodes greedily, and goes over its own output once more for the logits.

    Args:
        model: In evaluation mode.
        rows: Ids `[T]`.
        limit: The most tokens of an output.
    """
    ids = padded(rows)
    given = torch.from_numpy(ids).to(model.device)
    mask = (given != 0).long()
    states = model.get_encoder()(input_ids=given, attention_mask=mask)[0]
    out = model.generate(input_ids=given, attention_mask=mask, max_new_tokens=limit, do_sample=False, num_beams=1)
    fed, written = out[:, :-1], out[:, 1:]
    logits = model(input_ids=given, attention_mask=mask, decoder_input_ids=fed).logits
    ended = (written == model.config.eos_token_id).cumsum(1)
    valid = (ended == 0) | ((ended == 1) & (written == model.config.eos_token_id))
    tokens = written.cpu().numpy()
    return ByTorch(
        ids=ids,
        states=states.float().cpu().numpy(),
        fed=fed.cpu().numpy(),
        valid=valid.cpu().numpy(),
        logits=logits.float().cpu().numpy(),
        texts=[decode(row) for row in tokens],
    )
