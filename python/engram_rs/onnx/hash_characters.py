"""`utf8_fnv1a` in a graph: grams of characters, whose lengths in bytes differ from position to position."""

import numpy as np

from .._core import Addressing
from .hash_builder import Builder, Window
from .hash_families import fnv_step, never_zero

__all__ = ["character_columns", "symbols_reached"]

_BASIS = 0x811C9DC5
_LONGEST = 4


def symbols_reached(addressing: Addressing) -> int:
    """How many symbols the longest gram can hold."""
    return _LONGEST * max(addressing.orders)


def character_columns(build: Builder, addressing: Addressing, window: Window) -> tuple[str, list[int], list[str]]:
    """Hashes `[K, B, T]`, their columns, and for every column whether its gram is whole."""
    ages = _ages(build, window)
    most = max(addressing.orders)
    lengths = _lengths(build, window, ages, most)
    columns, reached = [], []
    zero = build.constant(0)
    for column, order in enumerate(addressing.orders):
        # Lengths grow with the characters; 0 marks those that are not there.
        longest = lengths[0]
        for length in lengths[1:order]:
            longest = build.add("Where", build.add("Equal", length, zero), longest, length)
        state = build.add("Add", build.add("Mul", lengths[0], zero), build.constant(_BASIS ^ (column + 1)))
        pad = addressing.pad
        if pad is not None:
            found = [build.cast(build.add("Less", zero, length)) for length in lengths[:order]]
            present = found[0]
            for one in found[1:]:
                present = build.add("Add", present, one)
            for step in range(order):
                missing = build.add("Less", present, build.constant(order - step))
                state = build.add("Where", missing, fnv_step(build, state, build.constant(pad)), state)
        for back in reversed(range(_LONGEST * order)):
            holds = build.add("Less", build.constant(back), longest)
            state = build.add("Where", holds, fnv_step(build, state, window.back(back)), state)
        columns.append(build.add("Unsqueeze", never_zero(build, state), build.constant([0])))
        reached.append(build.add("Less", zero, lengths[order - 1]))
    return build.add("Concat", *columns, axis=0), list(range(addressing.num_columns)), reached


def _ages(build: Builder, window: Window) -> str:
    """How many symbols of its own character stand before each position, `[B, T]`.

    Positions since the last start of a character: starts are numbered, the position of each is written down under its
    number, and read by all that follow.
    """
    symbols = window.back(0)
    outside = build.add("Or", _less(build, symbols, 0x80), build.add("Not", _less(build, symbols, 0xC0)))
    fresh = build.add("Not", window.reaches(1))
    starts = build.cast(build.add("Or", outside, fresh))
    numbers = build.add("CumSum", starts, build.constant(1))
    ones = build.add("Add", build.add("Mul", starts, build.constant(0)), build.constant(1))
    at = build.add("CumSum", ones, build.constant(1))
    # Position 0 always starts a character, so numbers begin at 1 and the place 0 is free for all the others.
    places = build.add("Mul", numbers, starts)
    board = build.add(
        "Pad", build.add("Mul", starts, build.constant(0)), build.constant([0, 1, 0, 0]), build.constant(0)
    )
    written = build.add("ScatterElements", board, places, at, axis=1)
    start = build.add("GatherElements", written, numbers, axis=1)
    return build.add("Mod", build.add("Sub", at, start), build.constant(_LONGEST))


def _lengths(build: Builder, window: Window, ages: str, most: int) -> list[str]:
    """How many symbols the newest 1, 2, … characters hold together; 0 where there are not so many."""
    zero, one = build.constant(0), build.constant(1)
    reach = _reach(build, window, most)
    at = build.add("CumSum", build.add("Add", build.add("Mul", ages, zero), one), one, exclusive=1)
    length = build.add("Where", window.reaches(0), build.add("Add", ages, one), zero)
    lengths = [length]
    for _ in range(most - 1):
        more = build.add("And", build.add("Less", zero, length), build.add("Less", length, reach))
        before = build.add("Where", more, build.add("Sub", at, length), zero)
        older = build.add("Add", build.add("GatherElements", ages, before, axis=1), one)
        length = build.add("Where", more, build.add("Add", length, older), zero)
        lengths.append(length)
    return lengths


def _reach(build: Builder, window: Window, most: int) -> str:
    """How many symbols each position can read, as far as it matters."""
    total = build.cast(window.reaches(0))
    for back in range(1, _LONGEST * most):
        total = build.add("Add", total, build.cast(window.reaches(back)))
    return total


def _less(build: Builder, values: str, limit: int) -> str:
    return build.add("Less", values, build.constant(np.int64(limit)))
