"""What the exports of whole models share: their checks, the copy that is traced, and the files at the end."""

import contextlib
import copy
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from .._core import __version__
from .._files import replacing
from ..memory_graph import INPUT, MODES, EncoderMetadata

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from .precision import Feeds

__all__ = [
    "CACHED",
    "DECODER",
    "ENCODER",
    "TIERS",
    "Exported",
    "check_arguments",
    "check_folder",
    "check_sizes",
    "describe",
    "memory_of",
    "ready",
    "write",
]

# The zip's own precisions, and a second way to int8.
TIERS = ("fp32", "fp16", "int8", "int8-static", "int4")
ENCODER, DECODER, CACHED = "encoder.onnx", "decoder.onnx", "decoder-kv.onnx"
# Scaled dot product attention needs 14; 18 changes operators that the tracing exporter does not know.
_OPSETS = range(14, 18)
# What protobuf holds, less some room for the graph itself.
_MOST_BYTES = 2**31 - 1 - 2**22


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        paths: The files by their names in a model zip.
        memory: What the encoder says of its memory; None if it has none.
        opset: The ONNX operator set.
        precision: As the zip's metadata have it: `fp32`, `fp16`, `int8` or `int4`.
    """

    paths: dict[str, Path]
    memory: EncoderMetadata | None
    opset: int
    precision: str

    def zip_fields(self) -> dict[str, Any]:
        """The metadata of a model zip that follow from the graphs; the others are the author's to give."""
        takes = self.memory is not None and self.memory.mode == "input"
        fields: dict[str, Any] = {
            "format": "imf-v2" if takes else "imf-v1",
            "tokenizer": "bytes",
            "opset": self.opset,
            "decoder": "kv" if CACHED in self.paths else "plain",
            "precision": self.precision,
        }
        if takes:
            assert self.memory is not None
            fields["engram"] = {
                "addressing": self.memory.addressing.to_json(),
                "input": INPUT,
                "dim": self.memory.dim,
                "block": self.memory.block,
            }
        return fields


def check_arguments(
    opset: int, addresses: str, precision: str, calibration: "Iterable[NDArray[np.integer[Any]]] | None"
) -> "list[NDArray[np.int64]] | None":
    """Refuses what is out of range; gives the samples back as int64, or None."""
    if isinstance(opset, bool) or not isinstance(opset, int) or opset not in _OPSETS:
        raise ValueError(f"opset must be {_OPSETS[0]} … {_OPSETS[-1]}, not {opset!r}")
    if addresses not in MODES:
        raise ValueError(f"addresses must be one of {', '.join(MODES)}, not {addresses!r}")
    if precision not in TIERS:
        raise ValueError(f"precision must be one of {', '.join(TIERS)}, not {precision!r}")
    if (precision == "int8-static") != (calibration is not None):
        raise ValueError("calibration belongs to the precision int8-static, and only to it")
    if calibration is None:
        return None
    samples = [np.asarray(ids) for ids in calibration]
    if not samples or any(ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iu" for ids in samples):
        raise ValueError("calibration must be at least one array of integers [T], each with at least one id")
    return [ids.astype(np.int64) for ids in samples]


def check_folder(folder: Path) -> None:
    """Refuses a place where no folder is and none can be made."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is no folder")
    if not folder.resolve().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {folder.resolve().parent}")


def check_sizes(graphs: "Mapping[str, Sequence[nn.Module]]", memory: Any, precision: str) -> None:  # noqa: ANN401
    """Refuses a model whose graph is larger than an ONNX file can be.

    Args:
        graphs: The modules whose weights each file will hold.
        memory: The handle of the memory, or None.
        precision: One of `TIERS`. All but fp16 pass through a float32 graph, but for the memory.
    """
    own = set() if memory is None else set(map(id, memory.module.parameters()))
    for name, modules in graphs.items():
        weights = [weight for module in modules for weight in module.parameters()]
        size = (2 if precision == "fp16" else 4) * sum(weight.numel() for weight in weights if id(weight) not in own)
        if any(id(weight) in own for weight in weights):
            table, projection = memory.module.table, memory.module.projection
            size += {"fp32": 4, "fp16": 2}.get(precision, 1) * table.numel() + 4 * projection.numel()
        if size > _MOST_BYTES:
            at = "float16" if precision == "fp16" else "float32"
            made = "" if precision in ("fp32", "fp16") else f", from which {precision} is made"
            raise ValueError(
                f"the weights of {name} take {size / 2**30:.2f} GiB at {at}{made}; one ONNX file holds 2 GiB"
            )


def memory_of(model: Any, stack: str | None) -> Any:  # noqa: ANN401
    """The handle of a model's one memory, or None."""
    from ..torch import memories

    handles = memories(model)
    if len(handles) > 1:
        raise ValueError(f"the model has {len(handles)} memories; a graph can have one")
    if handles and stack is not None and not handles[0].name.startswith(f"{stack}."):
        raise ValueError(f"the memory is at {handles[0].name}; a graph has it in the encoder")
    return handles[0] if handles else None


def describe(memory: Any, mode: str, precision: str) -> EncoderMetadata | None:  # noqa: ANN401
    """What the encoder will say of its memory; refuses a scheme that has no such form in a graph."""
    from .hashing import hash_nodes

    if memory is None:
        return None
    module = memory.module
    told = EncoderMetadata(
        module.addressing, mode, precision.partition("-")[0], module.d_model, module.dim, module.block_index
    )
    if mode != "input":
        hash_nodes(told.addressing, "input_ids", INPUT, told.mode, "engram.hash.")
    return told


def ready(model: Any, memory: Any, precision: str) -> Any:  # noqa: ANN401
    """A copy to trace: on the CPU, at its precision, with the memory in its graph's form."""
    import torch

    from ..torch.hooks import CHILD
    from .traced_memory import TracedMemory

    if precision == "fp16":
        half = torch.finfo(torch.float16).max
        for name, weight in model.named_parameters():
            if not bool((weight.detach().abs() <= half).all()):
                raise ValueError(f"{name} holds values that float16 cannot (its largest is {half:g})")
    copied = copy.deepcopy(model).cpu().eval()
    traced = None if memory is None else TracedMemory(memory.module, precision.partition("-")[0])
    copied = copied.to(torch.float16 if precision == "fp16" else torch.float32)
    if traced is not None:
        setattr(copied.get_submodule(memory.name), CHILD, traced)
    return copied


def write(
    folder: Path,
    graphs: dict[str, onnx.ModelProto],
    told: EncoderMetadata | None,
    precision: str,
    feeds: "Feeds | None",
) -> dict[str, Path]:
    """Finishes all graphs in a folder of their own, then puts them in their places, all or none."""
    from .precision import lowered

    with tempfile.TemporaryDirectory(prefix="engram_rs-") as temporary:
        made = lowered(graphs, Path(temporary), precision, feeds)
    for name, model in made.items():
        model.producer_name, model.producer_version = "engram_rs", __version__
        # Whoever batches texts asks for this.
        properties = {"engram.padding": "zero-rows"}
        if told is not None and name not in (DECODER, CACHED):
            properties |= told.to_properties()
        onnx.helper.set_model_props(model, properties)
        onnx.checker.check_model(model)
    folder.mkdir(exist_ok=True)
    # No file is renamed before the last one is whole: an encoder beside another model's decoder would run.
    with contextlib.ExitStack() as places:
        for name, model in made.items():
            onnx.save_model(model, os.fspath(places.enter_context(replacing(folder / name))))
    return {name: folder / name for name in made}
