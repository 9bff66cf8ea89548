"""One optimizer for a model with or without a memory."""

from collections.abc import Collection

from torch import nn
from torch.optim import AdamW, Muon, Optimizer

from .combined import CombinedOptimizer
from .groups import HEADS, param_groups
from .sinkhorn import SinkhornMomentum

__all__ = ["build_optimizer"]


def build_optimizer(
    model: nn.Module,
    base_lr: float,
    table_lr_scale: float = 5.0,
    *,
    matrix_lr_scale: float = 1.0,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    momentum: float = 0.95,
    adjust_lr_fn: str | None = "match_rms_adamw",
    sparse_table: bool = False,
    heads: Collection[str] = HEADS,
) -> CombinedOptimizer:
    """The training rules of a memory and its model: tables to `SinkhornMomentum`, projections and matrices to
    `torch.optim.Muon`, the rest to `torch.optim.AdamW`.

    `base_lr` is a rate as AdamW understands it. With the default `adjust_lr_fn`, each rule moves a parameter by about
    0.2 times its rate a step (root mean square), so that one number fits all. Of the published rates, 2.6e-4 for the
    table is a base of 5.2e-5. Muon's 0.01 is meant for `adjust_lr_fn="original"`; on matrices with n columns that is
    a base of `0.01 / (0.2 sqrt(n))`, or 1.3e-3 for the 1,472 of ByT5-small.

    The groups are named "table", "projection", "matrices" and "rest" under the key `name`, in this order; those without
    parameters are left out.

    Args:
        model: Any module, as for `param_groups`.
        base_lr: The rate of AdamW.
        table_lr_scale: The tables' rate, as a multiple.
        matrix_lr_scale: The rate of Muon, as a multiple.
        weight_decay: Muon's. Neither tables nor the rest decay.
        betas: AdamW's.
        momentum: Muon's.
        adjust_lr_fn: Muon's.
        sparse_table: Whether the table's rule is `rows="touched"`, for tables far bigger than a batch.
        heads: As for `param_groups`.

    Raises:
        ValueError: Nothing in the model is trained, or a hyperparameter is out of range.
    """
    groups = param_groups(model, heads=heads)
    parts: list[Optimizer] = []
    if groups.table:
        table = {"params": groups.table, "name": "table"}
        parts.append(SinkhornMomentum([table], table_lr_scale * base_lr, rows="touched" if sparse_table else "all"))
    muon = [
        {"params": parameters, "name": name}
        for name, parameters in (("projection", groups.projection), ("matrices", groups.matrices))
        if parameters
    ]
    if muon:
        parts.append(Muon(muon, matrix_lr_scale * base_lr, weight_decay, momentum=momentum, adjust_lr_fn=adjust_lr_fn))
    if groups.rest:
        rest = {"params": groups.rest, "name": "rest"}
        parts.append(AdamW([rest], base_lr, betas, weight_decay=0.0))
    if not parts:
        raise ValueError("the model has no parameter that requires a gradient")
    return CombinedOptimizer(parts)
