"""What `generate()` must pass on: the ids before those of one step."""

import inspect
from typing import Any

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
        setattr(model, _METHOD, _Prepare(model))


def unfollow_generation(model: nn.Module) -> None:
    """Takes that back."""
    vars(model).pop(_METHOD, None)


class _Prepare:
    """An object, and no function over the model: so a copied or unpickled model has one of its own."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    @property
    def __signature__(self) -> inspect.Signature:
        """Transformers reads it to know which arguments a model takes."""
        whole = inspect.signature(getattr(type(self.model), _METHOD))
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    def __call__(self, input_ids: torch.Tensor, *args: Any, **kwargs: Any) -> dict[str, Any]:
        original = getattr(type(self.model), _METHOD)
        inputs: dict[str, Any] = original(self.model, input_ids, *args, **kwargs)
        ids = next((inputs[key] for key in ("decoder_input_ids", "input_ids") if inputs.get(key) is not None), None)
        if ids is None:
            return inputs
        count = ids.shape[1]
        config: Any = self.model.config
        mask = kwargs.get("decoder_attention_mask" if config.is_encoder_decoder else "attention_mask")
        inputs[HISTORY] = input_ids[:, : input_ids.shape[1] - count]
        if isinstance(mask, torch.Tensor) and mask.ndim == 2:
            inputs[MASK] = mask
        return inputs
