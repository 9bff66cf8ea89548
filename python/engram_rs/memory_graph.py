"""Names that the builder of a memory graph and its readers share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ._core import Addressing
from .artifact import check_addressing

__all__ = ["INPUT", "MODES", "OUTPUT", "PRECISIONS", "EncoderMetadata", "GraphMetadata", "hash_properties"]

INPUT = "engram_addresses"
OUTPUT = "memory"
PRECISIONS = ("fp32", "fp16", "int8")
FORMAT = "engram-graph-v1"
ENCODER_FORMAT = "engram-encoder-v1"
# How an encoder gets its addresses: as an input, by arithmetic in the graph, by ONNX Runtime's own operator.
MODES = ("input", "graph", "ort")


def hash_properties(addressing: Addressing, mode: str) -> dict[str, str]:
    """What a graph of the hash alone says of itself in its model metadata."""
    return {
        "engram.format": "engram-hash-v1",
        "engram.addressing": addressing.to_json(),
        "engram.addressing_digest": addressing.digest,
        "engram.mode": mode,
    }


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


@dataclass(frozen=True)
class EncoderMetadata:
    """What the graph of an encoder says of the memory in it.

    Attributes:
        addressing: The scheme.
        mode: `"input"`, `"graph"` or `"ort"`: where the addresses come from.
        precision: Of the encoder: `"fp32"`, `"fp16"`, `"int8"` or `"int4"`.
        d_model: Width of the hidden states.
        dim: Values a row.
        block: Encoder block whose output the memory is added to.
    """

    addressing: Addressing
    mode: str
    precision: str
    d_model: int
    dim: int
    block: int

    def to_properties(self) -> dict[str, str]:
        """The key-value pairs that stand in the ONNX file."""
        return {
            "engram.format": ENCODER_FORMAT,
            "engram.addressing": self.addressing.to_json(),
            "engram.addressing_digest": self.addressing.digest,
            "engram.mode": self.mode,
            "engram.precision": self.precision,
            "engram.d_model": str(self.d_model),
            "engram.dim": str(self.dim),
            "engram.block": str(self.block),
        }

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], where: str) -> Self | None:
        """Reads the pairs back; None where there is no memory.

        Raises:
            ValueError: They are not those of an encoder with a memory, or the digest is not the addressing's.
        """
        if "engram.format" not in properties:
            return None
        if properties["engram.format"] != ENCODER_FORMAT:
            raise ValueError(
                f"{where}: its metadata has engram.format = {properties['engram.format']!r}; wanted {ENCODER_FORMAT!r}"
            )
        for key in ("addressing", "addressing_digest", "mode", "precision", "d_model", "dim", "block"):
            if f"engram.{key}" not in properties:
                raise ValueError(f"{where}: the metadata lacks engram.{key}")
        addressing = check_addressing(properties["engram.addressing"], properties["engram.addressing_digest"], where)
        mode = properties["engram.mode"]
        if mode not in MODES:
            raise ValueError(f"{where}: engram.mode is {mode!r}; wanted one of {', '.join(MODES)}")
        try:
            d_model, dim, block = (int(properties[f"engram.{key}"]) for key in ("d_model", "dim", "block"))
        except ValueError as error:
            raise ValueError(f"{where}: engram.d_model, dim and block must be numbers: {error}") from error
        return cls(addressing, mode, properties["engram.precision"], d_model, dim, block)
