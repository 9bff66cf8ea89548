"""A memory's graph against its module."""

import copy
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import Addressing, encode
from ..artifact import MemoryArtifact
from ..memory_graph import GraphMetadata
from ..ort import MemorySession
from ..torch import Engram

__all__ = ["MemoryParity", "error_bound", "verify"]

# The promise for fp32, however large the weights are.
FP32_TOLERANCE = 1e-4

# Rows a pass over the table takes: float copies of a whole published table would be large.
_BLOCK = 65_536

# Scripts of one to four bytes a character; written for this test.
SAMPLE_TEXTS = (
    "A memory that is addressed by what was read needs no router.",
    "ذَاكِرَةٌ تُعْنَى بِمَا قُرِئَ لَا تَحْتَاجُ إِلَى دَلِيلٍ",
    "読んだ文字がそのまま記憶の番地になる。",
    "Память находит строку по самим буквам.",
    "स्मृति अक्षरों से ही अपनी पंक्ति पाती है।",
    "🧠➡️📖",
)


@dataclass(frozen=True)
class MemoryParity:
    """How far a memory graph is from the module that it came from.

    Attributes:
        precision: The graph's precision.
        provider: The ONNX Runtime provider that ran it.
        positions: Positions compared, random and real.
        random_difference: Largest difference over random addresses.
        real_difference: Largest difference over the addresses of real ids.
        largest_output: Largest value of the module over all of them; 0 means that nothing was compared.
        tolerance: What the precision allows: `error_bound`, and at fp32 no more than 1e-4.
    """

    precision: str
    provider: str
    positions: int
    random_difference: float
    real_difference: float
    largest_output: float
    tolerance: float

    @property
    def max_difference(self) -> float:
        """The larger of the two differences."""
        return max(self.random_difference, self.real_difference)

    @property
    def passed(self) -> bool:
        """Whether the difference is within the tolerance; NaN is not."""
        return self.max_difference <= self.tolerance


