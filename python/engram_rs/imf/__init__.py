"""Model zips, the formats `imf-v1` and `imf-v2`: written, checked, read; needs the extra `onnx`."""

from .._extras import require

require("pydantic", "engram_rs.imf", "onnx")
require("yaml", "engram_rs.imf", "onnx")
require("onnx", "engram_rs.imf")

from .graphs import Graph, Tensor  # noqa: E402  (what they need must be known to be there first)
from .layout import Member  # noqa: E402
from .loading import Info, ModelZip, Report, info, load, validate  # noqa: E402
from .metadata import Engram, Metadata, Metric, Parity  # noqa: E402
from .packing import pack  # noqa: E402

__all__ = [
    "Engram",
    "Graph",
    "Info",
    "Member",
    "Metadata",
    "Metric",
    "ModelZip",
    "Parity",
    "Report",
    "Tensor",
    "info",
    "load",
    "pack",
    "validate",
]
