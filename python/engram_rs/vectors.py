"""New vectors for a port's own tests, in the schema of the golden ones.

They tell what the core gives, so that a port can be held against it. They are no witness of the core itself: the golden
vectors, which others made, are.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._core import BYTE_OFFSET, Addressing, encode

__all__ = ["SCHEMES", "vectors_json"]

Case = dict[str, Any]
# The legacy generator on purpose: numpy promises that its numbers stay the same, which those of the newer ones may not.
Random = np.random.RandomState

_BASIS, _PRIME = 0x811C9DC5, 0x01000193
_ENTRIES = (2_097_152, 2_097_143, 1, 97, 4_294_967_291)
_ORDERS = ((2, 3, 4), (1,), (3, 5, 8), (4, 2))
# One to four bytes a letter, and what stands between words.
_LETTERS = list("abcde éø كتاب зд 語字 क्ष 😀🜁 \n")
_EDGES: tuple[list[int], ...] = (
    [],
    [0],
    [1],
    [3, 258],
    [131, 130, 258, 3, 2, 1, 0],  # around the middle and the ends of a byte
    [0x80 + BYTE_OFFSET] * 11,  # continuation bytes without a character
    [100] * 12,
    encode("aé語😀").tolist(),
    [300, 10**12, 259, 515, 2**31 + 5],
    [-1, -256, -(2**31), 5, -3],
    [-(2**63), 2**63 - 1, -(2**63) + 2, 2**53 + 1, -(2**53) - 1],
)
# How many beginnings of a gram are tried before it is taken for granted that none leads to 0.
_TRIES = 2000


def vectors_json(
    scheme: str, seed: int = 0, cases: int = 32, *, entries: int | None = None, orders: Sequence[int] | None = None
) -> str:
    """Vectors of one scheme as JSON; equal arguments give equal text on every platform.

    Args:
        scheme: One of `SCHEMES`.
        seed: 0 … 2^32 - 1; other seeds give other cases.
        cases: Random cases, besides the edge cases that every document begins with.
        entries: Rows of the table, for the FNV schemes alone; by default several sizes take turns.
        orders: n-gram lengths, for the FNV schemes alone; by default several lists take turns.

    Returns:
        A document with the keys `scheme` and `cases`, as `tests/vectors/README.md` describes it.

    Raises:
        ValueError: The scheme is unknown, a number is out of range, or the scheme takes no entries and orders.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"there are vectors for {', '.join(SCHEMES)}, and none for {scheme!r}")
    if cases < 0:
        raise ValueError(f"cases must be 0 or more, not {cases}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be 0 … {2**32 - 1}, not {seed}")
    random = Random(seed)
    if scheme in _FNV1A:
        made = _fnv1a(scheme, random, cases, entries, orders)
    elif entries is None and orders is None:
        made = _LAYOUTS[scheme](random, cases)
    else:
        raise ValueError(f"{scheme} draws its own sizes: entries and orders are for {' and '.join(_FNV1A)}")
    return json.dumps({"scheme": scheme, "cases": list(made)}, separators=(",", ":"), ensure_ascii=True) + "\n"


def _fnv1a(
    scheme: str, random: Random, count: int, entries: int | None, orders: Sequence[int] | None
) -> Iterable[Case]:
    sizes = itertools.cycle(_ENTRIES if entries is None else (entries,))
    lists = _ORDERS if orders is None else (tuple(orders),)
    for lengths in lists:
        for ids in _EDGES:
            yield _fnv1a_case(scheme, ids, next(sizes), lengths)
        for column, order in enumerate(lengths):
            gram = _zero_gram(random, _BASIS ^ (column + 1), _symbols_of_a_gram(scheme, order))
            if gram is not None:
                yield _fnv1a_case(scheme, [symbol + BYTE_OFFSET for symbol in gram], next(sizes), lengths)
    for number in range(count):
        yield _fnv1a_case(scheme, _ids(random, number), next(sizes), lists[_below(random, len(lists))])


def _fnv1a_case(scheme: str, ids: list[int], entries: int, orders: Sequence[int]) -> Case:
    addressing: Addressing = getattr(Addressing, scheme)(entries, orders)
    given = np.array(ids, dtype=np.int64)
    results = {"hashes": addressing.hashes(given).tolist(), "rows": addressing(given).tolist()}
    return {"ids": ids, "orders": list(orders), "entries": entries, **results}