def verify(
    path: str | os.PathLike[str],
    engram: Engram | MemoryArtifact | str | os.PathLike[str],
    *,
    texts: Iterable[str | bytes] | None = None,
    ids: Iterable[NDArray[np.integer[Any]]] | None = None,
    positions: int = 8192,
    seed: int = 0,
    providers: Sequence[str] | None = None,
) -> MemoryParity:
    """Runs a memory graph beside its module, on random addresses and on real ids.

    Args:
        path: What `export_memory` wrote.
        engram: What it was exported from: a module (compared in float32, whatever its dtype), an artifact,
            or the path of a saved one.
        texts: Real inputs for a scheme of bytes; `None` for a few sentences in several scripts.
        ids: Real inputs as ids `[T]` or `[B, T]`, for any scheme, in place of `texts`.
        positions: How many random positions.
        seed: Of the random positions.
        providers: As in `MemorySession`.

    Returns:
        The differences and the tolerance. Nothing is raised for a difference: look at `passed`.

    Raises:
        TypeError: `engram` is no `Engram`.
        ValueError: The graph belongs to another addressing or has another shape, or `texts` are given to a
            scheme of tokens, which needs `ids`.
    """
    if positions < 1:
        raise ValueError(f"positions must be positive, not {positions}")
    engram = _module(engram)
    session = MemorySession(path, providers)
    meta = session.metadata
    _check_same(meta, engram, os.fspath(path))
    addressing = meta.addressing
    length = 64
    shape = (-(-positions // length), length, addressing.num_columns)
    random = np.random.default_rng(seed).integers(0, 2**32, size=shape, dtype=np.int64)
    inputs = _inputs(addressing, texts, ids)

    random_difference, largest = _difference(session.run_addresses(random), engram.from_addresses, random)
    real_difference, real_positions = 0.0, 0
    for real in inputs:
        difference, peak = _difference(session.run(real), engram, real)
        # max() would drop a NaN that comes second.
        real_difference = float(np.maximum(real_difference, difference))
        largest = max(largest, peak)
        real_positions += real.size
    bound = error_bound(engram, meta.precision)
    return MemoryParity(
        precision=meta.precision,
        provider=session.provider,
        positions=shape[0] * length + real_positions,
        random_difference=random_difference,
        real_difference=real_difference,
        largest_output=largest,
        tolerance=min(bound, FP32_TOLERANCE) if meta.precision == "fp32" else bound,
    )


def error_bound(engram: Engram, precision: str) -> float:
    """The largest difference that storing this memory at `precision` can make.

    With `y = P m`, `m` a mean of table rows, and stored values `P + dP`, `m + dm`:
    `|dy_i| <= sum_d |P_id| |dm_d| + |dP_id| (|m_d| + |dm_d|)`, and a mean errs by no more than its worst
    row. The roundings are taken as they are in this memory: at int8 never above half the table's scale,
    at fp16 never above 2^-11 of a value, and nothing for a memory that was stored so before. Float32 sums
    of n products add n 2^-23 of the sum of their sizes.

    Args:
        engram: The module.
        precision: `"fp32"`, `"fp16"` or `"int8"`.

    Returns:
        The bound on every output value.
    """
    projection = engram.projection.detach().float().cpu().numpy()
    table = engram.table.detach().float().cpu().numpy()
    stored_projection = projection if precision == "fp32" else projection.astype(np.float16).astype(np.float32)
    artifact = engram.to_artifact() if precision == "int8" else None
    peak, step = np.zeros(engram.dim), np.zeros(engram.dim)
    for start in range(0, len(table), _BLOCK):
        block = table[start : start + _BLOCK]
        stored = block
        if artifact is not None:
            stored = artifact.table[start : start + _BLOCK] * np.float32(artifact.scale)
        elif precision == "fp16":
            stored = block.astype(np.float16).astype(np.float32)
        peak = np.maximum(peak, np.abs(block).max(axis=0))
        step = np.maximum(step, np.abs(block - stored).max(axis=0))
    size = np.abs(projection).astype(np.float64)
    projection_step = np.abs(projection - stored_projection).astype(np.float64)
    terms = engram.dim + engram.addressing.num_columns + 4
    rounding = terms * 2.0**-23 * (size @ peak)
    return float((size @ step + projection_step @ (peak + step) + rounding).max())


def _module(engram: object) -> Engram:
    """A float32 module on the CPU: a tolerance that follows from storage holds for no coarser arithmetic."""
    if isinstance(engram, (str, os.PathLike)):
        return Engram.load(engram)
    if isinstance(engram, MemoryArtifact):
        return Engram.from_artifact(engram)
    if not isinstance(engram, Engram):
        raise TypeError(f"engram must be an Engram, a MemoryArtifact or a path, not {type(engram).__name__}")
    if engram.table.dtype == torch.float32 and engram.table.device.type == "cpu":
        return engram
    return copy.deepcopy(engram).to("cpu", torch.float32)


def _inputs(
    addressing: Addressing, texts: Iterable[str | bytes] | None, ids: Iterable[NDArray[np.integer[Any]]] | None
) -> list[NDArray[np.integer[Any]]]:
    if texts is not None and ids is not None:
        raise ValueError("give texts or ids, and not both")
    if ids is not None:
        return list(ids)
    if not addressing.scheme.endswith("fnv1a"):
        raise ValueError(f"{addressing.scheme} hashes tokens, which texts do not tell: give ids")
    return [encode(text) for text in (SAMPLE_TEXTS if texts is None else texts)]


def _check_same(meta: GraphMetadata, engram: Engram, where: str) -> None:
    if meta.addressing != engram.addressing:
        raise ValueError(
            f"{where} was made for {meta.addressing} (digest {meta.addressing.digest}), "
            f"the module for {engram.addressing} (digest {engram.addressing.digest})"
        )
    if (meta.d_model, meta.dim) != (engram.d_model, engram.dim):
        raise ValueError(
            f"{where} has d_model {meta.d_model} and dim {meta.dim}, the module has {engram.d_model} and {engram.dim}"
        )


def _difference(got: NDArray[np.float32], module: Any, inputs: NDArray[np.integer[Any]]) -> tuple[float, float]:  # noqa: ANN401
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        wanted = module(torch.from_numpy(inputs)).float().cpu().numpy()
    return float(np.abs(got - wanted).max(initial=0.0)), float(np.abs(wanted).max(initial=0.0))
