"""A hash-addressed n-gram memory for PyTorch and ONNX Runtime with one Rust core.

Importing this package needs numpy alone. `engram_rs.torch`, `engram_rs.onnx`, `engram_rs.ort` and
`engram_rs.parity` are imported where they are used and need the extras of the same names.
"""

from ._core import __version__
from .addressing import Addressing, decode, encode

__all__ = ["Addressing", "__version__", "decode", "encode"]
