"""Addresses of a corpus that is bigger than memory: in pieces, to a file, resumable."""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._core import BYTE_OFFSET, Addressing, Stream
from ._extras import MissingExtraError, require
from ._files import check_target, replacing

__all__ = ["address_file"]

FORMAT = "engram-partial-v1"
# Where the data of an .npy file with two dimensions begins.
_HEADER = 128


def address_file(
    source: str | os.PathLike[str] | Iterable[NDArray[Any]],
    out: str | os.PathLike[str],
    addressing: Addressing | None = None,
    *,
    dtype: DTypeLike = np.int64,
    chunk: int = 1 << 20,
    threads: int | None = None,
    progress: bool | None = None,
) -> NDArray[Any]:
    """Writes the rows of a whole corpus, one sequence, as an `.npy` file `[T, K]`.

    The corpus is read in pieces, and its history goes through a stream, so the file is what one call would
    give. Work goes to `out` + `.partial`, with its state in `out` + `.partial.json`: after an interruption,
    the same call goes on where it was. `out` itself appears when it is whole.

    Args:
        source: A path or an iterable of integer arrays `[n]`. An `.npy` path holds ids `[T]`; any other
            file is text, whose byte b is the id b + 3. An iterable must give the same ids again after an
            interruption.
        out: The `.npy` file to write; an older one stays until the new one is whole.
        addressing: The scheme; `Addressing.byte_fnv1a()` by default.
        dtype: Of the rows: int64, or int32 where all of them fit.
        chunk: Positions a piece.
        threads: As in a call of the addressing.
        progress: Whether to show a bar on standard error (the extra `cli`); `None` where that is a terminal.

    Returns:
        The rows, mapped from the file for reading.

    Raises:
        FileNotFoundError: The source or the target's folder does not exist.
        TypeError: The ids are not integers.
        ValueError: Ids are not `[n]` or out of the scheme's range, or the partial file belongs to another
            scheme, dtype or source.
    """
    if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"chunk must be a positive integer, not {chunk!r}")
    addressing = Addressing.byte_fnv1a() if addressing is None else addressing
    kind = np.dtype(dtype)
    # An empty call finds a wrong dtype before any file is touched.
    addressing(np.empty(0, dtype=np.int64), dtype=kind)
    target = check_target(out, source)
    pieces, total, identity = _open(source, chunk)
    job = _Job(addressing, kind, target, identity)
    done = job.resume()
    with _bar(progress, total, done) as advance, job.data.open("r+b") as file:
        for ids in pieces(done):
            job.write(file, ids, threads)
            advance(len(ids))
        return job.finish(file)


class _Job:
    """The partial file and its state."""

    def __init__(self, addressing: Addressing, dtype: np.dtype[Any], target: Path, identity: dict[str, Any]) -> None:
        self.target = target
        self.data = target.with_name(target.name + ".partial")
        self.record = target.with_name(target.name + ".partial.json")
        self.dtype = dtype
        self.stream: Stream = addressing.stream()
        self.positions = 0
        self.width = addressing.num_columns
        self.identity = {"format": FORMAT, "digest": addressing.digest, "dtype": dtype.str, "source": identity}

    def resume(self) -> int:
        """How many positions are done already."""
        if self.record.exists():
            record = json.loads(self.record.read_text())
            for key, wanted in self.identity.items():
                if record.get(key) != wanted:
                    raise ValueError(
                        f"{self.record} was begun with {key} = {record.get(key)!r}, this call has {wanted!r}; "
                        "remove both partial files to begin anew"
                    )
            self.positions = int(record["positions"])
            self.stream.state = bytes.fromhex(record["state"])
            # Only what the state speaks of counts; a piece may have been half written after it.
            os.truncate(self.data, self._end())
        else:
            self.data.write_bytes(b"\0" * _HEADER)
        return self.positions

    def write(self, file: IO[bytes], ids: NDArray[Any], threads: int | None) -> None:
        """Adds one piece, then says so in the record."""
        rows = self.stream.push(ids, threads=threads, dtype=self.dtype)
        file.seek(self._end())
        file.write(rows.data)
        file.flush()
        os.fsync(file.fileno())
        self.positions += len(ids)
        with replacing(self.record) as temporary:
            state = {"positions": self.positions, "state": self.stream.state.hex()}
            temporary.write_text(json.dumps({**self.identity, **state}))

    def finish(self, file: IO[bytes]) -> NDArray[Any]:
        """Puts the header in front and gives the file its name."""
        file.seek(0)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.positions, self.width)}
        np.lib.format.write_array_header_1_0(file, header)
        if file.tell() != _HEADER:
            raise RuntimeError(f"numpy wrote a header of {file.tell()} bytes, not {_HEADER}")
        file.flush()
        os.fsync(file.fileno())
        self.data.replace(self.target)
        self.record.unlink(missing_ok=True)
        # A file without rows cannot be mapped.
        rows: NDArray[Any] = np.load(self.target, mmap_mode="r" if self.positions else None)
        return rows

    def _end(self) -> int:
        return _HEADER + self.positions * self.width * self.dtype.itemsize


