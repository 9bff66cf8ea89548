"""The optimizer of a memory's table."""

import math
from collections.abc import Callable
from typing import Any, Literal, overload

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT, StateDict

from .balance import Balance, Lookahead, row_blocks
from .loading import load_uncast
from .shards import local_gradient, local_part, total_over_parts
from .touched import coasting, touched_rows

__all__ = ["SinkhornMomentum"]

Group = dict[str, Any]
State = dict[str, Any]


class SinkhornMomentum(Optimizer):
    """Momentum whose step has the same length in every row and about the same in every column.

    With the gradient G `[rows, columns]`, a step is

        m ← β m + (1-β) G
        g = (1-β) G + β m, and 0 in rows whose norm is at most τ times the mean norm of all rows
        U = g, its rows and columns divided by their L2 norms in turn, rows first and last
        W ← W - lr · γ · sqrt(columns) · U

    so that each row that moves at all does so by `lr · γ` (root mean square), about as far as AdamW moves a parameter
    at the same rate.

    `rows="touched"` goes through the rows of a batch only. A row without a gradient still has a lookahead of `β m`, and
    the dense rule moves it on for a hundred steps and more, until τ stops it. Here it waits for its next gradient and
    then makes all those moves at once: the momentum is decayed by β for each missed step, and the row goes as many
    units along the old momentum as the dense rule would have. Where nothing was missed the two rules are one. They
    differ in that

    - a forward pass reads a row before its missed moves; `catch_up` brings all rows to where they belong,
    - columns are balanced over the touched rows, where the dense rule counts those that move without a gradient too,
    - missed moves, each at the learning rate of its time, are balanced and stopped as at the time they are made.

    The mean norm counts all rows in both.

    State and arithmetic are float32 for half-precision parameters. A bfloat16 parameter still loses updates that are
    below half its last place, and these are small: keep tables in float32.

    Args:
        params: Parameters of two dimensions, or groups of them.
        lr: Learning rate.
        beta: β, the decay of the momentum.
        gamma: γ, the size of a step.
        tau: τ, the part of the mean row norm up to which a row stands still.
        iterations: Normalisations of rows and columns together; odd.
        eps: Added to every norm that is divided by.
        rows: "all" for the dense rule, "touched" for the rows of the batch. Only the latter takes sparse gradients.

    Raises:
        ValueError: A hyperparameter is out of range, or a parameter has not two dimensions.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 2.6e-4,
        *,
        beta: float = 0.95,
        gamma: float = 0.18,
        tau: float = 1e-3,
        iterations: int = 11,
        eps: float = 1e-20,
        rows: Literal["all", "touched"] = "all",
    ) -> None:
        super().__init__(
            params,
            {"lr": lr, "beta": beta, "gamma": gamma, "tau": tau, "iterations": iterations, "eps": eps, "rows": rows},
        )

    def add_param_group(self, param_group: Group) -> None:
        """Adds parameters with hyperparameters of their own.

        Raises:
            ValueError: As in the constructor.
        """
        super().add_param_group(param_group)
        try:
            _check(self.param_groups[-1])
        except ValueError:
            del self.param_groups[-1]
            raise

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Moves every parameter that has a gradient.

        Args:
            closure: Computes the gradients anew and returns the loss.

        Returns:
            What the closure returned.

        Raises:
            RuntimeError: A gradient is sparse where `rows` is "all", or is sparse in another way than by rows.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                step = _step_touched if group["rows"] == "touched" else _step_all
                step(parameter, self.state[parameter], group)
        return loss

    @torch.no_grad()
    def catch_up(self) -> None:
        """Makes the moves that rows have missed, in every group whose `rows` is "touched".

        Goes through whole tables. Call it where the weights leave the training: before they are evaluated, compared or
        saved for good. A checkpoint to train on from needs none.
        """
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state.get(parameter)
                if group["rows"] == "touched" and state:
                    _catch_up(parameter, state, group)

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Loads a state; float32 stays float32 where the parameters are not."""
        load_uncast(self, state_dict, [parameter for group in self.param_groups for parameter in group["params"]])


def _check(group: Group) -> None:
    for name, holds, wanted in (
        ("lr", 0 <= group["lr"] < math.inf, "at least 0"),
        ("beta", 0 <= group["beta"] < 1, "at least 0 and below 1"),
        ("gamma", 0 < group["gamma"] < math.inf, "above 0"),
        ("tau", 0 <= group["tau"] < 1, "at least 0 and below 1"),
        ("iterations", _is_odd(group["iterations"]), "an odd number"),
        # Below this, one divided by it is no float32.
        ("eps", torch.finfo(torch.float32).tiny <= group["eps"] < math.inf, "at least the smallest normal float32"),
        ("rows", group["rows"] in ("all", "touched"), "'all' or 'touched'"),
    ):
        if not holds:
            raise ValueError(f"{name} must be {wanted}, not {group[name]!r}")
    for parameter in group["params"]:
        if parameter.ndim != 2 or not parameter.is_floating_point():
            raise ValueError(
                f"a parameter must have two dimensions and a floating dtype, not {list(parameter.shape)} of "
                f"{parameter.dtype}"
            )
        total_over_parts(parameter)


