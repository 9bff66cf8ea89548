"""Files that are there whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary name in the target's folder; renames it to `path` when the block succeeds.

    If the block fails, the temporary file is removed and an older file at `path` stays as it was.

    Raises:
        FileNotFoundError: The target's folder does not exist.
        IsADirectoryError: The target is a folder.
    """
    target = check_target(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        # An older file's permissions stay; a new one tells what the process gives. Some writers make theirs private.
        temporary.touch(exist_ok=False)
        mode = (target if target.exists() else temporary).stat().st_mode
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def check_target(path: str | os.PathLike[str], source: object = None) -> Path:
    """The path, if a file can stand there that is not `source`; for a check before work begins."""
    target = Path(path)
    if isinstance(source, (str, os.PathLike)) and target.exists() and target.samefile(source):
        raise ValueError(f"cannot write {target}: it is the file that is read")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no folder {target.parent}")
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder")
    if target.exists() and not target.is_file():
        raise ValueError(f"cannot write {target}: it is a device or a pipe, which a rename would replace")
    # A link stays a link: what it points to is written.
    return target.resolve() if target.is_symlink() else target
