"""What a zip may hold at most, and how its members may be called. Writer and reader keep the same limits."""

import re
from collections.abc import Iterable

__all__ = [
    "CHUNK",
    "MAX_DIRECTORY",
    "MAX_MEMBERS",
    "MAX_METADATA",
    "METADATA",
    "check_names",
    "check_sizes",
    "is_crowded",
    "is_graph",
]

METADATA = "metadata.yaml"
# What is read, unpacked or hashed at a time.
CHUNK = 2**20
MAX_MEMBERS = 64
# Bytes of the zip's own directory: 64 entries with long names and a few extra fields need less.
MAX_DIRECTORY = 2**16
MAX_METADATA = 2**18
# Protobuf's limit for one message; no other member needs more than a graph.
_MAX_MEMBER = 2**31 - 1
_MAX_TOTAL = 2**33
# Trained weights shrink to a half at best. Below the free size a ratio says nothing.
_MAX_RATIO = 100
_FREE = 2**20

# One set of names for every file system: no folders, no spaces, nothing that two systems spell differently.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
# Windows opens a device for these, whatever the extension.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)


def is_graph(name: str) -> bool:
    """Whether a member is an ONNX graph, which must have a digest."""
    return name.lower().endswith(".onnx")


def check_names(names: Iterable[str]) -> None:
    """Refuses what could leave a folder, name a device, or stand for two files.

    Raises:
        ValueError: A name is not portable, or two are equal where case does not count.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not _NAME.fullmatch(name) or _DEVICE.fullmatch(name):
            raise ValueError(
                f"member name {name!r}; wanted a plain file name: at most 100 of the characters A-Z a-z 0-9 . _ -, "
                "a letter or digit first, no dot last, no device of Windows"
            )
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            raise ValueError(
                f"the member {name} is there twice" if other == name else f"members {other} and {name} differ in case"
            )
    if len(seen) > MAX_MEMBERS:
        raise ValueError(f"{len(seen)} members; at most {MAX_MEMBERS} are allowed")


def check_sizes(sizes: dict[str, int]) -> None:
    """Refuses members that are too big, each or together.

    Raises:
        ValueError: A size exceeds its limit.
    """
    for name, size in sizes.items():
        limit = MAX_METADATA if name == METADATA else _MAX_MEMBER
        if size > limit:
            raise ValueError(f"{name} takes {size:,} bytes; at most {limit:,} are allowed")
    if (total := sum(sizes.values())) > _MAX_TOTAL:
        raise ValueError(f"the members take {total:,} bytes together; at most {_MAX_TOTAL:,} are allowed")


def is_crowded(size: int, packed: int) -> bool:
    """Whether `size` bytes in `packed` are more than weights give, as in a zip bomb."""
    return size > _FREE + _MAX_RATIO * packed
