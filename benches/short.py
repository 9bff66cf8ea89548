"""What one call costs when the ids are few, beside a call that does about nothing."""

import argparse

import numpy as np

from engram_rs import Addressing, _core

from .harness import Contestant, Report, main

__all__ = ["bench"]

LENGTHS = (1, 8, 64, 512, 4096)
FLOOR = "floor"
EMPTY = "empty call"
ARRAYS = "empty array call"


def bench(report: Report, arguments: argparse.Namespace) -> None:
    addressing = Addressing.byte_fnv1a()
    for dtype in (np.int64, np.uint8):
        cases = {}
        for length in LENGTHS:
            ids = np.random.default_rng(length).integers(0, 256, length).astype(dtype)
            shape = (length, addressing.num_columns)
            names = {"addressing": addressing, "ids": ids, "out": np.empty(shape, dtype=np.int64)}
            names |= {"empty": np.empty, "shape": shape, "int64": np.dtype(np.int64)}
            names |= {"stream": addressing.stream(), "empty_call": _core.empty_call}
            names |= {"empty_array_call": _core.empty_array_call}
            # Statements and not functions: a Python frame would be a good part of the shortest calls.
            statements = {
                "addressing(ids)": "addressing(ids)",
                "addressing(ids, out=)": "addressing(ids, out=out)",
                "addressing(ids, out=, threads=1)": "addressing(ids, out=out, threads=1)",
                "stream.push(ids)": "stream.push(ids)",
                "stream.push(ids, out=)": "stream.push(ids, out=out)",
                "out.fill": "out.fill(7)",
                EMPTY: "empty_call(ids, out=out)",
                ARRAYS: "empty_array_call(ids, out=out)",
                # The least that a call into native code can do, and the least that returning a new array takes.
                "num_columns": "addressing.num_columns",
                FLOOR: "addressing.num_columns; empty(shape, int64)",
            }
            cases[f"T = {length:,}"] = (
                length,
                [Contestant(name, statement, names) for name, statement in statements.items()],
            )
        report.table(
            f"One call on {np.dtype(dtype)} ids [T], 3 columns",
            cases,
            [EMPTY, ARRAYS, FLOOR],
            "Empty call: takes the arguments of a step and does nothing. "
            "Empty array call: takes the two arrays as such, out to be written, and does nothing. "
            "Floor: addressing.num_columns, then numpy.empty for the result. Sequences this short run on one thread.",
            rate=False,
        )


if __name__ == "__main__":
    main(__doc__, bench)