def _is_odd(iterations: object) -> bool:
    return isinstance(iterations, int) and iterations > 0 and iterations % 2 == 1


def _step_all(parameter: torch.Tensor, state: State, group: Group) -> None:
    gradient = local_gradient(parameter)
    if gradient.layout != torch.strided:
        raise RuntimeError("rows='all' needs dense gradients; rows='touched' takes sparse ones too")
    if not state:
        state["momentum_buffer"] = _zeros_like(parameter)
    weights, total = local_part(parameter), total_over_parts(parameter)
    lookahead = Lookahead(gradient, local_part(state["momentum_buffer"]), group["beta"])
    threshold = group["tau"] * total(lookahead.norms.sum()) / len(parameter)
    balance = Balance(lookahead, threshold, iterations=group["iterations"], eps=group["eps"], total=total)
    for span, directions in balance:
        weights[span].add_(directions, alpha=-float(group["lr"]) * _length(parameter, group))


def _step_touched(parameter: torch.Tensor, state: State, group: Group) -> None:
    if not state:
        state["momentum_buffer"] = _zeros_like(parameter)
        state["last_step"] = torch.zeros_like(parameter[:, :1], dtype=torch.int32)
        # Sums of the learning rates up to each step, from none on: four bytes a step, so that a row which was last
        # touched long ago moves at the rates of that time.
        state["path"] = local_part(state["momentum_buffer"]).new_zeros(1)
        # The norms of all momentum together as of now, where the buffer is not decayed yet.
        state["norm_sum"] = state["path"].new_zeros(())
        state["threshold"] = state["path"].new_zeros(())
        state["columns"] = state["path"].new_ones(parameter.shape[1])
    beta, weights, total = group["beta"], local_part(parameter), total_over_parts(parameter)
    momentum, last_step = local_part(state["momentum_buffer"]), local_part(state["last_step"])
    rows, gradient = touched_rows(local_gradient(parameter))

    old = momentum.index_select(0, rows)
    before, path = last_step.index_select(0, rows), state["path"]
    new = old * _decay(beta, before, path)
    behind = _norms(new).sum()
    lookahead = Lookahead(gradient, new, beta)  # moves `new`
    behind, ahead, looked = total(torch.stack([behind, _norms(new).sum(), lookahead.norms.sum()]))
    elsewhere = beta * (state["norm_sum"] - behind).clamp(min=0)
    state["norm_sum"] = elsewhere + ahead
    state["threshold"] = group["tau"] * (beta * elsewhere + looked) / len(parameter)
    balance = Balance(lookahead, state["threshold"], iterations=group["iterations"], eps=group["eps"], total=total)
    state["columns"] = balance.columns / balance.columns.max()

    late = coasting(old, before, path, beta=beta, threshold=state["threshold"], columns=state["columns"])
    values, rate = weights.index_select(0, rows), float(group["lr"])
    for span, directions in balance:
        values[span].add_(directions.mul_(rate).add_(late[span]), alpha=-_length(parameter, group))
    # The rows are distinct, so that copying is exact and in no order, which adding at indices is not everywhere.
    weights.index_copy_(0, rows, values)
    momentum.index_copy_(0, rows, new)
    last_step.index_fill_(0, rows, len(path))
    state["path"] = torch.cat([path, path[-1:] + rate])


def _catch_up(parameter: torch.Tensor, state: State, group: Group) -> None:
    weights, beta, path = local_part(parameter), group["beta"], state["path"]
    momentum, last_step = local_part(state["momentum_buffer"]), local_part(state["last_step"])
    for span in row_blocks(momentum):
        late = coasting(
            momentum[span].clone(),
            last_step[span],
            path,
            beta=beta,
            threshold=state["threshold"],
            columns=state["columns"],
        )
        weights[span].add_(late, alpha=-_length(parameter, group))
        momentum[span].mul_(_decay(beta, last_step[span], path))
        last_step[span] = len(path) - 1


def _decay(beta: float, last_step: torch.Tensor, path: torch.Tensor) -> torch.Tensor:
    """What is left of momentum after the steps since `last_step`."""
    return beta ** (len(path) - 1 - last_step).to(path.dtype)


def _length(parameter: torch.Tensor, group: Group) -> float:
    """How far a row goes in a step at a rate of 1."""
    return float(group["gamma"]) * math.sqrt(parameter.shape[1])


def _norms(matrix: torch.Tensor) -> torch.Tensor:
    norms: torch.Tensor = torch.linalg.vector_norm(matrix, dim=1)
    return norms


def _zeros_like(parameter: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(parameter, dtype=torch.promote_types(parameter.dtype, torch.float32))
