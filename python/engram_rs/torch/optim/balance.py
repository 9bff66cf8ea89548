"""The Sinkhorn balance of a matrix that is never written down.

Each normalisation multiplies rows or columns by a factor, so the balanced matrix is the given one with one factor a
row and one a column. Only these are kept. The matrix itself is made anew, block by block, each time that it is gone
through: a block stays in the processor's cache, and a table of any size needs no copy of itself.
"""

import math
from collections.abc import Callable, Iterator

import torch

__all__ = ["Balance", "Lookahead", "row_blocks"]

# Elements of a block. On a CPU 1 MiB of float32, which a core's cache holds; elsewhere few launches count for more.
CPU_BLOCK, DEVICE_BLOCK = 1 << 18, 1 << 24


def row_blocks(matrix: torch.Tensor) -> Iterator[slice]:
    """The rows of `matrix` `[rows, columns]`, as many at a time as make one block."""
    rows, columns = matrix.shape
    height = max(1, (CPU_BLOCK if matrix.device.type == "cpu" else DEVICE_BLOCK) // columns)
    for start in range(0, rows, height):
        yield slice(start, min(start + height, rows))


class Lookahead:
    """The matrix `(1-β) G + β m`, after one step of the momentum: `m ← β m + (1-β) G`.

    Args:
        gradient: G, `[rows, columns]`, of any floating dtype.
        momentum: m, `[rows, columns]`, of the dtype to compute in. Moved in place.
        beta: β.

    Attributes:
        momentum: The moved one.
        norms: L2 norms of the matrix's rows, `[rows, 1]`.
    """

    def __init__(self, gradient: torch.Tensor, momentum: torch.Tensor, beta: float) -> None:
        self._gradient, self.momentum, self._beta = gradient, momentum, beta
        height = max((span.stop - span.start for span in row_blocks(momentum)), default=0)
        self._buffer = momentum.new_empty(height, momentum.shape[1])
        self.norms = momentum.new_empty(len(momentum), 1)
        # Momentum decays for ever, and processors are slow with what is below the smallest normal float. Rows so small
        # that their squares get there have a norm of about zero in any case.
        smallest = math.sqrt(torch.finfo(momentum.dtype).tiny)
        for span in row_blocks(momentum):
            momentum[span].mul_(beta).add_(gradient[span], alpha=1 - beta)
            self.norms[span] = torch.linalg.vector_norm(self._block(span), dim=1, keepdim=True)
            momentum[span].mul_(self.norms[span] > smallest)

    def __iter__(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Goes through the matrix: some rows, and their values in a buffer that may be written to."""
        for span in row_blocks(self.momentum):
            yield span, self._block(span)

    def _block(self, span: slice) -> torch.Tensor:
        return self._buffer[: span.stop - span.start].copy_(self._gradient[span]).lerp_(self.momentum[span], self._beta)


class Balance:
    """A matrix with rows and columns divided by their norms in turn, rows first and last.

    Args:
        matrix: What to balance.
        threshold: Rows with a norm up to this become zero and count in no column. A tensor of one element.
        iterations: Normalisations in all; odd.
        eps: Added to every norm.
        total: Sums a tensor over all parts of the matrix, where this is one of several.

    Attributes:
        columns: The factors of the columns, `[columns]`.
    """

    def __init__(
        self,
        matrix: Lookahead,
        threshold: torch.Tensor,
        *,
        iterations: int,
        eps: float,
        total: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        self._matrix, self._eps = matrix, eps
        # A row that is left out keeps the factor 0 through everything that follows.
        self._rows = (matrix.norms + eps).reciprocal_().masked_fill_(matrix.norms <= threshold, 0)
        self._normalised = True
        self.columns = matrix.momentum.new_ones(matrix.momentum.shape[1])
        for _ in range(iterations // 2):
            # Elementwise, since a matrix product would compute in less than float32 where the user allows it.
            squares = sum((block.square_().sum(dim=0) for _, block in self), torch.zeros_like(self.columns))
            norms = total(squares).sqrt_()
            # A column of zeros stays one with any factor; with this one the factors stay finite.
            self.columns *= torch.where(norms > 0, 1 / (norms + eps), 1)
            self._normalised = False

    def __iter__(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Goes through the matrix, and divides the rows by their norms on the way."""
        for span, block in self._matrix:
            block.mul_(self._rows[span]).mul_(self.columns)
            if not self._normalised:
                factors = (torch.linalg.vector_norm(block, dim=1, keepdim=True) + self._eps).reciprocal_()
                block.mul_(factors)
                self._rows[span] *= factors
            yield span, block
        self._normalised = True
