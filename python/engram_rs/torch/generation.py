"""What `generate()` must pass on: the ids before those of one step."""

import functools
import types
from typing import Any, cast

import torch
from torch import nn

from .hooks import HISTORY, MASK

__all__ = ["follow_generation", "unfollow_generation"]

_METHOD = "prepare_inputs_for_generation"


def follow_generation(model: nn.Module) -> None:
    """Lets every step of `generate()` hand the memory the ids before it.

    `generate()` holds all ids and gives each step only the new ones. It asks the model to prepare a step's
    arguments; there they are taken from, after beams have changed places and rejected tokens are gone.
    """
    if hasattr(type(model), _METHOD):
        # A method of this object, so that a copy of the model gets one of its own.
        setattr(model, _METHOD, types.MethodType(_prepare_of(cast(Any, type(model))), model))


def unfollow_generation(model: nn.Module) -> None:
    """Takes that back."""
    vars(model).pop(_METHOD, None)


@functools.cache
def _prepare_of(kind: type[nn.Module]) -> Any:
    original = getattr(kind, _METHOD)

    # transformers reads the signature to know which arguments a model takes.
    @functools.wraps(original)
    def prepare(model: nn.Module, input_ids: torch.Tensor, *args: Any, **kwargs: Any) -> dict[str, Any]:
        inputs: dict[str, Any] = original(model, input_ids, *args, **kwargs)
        ids = next((inputs[key] for key in ("decoder_input_ids", "input_ids") if inputs.get(key) is not None), None)
        if ids is None:
            return inputs
        count = ids.shape[1]
        whole = getattr(model.config, "is_encoder_decoder", False)
        mask = kwargs.get("decoder_attention_mask" if whole else "attention_mask")
        inputs[HISTORY] = input_ids[:, : input_ids.shape[1] - count]
        if isinstance(mask, torch.Tensor) and mask.ndim == 2:
            inputs[MASK] = mask
        return inputs

    return prepare
