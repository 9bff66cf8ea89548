"""FNV-1a and the radix of a vocabulary in the operators of opset 14, and the way from hashes to rows.

There is no exclusive or of integers among them (that is opset 18's), so tables of bytes stand in for it. Nothing relies
on wrapping: no value on the way leaves int64. Operators that ONNX Runtime computes in floating point are not used on
int64: `Max` and `Min` are wrong above 2^31, `ReduceSum` above 2^53.
"""

import json
from typing import Any

import numpy as np

from .._core import Addressing
from .hash_builder import Builder, Window

__all__ = ["fnv_columns", "fnv_next", "fnv_start", "fnv_step", "never_zero", "radix_columns", "reduced"]

_BASIS, _PRIME, _MODULUS = 0x811C9DC5, 0x01000193, 2**32
_BYTES = np.arange(256)
# What an exclusive or adds to its left side.
_XOR_CHANGE = ((_BYTES[:, None] ^ _BYTES) - _BYTES[:, None]).astype(np.int16).reshape(-1)


def fnv_start(seed: int) -> int:
    """The state before the first symbol."""
    return _BASIS ^ seed


def fnv_next(state: Any, symbol: Any) -> Any:  # noqa: ANN401
    """One symbol into a state, for numbers or arrays of them that are known now."""
    return (state ^ symbol) * _PRIME % _MODULUS


def fnv_step(build: Builder, states: str, symbols: str) -> str:
    """One symbol into states of 32 bits; at most 57 are in use on the way."""
    low = build.add("Mod", states, build.constant(256))
    pair = build.add("Add", build.add("Mul", low, build.constant(256)), symbols)
    changed = build.add("Add", states, build.cast(build.take(_XOR_CHANGE, pair)))
    return build.add("Mod", build.add("Mul", changed, build.constant(_PRIME)), build.constant(_MODULUS))


def never_zero(build: Builder, states: str) -> str:
    """0 becomes 1: it is the mark of the null row."""
    return build.add("Where", build.add("Equal", states, build.constant(0)), build.constant(1), states)


def fnv_columns(build: Builder, addressing: Addressing, window: Window) -> tuple[str, list[int]]:
    """Hashes `[K, B, T]`, and which column each of the K is. The longest orders come first, and others join them."""
    pad = addressing.pad
    order = sorted(range(addressing.num_columns), key=lambda column: -addressing.orders[column])
    states: str | None = None
    for back in reversed(range(max(addressing.orders))):
        symbols = window.symbol_or(back, pad)
        if states is not None:
            states = fnv_step(build, states, symbols)
        joining = [fnv_next(fnv_start(column + 1), _BYTES) for column in order if addressing.orders[column] == back + 1]
        if joining:
            # [256, n] by [B, T] gives [B, T, n].
            new = build.take(np.stack(joining, axis=-1), symbols)
            new = build.add("Transpose", new, perm=[2, 0, 1])
            states = new if states is None else build.add("Concat", states, new, axis=0)
    assert states is not None
    return never_zero(build, states), order


def radix_columns(build: Builder, addressing: Addressing, window: Window) -> tuple[str, list[int]]:
    """Symbols times powers that are reduced ahead. The core takes no scheme whose sums leave int64."""
    radix, pad = int(json.loads(addressing.to_json())["radix"]), addressing.pad
    columns = []
    for order, rows in zip(addressing.orders, addressing.row_counts, strict=True):
        total = ""
        for back in range(order):
            factor = build.constant(pow(radix, back, rows))
            term = build.add("Mul", window.symbol_or(back, pad), factor)
            total = build.add("Add", total, term) if total else term
        columns.append(build.add("Unsqueeze", total, build.constant([0])))
    return build.add("Concat", *columns, axis=0), list(range(addressing.num_columns))


def reduced(build: Builder, addressing: Addressing, hashes: str, columns: list[int], reached: list[str] | None) -> str:
    """Rows `[B, T, K]` of hashes `[K, B, T]` whose columns stand in the order of `columns`.

    Args:
        build: Collects the nodes.
        addressing: The scheme.
        hashes: Their name.
        columns: For each of them, which column of the scheme it is.
        reached: For every column, in the order of the scheme, whether its gram is whole; None where none is ever null.
    """
    counts = np.array([addressing.row_counts[column] for column in columns]).reshape(-1, 1, 1)
    offsets = np.array([addressing.offsets[column] for column in columns]).reshape(-1, 1, 1)
    rows = build.add("Mod", hashes, build.constant(counts))
    if offsets.any():
        rows = build.add("Add", rows, build.constant(offsets))
    if reached is not None:
        flags = [build.add("Unsqueeze", reached[column], build.constant([0])) for column in columns]
        rows = build.add("Where", build.add("Concat", *flags, axis=0), rows, build.constant(0))
    if columns != sorted(columns):
        rows = build.add("Gather", rows, build.constant(np.argsort(columns)), axis=0)
    return build.add("Transpose", rows, perm=[1, 2, 0])
