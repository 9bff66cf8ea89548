"""Tables whose rows are spread over several processes, as FSDP leaves them."""

from collections.abc import Callable

import torch

from ..sharding import is_spread

__all__ = ["local_gradient", "local_part", "total_over_parts"]


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """The rows that lie in this process, or the tensor itself if it is not spread."""
    return tensor.to_local() if is_spread(tensor) else tensor


def local_gradient(parameter: torch.Tensor) -> torch.Tensor:
    """The gradient of `local_part(parameter)`; there must be one."""
    gradient = parameter.grad
    assert gradient is not None
    if is_spread(gradient) and is_spread(parameter):
        # Does nothing where the gradient lies as its parameter does, and otherwise sums or moves it.
        gradient = gradient.redistribute(placements=parameter.placements)
    return local_part(gradient)


def total_over_parts(tensor: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """What sums a value over all processes that hold other rows of `tensor`; every one of them must call it.

    Raises:
        ValueError: The tensor is spread otherwise than by rows.
    """
    if not is_spread(tensor):
        return lambda value: value
    from torch.distributed.tensor import DTensor, Partial

    mesh = tensor.device_mesh
    if not all(each.is_shard(0) or each.is_replicate() for each in tensor.placements):
        raise ValueError(f"a table can be spread over processes by rows only, not as {tensor.placements}")
    placements = [Partial() if each.is_shard() else each for each in tensor.placements]
    return lambda value: DTensor.from_local(value, mesh, placements).full_tensor()
