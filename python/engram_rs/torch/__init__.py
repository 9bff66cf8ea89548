"""The memory in PyTorch; needs the extra `torch`."""

from .._extras import require

require("torch", "engram_rs.torch")
require("safetensors", "engram_rs.torch")

from .attach import Attached, attach, memories  # noqa: E402  (torch must be known to be there first)
from .module import Engram  # noqa: E402
from .operator import addresses  # noqa: E402
from .optim import CombinedOptimizer, ParamGroups, SinkhornMomentum, build_optimizer, param_groups  # noqa: E402
from .persistence import load, require_memory, save  # noqa: E402
from .sharding import shard_tables  # noqa: E402

__all__ = [
    "Attached",
    "CombinedOptimizer",
    "Engram",
    "ParamGroups",
    "SinkhornMomentum",
    "addresses",
    "attach",
    "build_optimizer",
    "load",
    "memories",
    "param_groups",
    "require_memory",
    "save",
    "shard_tables",
]
