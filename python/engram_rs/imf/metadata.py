"""What a zip says of itself: the fields, their types, and what must agree among them.

Unknown fields are kept: an optional field is compatible. What an old runtime would misread needs another format.
"""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import ErrorDetails

from .. import _yaml as document
from .._core import BYTE_OFFSET, Addressing
from ..artifact import check_addressing
from .limits import METADATA, is_graph

__all__ = ["Engram", "Metadata", "Metric", "Parity", "check_members", "from_text", "from_values", "to_text"]

_Text = Annotated[str, StringConstraints(pattern=r"\S", max_length=10_000)]
_Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_Number = int | Annotated[float, Field(allow_inf_nan=False)]
_REQUIRED = (METADATA, "README.md", "encoder.onnx", "decoder.onnx")


class _Part(BaseModel):
    # Strict: text is no number and 1 is no truth, so that what is written back is what was read.
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class Metric(_Part):
    """A measured quality.

    Attributes:
        name: Such as `cer`.
        value: In the unit that the protocol names.
        protocol: What was measured, and on what.
        source: Where that is written down; before a release with an anchor, as in `RESULTS.md#khmer`.
    """

    name: _Text
    value: _Number
    protocol: _Text
    source: _Text


class Parity(_Part):
    """How far the graphs are from the model that they came from.

    Attributes:
        samples: How many inputs were decoded by both.
        cer_delta: Difference of the character error rates, in percentage points.
    """

    samples: Annotated[int, Field(ge=1)]
    cer_delta: _Number


class Engram(_Part):
    """The memory of a model whose encoder takes addresses.

    Attributes:
        addressing: The JSON of the scheme.
        addressing_digest: Its digest.
        input: Name of the encoder's input of hashes before the remainder, int64 `[batch, sequence, K]`.
        entries: Rows of the table.
        dim: Values a row.
        block: Encoder block whose output the memory is added to.
    """

    addressing: str
    addressing_digest: _Digest
    input: _Text
    entries: int
    dim: Annotated[int, Field(ge=1)]
    block: Annotated[int, Field(ge=0)]

    @property
    def scheme(self) -> Addressing:
        """The addressing."""
        return Addressing.from_json(self.addressing)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        scheme = check_addressing(self.addressing, self.addressing_digest, "addressing")
        if self.entries != scheme.entries:
            raise ValueError(f"entries is {self.entries}, but its addressing has {scheme.entries}")
        if self.input == "input_ids":
            raise ValueError("input must be another than input_ids")
        try:
            scheme(np.arange(BYTE_OFFSET + 256))
        except ValueError as error:
            raise ValueError(f"the addressing does not take every id of the tokenizer bytes: {error}") from None
        return self


class Metadata(_Part):
    """The fields of `metadata.yaml`.

    Attributes:
        format: `imf-v1`, or `imf-v2` where the encoder takes addresses.
        id: Lowercase segments, then major.minor: `khm-latn-1.0`.
        task: `g2p`, `diacritization` or `translit`.
        source_script: ISO 15924.
        target: Script or notation of the output.
        tokenizer: `bytes`.
        opset: Of every graph.
        decoder: `kv` where `decoder-kv.onnx` is there to be preferred.
        precision: Of the weights.
        trained_from: What the weights came from.
        license: Of the weights; needed before a release.
        metrics: Needed before a release.
        parity: Needed before a release.
        sha256: Of every `.onnx` member; may cover others.
        engram: The memory; in `imf-v2` alone.
    """

    format: Literal["imf-v1", "imf-v2"]
    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*-(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$")]
    task: Literal["g2p", "diacritization", "translit"]
    source_script: Annotated[str, StringConstraints(pattern=r"^[A-Z][a-z]{3}$")]
    target: _Text
    tokenizer: Literal["bytes"]
    opset: Annotated[int, Field(ge=7, le=14)]
    decoder: Literal["plain", "kv"]
    precision: Literal["fp32", "fp16", "int8", "int4"]
    trained_from: _Text
    license: _Text | None = None
    metrics: list[Metric] = []
    parity: Parity | None = None
    sha256: dict[str, _Digest] = {}
    engram: Engram | None = None

    @model_validator(mode="after")
    def _format_tells_of_memory(self) -> Self:
        if (self.format == "imf-v2") != (self.engram is not None):
            raise ValueError(f"format is {self.format}; an engram block is what imf-v2 has and imf-v1 has not")
        return self


def from_values(values: object) -> Metadata:
    """Metadata from plain values.

    Raises:
        ValueError: A field is missing or wrong; the error names each.
    """
    try:
        return Metadata.model_validate(values)
    except ValidationError as error:
        raise ValueError("; ".join(map(_told, error.errors()))) from None


def _told(error: ErrorDetails) -> str:
    """One of pydantic's findings in one line."""
    place = ".".join(map(str, error["loc"])) or "metadata"
    said = error["msg"].removeprefix("Value error, ")
    if error["type"] in {"missing", "value_error"}:
        return f"{place}: {said}"
    hint = "; put text in quotes" if error["type"] == "string_type" else ""
    return f"{place}: {said}, not {error['input']!r:.80}{hint}"


def from_text(text: bytes) -> Metadata:
    """Metadata from the bytes of `metadata.yaml`.

    Raises:
        ValueError: It is not UTF-8, not the YAML that is taken, or a field is wrong.
    """
    return from_values(document.parse(text.decode("utf-8")))


def to_text(metadata: Metadata) -> bytes:
    """The bytes of `metadata.yaml`: equal for equal metadata."""
    return document.dump(_plain(metadata)).encode()


def _plain(value: object) -> object:
    """Dicts and lists in one order: known fields as they are declared, all else by name."""
    if isinstance(value, BaseModel):
        known = ((name, getattr(value, name)) for name in type(value).model_fields)
        told = {name: item for name, item in known if item is not None and item != []}
        return {name: _plain(item) for name, item in (*told.items(), *sorted((value.model_extra or {}).items()))}
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def check_members(names: set[str], metadata: Metadata) -> None:
    """Whether all members are there that a zip with this metadata needs, and the digests cover them.

    Raises:
        ValueError: A member is missing, a graph has no digest, or a digest no member.
    """
    required = {*_REQUIRED, *(["decoder-kv.onnx"] if metadata.decoder == "kv" else [])}
    for found, said in (
        (required - names, "these members are missing"),
        ({name for name in names if is_graph(name)} - set(metadata.sha256), "these members have no sha256 in metadata"),
        (set(metadata.sha256) & {METADATA}, "metadata cannot have the sha256 of themselves"),
        (set(metadata.sha256) - names, "metadata has the sha256 of members that are not there"),
    ):
        if found:
            raise ValueError(f"{said}: {', '.join(sorted(found))}")
