"""`torch.ops.engram_rs.addresses`: integers in, integers out, and nothing for autograd to know.

The operator is opaque to the compiler, which only learns the shape of its result: so the hash that trains a
model is the hash that serves it, not one that a compiler rewrote.
"""

import functools

import torch

from .._core import Addressing
from .arithmetic import addresses_on_device

__all__ = ["INTEGERS", "addresses"]

INTEGERS = (
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)

# The scheme goes by its canonical JSON: an exported program carries all that it needs, and the digest of
# what it carries can be checked.
_LIBRARY = torch.library.Library("engram_rs", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("addresses(Tensor ids, str scheme, Tensor? dead=None) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]


@functools.lru_cache(maxsize=256)
def _parsed(scheme: str) -> Addressing:
    return Addressing.from_json(scheme)


def _check(ids: torch.Tensor, dead: torch.Tensor | None) -> None:
    if ids.dtype not in INTEGERS:
        raise TypeError(f"ids must be a tensor of integers, not {ids.dtype}")
    if ids.ndim not in (1, 2):
        raise ValueError(f"ids must be [T] or [B, T], not {list(ids.shape)}")
    if dead is not None:
        if dead.dtype != torch.bool:
            raise TypeError(f"dead must be booleans, not {dead.dtype}")
        if dead.shape != ids.shape:
            raise ValueError(f"dead must have the shape of ids, {list(ids.shape)}, not {list(dead.shape)}")


@torch.library.impl(_LIBRARY, "addresses", "CPU")
def _by_core(ids: torch.Tensor, scheme: str, dead: torch.Tensor | None = None) -> torch.Tensor:
    _check(ids, dead)
    # One setting of torch's threads binds the hash too.
    threads = min(torch.get_num_threads(), 1024)
    mask = None if dead is None else dead.numpy()
    return torch.from_numpy(_parsed(scheme)(ids.detach().numpy(), threads=threads, dead=mask))


@torch.library.impl(_LIBRARY, "addresses", "CUDA")
def _on_device(ids: torch.Tensor, scheme: str, dead: torch.Tensor | None = None) -> torch.Tensor:
    _check(ids, dead)
    if ids.ndim == 1:
        return addresses_on_device(_parsed(scheme), ids[None], None if dead is None else dead[None])[0]
    return addresses_on_device(_parsed(scheme), ids, dead)


@torch.library.impl(_LIBRARY, "addresses", "CompositeExplicitAutograd")
def _by_host(ids: torch.Tensor, scheme: str, dead: torch.Tensor | None = None) -> torch.Tensor:
    """Any other device: by way of the host."""
    rows = _by_core(ids.cpu(), scheme, None if dead is None else dead.cpu())
    return rows.to(ids.device)


@torch.library.register_fake("engram_rs::addresses", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _shape_only(ids: torch.Tensor, scheme: str, dead: torch.Tensor | None = None) -> torch.Tensor:
    _check(ids, dead)
    return ids.new_empty((*ids.shape, _parsed(scheme).num_columns), dtype=torch.int64)


def addresses(ids: torch.Tensor, addressing: Addressing, dead: torch.Tensor | None = None) -> torch.Tensor:
    """Rows of every position, as an operator that compiles and exports.

    Args:
        ids: Integers `[T]` or `[B, T]`. On the CPU the Rust core reads them in place; on CUDA the same
            arithmetic runs there, without a word to the host; elsewhere by way of the host.
        addressing: The scheme.
        dead: Booleans of the shape of `ids`: positions that are no part of any gram.

    Returns:
        int64 `[..., T, K]` on the device of `ids`.

    Raises:
        TypeError: `ids` is no tensor of integers, `dead` none of booleans, `addressing` no Addressing.
        ValueError: A shape is wrong, or an id has no symbol in this scheme.
    """
    if not isinstance(addressing, Addressing):
        raise TypeError(f"addressing must be an Addressing, not {addressing!r}")
    return call(ids, addressing.to_json(), dead)


def call(ids: torch.Tensor, scheme: str, dead: torch.Tensor | None = None) -> torch.Tensor:
    """The operator itself, where the scheme is known as canonical JSON already."""
    if not isinstance(ids, torch.Tensor):
        raise TypeError(f"input_ids must be a tensor of integers, not {type(ids).__name__}")
    rows: torch.Tensor = torch.ops.engram_rs.addresses(ids, scheme, dead)
    return rows
