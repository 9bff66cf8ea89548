"""Reading: what a zip says of itself, whether it is whole and right, and its members."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .archive import Archive
from .digests import Digested, graph_of
from .folder import new_folder
from .graphs import Graph, check_graphs
from .layout import Member
from .limits import METADATA
from .metadata import Metadata, check_members, from_text
from .release import check_release

__all__ = ["Info", "ModelZip", "Report", "info", "load", "validate"]


@dataclass(frozen=True)
class Info:
    """What a zip says of itself.

    Attributes:
        path: The file.
        metadata: Its `metadata.yaml`.
        members: Its files by name, in their order.
    """

    path: Path
    metadata: Metadata
    members: dict[str, Member]


@dataclass(frozen=True)
class Report(Info):
    """What was found right.

    Attributes:
        graphs: The `.onnx` members by name.
        strict: Whether it is ready for a release too.
    """

    graphs: dict[str, Graph]
    strict: bool


@dataclass(frozen=True)
class ModelZip(Info):
    """A zip that was checked, and access to its members. Nothing stays open.

    Attributes:
        graphs: The `.onnx` members by name.
    """

    graphs: dict[str, Graph]

    def read(self, name: str) -> bytes:
        """The bytes of a member; CRC and digest are checked again.

        Raises:
            KeyError: There is no such member.
            ValueError: The file has changed since it was checked.
        """
        if name not in self.members:
            raise KeyError(f"{self.path} has no member {name!r}; it has {', '.join(self.members)}")
        return b"".join(self._chunks(name))

    def extract(self, directory: str | os.PathLike[str]) -> Path:
        """Writes all members into a folder, which appears when it is complete.

        Args:
            directory: A folder that is new or empty; its parent must exist.

        Returns:
            The folder.

        Raises:
            FileNotFoundError: The folder's parent does not exist.
            FileExistsError: The folder is not empty, or is a file.
            ValueError: The zip has changed since it was checked.
        """
        with new_folder(directory) as folder:
            for name in self.members:
                with (folder / name).open("xb") as file:
                    for chunk in self._chunks(name):
                        file.write(chunk)
                    file.flush()
                    os.fsync(file.fileno())
        return Path(directory)

    def _chunks(self, name: str) -> Iterator[bytes]:
        try:
            yield from _checked(Archive(self.path, self.members), name, self.metadata)
        except ValueError as error:
            raise ValueError(f"{self.path}: {name}: {error}") from error


def info(path: str | os.PathLike[str]) -> Info:
    """Reads layout and metadata and checks these two; the graphs stay unread, however big they are.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The zip or its metadata is damaged, or has what is refused.
    """
    archive = Archive.open(Path(path))
    try:
        if METADATA not in archive.members:
            raise ValueError(f"this member is missing: {METADATA}")
        try:
            metadata = from_text(b"".join(archive.chunks(METADATA)))
        except ValueError as error:
            raise ValueError(f"{METADATA}: {error}") from error
        check_members(set(archive.members), metadata)
    except ValueError as error:
        raise ValueError(f"{archive.path}: {error}") from error
    return Info(archive.path, metadata, archive.members)


def load(path: str | os.PathLike[str]) -> ModelZip:
    """Checks a zip as every runtime must before it uses one, and gives access to its members.

    Checked are the layout, every member's size, CRC and digest, the metadata, and of every graph the opset, the
    operators, inputs and outputs. One pass is made over the file, in little memory.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Something is wrong; the error says what is there and what is wanted.
    """
    told = info(path)
    archive = Archive(told.path, told.members)
    graphs = {}
    try:
        for name, member in told.members.items():
            graph = graph_of(name, _checked(archive, name, told.metadata), member.size)
            if graph is not None:
                graphs[name] = graph
        check_graphs(graphs, told.metadata)
    except ValueError as error:
        raise ValueError(f"{told.path}: {error}") from error
    return ModelZip(told.path, told.metadata, told.members, graphs)


def validate(path: str | os.PathLike[str], strict: bool = False) -> Report:
    """Checks a zip as `load` does, and with `strict` whether it is ready for a release.

    Strict asks for a licence, metrics whose sources have an anchor, and parity on at least 500 samples within
    0.2, 1.0, 2.0 or 3.0 percentage points for fp32, fp16, int8 or int4.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Something is wrong; the error says what is there and what is wanted.
    """
    model = load(path)
    if strict:
        try:
            check_release(model.metadata)
        except ValueError as error:
            raise ValueError(f"{model.path}: {error}") from error
    return Report(model.path, model.metadata, model.members, model.graphs, strict)


def _checked(archive: Archive, name: str, metadata: Metadata) -> Iterator[bytes]:
    """A member's bytes; behind the last stands the check of its digest, where there is one."""
    chunks = Digested(archive.chunks(name))
    yield from chunks
    wanted = metadata.sha256.get(name, chunks.hexdigest)
    if chunks.hexdigest != wanted:
        raise ValueError(f"it is damaged: its sha256 is {chunks.hexdigest}; {wanted} is declared")
