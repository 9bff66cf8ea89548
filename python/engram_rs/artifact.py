"""The published form of a memory: an int8 table and an fp16 projection in one safetensors file.

Tensors: `table` int8 `[entries, dim]`, `scale` float32 `[1]`, `projection` float16 `[d_model, dim]`.
The metadata's one key `engram` is JSON: `format`, `addressing` (canonical JSON), `addressing_digest`, and
`sha256` of the tensors. A row's values are `table * scale`.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._core import Addressing
from ._extras import require
from ._files import replacing

__all__ = ["FORMAT", "MemoryArtifact", "check_addressing"]

FORMAT = "engram-memory-v1"
_KEY = "engram"

_DTYPES = {"table": "int8", "scale": "float32", "projection": "float16"}


def check_addressing(declared: str, digest: str, where: str) -> Addressing:
    """The addressing that a file declares, if its digest is right.

    Raises:
        ValueError: The JSON is invalid, or its digest is not the one that stands beside it.
    """
    try:
        addressing = Addressing.from_json(declared)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    if addressing.digest != digest:
        raise ValueError(f"{where}: the addressing has digest {addressing.digest}, but {digest} is declared beside it")
    return addressing


def _declared(metadata: dict[str, str]) -> dict[str, str]:
    """What the metadata say, if it is complete."""
    try:
        declared = json.loads(metadata.get(_KEY, "{}"))
    except ValueError as error:
        raise ValueError(f"its metadata {_KEY!r} is no JSON: {error}") from error
    if not isinstance(declared, dict) or declared.get("format") != FORMAT:
        given = declared.get("format") if isinstance(declared, dict) else declared
        raise ValueError(f"format is {given!r}; wanted {FORMAT!r}")
    for key in ("addressing", "addressing_digest", "sha256"):
        if not isinstance(declared.get(key), str):
            raise ValueError(f"its metadata lack {key}")
    return declared


def _sha256(tensors: dict[str, NDArray[Any]]) -> str:
    """One digest of all tensors, in the order of `_DTYPES`, as little-endian bytes."""
    digest = hashlib.sha256()
    for name in _DTYPES:
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {array.dtype.name} {list(array.shape)}\n".encode())
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class MemoryArtifact:
    """A memory as it is published.

    Attributes:
        addressing: The scheme whose rows the table holds.
        table: int8 `[entries, dim]`.
        scale: What one step of the table is worth; one for the whole table.
        projection: float16 `[d_model, dim]`.
    """

    addressing: Addressing
    table: NDArray[np.int8]
    scale: float
    projection: NDArray[np.float16]

    def __post_init__(self) -> None:
        for name, array in (("table", self.table), ("projection", self.projection)):
            if not isinstance(array, np.ndarray) or array.dtype != _DTYPES[name] or array.ndim != 2:
                given = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
                raise ValueError(f"{name} must be {_DTYPES[name]} with two dimensions, not {given}")
        if self.table.shape[0] != self.addressing.entries:
            raise ValueError(f"the table has {self.table.shape[0]} rows, but its addressing {self.addressing.entries}")
        if self.table.shape[1] != self.projection.shape[1] or not self.projection.size:
            raise ValueError(
                f"the table is {list(self.table.shape)} and the projection {list(self.projection.shape)}; "
                "wanted [entries, dim] and [d_model, dim] with one dim"
            )
        with np.errstate(over="ignore", under="ignore"):
            stored = np.float32(self.scale)
        if not np.isfinite(stored) or stored <= 0:
            raise ValueError(f"scale must be a positive float32, not {self.scale}")
        if not np.isfinite(self.projection).all():
            raise ValueError("the projection holds values that are not finite")

    @property
    def dim(self) -> int:
        """Values a row."""
        return int(self.table.shape[1])

    @property
    def d_model(self) -> int:
        """Width of the hidden states that the memory is added to."""
        return int(self.projection.shape[0])

    @classmethod
    def quantize(cls, addressing: Addressing, table: NDArray[np.floating[Any]], projection: NDArray[Any]) -> Self:
        """Quantises a float table: symmetric int8, `scale = max(|table|, 1e-8) / 127`, one for all rows.

        Args:
            addressing: The scheme of the table.
            table: Floats `[entries, dim]`.
            projection: Floats `[d_model, dim]`, rounded to float16.

        Raises:
            ValueError: A value is not finite, a projection value exceeds float16, or shapes disagree.
        """
        table = np.asarray(table, dtype=np.float32)
        peak = max(float(table.max(initial=0.0)), -float(table.min(initial=0.0)))
        # NaN compares false with everything, so it would pass for small.
        if not np.isfinite(peak) or np.isnan(table.sum(dtype=np.float64)):
            raise ValueError("the table holds values that are not finite")
        scale = np.float32(max(peak, 1e-8)) / np.float32(127)
        half = np.finfo(np.float16)
        projection = np.asarray(projection, dtype=np.float32)
        if not (np.abs(projection) <= half.max).all():
            raise ValueError(f"the projection holds values that float16 cannot (its largest is {half.max})")
        quantised = np.empty(table.shape, dtype=np.int8)
        # A block at a time: the float copy of a published table would be four times its size.
        for start in range(0, len(table), 65_536):
            block = table[start : start + 65_536] / scale
            quantised[start : start + 65_536] = np.clip(np.rint(block), -127, 127)
        return cls(addressing, quantised, float(scale), projection.astype(np.float16))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the safetensors file; an older file at `path` stays until the new one is whole."""
        safetensors = require("safetensors.numpy", "writing a memory", "onnx")
        tensors: dict[str, NDArray[Any]] = {
            "table": np.ascontiguousarray(self.table),
            "scale": np.array([self.scale], dtype=np.float32),
            "projection": np.ascontiguousarray(self.projection),
        }
        declared = {
            "format": FORMAT,
            "addressing": self.addressing.to_json(),
            "addressing_digest": self.addressing.digest,
            "sha256": _sha256(tensors),
        }
        # One key: safetensors writes several in any order, and equal memories should be equal files.
        metadata = {_KEY: json.dumps(declared, sort_keys=True)}
        with replacing(path) as temporary:
            safetensors.save_file(tensors, temporary, metadata=metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads what `save` wrote and checks the format, the digest, dtypes and shapes.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The file is damaged, or not a memory, or its parts disagree.
        """
        safetensors = require("safetensors", "reading a memory", "onnx")
        where = Path(path)
        if not where.is_file():
            raise FileNotFoundError(f"there is no file {where}")
        try:
            with safetensors.safe_open(where, framework="np") as file:
                declared = _declared(file.metadata() or {})
                names = set(file.keys())
                if names != set(_DTYPES):
                    raise ValueError(f"it holds the tensors {sorted(names)}; wanted {sorted(_DTYPES)}")
                tensors = {name: file.get_tensor(name) for name in _DTYPES}
        except safetensors.SafetensorError as error:
            raise ValueError(f"{where} is not a memory, nor a whole safetensors file: {error}") from error
        except (ValueError, TypeError, AttributeError) as error:
            # numpy knows no bfloat16 or float8, and safetensors says so in its own ways.
            raise ValueError(f"{where} is not a memory: {error}") from error
        addressing = check_addressing(declared["addressing"], declared["addressing_digest"], str(where))
        if declared["sha256"] != (found := _sha256(tensors)):
            raise ValueError(f"{where} is damaged: its tensors have sha256 {found}, declared is {declared['sha256']}")
        scale = tensors["scale"]
        if scale.dtype != np.float32 or scale.shape != (1,):
            raise ValueError(f"{where}: scale must be float32 [1], not {scale.dtype} {list(scale.shape)}")
        try:
            return cls(addressing, tensors["table"], float(scale[0]), tensors["projection"])
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
