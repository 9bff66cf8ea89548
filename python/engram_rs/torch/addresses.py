"""Addresses of a tensor of ids."""

import torch

from .._core import Addressing

__all__ = ["addresses_of"]

_INTEGERS = (
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)


def addresses_of(addressing: Addressing, input_ids: torch.Tensor) -> torch.Tensor:
    """Rows of every position, by the Rust core.

    Args:
        addressing: The scheme.
        input_ids: Integers `[T]` or `[B, T]`, on any device; a CPU tensor is read in place.

    Returns:
        int64 `[..., T, K]` on the device of `input_ids`.

    Raises:
        TypeError: `input_ids` is no tensor of integers.
        ValueError: `input_ids` has another number of dimensions.
    """
    if not isinstance(input_ids, torch.Tensor) or input_ids.dtype not in _INTEGERS:
        given = input_ids.dtype if isinstance(input_ids, torch.Tensor) else type(input_ids).__name__
        raise TypeError(f"input_ids must be a tensor of integers, not {given}")
    host = input_ids.detach().to("cpu")
    # One setting of torch's threads binds the hash too.
    rows = addressing(host.numpy(), threads=min(torch.get_num_threads(), 1024))
    return torch.from_numpy(rows).to(input_ids.device)
