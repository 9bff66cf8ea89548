"""Distillation runs: one spec in, one record out that proves what happened; needs the extra `train`."""

from .._extras import require

require("torch", "engram_rs.distill", "train")
require("transformers", "engram_rs.distill", "train")
require("pydantic", "engram_rs.distill", "train")
require("yaml", "engram_rs.distill", "train")
require("rich", "engram_rs.distill", "train")

from .gate import GateError, gate  # noqa: E402  (what they need must be known to be there first)
from .record import read_record  # noqa: E402
from .running import label, run  # noqa: E402
from .spec import RunSpec, read_spec  # noqa: E402

__all__ = ["GateError", "RunSpec", "gate", "label", "read_record", "read_spec", "run"]
