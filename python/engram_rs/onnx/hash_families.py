"""The families' arithmetic in the operators of opset 14.

There is no exclusive or of integers among them (that is opset 18's), so tables of bytes stand in for it. Wrapping is
not relied on: what would exceed 63 bits is kept in halves. Operators that ONNX Runtime computes in floating point are
not used on int64: `Max` and `Min` are wrong above 2^31, `ReduceSum` above 2^53.
"""

import json
from typing import Any

import numpy as np

from .._core import Addressing
from .hash_builder import Builder, Window

__all__ = ["fnv_columns", "horner_columns", "mix_columns", "radix_columns", "reduced"]

_BASIS, _PRIME, _MODULUS = 0x811C9DC5, 0x01000193, 2**32
_LARGEST = 2**63 - 1
_BYTES = np.arange(256)
# What an exclusive or adds to its left side.
XOR_CHANGE = ((_BYTES[:, None] ^ _BYTES) - _BYTES[:, None]).astype(np.int16).reshape(-1)


def fnv_first(seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The state after the first symbol, for each of the 256."""
    return ((_BASIS ^ seed) ^ _BYTES) * _PRIME % _MODULUS


def fnv_step(build: Builder, states: str, symbols: str) -> str:
    """One symbol into states of 32 bits; at most 57 are in use on the way."""
    low = build.add("Mod", states, build.constant(256))
    pair = build.add("Add", build.add("Mul", low, build.constant(256)), symbols)
    changed = build.add("Add", states, build.cast(build.take(XOR_CHANGE, pair)))
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
        joining = [fnv_first(column + 1) for column in order if addressing.orders[column] == back + 1]
        if joining:
            # [256, n] by [B, T] gives [B, T, n].
            new = build.take(np.stack(joining, axis=-1), symbols)
            new = build.add("Transpose", new, perm=[2, 0, 1])
            states = new if states is None else build.add("Concat", states, new, axis=0)
    assert states is not None
    return never_zero(build, states), order


def mix_columns(build: Builder, addressing: Addressing, window: Window) -> tuple[str, list[int]]:
    """Products, mixed byte by byte."""
    multipliers, pad = addressing.multipliers, addressing.pad
    assert multipliers is not None
    largest = _largest_symbol(addressing)
    if min(multipliers) < 0 or largest * max(multipliers) > _LARGEST:
        raise ValueError(
            f"multiply_xor in a graph must not wrap: a symbol may be {largest} and a multiplier is "
            f"{max(multipliers, key=abs)}, whose product is no int64"
        )
    powers = build.constant(256 ** np.arange(8))
    xor = (_BYTES[:, None] ^ _BYTES).astype(np.uint8).reshape(-1)
    mixed: str | None = None
    columns: list[str] = []
    numbers: list[int] = []
    for back in range(max(addressing.orders)):
        product = build.add("Mul", window.symbol_or(back, pad), build.constant(multipliers[back]))
        product = build.add("Unsqueeze", product, build.constant([-1]))
        parts = build.add("Mod", build.add("Div", product, powers), build.constant(256))
        if mixed is None:
            mixed = parts
        else:
            pair = build.add("Add", build.add("Mul", mixed, build.constant(256)), parts)
            mixed = build.cast(build.take(xor, pair))
        these = [column for column, order in enumerate(addressing.orders) if order == back + 1]
        if these:
            whole = _sum_of_axis(build, build.add("Mul", mixed, powers), -1, 8)
            columns += [build.add("Unsqueeze", whole, build.constant([0]))] * len(these)
            numbers += these
    return build.add("Concat", *columns, axis=0), numbers


def horner_columns(build: Builder, addressing: Addressing, window: Window) -> tuple[str, list[int]]:
    """Rows of the wrapping polynomial, for any int64 ids: products of limbs of 16 bits, reduced as a signed number."""
    described: dict[str, Any] = json.loads(addressing.to_json())
    pad = addressing.pad
    limbs = [_limbs(build, window.symbol_or(back, pad)) for back in range(max(addressing.orders))]
    columns = []
    for column, order in enumerate(addressing.orders):
        prime, rows = described["columns"][column]["prime"], addressing.row_counts[column]
        terms = [_times(build, limbs[back], prime ** (order - 1 - back)) for back in range(order)]
        columns.append(build.add("Unsqueeze", _signed_remainder(build, _sum(build, terms), rows), build.constant([0])))
    return build.add("Concat", *columns, axis=0), list(range(addressing.num_columns))


def _limbs(build: Builder, values: str) -> str:
    """The four limbs of 16 bits of int64 values, lowest first, `[B, T, 4, 1]`."""
    parts, limit = [], build.constant(2**16)
    for limb in range(4):
        low = build.add("Mod", values, limit)
        parts.append(build.add("Unsqueeze", low, build.constant([-1])))
        if limb < 3:
            # Nothing is left over, so it does not matter how a division rounds.
            values = build.add("Div", build.add("Sub", values, low), limit)
    return build.add("Unsqueeze", build.add("Concat", *parts, axis=-1), build.constant([-1]))


def _times(build: Builder, limbs: str, factor: int) -> str:
    """Limbs of products by a constant, not carried: each below 2^34; `[B, T, 4]`."""
    digits = [factor >> 16 * limb & 0xFFFF for limb in range(4)]
    matrix = [[digits[into - limb] if into >= limb else 0 for into in range(4)] for limb in range(4)]
    products = build.add("Mul", limbs, build.constant(matrix))
    return _sum_of_axis(build, products, -2, 4)


def _signed_remainder(build: Builder, limbs: str, rows: int) -> str:
    """What int64 numbers, given by limbs that are not carried, leave when they are divided by `rows`."""
    limit, count = build.constant(2**16), build.constant(rows)
    rest = carry = top = ""
    for limb in range(4):
        value = build.add("Gather", limbs, build.constant(limb), axis=-1)
        value = build.add("Add", value, carry) if carry else value
        top = build.add("Mod", value, limit)
        carry = build.add("Div", value, limit)
        term = build.add("Mul", top, build.constant(2 ** (16 * limb) % rows))
        rest = build.add("Add", rest, term) if rest else term
    # From 2^63 on a number stands for one that is 2^64 less.
    negative = build.add("Not", build.add("Less", top, build.constant(2**15)))
    less = build.add("Add", rest, build.constant(rows - 2**64 % rows))
    return build.add("Mod", build.add("Where", negative, less, rest), count)


def radix_columns(build: Builder, addressing: Addressing, window: Window) -> tuple[str, list[int]]:
    """Symbols times powers that are reduced ahead."""
    radix, pad = addressing.vocab_size, addressing.pad
    assert radix is not None
    largest = _largest_symbol(addressing)
    columns = []
    for order, rows in zip(addressing.orders, addressing.row_counts, strict=True):
        factors = [pow(radix, power, rows) for power in range(order)]
        if largest * sum(factors) > _LARGEST:
            raise ValueError(f"vocabulary_radix in a graph must not wrap: {order} terms of {rows} rows exceed int64")
        terms = [
            build.add("Mul", window.symbol_or(back, pad), build.constant(factor)) for back, factor in enumerate(factors)
        ]
        columns.append(build.add("Unsqueeze", _sum(build, terms), build.constant([0])))
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


def _sum_of_axis(build: Builder, parts: str, axis: int, size: int) -> str:
    """The sum over an axis whose size is a power of two. `ReduceSum` would do, had ONNX Runtime's not 53 bits only."""
    along, one = build.constant([axis]), build.constant([1])
    while size > 1:
        half = size // 2
        bounds = [build.constant([bound]) for bound in (0, half, size)]
        pieces = [build.add("Slice", parts, *ends, along, one) for ends in (bounds[:2], bounds[1:])]
        parts, size = build.add("Add", *pieces), half
    return build.add("Squeeze", parts, along)


def _sum(build: Builder, terms: list[str]) -> str:
    total = terms[0]
    for term in terms[1:]:
        total = build.add("Add", total, term)
    return total


def _largest_symbol(addressing: Addressing) -> int:
    table = addressing.token_map
    if table is not None:
        return max(int(np.max(table)), addressing.pad or 0)
    if addressing.vocab_size is None:
        raise ValueError(
            f"{addressing.scheme} in a graph needs a vocab_size: without one an id may be so large that products wrap"
        )
    return max(addressing.vocab_size - 1, addressing.pad or 0)
