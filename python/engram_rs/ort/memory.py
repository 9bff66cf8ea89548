"""A memory graph, run from ids."""

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from ..memory_graph import INPUT, OUTPUT, GraphMetadata
from .feeding import Feeder, ahead
from .placement import Profile
from .sessions import check_threads, guarded, open_session, run_bound

__all__ = ["MemorySession"]


class MemorySession:
    """Runs an exported memory: addresses in Rust, gather, mean and projection in ONNX Runtime.

    Safe to call from several threads; each has its own address buffer, which grows to the largest input
    that it has seen.

    Args:
        path: A file that `engram_rs.onnx.export_memory` wrote.
        providers: ONNX Runtime providers in order of preference; `None` takes CUDA where there is a GPU,
            else the CPU. A provider that is named and cannot run is an error.
        threads: Threads of one call, for hashing and for ONNX Runtime; `None` for what the machine has.
        profile: Whether to note what runs, for `placement`.

    Attributes:
        metadata: What the graph says of itself: addressing, precision, d_model, dim.
        provider: The execution provider that runs it.
        profile: What was noted; None without `profile`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is not a memory graph, or a provider is unknown or has no device.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        providers: Sequence[str] | None = None,
        *,
        threads: SupportsIndex | None = None,
        profile: bool = False,
    ) -> None:
        self._path = Path(path)
        self._threads = check_threads(threads)
        self.profile = Profile() if profile else None
        self._session = open_session(self._path, providers, self._threads, profile=self.profile)
        self.provider: str = self._session.get_providers()[0]
        properties = self._session.get_modelmeta().custom_metadata_map
        self.metadata = GraphMetadata.from_properties(properties, str(self._path))
        self._check_interface()
        self._local = threading.local()

    def _check_interface(self) -> None:
        columns = self.metadata.addressing.num_columns
        given = [
            (item.name, item.type, item.shape[-1:])
            for item in (*self._session.get_inputs(), *self._session.get_outputs())
        ]
        wanted = [
            (INPUT, "tensor(int64)", [columns]),
            (OUTPUT, "tensor(float)", [self.metadata.d_model]),
        ]
        if given != wanted:
            raise ValueError(f"{self._path}: the graph has inputs and outputs {given}; wanted {wanted}")

    def run(self, ids: Any, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:  # noqa: ANN401
        """What the memory adds at every position.

        Args:
            ids: Integers `[T]` or `[B, T]`, as `Addressing` takes them.
            out: A C-contiguous float32 array `[..., T, d_model]` to write into, or `None` for a new one.

        Returns:
            float32 `[T, d_model]` or `[B, T, d_model]`.

        Raises:
            TypeError: `ids` are not integers, or `out` is not float32.
            ValueError: A shape or layout is wrong.
        """
        ids = self._checked(ids)
        columns = self.metadata.addressing.num_columns
        buffer = self._buffer(ids.size * columns).reshape(*ids.shape, columns)
        return self.run_addresses(self.metadata.addressing(ids, out=buffer, threads=self._threads), out)

    def run_many(self, batches: Iterable[Any]) -> Iterator[NDArray[np.float32]]:
        """Runs one batch after another, and gets the next one's addresses ready meanwhile.

        They are computed on a second thread; for CUDA they are written into page-locked memory and copied to the
        device from there, beside the kernels of the batch before.

        Args:
            batches: Integers `[T]` or `[B, T]` each, as `run` takes them; taken one ahead.

        Yields:
            What `run` gives for each.

        Raises:
            TypeError: A batch's ids are not integers.
            ValueError: A shape is wrong.
        """
        feeder, columns = Feeder(self.provider), self.metadata.addressing.num_columns

        def prepare(ids: Any) -> tuple[tuple[int, ...], onnxruntime.OrtValue]:  # noqa: ANN401
            ids = self._checked(ids)
            batch = ids.shape if ids.ndim == 2 else (1, *ids.shape)
            buffer = feeder.buffer((*batch, columns))
            self.metadata.addressing(ids, out=buffer.reshape(*ids.shape, columns), threads=self._threads)
            return (*ids.shape, self.metadata.d_model), feeder.put(buffer)

        for shape, fed in ahead(batches, prepare):
            binding = self._session.io_binding()
            binding.bind_ortvalue_input(INPUT, fed)
            binding.bind_output(OUTPUT, "cpu")
            run_bound(self._session, binding, self._path)
            result: NDArray[np.float32] = binding.get_outputs()[0].numpy()
            yield result.reshape(shape)

    def run_addresses(
        self, addresses: NDArray[np.int64], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """The same from addresses that were computed ahead.

        Args:
            addresses: int64 `[T, K]` or `[B, T, K]`: rows, or for the FNV schemes hashes too.
            out: As in `run`.

        Returns:
            As `run`.

        Raises:
            TypeError: `addresses` are not int64, or `out` is not float32.
            ValueError: A shape or layout is wrong.
        """
        columns = self.metadata.addressing.num_columns
        if not isinstance(addresses, np.ndarray) or addresses.dtype != np.int64:
            given = addresses.dtype if isinstance(addresses, np.ndarray) else type(addresses).__name__
            raise TypeError(f"addresses must be an int64 array, not {given}")
        if not 2 <= addresses.ndim <= 3 or addresses.shape[-1] != columns:
            raise ValueError(f"addresses must be [T, {columns}] or [B, T, {columns}], not {list(addresses.shape)}")
        shape = (*addresses.shape[:-1], self.metadata.d_model)
        batched = addresses if addresses.ndim == 3 else addresses[np.newaxis]
        if out is None:
            result: NDArray[np.float32] = guarded(
                lambda: self._session.run([OUTPUT], {INPUT: batched})[0], f"run {self._path}"
            )
            return result.reshape(shape)
        self._check_out(out, shape)
        binding = self._session.io_binding()
        binding.bind_cpu_input(INPUT, np.ascontiguousarray(batched))
        binding.bind_output(OUTPUT, "cpu", 0, np.float32, (*batched.shape[:-1], self.metadata.d_model), out.ctypes.data)
        run_bound(self._session, binding, self._path)
        return out

    @staticmethod
    def _check_out(out: NDArray[np.float32], shape: tuple[int, ...]) -> None:
        if not isinstance(out, np.ndarray) or out.dtype != np.float32:
            given = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
            raise TypeError(f"out must be a float32 array, not {given}")
        if out.shape != shape:
            raise ValueError(f"out must have shape {list(shape)}, not {list(out.shape)}")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("out must be C-contiguous and writable")

    def _checked(self, ids: Any) -> NDArray[Any]:  # noqa: ANN401
        if isinstance(ids, (str, bytes, bytearray, memoryview)):
            self.metadata.addressing(ids)  # type: ignore[arg-type]  # raises the error that names encode
        array: NDArray[Any] = np.asarray(ids)
        if not 1 <= array.ndim <= 2:
            raise ValueError(f"ids must be [T] or [B, T], not of shape {list(array.shape)}")
        # An empty list has no type of its own.
        return array if array.size or isinstance(ids, np.ndarray) else array.astype(np.int64)

    def _buffer(self, size: int) -> NDArray[np.int64]:
        """`size` int64 values that this thread may overwrite until its next call."""
        buffer: NDArray[np.int64] | None = getattr(self._local, "buffer", None)
        if buffer is None or buffer.size < size:
            # Room to grow, so that slowly lengthening inputs do not allocate each time.
            buffer = self._local.buffer = np.empty(size + size // 2, dtype=np.int64)
        return buffer[:size]

    def __repr__(self) -> str:
        meta = self.metadata
        return (
            f"MemorySession({self._path.name!r}, provider={self.provider!r}, precision={meta.precision!r}, "
            f"d_model={meta.d_model}, dim={meta.dim}, addressing={meta.addressing})"
        )
