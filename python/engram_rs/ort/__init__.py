"""Runs ONNX graphs; needs the extra `onnx`."""

from .._extras import require

require("onnxruntime", "engram_rs.ort")

from .framing import Framing, measure_framing  # noqa: E402  (onnxruntime must be known to be there first)
from .memory import MemorySession  # noqa: E402
from .placement import Placed, misplaced, placement  # noqa: E402
from .providers import available_providers, cuda_devices  # noqa: E402
from .seq2seq import Seq2SeqSession  # noqa: E402

__all__ = [
    "Framing",
    "MemorySession",
    "Placed",
    "Seq2SeqSession",
    "available_providers",
    "cuda_devices",
    "measure_framing",
    "misplaced",
    "placement",
]
