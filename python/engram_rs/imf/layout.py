"""Where the members of a zip lie: checked in full before a byte of them is used.

`zipfile` reads the directory, but it forgives much that another reader takes for something else: data before,
between and behind the members, headers that differ from the directory, second names. Each of these would let two
readers see two models in one file, so all of it is refused here.
"""

import struct
import zipfile
from dataclasses import dataclass
from stat import S_IFMT, S_ISDIR, S_ISLNK, S_ISREG
from typing import BinaryIO

from .limits import MAX_DIRECTORY, MAX_MEMBERS, check_names, check_sizes, is_crowded

__all__ = ["Member", "read_layout"]

_LOCAL = struct.Struct("<4s5H3L2H")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_SENTINEL = 0xFFFFFFFF
# Extra fields: sizes beyond 32 bits, and a second name.
_ZIP64, _UNICODE_PATH = 0x0001, 0x7075
_ENCRYPTED, _SIZES_BEHIND = 0x0001, 0x0008
# The hints of deflate's level, and names in UTF-8.
_ALLOWED_FLAGS = 0x0006 | 0x0800
_DOS_FOLDER = 0x10


@dataclass(frozen=True)
class Member:
    """A file in a zip.

    Attributes:
        name: Its name; there are no folders.
        size: Its bytes.
        packed: The bytes it takes in the zip.
        crc: CRC-32 of its bytes.
        deflated: Whether it is compressed.
        start: Where its data begin in the zip.
    """

    name: str
    size: int
    packed: int
    crc: int
    deflated: bool
    start: int


def read_layout(file: BinaryIO) -> dict[str, Member]:
    """The members by name, in the order of their data.

    Raises:
        ValueError: It is no zip, is damaged, or has what is refused.
    """
    count, directory = _check_end(file)
    try:
        with zipfile.ZipFile(file) as zip_file:
            infos = sorted(zip_file.infolist(), key=lambda info: info.header_offset)
    except UnicodeDecodeError as error:
        raise ValueError(f"a member's name is not UTF-8: {error}") from None
    except (zipfile.BadZipFile, NotImplementedError, struct.error) as error:
        raise ValueError(f"its directory is damaged: {error}") from None
    if len(infos) != count:
        raise ValueError(f"its directory has {len(infos)} members, but its end declares {count}")
    return _members(file, infos, directory)


def _check_end(file: BinaryIO) -> tuple[int, int]:
    """How many members the zip declares, and where its directory begins."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END64.size - _LOCATOR.size - _END.size))
    tail = file.read()
    if len(tail) < _END.size or not tail.startswith(b"PK\x05\x06", -_END.size) or tail[-2:] != b"\0\0":
        raise ValueError("it does not end as a zip does: it is no zip, is cut short, or has a comment or data behind")
    _, disk, first_disk, here, count, length, directory, _ = _END.unpack(tail[-_END.size :])
    ends = _END.size
    disks = {disk, first_disk}
    located = tail[-_END.size - _LOCATOR.size : -_END.size]
    # zipfile goes by the locator alone, whatever the end says.
    if located.startswith(b"PK\x06\x07"):
        ends = len(tail)
        if ends < _END64.size + _LOCATOR.size + _END.size or not tail.startswith(b"PK\x06\x06"):
            raise ValueError("its zip64 end is damaged")
        small = count, length, directory
        _, record, _, _, disk, first_disk, here, count, length, directory = _END64.unpack_from(tail)
        _, end_disk, at, total_disks = _LOCATOR.unpack(located)
        if (record, at, total_disks) != (_END64.size - 12, size - ends, 1) or any(
            narrow not in (wide, sentinel)
            for narrow, wide, sentinel in zip(
                small, (count, length, directory), (0xFFFF, _SENTINEL, _SENTINEL), strict=True
            )
        ):
            raise ValueError("its zip64 end is damaged")
        disks |= {disk, first_disk, end_disk}
    if disks != {0} or here != count:
        raise ValueError("it is one of several parts")
    # Before zipfile reads as much as is declared.
    if count > MAX_MEMBERS or length > MAX_DIRECTORY:
        raise ValueError(
            f"{count} members in a directory of {length:,} bytes; wanted at most {MAX_MEMBERS} in {MAX_DIRECTORY:,}"
        )
    if directory + length + ends != size:
        raise ValueError("its directory does not end where it should: data stand before or within the zip, or are lost")
    return count, directory


def _members(file: BinaryIO, infos: list[zipfile.ZipInfo], directory: int) -> dict[str, Member]:
    """The members, if they follow each other without a gap from the file's start to the directory."""
    # The name as it stands in the file: zipfile's own ends at a zero byte.
    check_names(info.orig_filename for info in infos)
    check_sizes({info.filename: info.file_size for info in infos})
    members = {}
    at = 0
    for info in infos:
        if info.header_offset != at:
            raise ValueError(
                f"{info.filename} begins at {info.header_offset}; wanted {at}: members overlap or leave gaps"
            )
        _check_kind(info)
        start = _check_local(file, info)
        at = start + info.compress_size
        deflated = info.compress_type == zipfile.ZIP_DEFLATED
        if not deflated and info.compress_size != info.file_size:
            raise ValueError(f"{info.filename} is stored, but declares {info.compress_size} and {info.file_size} bytes")
        if is_crowded(info.file_size, info.compress_size):
            raise ValueError(f"{info.filename} would unpack {info.compress_size:,} bytes to {info.file_size:,}")
        members[info.filename] = Member(info.filename, info.file_size, info.compress_size, info.CRC, deflated, start)
    if at != directory:
        raise ValueError("its members do not end where its directory begins")
    return members


