"""A graph without its weights, read from a stream.

Parsing a whole model holds it in memory two or three times over. The checks need names, types and nodes, which
are some hundred kilobytes of a file of gigabytes. So the wire format is walked, guided by ONNX's own schema; what
tensors hold is skipped, and the rest goes to ONNX's own parser, which merges and defaults as
every runtime does.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

import onnx

from .._wire import BYTES, FIXED32, FIXED64, VARINT, varint

__all__ = ["read_skeleton"]

# The payload of a tensor, as far as it stands in the model's own file.
_PAYLOAD = {"raw_data", "float_data", "int32_data", "int64_data", "string_data", "double_data", "uint64_data"}
_MAX_KEPT = 2**24
# A file may be made of small fields alone; each costs time though little memory.
_MAX_FIELDS = 1_000_000
# The depth that protobuf's own parsers allow.
_MAX_DEPTH = 100
# The number of the type `string` in a descriptor.
_STRING = 9


def read_skeleton(chunks: Iterator[bytes], size: int) -> onnx.ModelProto:
    """The model whose `size` bytes `chunks` give, without the payload of its tensors.

    Raises:
        ValueError: The bytes are no ONNX model, or more than a model needs beside its weights.
    """
    try:
        kept = _Walk(chunks).message(size, onnx.ModelProto.DESCRIPTOR, 0)
    except EOFError:
        raise ValueError("it is no ONNX model: a field is longer than what is left") from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(bytes(kept))
    except Exception as error:  # protobuf's own class of error depends on its implementation
        raise ValueError(f"it is no ONNX model: {error}") from error
    return model


class _Field(Protocol):
    name: str
    number: int
    type: int
    message_type: "_Descriptor | None"


class _Descriptor(Protocol):
    full_name: str
    fields: Iterable[_Field]


class _Walk:
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk = b""
        self._start = 0  # of the chunk, within the stream
        self._next = 0  # within the chunk
        self._fields = 0
        self._kept = 0
        # By message: the fields by their numbers, without payloads.
        self._schemas: dict[str, dict[int, _Field]] = {}

    def message(self, end: int, descriptor: _Descriptor, depth: int) -> bytearray:
        """The fields up to the position `end`, less payloads and unknown ones."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is no ONNX model: messages are nested more than {_MAX_DEPTH} deep")
        schema = self._schema(descriptor)
        kept = bytearray()
        while self._at < end:
            self._fields += 1
            if self._fields > _MAX_FIELDS:
                raise ValueError(f"more than {_MAX_FIELDS:,} fields")
            key = self._varint(end)
            number, wire = key >> 3, key & 7
            known = schema.get(number)
            if wire == BYTES:
                length = self._varint(end)
                if self._at + length > end:
                    raise EOFError
                if known is None:
                    self._skip(length)
                    continue
                body = self._body(length, known, depth)
                value = varint(len(body)) + body
            elif wire == VARINT:
                value = varint(self._varint(end))
            elif wire in (FIXED64, FIXED32):
                value = self._read(8 if wire == FIXED64 else 4, end)
            else:
                raise ValueError(f"it is no ONNX model: a field has the wire type {wire}")
            if known is not None:
                kept += varint(key) + value
        return kept

    def _body(self, length: int, field: _Field, depth: int) -> bytes | bytearray:
        end = self._at + length
        if field.message_type is not None:
            return self.message(end, field.message_type, depth + 1)
        body = self._read(length, end)
        if field.type == _STRING:
            try:
                body.decode()
            except UnicodeDecodeError as error:
                # ONNX's parser would give bytes for such a name.
                raise ValueError(f"it is no ONNX model: its {field.name} {error.object!r:.40} is not UTF-8") from None
        return body

    def _schema(self, descriptor: _Descriptor) -> dict[int, _Field]:
        if descriptor.full_name not in self._schemas:
            payload = _PAYLOAD if descriptor.full_name == onnx.TensorProto.DESCRIPTOR.full_name else set()
            self._schemas[descriptor.full_name] = {
                field.number: field for field in descriptor.fields if field.name not in payload
            }
        return self._schemas[descriptor.full_name]

    @property
    def _at(self) -> int:
        return self._start + self._next

    def _fill(self) -> None:
        """Goes on to the chunk that has the next byte."""
        while self._next >= len(self._chunk):
            self._start += len(self._chunk)
            self._next -= len(self._chunk)
            chunk = next(self._chunks, None)
            if chunk is None:
                raise EOFError
            self._chunk = chunk

    def _skip(self, length: int) -> None:
        # Chunks between are passed when the next byte is wanted.
        self._next += length

    def _read(self, length: int, end: int) -> bytes:
        if self._at + length > end:
            raise EOFError
        self._kept += length
        if self._kept > _MAX_KEPT:
            raise ValueError(f"more than {_MAX_KEPT:,} bytes beside the weights")
        parts = []
        while length:
            self._fill()
            part = self._chunk[self._next : self._next + length]
            self._next += len(part)
            length -= len(part)
            parts.append(part)
        return b"".join(parts)

    def _varint(self, end: int) -> int:
        value = shift = 0
        while self._at < end and shift < 70:
            if self._next >= len(self._chunk):
                self._fill()
            byte = self._chunk[self._next]
            self._next += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF
            shift += 7
        raise EOFError
