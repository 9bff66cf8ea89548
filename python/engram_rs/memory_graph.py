"""Names that the builder of a memory graph and its readers share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ._core import Addressing
from .artifact import check_addressing

__all__ = ["INPUT", "OUTPUT", "PRECISIONS", "GraphMetadata"]

INPUT = "engram_addresses"
OUTPUT = "memory"
PRECISIONS = ("fp32", "fp16", "int8")
FORMAT = "engram-graph-v1"


@dataclass(frozen=True)
class GraphMetadata:
    """What a memory graph says of itself in its model metadata.

    Attributes:
        addressing: The scheme that its input must be computed by.
        precision: `"fp32"`, `"fp16"` or `"int8"`.
        d_model: Width of its output.
        dim: Values a row.
    """

    addressing: Addressing
    precision: str
    d_model: int
    dim: int

    def to_properties(self) -> dict[str, str]:
        """The key-value pairs that stand in the ONNX file."""
        return {
            "engram.format": FORMAT,
            "engram.addressing": self.addressing.to_json(),
            "engram.addressing_digest": self.addressing.digest,
            "engram.precision": self.precision,
            "engram.d_model": str(self.d_model),
            "engram.dim": str(self.dim),
        }

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], where: str) -> Self:
        """Reads the pairs back.

        Raises:
            ValueError: They are not those of a memory graph, or the digest is not the addressing's.
        """
        if properties.get("engram.format") != FORMAT:
            raise ValueError(
                f"{where} is not a memory graph: its metadata has engram.format = "
                f"{properties.get('engram.format')!r}; wanted {FORMAT!r}"
            )
        for key in ("addressing", "addressing_digest", "precision", "d_model", "dim"):
            if f"engram.{key}" not in properties:
                raise ValueError(f"{where}: the metadata lacks engram.{key}")
        addressing = check_addressing(properties["engram.addressing"], properties["engram.addressing_digest"], where)
        precision = properties["engram.precision"]
        try:
            d_model, dim = int(properties["engram.d_model"]), int(properties["engram.dim"])
        except ValueError as error:
            raise ValueError(f"{where}: engram.d_model and engram.dim must be numbers: {error}") from error
        if precision not in PRECISIONS:
            raise ValueError(f"{where}: precision is {precision!r}; wanted one of {', '.join(PRECISIONS)}")
        return cls(addressing, precision, d_model, dim)
