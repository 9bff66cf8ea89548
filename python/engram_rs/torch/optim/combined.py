"""Several optimizers that act as one."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, overload

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import StateDict

from .loading import load_uncast
from .sinkhorn import SinkhornMomentum

__all__ = ["CombinedOptimizer"]


class CombinedOptimizer(Optimizer):
    """Optimizers for different parameters of one model, as one `torch.optim.Optimizer`.

    Its `param_groups` are those of all parts, in order, and its `state` is theirs. So one scheduler drives every rate,
    and one `state_dict()` holds everything, in the form that torch gives any optimizer's.

    Args:
        parts: The optimizers. They belong to this one from here on.

    Raises:
        ValueError: There are none, or two of them train the same parameter.
    """

    def __init__(self, parts: Iterable[Optimizer]) -> None:
        self._parts = list(parts)
        # torch keeps the dictionaries it is given, so that a part and the whole share each group.
        super().__init__([group for part in self._parts for group in part.param_groups], {})
        for part in self._parts:
            self.state.update(part.state)
        self._share()

    def _share(self) -> None:
        groups = iter(self.param_groups)
        for part in self._parts:
            part.param_groups = list(islice(groups, len(part.param_groups)))
            part.state = self.state

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_parts": self._parts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._share()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuses: a new group would have no rule.

        Raises:
            RuntimeError: Always, once the optimizer is made.
        """
        if len(self.param_groups) == sum(len(part.param_groups) for part in self._parts):
            raise RuntimeError("a group added here would belong to no part; combine the optimizers anew")
        super().add_param_group(param_group)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One step of every part.

        Args:
            closure: Computes the gradients anew and returns the loss; called once.

        Returns:
            What the closure returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self._parts:
            part.step()
        return loss

    def catch_up(self) -> None:
        """`SinkhornMomentum.catch_up` of the parts that have it."""
        for part in self._sinkhorn():
            part.catch_up()

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Loads the state of all parts.

        Raises:
            ValueError: The groups are not those of this optimizer, as when the state is that of a model without the
                memory.
        """
        kept = [parameter for part in self._sinkhorn() for group in part.param_groups for parameter in group["params"]]
        load_uncast(self, state_dict, kept)

    def _sinkhorn(self) -> list[SinkhornMomentum]:
        return [part for part in self._parts if isinstance(part, SinkhornMomentum)]
