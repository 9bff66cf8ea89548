"""Writing: equal members and metadata give equal bytes."""

import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from .. import _yaml as document
from .._core import Addressing
from .._files import check_target, replacing
from .digests import Digested, graph_of
from .graphs import check_graphs
from .limits import CHUNK, MAX_METADATA, METADATA, check_names, check_sizes, is_crowded, is_graph
from .metadata import Metadata, check_members, from_text, from_values, to_text

__all__ = ["pack"]

# Whoever reads the zip from its start meets the small members before the big ones.
_FIRST = (METADATA, "README.md", "encoder.onnx", "decoder.onnx", "decoder-kv.onnx")


def pack(
    source: str | os.PathLike[str] | Mapping[str, str | os.PathLike[str] | bytes],
    target: str | os.PathLike[str],
    metadata: str | os.PathLike[str] | Mapping[str, Any],
) -> Metadata:
    """Checks members and metadata, computes the digests, and writes the zip; little memory is used.

    The digests, `sha256` and `engram.addressing_digest`, and `engram.entries` need not be given. If they are, as
    in metadata of an extracted zip, they must be right. Equal input gives equal bytes with one version of zlib.

    Args:
        source: A folder whose files are the members, or a mapping of member names to paths or bytes.
        target: The zip; an older one stays until the new one is whole.
        metadata: The fields, or a YAML file that has them. It may lie in the folder.

    Returns:
        The metadata as they were written.

    Raises:
        FileNotFoundError: A file, or the target's folder, does not exist.
        TypeError: An argument has a wrong type.
        ValueError: What would be packed is not what a reader takes; the error says what is wanted. Nothing is
            written then.
    """
    members = _collect(source, metadata)
    given = _given(metadata)
    for member in members.values():
        check_target(target, member.content)
    check_target(target, metadata)
    if isinstance(source, (str, os.PathLike)) and Path(target).resolve().parent == Path(source).resolve():
        raise ValueError(f"{target} would lie among the members; write it to another folder")
    try:
        declared = from_values(_completed(given))
    except ValueError as error:
        raise ValueError(f"{'metadata' if isinstance(metadata, Mapping) else metadata}: {error}") from error
    _check_layout(members, declared)
    digests = _check_contents(members, declared)
    if wrong := sorted(name for name, digest in declared.sha256.items() if digest != digests[name]):
        raise ValueError(f"the metadata's sha256 of {', '.join(wrong)} is not that of the file; leave sha256 out")
    final = declared.model_copy(update={"sha256": digests})
    members = {METADATA: _Member(to_text(final)), **members}
    check_sizes({name: member.size for name, member in members.items()})
    with replacing(target) as temporary:
        # Readers refuse what shrinks as no weights do. A table full of zeros is rare but right: it is stored.
        if crowded := _write(temporary, members, digests, stored=set()):
            _write(temporary, members, digests, stored=crowded)
    return final


@dataclass(frozen=True)
class _Member:
    content: bytes | Path

    @property
    def size(self) -> int:
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    def chunks(self) -> Iterator[bytes]:
        with BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk


def _collect(source: object, metadata: object) -> dict[str, _Member]:
    """The members but for the metadata, in the order of the zip."""
    if isinstance(source, Mapping):
        members = {name: _member(name, content) for name, content in source.items()}
    elif isinstance(source, (str, os.PathLike)):
        members = dict(_files(Path(source), metadata))
    else:
        raise TypeError(f"source must be a folder or a mapping of names to files, not {type(source).__name__}")
    if METADATA in members:
        raise ValueError(f"{METADATA} is among the members; give it as metadata")
    check_names([METADATA, *members])
    order = {name: place for place, name in enumerate(_FIRST)}
    return {name: members[name] for name in sorted(members, key=lambda name: (order.get(name, len(order)), name))}


def _member(name: object, content: object) -> _Member:
    if not isinstance(name, str):
        raise TypeError(f"a member's name must be text, not {name!r}")
    if isinstance(content, bytes):
        return _Member(content)
    if not isinstance(content, (str, os.PathLike)):
        raise TypeError(f"the member {name} must be a path or bytes, not {type(content).__name__}")
    path = Path(content)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path} for the member {name}")
    return _Member(path)


def _files(folder: Path, metadata: object) -> Iterator[tuple[str, _Member]]:
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    for path in folder.iterdir():
        if not path.is_file():
            raise ValueError(f"{path} is no file; a model zip has no folders")
        if not (isinstance(metadata, (str, os.PathLike)) and Path(metadata).exists() and path.samefile(metadata)):
            yield path.name, _Member(path)


def _given(metadata: object) -> dict[str, Any]:
    """The fields as they were given."""
    if isinstance(metadata, Mapping):
        return dict(metadata)
    if not isinstance(metadata, (str, os.PathLike)):
        raise TypeError(f"metadata must be a mapping or a YAML file, not {type(metadata).__name__}")
    path = Path(metadata)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    check_sizes({METADATA: path.stat().st_size})
    try:
        fields = document.parse(path.read_bytes()[: MAX_METADATA + 1].decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"{path} holds no mapping of fields")
    return fields


def _completed(given: dict[str, Any]) -> dict[str, Any]:
    """The fields with what can be derived from an addressing, in its canonical form."""
    block = given.get("engram")
    if not isinstance(block, Mapping) or not isinstance(block.get("addressing"), str):
        return given
    try:
        scheme = Addressing.from_json(block["addressing"])
    except ValueError as error:
        raise ValueError(f"engram.addressing: {error}") from error
    derived = {"addressing_digest": scheme.digest, "entries": scheme.entries}
    return {**given, "engram": {**derived, **block, "addressing": scheme.to_json()}}


def _check_layout(members: dict[str, _Member], declared: Metadata) -> None:
    """What can be checked before the members are read."""
    graphs = {name: "" for name in members if is_graph(name)}
    check_members({METADATA, *members}, declared.model_copy(update={"sha256": {**graphs, **declared.sha256}}))
    text = to_text(declared)
    # What a reader would refuse, such as very long numbers, must not be written.
    from_text(text)
    check_sizes({METADATA: len(text), **{name: member.size for name, member in members.items()}})


def _check_contents(members: dict[str, _Member], declared: Metadata) -> dict[str, str]:
    """The digests that the metadata need, of members whose graphs are right."""
    digests, graphs = {}, {}
    for name, member in members.items():
        chunks = Digested(member.chunks())
        graph = graph_of(name, chunks, member.size)
        if graph is not None:
            graphs[name] = graph
        if graph is not None or name in declared.sha256:
            digests[name] = chunks.hexdigest
    check_graphs(graphs, declared)
    return digests


def _write(path: Path, members: dict[str, _Member], digests: dict[str, str], stored: set[str]) -> set[str]:
    """Writes the zip; gives the names of members that shrank more than readers allow."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in members.items():
            # The time, system, rights and level are fixed, else equal members would give other bytes.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            entry.file_size = member.size
            chunks = Digested(member.chunks())
            with archive.open(entry, "w") as file:
                for chunk in chunks:
                    file.write(chunk)
            if name in digests and chunks.hexdigest != digests[name]:
                raise ValueError(f"{name} was changed while it was packed")
        return {entry.filename for entry in archive.infolist() if is_crowded(entry.file_size, entry.compress_size)}
