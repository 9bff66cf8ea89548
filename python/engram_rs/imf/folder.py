"""Folders that are there complete or not at all."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["new_folder"]


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary folder beside the target; renames it to `path` when the block succeeds.

    Raises:
        FileNotFoundError: The target's parent does not exist.
        FileExistsError: The target is a folder that is not empty, or no folder.
    """
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot make {path}: there is no folder {target.parent}")
    there = target.exists()
    if there and not target.is_dir():
        raise FileExistsError(f"cannot make {path}: it is a file; wanted a new or empty folder")
    if there and any(target.iterdir()):
        raise FileExistsError(f"cannot make {path}: it is not empty; wanted a new or empty folder")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        if there:
            temporary.chmod(target.stat().st_mode)
            # Not every system renames onto an empty folder. One that has been filled meanwhile stays, with an error.
            target.rmdir()
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
