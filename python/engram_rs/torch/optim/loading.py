"""States whose dtype is not that of the parameters."""

from collections.abc import Iterable
from itertools import chain

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import StateDict

from ..sharding import spread_as

__all__ = ["load_uncast"]


def load_uncast(optimizer: Optimizer, state_dict: StateDict, parameters: Iterable[torch.Tensor]) -> None:
    """`Optimizer.load_state_dict`, except that the state of `parameters` keeps the dtypes it was saved with.

    torch casts every tensor of a state to its parameter's dtype, and float32 momentum of a bfloat16 parameter would
    not survive that. What has a row for every row of a parameter lies in the same processes as that.
    """
    loaded: StateDict = {}
    # The last of the hooks sees what the others, if any, have made of the state.
    handle = optimizer.register_load_state_dict_pre_hook(lambda _, final: loaded.update(final))
    try:
        Optimizer.load_state_dict(optimizer, state_dict)
    finally:
        handle.remove()
    identities = chain.from_iterable(group["params"] for group in loaded["param_groups"])
    trained = chain.from_iterable(group["params"] for group in optimizer.param_groups)
    wanted = set(parameters)
    for identity, parameter in zip(identities, trained, strict=True):
        if parameter in wanted:
            for key, value in loaded["state"].get(identity, {}).items():
                if isinstance(value, torch.Tensor):
                    placed = value.to(parameter.device)
                    if placed.ndim == 2 and len(placed) == len(parameter):
                        placed = spread_as(placed, parameter)
                    optimizer.state[parameter][key] = placed
