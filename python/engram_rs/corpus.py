"""Addresses of a corpus that is bigger than memory: in pieces, to a file, resumable."""

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._core import BYTE_OFFSET, Addressing, Stream
from ._extras import MissingExtraError, require
from ._files import check_target, replacing

try:
    import fcntl
except ImportError:  # not on Windows, where two calls on one file are not noticed
    fcntl = None  # type: ignore[assignment]

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
    # An empty call finds a wrong dtype or thread count before any file is touched.
    addressing(np.empty(0, dtype=np.int64), dtype=kind, threads=threads)
    target = check_target(out, source)
    check_target(_partial(target), source)
    pieces, total, identity = _open(source, chunk)
    with _Job(addressing, kind, target, identity) as job:
        done = job.resume()
        with _bar(progress, total, done) as advance:
            for ids in pieces(job.seen):
                job.write(ids, threads)
                advance(len(ids))
        return job.finish()


def _partial(target: Path) -> Path:
    return target.with_name(target.name + ".partial")


class _Seen:
    """How many ids of an iterable are done, and their digest: a second run must bring the same ones."""

    def __init__(self) -> None:
        self.positions = 0
        self.wanted: str | None = None
        self._digest = hashlib.sha256()

    def add(self, ids: NDArray[Any]) -> None:
        """Counts some more."""
        self._digest.update(np.ascontiguousarray(ids, dtype=np.int64).data)

    @property
    def hexdigest(self) -> str:
        """Of all that were counted."""
        return self._digest.hexdigest()


class _Job(contextlib.AbstractContextManager["_Job"]):
    """The partial file, which this call alone writes, and its record."""

    def __init__(self, addressing: Addressing, dtype: np.dtype[Any], target: Path, identity: dict[str, Any]) -> None:
        self.target = target
        self.data = _partial(target)
        self.record = self.data.with_name(self.data.name + ".json")
        self.dtype = dtype
        self.stream: Stream = addressing.stream()
        self.seen = _Seen()
        self.width = addressing.num_columns
        self.identity = {"format": FORMAT, "digest": addressing.digest, "dtype": dtype.str, "source": identity}
        self.fresh = not self.data.exists()
        # Opened so that it is made where it is not there, and kept where it is.
        self.file = os.fdopen(os.open(self.data, os.O_RDWR | os.O_CREAT, 0o666), "rb+")
        try:
            self._lock()
        except BaseException:
            self.file.close()
            raise

    def _lock(self) -> None:
        if fcntl is None:
            return
        busy = f"another call is writing {self.data}"
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(busy) from error
        # It may have been finished and renamed between the opening and the lock.
        if not self.data.exists() or not os.path.samestat(os.fstat(self.file.fileno()), self.data.stat()):
            raise ValueError(busy)

    def __exit__(self, *_: object) -> None:
        self.file.close()
        # A call that failed before its first piece leaves nothing behind.
        if self.fresh and self.seen.positions == 0 and not self.record.exists():
            self.data.unlink(missing_ok=True)

    def resume(self) -> int:
        """How many positions are done already."""
        advice = f"remove {self.data} and {self.record} to begin anew"
        size = os.fstat(self.file.fileno()).st_size
        if not self.record.exists():
            self.file.seek(0)
            if self.file.read(_HEADER).strip(b"\0"):
                raise ValueError(f"{self.data} is there and was not begun by address_file: move it away")
            self._restart()
            return 0
        try:
            record = json.loads(self.record.read_text())
            positions, state = int(record["positions"]), bytes.fromhex(record["state"])
            self.seen.wanted = record["ids"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.record} is damaged: {error!r}; {advice}") from error
        for key, wanted in self.identity.items():
            if record.get(key) != wanted:
                raise ValueError(
                    f"{self.record} was begun with {key} = {record.get(key)!r}, this call has {wanted!r}; {advice}"
                )
        if positions < 1 or size < self._end(positions):
            raise ValueError(f"{self.record} speaks of {positions} positions that {self.data} does not hold; {advice}")
        self.stream.state = state
        self.seen.positions = positions
        # Only what the record speaks of counts; a piece may have been half written after it.
        self.file.truncate(self._end(positions))
        return positions

    def _restart(self) -> None:
        self.file.truncate(0)
        self.file.seek(0)
        self.file.write(b"\0" * _HEADER)

    def write(self, ids: NDArray[Any], threads: int | None) -> None:
        """Adds one piece, then says so in the record."""
        rows = self.stream.push(ids, threads=threads, dtype=self.dtype)
        self.file.seek(self._end(self.seen.positions))
        self.file.write(rows.data)
        self.file.flush()
        os.fsync(self.file.fileno())
        self.seen.positions += len(ids)
        with replacing(self.record) as temporary:
            state = {"positions": self.seen.positions, "state": self.stream.state.hex(), "ids": self.seen.hexdigest}
            temporary.write_text(json.dumps({**self.identity, **state}))

    def finish(self) -> NDArray[Any]:
        """Puts the header in front and gives the file its name."""
        positions = self.seen.positions
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (positions, self.width)}
        front = io.BytesIO()
        np.lib.format.write_array_header_1_0(front, header)
        if front.tell() != _HEADER:
            raise RuntimeError(f"numpy wrote a header of {front.tell()} bytes, not {_HEADER}")
        # Without its record the file is begun anew after an interruption here, and never half believed.
        self.record.unlink(missing_ok=True)
        self.file.seek(0)
        self.file.write(front.getvalue())
        self.file.flush()
        os.fsync(self.file.fileno())
        if fcntl is None:
            self.file.close()  # Windows renames no open file
        self.data.replace(self.target)
        # A file without rows cannot be mapped.
        rows: NDArray[Any] = np.load(self.target, mmap_mode="r" if positions else None)
        return rows

    def _end(self, positions: int) -> int:
        return _HEADER + positions * self.width * self.dtype.itemsize