def _check_kind(info: zipfile.ZipInfo) -> None:
    """Refuses all but plain files, stored or deflated."""
    mode = info.external_attr >> 16
    if S_ISLNK(mode):
        raise ValueError(f"{info.filename} is a symbolic link")
    if S_ISDIR(mode) or info.external_attr & _DOS_FOLDER:
        raise ValueError(f"{info.filename} is a folder")
    if S_IFMT(mode) and not S_ISREG(mode):
        raise ValueError(f"{info.filename} is a device or a pipe")
    if info.flag_bits & _ENCRYPTED:
        raise ValueError(f"{info.filename} is encrypted")
    if info.flag_bits & _SIZES_BEHIND:
        raise ValueError(f"{info.filename} has its sizes behind its data; a reader must know them before")
    if info.flag_bits & ~_ALLOWED_FLAGS:
        raise ValueError(f"{info.filename} has the flags {info.flag_bits:#06x}, which are unknown or refused")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(
            f"{info.filename} has compression method {info.compress_type}; wanted 0 (stored) or 8 (deflate)"
        )
    if _UNICODE_PATH in _extras(info.extra):
        raise ValueError(f"{info.filename} has a second name")


def _check_local(file: BinaryIO, info: zipfile.ZipInfo) -> int:
    """Where the data begin, if the header before them says what the directory says."""
    file.seek(info.header_offset)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or not header.startswith(b"PK\x03\x04"):
        raise ValueError(f"{info.filename} has no header before its data")
    _, _, flags, method, _, _, crc, packed, size, name_length, extra_length = _LOCAL.unpack(header)
    name = file.read(name_length)
    extras = _extras(file.read(extra_length))
    if _SENTINEL in (packed, size):
        wide = extras.get(_ZIP64, b"")
        if (packed, size) != (_SENTINEL, _SENTINEL) or len(wide) != 16:
            raise ValueError(f"{info.filename} has a damaged zip64 header")
        size, packed = struct.unpack("<2Q", wide)
    local = name, flags, method, crc, packed, size
    wanted = info.filename.encode(), info.flag_bits, info.compress_type, info.CRC, info.compress_size, info.file_size
    for what, one, other in zip(
        ("name", "flags", "method", "CRC", "compressed size", "size"), local, wanted, strict=True
    ):
        if one != other:
            raise ValueError(f"{info.filename} has {what} {one!r} in its header, but {other!r} in the directory")
    if _UNICODE_PATH in extras:
        raise ValueError(f"{info.filename} has a second name")
    return file.tell()


def _extras(data: bytes) -> dict[int, bytes]:
    """The extra fields of a header."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        if len(data) - at < 4:
            raise ValueError("a header's extra fields are damaged")
        kind, length = struct.unpack_from("<2H", data, at)
        at += 4 + length
        if at > len(data) or kind in found:
            raise ValueError("a header's extra fields are damaged")
        found[kind] = data[at - length : at]
    return found
