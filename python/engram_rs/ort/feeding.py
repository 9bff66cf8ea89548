"""Getting inputs to where a session reads them, while it is still busy with the ones before."""

import ctypes
import mmap
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from .providers import cuda_driver, device_of

__all__ = ["Feeder", "ahead"]

T = TypeVar("T")
S = TypeVar("S")


def ahead(items: Iterable[T], prepare: Callable[[T], S]) -> Iterator[S]:
    """Prepares each item on a second thread while the caller works with the one before.

    Args:
        items: What is to be prepared; taken one ahead.
        prepare: Called for one item at a time, in order.

    Yields:
        What `prepare` gave, in order. What it raises is raised at its item.
    """
    remaining = iter(items)
    first = list(islice(remaining, 2))
    if len(first) < 2:
        # No thread for what has nothing to overlap with.
        yield from map(prepare, first)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="engram_rs-ahead") as pool:
        waiting = pool.submit(prepare, first[0])
        for item in chain(first[1:], remaining):
            ready, waiting = waiting.result(), pool.submit(prepare, item)
            yield ready
        yield waiting.result()


class Feeder:
    """Puts int64 arrays where a session's provider reads them.

    On the CPU that is the array itself. For CUDA it is a copy on the device, out of page-locked memory: from there the
    device copies at full speed, and beside running kernels. For one thread at a time.

    Args:
        provider: The session's.

    Attributes:
        pinned: Whether the host's buffer is page-locked; always false on the CPU.
    """

    def __init__(self, provider: str) -> None:
        self._device = device_of(provider)
        self._buffer = np.empty(0, dtype=np.int64)
        self.pinned = False

    def buffer(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """An array to fill and then `put`; for CUDA it is the one of the call before, as far as that was big enough."""
        size = int(np.prod(shape))
        if self._device == "cpu":
            return np.empty(shape, dtype=np.int64)
        if self._buffer.size < size:
            # Room to grow, so that slowly lengthening inputs do not lock pages each time.
            self._buffer, self.pinned = _page_locked(size + size // 2)
        return self._buffer[:size].reshape(shape)

    def put(self, array: NDArray[np.int64]) -> onnxruntime.OrtValue:
        """The array as an input: itself on the CPU, else a copy on the device."""
        return onnxruntime.OrtValue.ortvalue_from_numpy(array, self._device, 0)


def _page_locked(size: int) -> tuple[NDArray[np.int64], bool]:
    """An array of `size` int64 values, and whether its memory could be page-locked.

    ONNX Runtime's Python API hands out page-locked memory only where CUDA is a plug-in of it, which CUDA in the
    published package is not. The driver locks any memory, and copies from there are as fast.
    """
    memory = mmap.mmap(-1, size * 8)
    array = np.frombuffer(memory, dtype=np.int64)
    driver = cuda_driver()
    if driver is None:
        return array, False
    try:
        unlock = _lock(driver, array.ctypes.data, size * 8)
    except OSError as error:
        warnings.warn(f"{error}; copies to the GPU are slower", RuntimeWarning, stacklevel=4)
        return array, False
    # The views that callers hold keep the mapping alive, and it is unlocked before it goes.
    weakref.finalize(memory, unlock).atexit = False
    return array, True


def _lock(driver: Any, address: int, length: int) -> Callable[[], None]:  # noqa: ANN401
    """Locks pages for every context of device 0; gives what unlocks them."""
    portable = 1
    device, context = ctypes.c_int(), ctypes.c_void_p()

    def check(status: int, what: str) -> None:
        if status != 0:
            raise OSError(f"the CUDA driver cannot {what} (status {status})")

    # The context that the CUDA runtime, and with it ONNX Runtime, uses.
    check(driver.cuDeviceGet(ctypes.byref(device), 0), "find device 0")
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "open device 0")

    def within(call: Callable[[], int]) -> int:
        check(driver.cuCtxPushCurrent_v2(context), "enter its context")
        try:
            return call()
        finally:
            driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    register = driver.cuMemHostRegister_v2
    check(
        within(lambda: register(ctypes.c_void_p(address), ctypes.c_size_t(length), portable)),
        f"page-lock {length:,} bytes",
    )

    def unlock() -> None:
        within(lambda: driver.cuMemHostUnregister(ctypes.c_void_p(address)))

    return unlock
