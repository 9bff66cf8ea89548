"""A zip whose layout was checked, and the bytes of its members as a stream.

The members are unpacked here and not by `zipfile`, which stops at the declared size: a stream that goes on behind
it would be another member to another reader.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from .layout import Member, read_layout
from .limits import CHUNK

__all__ = ["Archive"]


@dataclass(frozen=True)
class Archive:
    """A zip whose layout was checked.

    Attributes:
        path: The file.
        members: By name, in the order of their data.
    """

    path: Path
    members: dict[str, Member]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Reads and checks the layout; no member is unpacked.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It is no zip, is damaged, or has what is refused.
        """
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        try:
            with path.open("rb") as file:
                return cls(path, read_layout(file))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of a member, a piece at a time; whoever takes the last knows that size and CRC are right.

        Raises:
            ValueError: The data are not those that the zip declares.
        """
        member = self.members[name]
        with self.path.open("rb") as file:
            file.seek(member.start)
            packed = _pieces(file, member.packed)
            crc = size = 0
            try:
                for piece in _inflated(packed) if member.deflated else packed:
                    size += len(piece)
                    if size > member.size:
                        raise ValueError(f"it unpacks to more than the {member.size:,} bytes that are declared")
                    crc = zlib.crc32(piece, crc)
                    yield piece
                if size != member.size:
                    raise ValueError(f"it unpacks to {size:,} bytes; {member.size:,} are declared")
                if crc != member.crc:
                    raise ValueError(f"its CRC is {crc:08x}; {member.crc:08x} is declared")
            except (ValueError, zlib.error) as error:
                raise ValueError(f"it is damaged: {error}") from error


def _pieces(file: BinaryIO, length: int) -> Iterator[bytes]:
    while length:
        piece = file.read(min(length, CHUNK))
        if not piece:
            raise ValueError("the zip has become shorter")
        length -= len(piece)
        yield piece


def _inflated(packed: Iterator[bytes]) -> Iterator[bytes]:
    """Deflated data, unpacked a piece at a time however much one piece holds."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    for data in packed:
        full = True
        # A full piece may leave more within the stream, though all data were taken.
        while data or full:
            piece = stream.decompress(data, CHUNK)
            data, full = stream.unconsumed_tail, len(piece) == CHUNK
            if piece:
                yield piece
        if stream.unused_data:
            raise ValueError("its data go on behind their end")
    if not stream.eof:
        raise ValueError("its data are cut short")
