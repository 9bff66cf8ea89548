"""Addresses of 2^22 byte ids: every way to compute them, beside filling the output with a constant."""

import argparse
from collections.abc import Callable, Mapping

import numba
import numpy as np
import torch

from engram_rs import Addressing

from . import rivals
from .harness import Contestant, Report, main

__all__ = ["bench"]

ENTRIES = (2_097_152, 2_097_143)
OURS = "engram_rs"
FILL = "fill"
# What the pure Python loop gets; a full run of it would take longer than all others together.
SLICE = 20_000
THREADS = (1, 2)


def bench(report: Report, arguments: argparse.Namespace) -> None:
    positions = 1 << (19 if arguments.quick else 22)
    ids = np.random.default_rng(0).integers(0, 256, positions).astype(np.uint8)
    out = np.empty((positions, len(rivals.ORDERS)), dtype=np.int64)
    for threads in THREADS:
        cases = {}
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        torch.set_num_threads(threads)
        for entries in ENTRIES:
            same_hash, others = _contestants(entries, ids, out, threads)
            _check(Addressing.byte_fnv1a(entries, rivals.ORDERS)(ids), out, same_hash)
            scaled = {"pure Python *": SLICE / positions}
            cases[f"{entries:,} entries"] = (
                positions,
                [Contestant(name, call, share=scaled.get(name, 1.0)) for name, call in (same_hash | others).items()],
            )
        report.table(
            f"Addresses of {positions:,} uint8 ids, 3 columns into int64: {threads} thread{'s' * (threads > 1)}",
            cases,
            [FILL, OURS],
            f"Fill: the same buffer, a constant, by {'numpy' if threads == 1 else 'torch with 2 threads'}. "
            + (f"* {SLICE:,} ids, scaled. " if threads == 1 else "")
            + "** NGramHashMapping: another hash of similar work, from int64 ids.",
        )


def _contestants(
    entries: int, ids: np.ndarray, out: np.ndarray, threads: int
) -> tuple[dict[str, Callable[[], object]], dict[str, Callable[[], object]]]:
    """Those that compute `byte_fnv1a`, and the rest."""
    addressing = Addressing.byte_fnv1a(entries, rivals.ORDERS)
    same_hash: dict[str, Callable[[], object]] = {}
    if threads == 1:
        same_hash["pure Python *"] = rivals.python_loop(entries, ids[:SLICE], out[:SLICE])
        same_hash["numpy"] = rivals.numpy_columns(entries, ids, out)
    same_hash["torch"] = rivals.torch_columns(entries, ids, out, threads)
    same_hash["numba"] = rivals.numba_loop(entries, ids, out)
    same_hash[OURS] = lambda: addressing(ids, out=out, threads=threads)
    # numpy fills with one thread whatever it is told.
    tensor = torch.from_numpy(out)
    fill = (lambda: out.fill(7)) if threads == 1 else (lambda: tensor.fill_(7))
    operator = rivals.onnxruntime_operator(entries, ids, out, threads)
    return same_hash, {"ONNX Runtime **": operator, FILL: fill}


def _check(expected: np.ndarray, out: np.ndarray, contestants: Mapping[str, Callable[[], object]]) -> None:
    """A race between different results tells nothing."""
    for name, call in contestants.items():
        out.fill(-1)
        call()
        filled = SLICE if name.startswith("pure Python") else len(out)
        if not np.array_equal(out[:filled], expected[:filled]):
            raise AssertionError(f"{name} does not compute byte_fnv1a")


if __name__ == "__main__":
    main(__doc__, bench)
