"""`byte_fnv1a` by the core, by numpy and by every port: equal hashes, told by a digest, and how fast."""

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from engram_rs import Addressing
from ports import PORTS, hash_stream, insert_table

from .harness import Report, Sample, main

__all__ = ["bench", "options"]

ORDERS = (2, 3, 4)
CORE = "engram_rs"
# The interpreters take most of a minute for each round.
BUDGET_SECONDS = 120.0
LEAST_ROUNDS = 2
# What everyone hashes at a time, with the ids before it that its grams can reach; the ports' programs have it too. All
# at once, most of the core's time would be that of memory which the process touches for the first time.
PIECE = 65536


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--table", type=Path, metavar="PAGE", help="also put the table into a page, between its comments"
    )


def bench(report: Report, arguments: argparse.Namespace) -> None:
    positions = 100_000 if arguments.quick else 10_000_000
    ids = np.random.default_rng(0).integers(-(2**31), 2**31, positions, dtype=np.int32)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "ids"
        ids.astype("<i4").tofile(file)
        contestants = _contestants(report, ids.astype(np.int64), file)
        digests, samples = _rounds(contestants, report.rounds)
    equal = len(set().union(*digests.values())) == 1
    title = f"{positions:,} random int32 ids, {len(ORDERS)} columns, one thread"
    headings = (
        "implementation",
        "median",
        "± spread",
        "M positions/s",
        f"throughput ÷ {CORE}",
        "SHA-256 of the hashes",
    )
    rows = [
        (
            one,
            f"{sample.median:.3g} s",
            f"{sample.spread:.0%}",
            f"{positions / sample.median / 1e6:.3g}",
            f"{1 / sample.over(samples[CORE]):.3g}",
            " ".join(digest[:16] for digest in sorted(digests[one])),
        )
        for one, sample in samples.items()
    ]
    table = Table(*headings, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    report.console.print(table)
    report.console.print("equal" if equal else "[red]DIFFERENT[/]")
    kept = [{"name": one, "seconds": samples[one].seconds, "digests": sorted(digests[one])} for one in samples]
    report.tables.append({"title": title, "rows": kept})
    if arguments.table is not None:
        lines = [f"{title}:", "", f"| {' | '.join(headings)} |", "|---|" + "---:|" * 4 + "---|"]
        insert_table(arguments.table, "throughput", [*lines, *(f"| {' | '.join(row)} |" for row in rows)])
    if not equal:
        raise SystemExit(1)


def _contestants(report: Report, ids: NDArray[np.int64], file: Path) -> dict[str, Callable[[], tuple[str, float]]]:
    """By name, what hashes the ids once and tells a digest and the seconds without input, output and digest."""
    addressing = Addressing.byte_fnv1a(orders=ORDERS)
    out = np.empty((PIECE + max(ORDERS) - 1, len(ORDERS)), dtype=np.int64)
    found = {
        CORE: lambda: _in_pieces(ids, lambda piece: addressing.hashes(piece, out=out[: len(piece)], threads=1)),
        f"numpy {np.__version__}": lambda: _in_pieces(ids, lambda piece: numpy_hashes(piece, out[: len(piece)])),
    }
    for port in PORTS:
        if (missing := port.missing()) is not None:
            report.console.print(f"{port.language}: skipped, there is no {missing}", highlight=False)
            continue
        command = port.build(file.parent)
        name = f"{port.language}, {port.tools[-1]} {port.toolchain()}"
        found[name] = lambda port=port, command=command: hash_stream(port, command, file, ORDERS)
    return found


def _in_pieces(
    ids: NDArray[np.int64], hashes_of: Callable[[NDArray[np.int64]], NDArray[np.int64]]
) -> tuple[str, float]:
    digest, seconds = hashlib.sha256(), 0.0
    for start in range(0, len(ids), PIECE):
        history = min(start, max(ORDERS) - 1)
        piece = ids[start - history : start + PIECE]
        before = time.perf_counter()
        hashes = hashes_of(piece)
        seconds += time.perf_counter() - before
        digest.update(hashes[history:].astype("<i8", copy=False).data)
    return digest.hexdigest(), seconds


def _rounds(
    contestants: dict[str, Callable[[], tuple[str, float]]], rounds: int
) -> tuple[dict[str, set[str]], dict[str, Sample]]:
    digests: dict[str, set[str]] = {name: set() for name in contestants}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    start = time.monotonic()
    for done in range(rounds):
        if done >= LEAST_ROUNDS and time.monotonic() - start > BUDGET_SECONDS:
            break
        for name, work in contestants.items():
            digest, taken = work()
            digests[name].add(digest)
            seconds[name].append(taken)
    return digests, {name: Sample(tuple(times)) for name, times in seconds.items()}


def numpy_hashes(ids: NDArray[np.int64], out: NDArray[np.int64]) -> NDArray[np.int64]:
    """The scheme in numpy, in place."""
    symbols = (ids - 3).astype(np.uint8)
    out[:] = 0
    for column, order in enumerate(ORDERS):
        count = len(ids) + 1 - order
        state = np.full(max(count, 0), 0x811C9DC5 ^ (column + 1), dtype=np.uint32)
        for first in range(order if count > 0 else 0):
            np.bitwise_xor(state, symbols[first : first + count], out=state)
            np.multiply(state, np.uint32(0x01000193), out=state)
        out[order - 1 :, column] = np.maximum(state, 1)
    return out


if __name__ == "__main__":
    main(__doc__, bench, options=options)