def _open(
    source: str | os.PathLike[str] | Iterable[NDArray[Any]], chunk: int
) -> tuple[Callable[[_Seen], Iterator[NDArray[Any]]], int | None, dict[str, Any]]:
    """Pieces after those that were seen, how many positions there are, and what tells the source from others."""
    if not isinstance(source, (str, os.PathLike)):
        given = iter(source)
        return lambda seen: _skip(given, seen, chunk), None, {"kind": "iterable"}
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    stat = path.stat()
    identity = {"path": str(path.resolve()), "size": stat.st_size, "modified": stat.st_mtime_ns}
    if path.suffix.lower() == ".npy":
        try:
            # A file of one value or none cannot always be mapped.
            ids: NDArray[Any] = np.load(path, mmap_mode="r" if stat.st_size > _HEADER else None)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path} is not an .npy file of ids: {error}") from error
        if ids.ndim != 1:
            raise ValueError(f"{path} must hold ids [T], not of shape {list(ids.shape)}")
        return lambda seen: (ids[at : at + chunk] for at in range(seen.positions, len(ids), chunk)), len(ids), identity
    return lambda seen: _bytes(path, seen.positions, chunk), stat.st_size, identity


def _bytes(path: Path, done: int, chunk: int) -> Iterator[NDArray[np.int16]]:
    with path.open("rb") as file:
        file.seek(done)
        while data := file.read(chunk):
            yield np.frombuffer(data, dtype=np.uint8).astype(np.int16) + BYTE_OFFSET


def _skip(pieces: Iterator[NDArray[Any]], seen: _Seen, chunk: int) -> Iterator[NDArray[Any]]:
    """The pieces after those that were seen, none longer than `chunk`; the seen ones must be the same again."""
    left = seen.positions
    for piece in pieces:
        ids = np.asarray(piece)
        if ids.ndim != 1:
            raise ValueError(f"each array must hold ids [n], not of shape {list(ids.shape)}")
        skipped = min(left, len(ids))
        if skipped:
            seen.add(ids[:skipped])
            left -= skipped
            if left == 0 and seen.hexdigest != seen.wanted:
                raise ValueError("the source gives other ids than those that are done already: begin anew")
        for at in range(skipped, len(ids), chunk):
            part = ids[at : at + chunk]
            if part.dtype.kind in "iu":
                seen.add(part)
            yield part
    if left:
        raise ValueError(f"the source ends {left} positions before those that are done already")


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
