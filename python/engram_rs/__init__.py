"""A hash-addressed n-gram memory for PyTorch and ONNX Runtime with one Rust core.

Importing this package needs numpy alone. `engram_rs.torch`, `engram_rs.onnx`, `engram_rs.ort` and
`engram_rs.parity` are imported where they are used and need the extras of the same names.
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
