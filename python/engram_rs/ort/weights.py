"""Big weights beside the graph, so that ONNX Runtime maps them into memory instead of copying them.

Of a file that holds everything, ONNX Runtime makes two copies of each weight while it loads: the parsed one and its
own. Weights in a file of their own it maps, and a table's pages are read when a row of them is. ONNX calls that
external data. The graph is walked in its wire format, of which three messages matter: the model, its graph, and that
graph's initializers. All else is passed on as it is.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from .._wire import BYTES, FIXED32, FIXED64, VARINT, length_delimited, varint

__all__ = ["detach_weights"]

# Smaller ones stay in the graph: they cost little, and shape inference wants to see some of them.
_LEAST = 2**20
# The kernels that read floats want them where a cache line begins; a page serves every system's mapping.
_ALIGNMENT = 4096
_CHUNK = 2**20
# Numbers of fields in ONNX's own schema.
_GRAPH, _INITIALIZER, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 7, 5, 9, 13, 14
_EXTERNAL = 1


def detach_weights(path: Path, folder: Path) -> Path:
    """Writes a graph without its big weights, and these beside it.

    Args:
        path: An ONNX file.
        folder: Where the two files go.

    Returns:
        The file to load: one in `folder`, or `path` itself where nothing is big or weights lie outside already.

    Raises:
        ValueError: The file is no ONNX model.
    """
    weights = folder / f"{path.name}.weights"
    try:
        with path.open("rb") as source, weights.open("wb") as target:
            model = _Model(source, target, weights.name)
            kept = b"".join(model.read(os.fstat(source.fileno()).st_size))
    except EOFError:
        raise ValueError("it is no ONNX model, or was cut short") from None
    if not model.moved or model.outside:
        return path
    graph = folder / path.name
    graph.write_bytes(kept)
    return graph


@dataclass
class _Model:
    """Walks a model; `read` gives the pieces of the smaller one.

    Attributes:
        source: The model.
        target: Where weights go.
        name: What the smaller model calls the target.
        moved: How many weights went there.
        outside: Whether there were weights outside before.
    """

    source: BinaryIO
    target: BinaryIO
    name: str
    moved: int = 0
    outside: bool = field(default=False)

    def read(self, end: int) -> Iterator[bytes]:
        for number, head, body in self._fields(end):
            if number == _GRAPH and body is not None:
                graph = b"".join(self._graph(body))
                yield length_delimited(_GRAPH, graph)
            else:
                yield head + self._rest(body)

    def _graph(self, end: int) -> Iterator[bytes]:
        for number, head, body in self._fields(end):
            if number == _INITIALIZER and body is not None:
                yield length_delimited(_INITIALIZER, self._tensor(body))
            else:
                yield head + self._rest(body)

    def _tensor(self, end: int) -> bytes:
        kept = bytearray()
        for number, head, body in self._fields(end):
            if number == _DATA_LOCATION and body is None:
                # Some writers say that a weight is inside, and the last word on it would stand behind ours.
                if head[-1] != _EXTERNAL:
                    continue
                self.outside = True
            if number == _RAW_DATA and body is not None and body - self.source.tell() >= _LEAST:
                kept += self._move(body - self.source.tell())
            else:
                kept += head + self._rest(body)
        return bytes(kept)

    def _move(self, length: int) -> bytes:
        """Takes a payload of `length` bytes to the target; gives the fields that say where it is."""
        self.target.write(bytes(-self.target.tell() % _ALIGNMENT))
        place = {"location": self.name, "offset": str(self.target.tell()), "length": str(length)}
        left = length
        while left:
            left -= self.target.write(self._take(min(left, _CHUNK)))
        self.moved += 1
        entries = (
            length_delimited(1, key.encode()) + length_delimited(2, text.encode()) for key, text in place.items()
        )
        told = b"".join(length_delimited(_EXTERNAL_DATA, entry) for entry in entries)
        return told + varint(_DATA_LOCATION << 3 | VARINT) + varint(_EXTERNAL)

    def _fields(self, end: int) -> Iterator[tuple[int, bytes, int | None]]:
        """Number, bytes that stand before its body, and where the body ends (None without one), of each field."""
        while (at := self.source.tell()) < end:
            key = self._varint()
            wire = key & 7
            body = None
            if wire == BYTES:
                body = self._varint() + self.source.tell()
            elif wire == VARINT:
                self._varint()
            elif wire in (FIXED64, FIXED32):
                self._take(8 if wire == FIXED64 else 4)
            else:
                raise EOFError
            start = self.source.tell()
            if start > end or (body is not None and body > end):
                raise EOFError
            self.source.seek(at)
            yield key >> 3, self._take(start - at), body

    def _rest(self, body: int | None) -> bytes:
        return b"" if body is None else self._take(body - self.source.tell())

    def _take(self, length: int) -> bytes:
        data = self.source.read(length)
        if len(data) != length:
            raise EOFError
        return data

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise EOFError
