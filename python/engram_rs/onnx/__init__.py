"""Builds ONNX graphs; needs the extra `onnx`."""

from .._extras import require

require("onnx", "engram_rs.onnx")

from .memory import export_memory  # noqa: E402  (onnx must be known to be there first)

__all__ = ["export_memory"]
