"""The rows that a gradient touches, and what those it does not touch have missed."""

import math

import torch

from .balance import row_blocks

__all__ = ["coasting", "touched_rows"]


def touched_rows(gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of a gradient that are not zero.

    Args:
        gradient: `[rows, columns]`, dense, or sparse COO as `nn.functional.embedding(sparse=True)` leaves it.

    Returns:
        Their indices, int64 `[n]`, ascending, and their values `[n, columns]`.

    Raises:
        RuntimeError: A sparse gradient is of another layout, or names elements rather than rows.
    """
    if gradient.layout == torch.strided:
        touched = gradient.new_empty(len(gradient), dtype=torch.bool)
        for span in row_blocks(gradient):
            # The largest magnitude and not a norm, whose squares vanish where the values are small.
            touched[span] = gradient[span].abs().amax(dim=1) != 0
        rows = touched.nonzero().squeeze(1)
        return rows, gradient.index_select(0, rows)
    if gradient.layout != torch.sparse_coo or gradient.sparse_dim() != 1:
        raise RuntimeError(f"a sparse gradient must be COO with one sparse dimension, not {gradient.layout}")
    gradient = gradient.coalesce()
    rows, values = gradient.indices().squeeze(0), gradient.values()
    # A batch can name a row and give it nothing; a dense gradient could not tell that, and the rule is one.
    kept = values.abs().amax(dim=1) != 0
    return rows[kept], values[kept]


def coasting(
    momentum: torch.Tensor,
    last_step: torch.Tensor,
    path: torch.Tensor,
    *,
    beta: float,
    threshold: torch.Tensor,
    columns: torch.Tensor,
) -> torch.Tensor:
    """How far the dense rule would have moved rows in steps whose gradients were zero there.

    With no gradient the lookahead of the j-th such step is `β^(j+1) m`: it keeps its direction, and the rule moves the
    row by its rate each time until that falls to the threshold.

    Args:
        momentum: m after the last step that touched the rows, `[rows, columns]`. Overwritten by the result.
        last_step: That step, counted from 1, int `[rows, 1]`.
        path: The sums of all rates up to every step, `[steps + 1]`; the first is 0.
        beta: β.
        threshold: The norm up to which a row stands still, a tensor of one element.
        columns: Factors of the columns, of the order of 1, `[columns]`.

    Returns:
        `[rows, columns]`: the direction, times the sum of the rates of those steps.
    """
    if beta == 0:
        return momentum.zero_()
    tiny = torch.finfo(momentum.dtype).tiny
    missed = len(path) - 1 - last_step
    norms = torch.linalg.vector_norm(momentum, dim=1, keepdim=True)
    # The largest j with β^(j+1) |m| > threshold; none where m is zero, all where only the threshold is.
    steps = ((norms / threshold).log() / -math.log(beta) - 1).ceil() - 1
    steps = torch.where(norms > 0, steps, 0).clamp(min=0).minimum(missed)
    distances = path[last_step + steps.to(last_step.dtype)] - path[last_step]
    momentum.div_(norms.clamp(min=tiny)).mul_(columns)
    lengths = torch.linalg.vector_norm(momentum, dim=1, keepdim=True)
    return momentum.mul_(distances / lengths.clamp(min=tiny))
