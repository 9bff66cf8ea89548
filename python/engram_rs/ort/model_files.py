"""The files of a model: a folder as it is, or a zip that was checked and unpacked for as long as sessions open."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core import Addressing
from ..memory_graph import INPUT, EncoderMetadata

if TYPE_CHECKING:
    from ..imf import Metadata

__all__ = ["ENCODER", "IDS", "STATES", "ModelFiles", "scheme_of"]

ENCODER, DECODER, CACHED = "encoder.onnx", "decoder.onnx", "decoder-kv.onnx"
_METADATA = "metadata.yaml"
IDS, STATES = "input_ids", "encoder_hidden_states"


@dataclass(frozen=True)
class ModelFiles:
    """Where the graphs are.

    Attributes:
        path: The folder or zip that was asked for.
        folder: The folder with the graphs.
        metadata: `metadata.yaml`, if there is one.
    """

    path: Path
    folder: Path
    metadata: "Metadata | None"

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path) -> Iterator["ModelFiles"]:
        """Gives the files of a folder, or of a zip: that one is checked as `imf.load` does.

        Raises:
            FileNotFoundError: There is nothing at `path`, or the folder lacks a graph.
            ValueError: The zip or the metadata are damaged, or have what is refused.
        """
        if path.is_dir():
            yield cls(path, path, _read(path / _METADATA))
            return
        from .. import imf

        model = imf.load(path)
        with tempfile.TemporaryDirectory(prefix="engram_rs-") as folder:
            yield cls(path, model.extract(Path(folder, "model")), model.metadata)

    def named(self, name: str) -> str:
        """What errors call a graph."""
        return f"{name} of {self.path}"

    def graph(self, name: str) -> Path:
        """The path of a graph.

        Raises:
            FileNotFoundError: It is not there.
        """
        if not (self.folder / name).is_file():
            raise FileNotFoundError(f"there is no {name} in {self.path}; a model has {ENCODER} and {DECODER}")
        return self.folder / name

    @property
    def decoder(self) -> str:
        """The decoder to prefer."""
        return CACHED if (self.folder / CACHED).is_file() else DECODER


def _read(path: Path) -> "Metadata | None":
    if not path.is_file():
        return None
    from ..imf.metadata import from_text

    try:
        return from_text(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def scheme_of(inputs: list[str], told: EncoderMetadata | None, files: ModelFiles) -> tuple[str, Addressing] | None:
    """By which name an encoder takes addresses, and of which scheme; None if it takes ids alone.

    Args:
        inputs: Names of the encoder's inputs.
        told: What it says of its memory.
        files: What it is of.

    Raises:
        ValueError: It takes what nothing is known of, or its metadata and those of the zip name two schemes.
    """
    where = files.named(ENCODER)
    declared = files.metadata.engram if files.metadata is not None else None
    name = INPUT if declared is None else declared.input
    if IDS not in inputs or set(inputs) - {IDS, name}:
        raise ValueError(f"{where} has the inputs {', '.join(inputs)}; wanted {IDS} and, for addresses, {name}")
    if name not in inputs:
        return None
    schemes = [scheme for scheme in (told and told.addressing, declared and declared.scheme) if scheme]
    if not schemes:
        raise ValueError(f"{where} takes {name}, but neither it nor a {_METADATA} says of which addressing")
    if schemes[0] != schemes[-1]:
        raise ValueError(f"{where} has the addressing {schemes[0].digest}, but {_METADATA} has {schemes[-1].digest}")
    return name, schemes[0]


def shapes(ports: Any) -> dict[str, tuple[str, list[Any]]]:  # noqa: ANN401
    """Type and shape of a session's inputs or outputs, by name."""
    return {port.name: (port.type, list(port.shape)) for port in ports}