def _open(
    source: str | os.PathLike[str] | Iterable[NDArray[Any]], chunk: int
) -> tuple[Callable[[int], Iterator[NDArray[Any]]], int | None, dict[str, Any]]:
    """Pieces from some position on, how many positions there are, and what tells the source from others."""
    if not isinstance(source, (str, os.PathLike)):
        given = iter(source)
        return lambda done: _skip(given, done, chunk), None, {"kind": "iterable"}
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    stat = path.stat()
    identity = {"path": str(path.resolve()), "size": stat.st_size, "modified": stat.st_mtime_ns}
    if path.suffix == ".npy":
        # A file of one value or none cannot always be mapped.
        ids: NDArray[Any] = np.load(path, mmap_mode="r" if stat.st_size > _HEADER else None)
        if ids.ndim != 1:
            raise ValueError(f"{path} must hold ids [T], not of shape {list(ids.shape)}")
        return lambda done: (ids[at : at + chunk] for at in range(done, len(ids), chunk)), len(ids), identity
    return lambda done: _bytes(path, done, chunk), stat.st_size, identity


def _bytes(path: Path, done: int, chunk: int) -> Iterator[NDArray[np.int16]]:
    with path.open("rb") as file:
        file.seek(done)
        while data := file.read(chunk):
            yield np.frombuffer(data, dtype=np.uint8).astype(np.int16) + BYTE_OFFSET


def _skip(pieces: Iterator[NDArray[Any]], done: int, chunk: int) -> Iterator[NDArray[Any]]:
    """The pieces after `done` positions, none longer than `chunk`."""
    for piece in pieces:
        ids = np.asarray(piece)
        if ids.ndim != 1:
            raise ValueError(f"each array must hold ids [n], not of shape {list(ids.shape)}")
        skipped = min(done, len(ids))
        done -= skipped
        for at in range(skipped, len(ids), chunk):
            yield ids[at : at + chunk]
    if done:
        raise ValueError(f"the source ends {done} positions before those that are done already")


@contextlib.contextmanager
def _bar(wanted: bool | None, total: int | None, done: int) -> Iterator[Callable[[int], None]]:
    """A progress bar, or nothing in its place."""
    try:
        rich = require("rich.progress", "a progress bar")
        console = require("rich.console", "a progress bar").Console(stderr=True)
    except MissingExtraError:
        if wanted:
            raise
        wanted = False
    if wanted is None:
        wanted = console.is_terminal
    if not wanted:
        yield lambda _: None
        return
    columns = (*rich.Progress.get_default_columns(), rich.TextColumn("{task.completed:,.0f} positions"))
    with rich.Progress(*columns, console=console) as bar:
        task = bar.add_task("addresses", total=total, completed=done)
        yield lambda count: bar.advance(task, count)
