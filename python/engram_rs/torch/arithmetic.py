"""The hash in plain torch integer operations, for devices that the Rust core cannot reach.

The same numbers as the core, bit for bit (`docs/spec/addressing.md` has the formulas); int64 wraps on every
device as it does in Rust. It is several times slower than the core on a CPU and never used there.
"""

import json
from collections.abc import Callable
from typing import Any

import torch

from .._core import BYTE_OFFSET, Addressing

__all__ = ["addresses_on_device"]

_BASIS, _PRIME, _LOW = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
_LONGEST_CHARACTER = 4

# What stands `k` positions back, for every position; before the start it is 0.
Back = Callable[[int], torch.Tensor]


def addresses_on_device(addressing: Addressing, ids: torch.Tensor, dead: torch.Tensor | None = None) -> torch.Tensor:
    """Rows of every position, without leaving the device of `ids`.

    Args:
        addressing: The scheme.
        ids: Integers `[B, T]`.
        dead: Booleans `[B, T]`: positions that are no part of any gram.

    Returns:
        int64 `[B, T, K]`. An id without a symbol fails on the device, when it gets there.
    """
    symbols = _symbols(addressing, ids)
    reach = _reach(addressing, symbols, dead)
    if addressing.scheme == "utf8_fnv1a":
        hashes, reach = _characters(addressing, symbols, reach)
    else:
        hashes = _grams(addressing, symbols, reach)
    rows, offsets, orders = (
        torch.tensor(values, device=ids.device)
        for values in (addressing.row_counts, addressing.offsets, addressing.orders)
    )
    addresses = torch.remainder(hashes, rows) + offsets
    if addressing.pad is None:
        return torch.where(reach[..., None] >= orders, addresses, 0)
    return addresses


def _symbols(addressing: Addressing, ids: torch.Tensor) -> torch.Tensor:
    ids = ids.to(torch.int64)
    if addressing.scheme in ("byte_fnv1a", "utf8_fnv1a"):
        return (ids - BYTE_OFFSET) & 0xFF
    table = addressing.token_map
    size = addressing.vocab_size if table is None else len(table)
    if size is not None:
        torch._assert_async(((ids >= 0) & (ids < size)).all(), "an id has no symbol in this scheme")
    return ids if table is None else torch.as_tensor(table, device=ids.device).to(torch.int64)[ids]


def _reach(addressing: Addressing, symbols: torch.Tensor, dead: torch.Tensor | None) -> torch.Tensor:
    """How many symbols each position can read, its own included, going back."""
    at = torch.arange(1, symbols.shape[-1] + 1, device=symbols.device).expand_as(symbols)
    closed = _among(symbols, addressing.dead)
    if dead is not None:
        closed = closed | dead
    ended = _among(symbols, addressing.reset)
    # The last position that cannot be read: a dead one itself, a reset only from the next position on.
    cut = torch.where(closed, at, 0)
    after = torch.where(ended, at, 0)
    cut = torch.maximum(cut, torch.nn.functional.pad(after, (1, 0))[..., :-1])
    return at - torch.cummax(cut, dim=-1).values if symbols.shape[-1] else at


def _among(symbols: torch.Tensor, marks: tuple[int, ...]) -> torch.Tensor:
    if not marks:
        return torch.zeros_like(symbols, dtype=torch.bool)
    return torch.isin(symbols, torch.tensor(marks, device=symbols.device))


def _shifted(values: torch.Tensor, back: int) -> torch.Tensor:
    if back == 0:
        return values
    return torch.nn.functional.pad(values, (back, 0))[..., : values.shape[-1]]


def _grams(addressing: Addressing, symbols: torch.Tensor, reach: torch.Tensor) -> torch.Tensor:
    pad = addressing.pad

    def back(k: int) -> torch.Tensor:
        symbol = _shifted(symbols, k)
        return symbol if pad is None else torch.where(reach > k, symbol, pad)

    window = [back(k) for k in range(max(addressing.orders))]
    columns = zip(addressing.orders, _steps(addressing), strict=True)
    return torch.stack([hashed(window[:order]) for order, hashed in columns], dim=-1)


