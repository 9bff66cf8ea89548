"""The memory core as a graph: remainder, gather, mean, projection."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from .._core import __version__
from .._files import check_target, replacing
from ..artifact import MemoryArtifact
from ..memory_graph import INPUT, OUTPUT, PRECISIONS, GraphMetadata

if TYPE_CHECKING:
    from ..torch import Engram

__all__ = ["export_memory"]

# ReduceSum takes its axes as an input from 13 on.
_OLDEST_OPSET = 13
# The newest that the oldest ONNX Runtime of our extra can run; onnx itself writes newer ones.
_NEWEST_OPSET = 23
# Protobuf's limit for one message.
_MAX_FILE = 2**31 - 1


def export_memory(
    memory: "Engram | MemoryArtifact | str | os.PathLike[str]",
    path: str | os.PathLike[str],
    precision: str = "fp32",
    opset: int = 14,
) -> GraphMetadata:
    """Writes a memory as an ONNX model that takes addresses and gives what is added to the stream.

    Input `engram_addresses` int64 `[batch, sequence, K]`: rows, or for the FNV schemes hashes too; the graph
    takes `mod entries`. Output `memory` float32 `[batch, sequence, d_model]`. The weights are stored at
    `precision`; sums and the product run in float32. The addressing JSON and its digest stand in the
    model's metadata.

    Args:
        memory: An `Engram`, a `MemoryArtifact`, or the path of a saved artifact.
        path: The file to write; an older one stays until the new one is whole.
        precision: `"fp32"`; `"fp16"` (table and projection); `"int8"` (table, with an fp16 projection).
        opset: The ONNX operator set, 13 … 23.

    Returns:
        The metadata that was written.

    Raises:
        TypeError: `memory` is none of the three.
        ValueError: `path` is the file that `memory` names, `precision` or `opset` is unknown, a weight does
            not fit the precision, or the file would exceed ONNX's 2 GiB.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    if isinstance(opset, bool) or not isinstance(opset, int) or not _OLDEST_OPSET <= opset <= _NEWEST_OPSET:
        raise ValueError(f"opset must be {_OLDEST_OPSET} … {_NEWEST_OPSET}, not {opset!r}")
    check_target(path, memory)
    weights = _Weights.of(memory, precision)
    size = weights.table.nbytes + weights.projection.nbytes
    if size > _MAX_FILE - 2**20:
        raise ValueError(
            f"the {precision} weights take {size / 2**30:.2f} GiB and one ONNX file holds 2 GiB; "
            "a lower precision or fewer entries fit"
        )
    model = _build(weights, opset)
    onnx.checker.check_model(model, full_check=True)
    with replacing(path) as temporary:
        onnx.save_model(model, os.fspath(temporary))
    return weights.metadata


class _Weights:
    """A memory at the precision that the graph stores, with the factor that its products still need."""

    def __init__(
        self, metadata: GraphMetadata, table: NDArray[Any], projection: NDArray[Any], scale: float = 1.0
    ) -> None:
        self.metadata = metadata
        self.table = table
        self.projection = projection
        # Dequantising and the mean are linear, so both fold into the projection.
        self.factor = np.float32(scale / metadata.addressing.num_columns)

    @classmethod
    def of(cls, memory: object, precision: str) -> "_Weights":
        if isinstance(memory, (str, os.PathLike)):
            memory = MemoryArtifact.load(memory)
        if not isinstance(memory, MemoryArtifact):
            module: Any = memory
            if not all(hasattr(memory, name) for name in ("to_artifact", "addressing", "table", "projection")):
                raise TypeError(f"memory must be an Engram, a MemoryArtifact or a path, not {type(memory).__name__}")
            if precision == "int8":
                memory = module.to_artifact()
        artifact = memory if isinstance(memory, MemoryArtifact) else None
        if artifact is not None and precision == "int8":
            metadata = GraphMetadata(artifact.addressing, precision, artifact.d_model, artifact.dim)
            return cls(metadata, artifact.table, artifact.projection, artifact.scale)
        if artifact is not None:
            addressing = artifact.addressing
            table = artifact.table.astype(np.float32)
            table *= np.float32(artifact.scale)
            projection = artifact.projection.astype(np.float32)
        else:
            addressing = module.addressing
            table = module.table.detach().float().cpu().numpy()
            projection = module.projection.detach().float().cpu().numpy()
        metadata = GraphMetadata(addressing, precision, *projection.shape)
        for name, array in (("table", table), ("projection", projection)):
            if not np.isfinite(array).all():
                raise ValueError(f"the {name} holds values that are not finite")
        if precision == "fp16":
            half = np.finfo(np.float16).max
            if max(np.abs(table).max(), np.abs(projection).max()) > half:
                raise ValueError(f"the memory holds values that float16 cannot (its largest is {half})")
            table, projection = table.astype(np.float16), projection.astype(np.float16)
        return cls(metadata, table, projection)


def _build(weights: _Weights, opset: int) -> onnx.ModelProto:
    metadata = weights.metadata
    columns = metadata.addressing.num_columns
    initializers = [
        numpy_helper.from_array(weights.table, "engram.table"),
        numpy_helper.from_array(np.ascontiguousarray(weights.projection.T), "engram.projection"),
        numpy_helper.from_array(np.array(weights.factor, dtype=np.float32), "engram.factor"),
        numpy_helper.from_array(np.array(metadata.addressing.entries, dtype=np.int64), "engram.entries"),
        numpy_helper.from_array(np.array([2], dtype=np.int64), "engram.column_axis"),
    ]
    rows, projection = "engram.gathered", "engram.projection"
    nodes = [
        helper.make_node("Mod", [INPUT, "engram.entries"], ["engram.rows"], "engram.Mod"),
        helper.make_node("Gather", ["engram.table", "engram.rows"], [rows], "engram.Gather", axis=0),
    ]
    if metadata.precision != "fp32":
        nodes.append(helper.make_node("Cast", [rows], ["engram.float"], "engram.Cast", to=TensorProto.FLOAT))
        rows = "engram.float"
        # Runtimes fold the two operators on constants when they load the model.
        nodes.append(
            helper.make_node(
                "Cast", [projection], ["engram.projection_float"], "engram.CastProjection", to=TensorProto.FLOAT
            )
        )
        projection = "engram.projection_float"
    nodes += [
        helper.make_node("Mul", [projection, "engram.factor"], ["engram.weight"], "engram.Scale"),
        helper.make_node("ReduceSum", [rows, "engram.column_axis"], ["engram.sum"], "engram.ReduceSum", keepdims=0),
        helper.make_node("MatMul", ["engram.sum", "engram.weight"], [OUTPUT], "engram.MatMul"),
    ]
    graph = helper.make_graph(
        nodes,
        "engram_memory",
        [helper.make_tensor_value_info(INPUT, TensorProto.INT64, ["batch", "sequence", columns])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", "sequence", metadata.d_model])],
        initializers,
        doc_string="Adds mean(table[addresses mod entries]) @ projection to the hidden stream.",
    )
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        graph,
        opset_imports=imports,
        # The newest format would shut out runtimes that know the operators well.
        ir_version=helper.find_min_ir_version_for(imports),
        producer_name="engram_rs",
        producer_version=__version__,
    )
    helper.set_model_props(model, metadata.to_properties())
    return model
