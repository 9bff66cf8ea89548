"""`utf8_fnv1a` in a graph: grams of characters, whose lengths in bytes differ from position to position."""

import numpy as np

from .._core import Addressing
from .hash_builder import Builder, Window
from .hash_families import fnv_next, fnv_start, fnv_step, never_zero

__all__ = ["character_columns", "symbols_reached"]

_LONGEST = 4


def symbols_reached(addressing: Addressing) -> int:
    """How many symbols the longest gram can hold."""
    return _LONGEST * max(addressing.orders)


def character_columns(build: Builder, addressing: Addressing, window: Window) -> tuple[str, list[int], list[str]]:
    """Hashes `[K, B, T]`, which column each of the K is, and for every column whether its gram is whole.

    The longest orders come first, and others join them.
    """
    orders, zero, first = addressing.orders, build.constant(0), build.constant([0])
    lengths = _lengths(build, window, _ages(build, window), max(orders))
    columns = sorted(range(len(orders)), key=lambda column: -orders[column])
    states, held = "", ""
    for back in reversed(range(symbols_reached(addressing))):
        for column in columns:
            if _LONGEST * orders[column] == back + 1:
                state = build.add("Unsqueeze", _before(build, addressing, lengths, column), first)
                length = build.add("Unsqueeze", _longest(build, lengths[: orders[column]]), first)
                states = build.add("Concat", states, state, axis=0) if states else state
                held = build.add("Concat", held, length, axis=0) if held else length
        holds = build.add("Less", build.constant(back), held)
        states = build.add("Where", holds, fnv_step(build, states, window.back(back)), states)
    reached = [build.add("Less", zero, lengths[order - 1]) for order in orders]
    return never_zero(build, states), columns, reached


def _before(build: Builder, addressing: Addressing, lengths: list[str], column: int) -> str:
    """The state before the first symbol, `[B, T]`: one pad symbol has gone in for every character that is missing."""
    order, zero = addressing.orders[column], build.constant(0)
    states = [fnv_start(column + 1)]
    for _ in range(order if addressing.pad is not None else 0):
        states.append(fnv_next(states[-1], addressing.pad or 0))
    missing = build.add("Mul", lengths[0], zero)
    if addressing.pad is not None:
        for length in lengths[:order]:
            missing = build.add("Add", missing, build.cast(build.add("Equal", length, zero)))
    return build.take(np.array(states, dtype=np.int64), missing)


def _longest(build: Builder, lengths: list[str]) -> str:
    """Lengths grow with the characters; 0 marks those that are not there."""
    longest = lengths[0]
    for length in lengths[1:]:
        longest = build.add("Where", build.add("Equal", length, build.constant(0)), longest, length)
    return longest


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
