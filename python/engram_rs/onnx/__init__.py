"""Builds ONNX graphs; needs the extra `onnx`."""

from .._extras import require

require("onnx", "engram_rs.onnx")

from .encoder import export_encoder  # noqa: E402  (onnx must be known to be there first)
from .hashing import export_hash  # noqa: E402
from .memory import export_memory  # noqa: E402
from .seq2seq import Exported, export_seq2seq  # noqa: E402

__all__ = ["Exported", "export_encoder", "export_hash", "export_memory", "export_seq2seq"]
