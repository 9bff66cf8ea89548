"""The memory in PyTorch; needs the extra `torch`."""

from .._extras import require

require("torch", "engram_rs.torch")
require("safetensors", "engram_rs.torch")

from .module import Engram  # noqa: E402  (torch must be known to be there first)

__all__ = ["Engram"]
