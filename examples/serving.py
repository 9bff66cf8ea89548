"""A trained memory in ONNX Runtime: is it the same, how fast is it, how big?"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from engram_rs.onnx import export_memory
from engram_rs.ort import MemorySession
from engram_rs.parity import MemoryParity, verify
from engram_rs.torch import Engram

from .diacritics import Example

__all__ = ["GRAPHS", "Graph", "Served", "median_ms", "serve"]

# File name and precision.
GRAPHS = (("demo.onnx", "fp32"), ("demo-int8.onnx", "int8"))


@dataclass(frozen=True)
class Graph:
    """An exported memory, its session, and how it compares with the module."""

    path: Path
    session: MemorySession
    parity: MemoryParity


class Served(nn.Module):
    """Stands where the `Engram` stood in a model, and asks ONNX Runtime instead."""

    def __init__(self, session: MemorySession) -> None:
        super().__init__()
        self.session = session

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """`[B, T]` ids to `[B, T, d_model]`."""
        return torch.from_numpy(self.session.run(ids.numpy()))


def serve(memory: Engram, folder: Path, examples: Sequence[Example]) -> list[Graph]:
    """Exports a memory at both precisions and compares each graph with the module on real verses."""
    graphs = []
    for name, precision in GRAPHS:
        path = folder / name
        export_memory(memory, path, precision=precision)
        parity = verify(path, memory, texts=[example.text for example in examples])
        graphs.append(Graph(path, MemorySession(path), parity))
    return graphs


def median_ms(run: Callable[[NDArray[np.int64]], object], ids: NDArray[np.int64], repeats: int) -> float:
    """The median time of one call, in milliseconds."""
    # The first call allocates.
    run(ids)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run(ids)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3
