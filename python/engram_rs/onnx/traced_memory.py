"""The memory in the form that a graph has of it."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from ..torch import Engram

__all__ = ["TracedMemory"]


class TracedMemory(nn.Module):
    """Gather, sum and product in the operators that graphs have, with the weights as they will be stored.

    It stands in for an `Engram` in a model that is about to be traced. The mean's divisor and an int8 table's scale are
    folded into the projection; sums and the product run in float32, whatever the weights.
    """

    # What the hooks of an attached memory ask.
    silent = False

    def __init__(self, memory: "Engram", precision: str) -> None:
        super().__init__()
        self.scheme_json = memory.scheme_json
        self.lookback = memory.lookback
        self.block_index = memory.block_index
        self._entries, columns = memory.addressing.entries, memory.addressing.num_columns
        if precision == "fp32":
            table, projection, scale = memory.table.detach().float(), memory.projection.detach().float(), 1.0
        elif precision == "fp16":
            half = torch.finfo(torch.float16).max
            for name, values in (("table", memory.table), ("projection", memory.projection)):
                if not bool((values.detach().abs() <= half).all()):
                    raise ValueError(f"the memory's {name} holds values that float16 cannot (its largest is {half})")
            table, projection, scale = memory.table.detach().half(), memory.projection.detach().half(), 1.0
        else:
            artifact = memory.to_artifact()
            table, projection = torch.from_numpy(artifact.table), torch.from_numpy(artifact.projection)
            scale = artifact.scale
        self.table: torch.Tensor
        self.projection: torch.Tensor
        self.register_buffer("table", table.cpu().contiguous())
        factor = float(np.float32(scale / columns))
        self.register_buffer("projection", (projection.float() * factor).t().contiguous().cpu())

    def rows_of(self, addresses: torch.Tensor) -> torch.Tensor:
        """The non-negative remainder by the entries."""
        return torch.remainder(addresses, self._entries)

    def from_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """`[B, T, K]` to `[B, T, d_model]`, float32."""
        return F.embedding(rows, self.table).float().sum(-2) @ self.projection