def _steps(addressing: Addressing) -> list[Callable[[list[torch.Tensor]], torch.Tensor]]:
    """For every column, what makes a hash of a gram's symbols, newest first."""
    scheme = addressing.scheme
    if scheme == "byte_fnv1a":
        return [_fnv(index + 1) for index in range(addressing.num_columns)]
    if scheme == "multiply_xor":
        assert addressing.multipliers is not None
        return [_mix(addressing.multipliers)] * addressing.num_columns
    if scheme == "polynomial":
        described: dict[str, Any] = json.loads(addressing.to_json())
        return [_horner(column["prime"]) for column in described["columns"]]
    radix = addressing.vocab_size
    assert radix is not None
    return [_radix(radix, rows) for rows in addressing.row_counts]


def _fnv(seed: int) -> Callable[[list[torch.Tensor]], torch.Tensor]:
    def hashed(gram: list[torch.Tensor]) -> torch.Tensor:
        state = torch.full_like(gram[0], _BASIS ^ seed)
        for symbol in reversed(gram):
            state = ((state ^ symbol) * _PRIME) & _LOW
        return torch.where(state == 0, 1, state)

    return hashed


def _mix(multipliers: tuple[int, ...]) -> Callable[[list[torch.Tensor]], torch.Tensor]:
    def hashed(gram: list[torch.Tensor]) -> torch.Tensor:
        mix = torch.zeros_like(gram[0])
        for symbol, multiplier in zip(gram, multipliers, strict=False):
            mix = mix ^ (symbol * multiplier)
        return mix

    return hashed


def _horner(prime: int) -> Callable[[list[torch.Tensor]], torch.Tensor]:
    def hashed(gram: list[torch.Tensor]) -> torch.Tensor:
        value = torch.zeros_like(gram[0])
        for symbol in gram:
            value = value * prime + symbol
        return value

    return hashed


def _radix(radix: int, rows: int) -> Callable[[list[torch.Tensor]], torch.Tensor]:
    def hashed(gram: list[torch.Tensor]) -> torch.Tensor:
        value = torch.zeros_like(gram[0])
        for power, symbol in enumerate(gram):
            value = value + symbol * pow(radix, power, rows)
        return value

    return hashed


def _character_ages(symbols: torch.Tensor, reach: torch.Tensor) -> torch.Tensor:
    """How many symbols of its own character stand before each position."""
    at = torch.arange(symbols.shape[-1], device=symbols.device).expand_as(symbols)
    starts = (reach <= 1) | (symbols < 0x80) | (symbols > 0xBF)
    start = torch.cummax(torch.where(starts, at, 0), dim=-1).values if symbols.shape[-1] else at
    return (at - start) % _LONGEST_CHARACTER


def _lengths(symbols: torch.Tensor, reach: torch.Tensor, most: int) -> list[torch.Tensor]:
    """How many symbols the newest 1, 2, … characters hold together; 0 where there are not so many."""
    age = _character_ages(symbols, reach)
    at = torch.arange(symbols.shape[-1], device=symbols.device).expand_as(symbols)
    lengths, length = [], torch.where(reach > 0, age + 1, 0)
    for _ in range(most):
        lengths.append(length)
        before = at - length
        more = (length > 0) & (length < reach)
        older = torch.gather(age, -1, before.clamp_min(0)) + 1 if symbols.shape[-1] else length
        length = torch.where(more, length + older, 0)
    return lengths


def _characters(
    addressing: Addressing, symbols: torch.Tensor, reach: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The hashes, and how many characters each position reaches."""
    lengths = torch.stack(_lengths(symbols, reach, max(addressing.orders)), dim=-1)
    columns = []
    for index, order in enumerate(addressing.orders):
        longest = lengths[..., :order].amax(dim=-1)
        state = torch.full_like(symbols, _BASIS ^ (index + 1))
        if addressing.pad is not None:
            missing = order - (lengths[..., :order] > 0).sum(dim=-1)
            for step in range(order):
                state = torch.where(missing > step, ((state ^ addressing.pad) * _PRIME) & _LOW, state)
        for back in reversed(range(_LONGEST_CHARACTER * order)):
            mixed = ((state ^ _shifted(symbols, back)) * _PRIME) & _LOW
            state = torch.where(back < longest, mixed, state)
        columns.append(torch.where(state == 0, 1, state))
    return torch.stack(columns, dim=-1), (lengths > 0).sum(dim=-1)
