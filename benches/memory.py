"""From ids to vectors: the exported memory at each precision, beside torch."""

import argparse
import tempfile
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from engram_rs.onnx import export_memory
from engram_rs.ort import MemorySession
from engram_rs.torch import Engram

from .harness import Contestant, Report, main

__all__ = ["bench", "options"]

SHAPES = ((1, 128), (8, 128), (1, 1024), (8, 1024))
DIM, D_MODEL = 32, 512
THREADS = (1, 2)
ENGRAM = "torch Engram"
# How far from torch each precision may be, as a part of the largest value.
TOLERANCES = {"fp32": 1e-5, "fp16": 2e-3, "int8": 3e-2}
# Ids go round a pool of batches, so that a small batch does not find its rows in the cache from the call before.
POOL = 1 << 16

Vectors = Callable[[np.ndarray], object]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--entries", type=int, default=262_144, help="rows of the table (default %(default)s)")


def bench(report: Report, arguments: argparse.Namespace) -> None:
    torch.manual_seed(0)
    engram = Engram(D_MODEL, arguments.entries, DIM)
    # A fresh projection is zero, and all contestants would agree on anything.
    torch.nn.init.normal_(engram.projection)
    shapes = SHAPES[:2] if arguments.quick else SHAPES
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        paths = {precision: Path(folder, f"{precision}.onnx") for precision in TOLERANCES}
        for precision, path in paths.items():
            export_memory(engram, path, precision)
        for threads in THREADS:
            torch.set_num_threads(threads)
            sessions = {
                precision: MemorySession(path, ["CPUExecutionProvider"], threads=threads)
                for precision, path in paths.items()
            }
            _check(engram, sessions)
            report.table(
                f"Memory: ids to vectors, {arguments.entries:,} x {DIM} to {D_MODEL}: "
                f"{threads} thread{'s' * (threads > 1)}",
                {f"{batch} x {length}": _case(engram, sessions, batch, length, threads) for batch, length in shapes},
                [ENGRAM],
                "Addresses by engram_rs for every contestant. ONNX Runtime and torch each on the CPU.",
            )


def _case(
    engram: Engram, sessions: Mapping[str, MemorySession], batch: int, length: int, threads: int
) -> tuple[float, list[Contestant]]:
    generator = np.random.default_rng(0)
    pool = generator.integers(3, 259, (max(1, POOL // (batch * length)), batch, length))
    out = np.empty((batch, length, D_MODEL), dtype=np.float32)
    ways: dict[str, Vectors] = {
        ENGRAM: lambda ids: engram(torch.from_numpy(ids)),
        "torch embedding, mean, linear": _torch_way(engram, threads, _embedding_mean),
        "torch embedding_bag, linear": _torch_way(engram, threads, _embedding_bag),
    }
    ways |= {f"MemorySession {precision}": session.run for precision, session in sessions.items()}
    ways["MemorySession int8, out="] = lambda ids: sessions["int8"].run(ids, out)
    contestants = [
        Contestant(name, "way(next(batches))", {"way": way, "next": next, "batches": cycle(pool)})
        for name, way in ways.items()
    ]
    return batch * length, contestants


def _torch_way(engram: Engram, threads: int, mean: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Vectors:
    """The lookup as one would write it in torch, from the same addresses."""

    def run(ids: np.ndarray) -> torch.Tensor:
        rows = torch.from_numpy(engram.addressing(ids, threads=threads))
        return F.linear(mean(rows, engram.table), engram.projection)

    return run


def _embedding_mean(rows: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return F.embedding(rows, table).mean(-2)


def _embedding_bag(rows: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(rows.flatten(0, -2), table, mode="mean").unflatten(0, rows.shape[:-1])


def _check(engram: Engram, sessions: Mapping[str, MemorySession]) -> None:
    ids = np.random.default_rng(1).integers(3, 259, (2, 100))
    wanted = engram(torch.from_numpy(ids)).numpy()
    found: dict[str, tuple[np.ndarray, float]] = {
        mean.__name__: (_torch_way(engram, 1, mean)(ids).numpy(), TOLERANCES["fp32"])
        for mean in (_embedding_mean, _embedding_bag)
    }
    found |= {name: (session.run(ids), TOLERANCES[name]) for name, session in sessions.items()}
    for name, (vectors, tolerance) in found.items():
        difference = float(np.abs(vectors - wanted).max() / np.abs(wanted).max())
        if difference > tolerance:
            raise AssertionError(f"{name} differs from torch by {difference:.1e} of the largest value")


if __name__ == "__main__":
    main(__doc__, bench, options=options)
