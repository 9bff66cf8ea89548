"""Runs ONNX graphs; needs the extra `onnx`."""

from .._extras import require

require("onnxruntime", "engram_rs.ort")

from .memory import MemorySession  # noqa: E402  (onnxruntime must be known to be there first)
from .providers import available_providers, cuda_devices  # noqa: E402

__all__ = ["MemorySession", "available_providers", "cuda_devices"]
