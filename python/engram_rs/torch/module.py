"""The memory as an `nn.Module`."""

import operator
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import torch
from torch import nn
from torch.nn import functional as F

from .._core import Addressing
from ..artifact import MemoryArtifact
from .operator import call
from .sharding import is_spread, shared_mean, whole

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

__all__ = ["Engram"]

INIT_STD = 0.02


def as_index(name: str, value: SupportsIndex) -> int:
    """`value` as an int; a bool is none."""
    try:
        size = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {value!r}") from None
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    return size


def _size(name: str, value: SupportsIndex) -> int:
    size = as_index(name, value)
    if size < 1:
        raise ValueError(f"{name} must be positive, not {size}")
    return size


class Engram(nn.Module):
    """A hash-addressed n-gram memory: gather, mean, project.

    `output[b, t] = projection @ mean_k table[addresses[b, t, k]]`. The projection starts at zero, so a
    fresh memory adds exactly zero and a host model's outputs stay bit-identical until it trains.

    Args:
        d_model: Width of the hidden states that the output is added to.
        entries: Rows of the table.
        dim: Values a row.
        orders: The n-gram lengths of `byte_fnv1a`, one column of addresses each.
        addressing: Another scheme, in place of `entries` and `orders`.
        device: Where the parameters lie.
        dtype: The parameters' dtype.

    Attributes:
        table: `[entries, dim]`, normal with standard deviation 0.02.
        projection: `[d_model, dim]`, zero; no bias.
        addressing: The scheme, frozen.
        lookback: How many ids before a position matter to it; `None` if all may.
        sparse_gradient: Whether the table's gradient is sparse, of the rows that were read.
        block_index: The block that it is attached to; -1 while it is not.
        silent: Whether the block goes without it; see `Attached.silenced`.
        mesh: The processes that share the table's rows; `None` while each holds all. See `shard_tables`.

    Raises:
        TypeError: A size is no integer.
        ValueError: A size is out of range, or both `addressing` and `entries` or `orders` are given.
    """

    def __init__(
        self,
        d_model: SupportsIndex,
        entries: SupportsIndex | None = None,
        dim: SupportsIndex = 32,
        orders: Iterable[SupportsIndex] | None = None,
        *,
        addressing: Addressing | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        d_model, dim = _size("d_model", d_model), _size("dim", dim)
        if addressing is None:
            addressing = Addressing.byte_fnv1a(
                2_097_152 if entries is None else entries, (2, 3, 4) if orders is None else orders
            )
        elif not isinstance(addressing, Addressing):
            raise TypeError(f"addressing must be an Addressing, not {addressing!r}")
        elif entries is not None or orders is not None:
            raise ValueError("give entries and orders, or an addressing; an addressing has both already")
        self.addressing = addressing
        # Plain values, since a compiler that traces the module cannot look into the core's own type.
        self.scheme_json = addressing.to_json()
        # Where a character begins may depend on all bytes before it.
        self.lookback = None if addressing.scheme == "utf8_fnv1a" else addressing.lookback
        self._columns, self._entries = addressing.num_columns, addressing.entries
        self.block_index = -1
        self.silent = False
        # Whether a state without this memory was loaded by a loader that does not mind.
        self._left_out = False
        self.sparse_gradient = False
        self.mesh: DeviceMesh | None = None
        self.table = nn.Parameter(torch.empty(addressing.entries, dim, device=device, dtype=dtype))
        self.projection = nn.Parameter(torch.empty(d_model, dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the table anew and sets the projection to zero."""
        self.mark_filled()
        if self.table.is_meta:
            return  # nothing to draw, and torch would import its compiler to find that out
        nn.init.normal_(self.table, std=INIT_STD)
        nn.init.zeros_(self.projection)

    @property
    def d_model(self) -> int:
        """Width of the output."""
        return self.projection.shape[0]

    @property
    def dim(self) -> int:
        """Values a row."""
        return self.table.shape[1]

    def forward(self, input_ids: torch.Tensor, dead: torch.Tensor | None = None) -> torch.Tensor:
        """What the memory adds at every position of `input_ids`.

        Args:
            input_ids: Integers `[B, T]` or `[T]`.
            dead: Booleans of the same shape: positions that are no part of any gram, such as padding.

        Returns:
            `[B, T, d_model]` or `[T, d_model]`, in the parameters' dtype.
        """
        return self.from_rows(self.rows(input_ids, dead))

    def rows(self, input_ids: torch.Tensor, dead: torch.Tensor | None = None) -> torch.Tensor:
        """The rows that `forward` reads: int64 `[..., T, K]`, on the device of the table."""
        return call(input_ids, self.scheme_json, dead).to(self.table.device)

    def from_addresses(self, addresses: torch.Tensor) -> torch.Tensor:
        """The same from addresses that were computed ahead.

        Args:
            addresses: int64 `[..., T, K]`: rows, or for the FNV schemes hashes too; the row is the
                non-negative remainder by `entries`. Other schemes have a remainder and an offset for each
                column, so their hashes are no addresses.

        Returns:
            `[..., T, d_model]`.

        Raises:
            TypeError: `addresses` is not an int64 tensor.
            ValueError: The last dimension is not K.
        """
        return self.from_rows(self.rows_of(addresses))

    def rows_of(self, addresses: torch.Tensor) -> torch.Tensor:
        """The rows of addresses that were computed ahead; see `from_addresses`."""
        if not isinstance(addresses, torch.Tensor) or addresses.dtype != torch.int64:
            given = addresses.dtype if isinstance(addresses, torch.Tensor) else type(addresses).__name__
            raise TypeError(f"addresses must be an int64 tensor, not {given}")
        if addresses.ndim < 2 or addresses.shape[-1] != self._columns:
            raise ValueError(f"addresses must be [..., T, {self._columns}], not {list(addresses.shape)}")
        return torch.remainder(addresses.to(self.table.device), self._entries)

    def from_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """What `forward` makes of rows that are in range, `[..., T, K]`: gather, mean, project."""
        if self._left_out:
            raise RuntimeError(
                "a state dict without this memory was loaded into the model, so that its values are not those of "
                "the model. Fill it by engram_rs.torch.load(model, directory); if it is to be fresh, call its "
                "reset_parameters()"
            )
        # The mean over all K columns, null rows included; one pass instead of gather, then mean.
        flat = rows.reshape(-1, rows.shape[-1])
        if self.mesh is not None and is_spread(self.table):
            mean = shared_mean(flat, self.table, self.mesh)
        else:
            mean = F.embedding_bag(flat, self.table, mode="mean", sparse=self.sparse_gradient)
        return F.linear(mean, self.projection).reshape(*rows.shape[:-1], self.d_model)

    def get_extra_state(self) -> torch.Tensor:
        """The addressing's digest, uint8 `[32]`: it rides in `state_dict()` beside the parameters."""
        return torch.tensor(list(bytes.fromhex(self.addressing.digest)), dtype=torch.uint8)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Refuses parameters that were trained with another addressing.

        Raises:
            ValueError: The digest in the state is not this module's.
        """
        digest = bytes(state.tolist()).hex()
        if digest != self.addressing.digest:
            raise ValueError(
                f"the state belongs to an addressing with digest {digest}, this module has "
                f"{self.addressing.digest} ({self.addressing})"
            )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Remembers if a loader that does not mind leaves the memory out."""
        self._left_out = not {f"{prefix}table", f"{prefix}projection"} <= state_dict.keys()
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def mark_filled(self) -> None:
        """Says that the values are the model's own, where a loader had left them out."""
        self._left_out = False

    def to_artifact(self) -> MemoryArtifact:
        """The published form: an int8 table with one scale, and an fp16 projection."""
        return MemoryArtifact.quantize(
            self.addressing,
            whole(self.table.detach()).float().cpu().numpy(),
            self.projection.detach().float().cpu().numpy(),
        )

    @classmethod
    def from_artifact(cls, artifact: MemoryArtifact) -> Self:
        """A float32 module with the artifact's dequantised values."""
        module = cls(artifact.d_model, dim=artifact.dim, addressing=artifact.addressing, device="meta").to_empty(
            device="cpu"
        )
        with torch.no_grad():
            module.table.copy_(torch.from_numpy(artifact.table)).mul_(artifact.scale)
            module.projection.copy_(torch.from_numpy(artifact.projection))
        return module

    def state_int8(self) -> dict[str, torch.Tensor]:
        """The artifact's tensors: `table` int8, `scale` float32 `[1]`, `projection` float16."""
        artifact = self.to_artifact()
        return {
            "table": torch.from_numpy(artifact.table),
            "scale": torch.tensor([artifact.scale], dtype=torch.float32),
            "projection": torch.from_numpy(artifact.projection),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the int8 artifact as safetensors, with the addressing and its digest in the metadata.

        Raises:
            ValueError: A parameter is not finite, or too large for its published dtype; nothing is written.
        """
        self.to_artifact().save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads an int8 artifact into a float32 module.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The file is damaged or foreign, or its digest, dtypes or shapes disagree.
        """
        return cls.from_artifact(MemoryArtifact.load(path))

    def extra_repr(self) -> str:
        """What `print(module)` shows."""
        return f"d_model={self.d_model}, dim={self.dim}, addressing={self.addressing}"
