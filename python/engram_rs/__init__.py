"""A hash-addressed n-gram memory for PyTorch and ONNX Runtime with one Rust core.

Importing this package needs numpy alone. What needs more is imported where it is used: `engram_rs.torch`
needs the extra `torch`, `engram_rs.onnx` and `engram_rs.ort` need `onnx`, `engram_rs.parity` needs both.
"""

from ._core import __version__
from .addressing import Addressing, Stream, decode, encode
from .corpus import address_file
from .vocabulary import compress_vocabulary

__all__ = [
    "Addressing",
    "Stream",
    "__version__",
    "address_file",
    "compress_vocabulary",
    "decode",
    "encode",
]
