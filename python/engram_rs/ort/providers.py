"""Which execution provider a session gets, without a silent fallback."""

import ctypes
import functools
import sys
from collections.abc import Sequence

import onnxruntime

__all__ = ["available_providers", "choose_providers", "cuda_devices", "cuda_driver", "device_of"]

CUDA = "CUDAExecutionProvider"
# Providers that drive a CUDA device.
_ON_CUDA = (CUDA, "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider")
CPU = "CPUExecutionProvider"


@functools.cache
def cuda_driver() -> ctypes.CDLL | None:
    """The CUDA driver's library, started; None where there is none."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


@functools.cache
def cuda_devices() -> int:
    """How many CUDA devices the driver offers; 0 where there is no driver.

    ONNX Runtime lists its CUDA providers whether or not a GPU is there, so the driver itself is asked.
    """
    driver, count = cuda_driver(), ctypes.c_int()
    if driver is None or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def device_of(provider: str) -> str:
    """Where a provider's inputs and outputs live, as ONNX Runtime names it: `"cuda"` or `"cpu"`."""
    return "cuda" if provider in _ON_CUDA else "cpu"


def available_providers() -> list[str]:
    """The providers that can run here, best first."""
    found: list[str] = onnxruntime.get_available_providers()
    return [name for name in found if name not in _ON_CUDA or cuda_devices() > 0]


def choose_providers(wanted: Sequence[str] | None) -> list[str]:
    """The providers for a session.

    Args:
        wanted: Provider names in order of preference, or `None` for CUDA where it is and the CPU.

    Raises:
        TypeError: `wanted` is one string instead of a list.
        ValueError: A provider is unknown to this build of ONNX Runtime, or has no device here.
    """
    usable = available_providers()
    if wanted is None:
        return [name for name in (CUDA, CPU) if name in usable]
    if isinstance(wanted, str):
        raise TypeError(f"providers must be a list of names, not the string {wanted!r}")
    if not wanted:
        raise ValueError(f"providers must name at least one of {', '.join(usable)}")
    for name in wanted:
        if name not in usable:
            built_in = name in onnxruntime.get_available_providers()
            reason = "finds no GPU for it" if built_in else "does not know it"
            raise ValueError(f"provider {name!r}: this ONNX Runtime {reason}; usable are {', '.join(usable)}")
    return list(wanted)
