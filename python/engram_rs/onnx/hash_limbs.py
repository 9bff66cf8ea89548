"""Wrapping int64 arithmetic for a graph, from digits that are small: `multiply_xor` and `polynomial`.

A symbol is taken apart into limbs of 16 bits. A product by a constant is a sum of limbs times digits of the constant,
one sum for every digit of the result: a matrix product, all of whose sums stay below 2^41. Carries make digits of the
sums, and what would leave 64 bits is never computed. At the end the highest digit has the sign.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from .._core import Addressing
from .hash_builder import Builder, Window

__all__ = ["horner_columns", "mix_columns"]

_WORD, _LIMB, _BYTE = 64, 16, 8
_BYTES = np.arange(256)
_XOR = (_BYTES[:, None] ^ _BYTES).astype(np.uint8).reshape(-1)


def mix_columns(build: Builder, addressing: Addressing, window: Window) -> tuple[str, list[int]]:
    """Hashes `[K, B, T]` of `multiply_xor`, and which column each is: products, mixed byte by byte."""
    multipliers = addressing.multipliers
    assert multipliers is not None
    longest = len(multipliers)
    limbs, count = _limbs(build, addressing, window, longest)
    matrix = np.zeros((longest, count, _WORD // _BYTE, longest), dtype=np.int64)
    for back, multiplier in enumerate(multipliers):
        matrix[back, :, :, back] = _product(multiplier, count, _BYTE)
    products = _digits(build, limbs, matrix, _BYTE)
    mixed, kept, wanted = "", [], sorted(set(addressing.orders))
    for back in range(longest):
        these = build.add("Gather", products, build.constant(back), axis=-1)
        if mixed:
            pair = build.add("Add", build.add("Mul", mixed, build.constant(256)), these)
            these = build.cast(build.take(_XOR, pair))
        mixed = these
        if back + 1 in wanted:
            kept.append(build.add("Unsqueeze", mixed, build.constant([1])))
    whole = _whole(build, build.add("Concat", *kept, axis=1), _BYTE)
    # One mix an order; its heads differ in what they divide by.
    heads = build.constant([wanted.index(order) for order in addressing.orders])
    return build.add("Gather", whole, heads, axis=0), list(range(addressing.num_columns))


def horner_columns(build: Builder, addressing: Addressing, window: Window) -> tuple[str, list[int]]:
    """Hashes `[K, B, T]` of `polynomial`, in the order of the columns."""
    described: dict[str, Any] = json.loads(addressing.to_json())
    longest, columns = max(addressing.orders), addressing.num_columns
    limbs, count = _limbs(build, addressing, window, longest)
    matrix = np.zeros((longest, count, _WORD // _LIMB, columns), dtype=np.int64)
    for column, order in enumerate(addressing.orders):
        prime = int(described["columns"][column]["prime"])
        for back in range(order):
            matrix[back, :, :, column] = _product(pow(prime, order - 1 - back, 2**_WORD), count, _LIMB)
    whole = _whole(build, _digits(build, limbs, matrix, _LIMB), _LIMB)
    return build.add("Transpose", whole, perm=[2, 0, 1]), list(range(columns))


def _limbs(build: Builder, addressing: Addressing, window: Window, longest: int) -> tuple[str, int]:
    """The limbs of the newest `longest` symbols `[B, T, longest * count]`, lowest first, and their count."""
    symbols = [window.symbol_or(back, addressing.pad) for back in range(longest)]
    last = build.constant([-1])
    value = build.add("Concat", *(build.add("Unsqueeze", one, last) for one in symbols), axis=-1)
    count, parts, limit = _limbs_of_a_symbol(addressing), [], build.constant(2**_LIMB)
    for limb in range(count):
        low = build.add("Mod", value, limit)
        parts.append(build.add("Unsqueeze", low, last))
        if limb < count - 1:
            # Nothing is left over, so it does not matter how the division of a negative number rounds.
            value = build.add("Div", build.add("Sub", value, low), limit)
    limbs = build.add("Concat", *parts, axis=-1)
    return build.add("Reshape", limbs, build.constant([0, 0, longest * count])), count


def _limbs_of_a_symbol(addressing: Addressing) -> int:
    """As many as hold the largest symbol; all of a word where symbols may be negative."""
    if addressing.token_map is not None:
        largest = int(np.max(addressing.token_map))
    elif addressing.vocab_size is not None:
        largest = addressing.vocab_size - 1
    else:
        return _WORD // _LIMB
    return max(1, -(-max(largest, addressing.pad or 0).bit_length() // _LIMB))


def _product(factor: int, count: int, bits: int) -> NDArray[np.int64]:
    """What each of `count` limbs adds to each digit of `bits` bits of a product by `factor`."""
    digits = [factor >> bits * digit & 2**bits - 1 for digit in range(_WORD // bits)]
    step = _LIMB // bits
    matrix = np.zeros((count, len(digits)), dtype=np.int64)
    for limb in range(count):
        matrix[limb, step * limb :] = digits[: len(digits) - step * limb]
    return matrix


def _digits(build: Builder, limbs: str, matrix: NDArray[np.int64], bits: int) -> str:
    """The digits of sums of products, `[digits, B, T, columns]`, lowest first.

    Args:
        build: Collects the nodes.
        limbs: `[B, T, longest * count]`.
        matrix: `[longest, count, digits, columns]`.
        bits: Of a digit.
    """
    longest, count, digits, columns = matrix.shape
    factors = build.constant(matrix.reshape(longest * count, digits * columns))
    # Doubles hold these sums exactly and are several times as fast as int64. As the factors come out of a node, and are
    # no float constants, quantizers leave the product alone.
    double = [build.cast(one, TensorProto.DOUBLE) for one in (limbs, factors)]
    sums = build.cast(build.add("MatMul", *double))
    limit, first, carry, parts = build.constant(2**bits), build.constant([0]), "", []
    for digit in range(digits):
        ends = [build.constant([columns * end]) for end in (digit, digit + 1)]
        value = build.add("Slice", sums, *ends, build.constant([-1]), build.constant([1]))
        value = build.add("Add", value, carry) if carry else value
        parts.append(build.add("Unsqueeze", build.add("Mod", value, limit), first))
        if digit < digits - 1:
            carry = build.add("Div", value, limit)
    return build.add("Concat", *parts, axis=0)


def _whole(build: Builder, digits: str, bits: int) -> str:
    """The int64 of digits: `[digits, …]` gives `[…]`."""
    count = _WORD // bits
    parts = [build.add("Gather", digits, build.constant(digit), axis=0) for digit in range(count)]
    top = parts.pop()
    # From its half on the highest digit stands for one that is negative.
    negative = build.add("Sub", top, build.constant(2**bits))
    total = build.add("Where", build.add("Less", top, build.constant(2 ** (bits - 1))), top, negative)
    total = build.add("Mul", total, build.constant(2 ** (bits * (count - 1))))
    for digit, part in enumerate(parts):
        total = build.add("Add", total, build.add("Mul", part, build.constant(2 ** (bits * digit))))
    return total