def _ids(random: Random, number: int) -> list[int]:
    """Text, any bytes and specials, ids beyond the bytes, or any int64, in turn."""
    length = _below(random, 80)
    if number % 4 == 0:
        text: list[int] = encode("".join(_LETTERS[_below(random, len(_LETTERS))] for _ in range(length // 2))).tolist()
        return text
    low, high = ((0, 259), (-300, 1000), (-(2**63), 2**63))[number % 4 - 1]
    return _integers(random, low, high, length)


def _symbols_of_a_gram(scheme: str, order: int) -> list[NDArray[np.uint32]]:
    """What may stand at each place of a gram of this order, where a hash of 0 is to be found."""
    if scheme == "byte_fnv1a":
        return [np.arange(256, dtype=np.uint32)] * order
    starts = np.concatenate([np.arange(0x80, dtype=np.uint32), np.arange(0xC0, 0x100, dtype=np.uint32)])
    # Short grams need long characters, or there are too few of them for one to hash to 0.
    return [starts] * order if order > 4 else [starts, *[np.arange(0x80, 0xC0, dtype=np.uint32)] * 3] * order


def _zero_gram(random: Random, seed: int, places: list[NDArray[np.uint32]]) -> list[int] | None:
    """Symbols whose FNV-1a from this seed is 0 before it becomes 1, or None where no such gram was found.

    About one gram in 2^32 is like that, so no random case would hold one, and a port that forgets the rule would pass.
    The last four symbols are found by meeting in the middle: the hash is 0 when the last symbol equals the value before
    it, and each step can be taken back with the inverse of the prime.
    """
    if len(places) < 4:
        return None
    *heads, first, second, third, last = places
    inverse = np.uint32(pow(_PRIME, -1, 2**32))
    backward = (last[:, np.newaxis] * inverse ^ third).ravel()
    order = np.argsort(backward, kind="stable")
    ascending = backward[order]
    for _ in range(_TRIES if heads else 1):
        head = [int(place[_below(random, len(place))]) for place in heads]
        value = seed
        for symbol in head:
            value = (value ^ symbol) * _PRIME % 2**32
        begun = (first ^ np.uint32(value)) * np.uint32(_PRIME)
        forward = ((begun[:, np.newaxis] ^ second) * np.uint32(_PRIME)).ravel()
        at = np.minimum(np.searchsorted(ascending, forward), len(ascending) - 1)
        (met,) = np.nonzero(ascending[at] == forward)
        if len(met):
            (one, two), (four, three) = divmod(int(met[0]), len(second)), divmod(int(order[at[met[0]]]), len(third))
            return [*head, int(first[one]), int(second[two]), int(third[three]), int(last[four])]
    return None


def _multiply_xor(random: Random, count: int) -> Iterable[Case]:
    """The two published layouts, then small ones of both in turn."""
    published: Case = {"layer_ids": [1, 14], "layer": 1, "max_order": 4, "heads": 8, "vocab_size": 16_000_000}
    yield _deepseek_case(random, {**published, "compressed_vocab_size": 99_092, "pad": 2})
    sizes = {"max_order": 3, "heads": 8, "base": 20_000_000, "vocab_size": 248_320, "seed": 1234}
    yield _qwen_case(random, {**sizes, "ple_layer_index": 0, "divisor": 128, "eos": 248_044})
    for number in range(count):
        shape: Case = {"max_order": 2 + _below(random, 3), "heads": 1 + _below(random, 4)}
        vocabulary = 2 + _below(random, 2000)
        if number % 2 == 0:
            layers = sorted({_below(random, 40) for _ in range(1 + _below(random, 3))})
            shape = {"layer_ids": layers, "layer": layers[_below(random, len(layers))], **shape}
            shape |= {"vocab_size": 5 + _below(random, 5000), "compressed_vocab_size": vocabulary}
            yield _deepseek_case(random, {**shape, "pad": _below(random, vocabulary)})
        else:
            shape |= {"base": 5 + _below(random, 5000), "vocab_size": vocabulary, "seed": _below(random, 2**31)}
            shape |= {"ple_layer_index": _below(random, 3), "divisor": 1 + _below(random, 128)}
            yield _qwen_case(random, {**shape, "eos": _below(random, vocabulary)})


def _deepseek_case(random: Random, layout: Case) -> Case:
    sizes = {key: value for key, value in layout.items() if key not in ("layer", "layer_ids")}
    addressing = Addressing.deepseek_v41(layout["layer"], layout["layer_ids"], **sizes)
    symbols = _integers(random, 0, layout["compressed_vocab_size"], _below(random, 40))
    dead = (random.random_sample(len(symbols)) < 0.15).tolist()
    rows = addressing(np.array(symbols, dtype=np.int64), dead=dead).tolist()
    table = {**_columns(addressing), "total_rows": addressing.entries}
    return {"layout": "deepseek_v41", **layout, **table, "symbols": symbols, "dead": dead, "rows": rows}


def _qwen_case(random: Random, layout: Case) -> Case:
    sizes = {key: value for key, value in layout.items() if key != "ple_layer_index"}
    addressing = Addressing.qwen_ple(layout["ple_layer_index"], **sizes)
    symbols = _integers(random, 0, layout["vocab_size"], _below(random, 40))
    # Often enough that several ends of documents fall into one gram.
    symbols = [layout["eos"] if _below(random, 6) == 0 else symbol for symbol in symbols]
    rows = addressing(np.array(symbols, dtype=np.int64)).tolist()
    table = {**_columns(addressing), "total_rows": sum(addressing.row_counts), "padded_rows": addressing.entries}
    return {"layout": "qwen_ple", **layout, **table, "symbols": symbols, "rows": rows}


def _columns(addressing: Addressing) -> Case:
    return {
        "multipliers": list(addressing.multipliers or ()),
        "row_counts": list(addressing.row_counts),
        "offsets": list(addressing.offsets),
    }


def _polynomial(random: Random, count: int) -> Iterable[Case]:
    shapes: list[tuple[int, list[int], int]] = [(1, [3, 4, 5, 6, 7, 8], 500_002)]
    for _ in range(count):
        groups = [1 + _below(random, 9) for _ in range(1 + _below(random, 4))]
        shapes.append((1 + _below(random, 11), groups, 1 + _below(random, 600_000)))
    for number, (functions, groups, rows) in enumerate(shapes):
        # Every third from the whole of int64, where the sums wrap and the remainder meets negative numbers.
        low, high = (-(2**63), 2**63) if number % 3 == 2 else (0, 260)
        ids = _integers(random, low, high, _below(random, 40))
        found = Addressing.blt(functions, groups, rows)(np.array(ids, dtype=np.int64)).tolist()
        yield {"functions": functions, "group_sizes": groups, "rows_per_column": rows, "ids": ids, "rows": found}


def _vocabulary_radix(random: Random, count: int) -> Iterable[Case]:
    shapes = [(131_072, 78, 4, 4)]
    for _ in range(count):
        sizes = (2 + _below(random, 5000), 1 + _below(random, 80))
        shapes.append((*sizes, 2 + _below(random, 3), 1 + _below(random, 4)))
    for vocabulary, ratio, order, splits in shapes:
        ids = _integers(random, 0, vocabulary, _below(random, 40))
        found = Addressing.longcat(vocabulary, ratio, order, splits)(np.array(ids, dtype=np.int64)).tolist()
        described = {"vocab_size": vocabulary, "ratio": ratio, "max_order": order, "splits": splits}
        yield {**described, "ids": ids, "rows": found}


def _below(random: Random, bound: int) -> int:
    return int(random.randint(0, bound, dtype=np.int64))


def _integers(random: Random, low: int, high: int, count: int) -> list[int]:
    numbers: list[int] = random.randint(low, high, count, dtype=np.int64).tolist()
    return numbers


_FNV1A = ("byte_fnv1a", "utf8_fnv1a")
_LAYOUTS: dict[str, Callable[[Random, int], Iterable[Case]]] = {
    "multiply_xor": _multiply_xor,
    "polynomial": _polynomial,
    "vocabulary_radix": _vocabulary_radix,
}
SCHEMES = (*_FNV1A, *_LAYOUTS)
