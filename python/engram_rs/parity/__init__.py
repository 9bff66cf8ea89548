"""Torch against graphs: the one room that knows both sides. Needs the extras `torch` and `onnx`."""

from .._extras import require

require("torch", "engram_rs.parity")
require("onnxruntime", "engram_rs.parity")

from .inputs import load_model, read_pairs  # noqa: E402  (both sides must be known to be there first)
from .memory import MemoryParity, error_bound, verify  # noqa: E402
from .models import ModelParity, verify_models  # noqa: E402
from .report import save_report  # noqa: E402
from .stamp import stamp  # noqa: E402

__all__ = [
    "MemoryParity",
    "ModelParity",
    "error_bound",
    "load_model",
    "read_pairs",
    "save_report",
    "stamp",
    "verify",
    "verify_models",
]
