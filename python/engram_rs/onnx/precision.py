"""Matrices at fewer bits, by ONNX Runtime's quantizer; what is kept out of it is said here.

The quantizer is a part of ONNX Runtime, so this is the one file of the room that asks for it.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from .._extras import require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Feeds = Mapping[str, Sequence[dict[str, NDArray[np.generic]]]]

__all__ = ["lowered"]

# Values of a row that share a scale at int4; 32 loses least among those that ONNX Runtime has kernels for.
_BLOCK = 32
_USER = "export_seq2seq(precision=...)"


def lowered(
    graphs: dict[str, onnx.ModelProto], folder: Path, precision: str, feeds: "Feeds | None" = None
) -> dict[str, onnx.ModelProto]:
    """Graphs whose matrices have the precision.

    The products of a head (the last before `logits`) and of a memory's projection are left as they are: a head decides
    between near ties, and the projection is published at fp16. Tables are never touched here.

    Args:
        graphs: At float; the memory at its own precision already.
        folder: For files on the way.
        precision: One of `seq2seq.TIERS`.
        feeds: For `int8-static`: inputs of each graph.
    """
    if precision in ("fp32", "fp16"):
        return graphs
    logger = logging.getLogger()
    level = logger.level
    # It tells of every product that is none with a constant, as if that were news.
    logger.setLevel(logging.ERROR)
    try:
        if precision == "int4":
            return {name: _int4(graph) for name, graph in graphs.items()}
        return {
            name: _int8(graph, folder, name, None if feeds is None else feeds[name]) for name, graph in graphs.items()
        }
    finally:
        logger.setLevel(level)


def _int8(graph: onnx.ModelProto, folder: Path, name: str, feeds: Any) -> onnx.ModelProto:  # noqa: ANN401
    quantization = require("onnxruntime.quantization", _USER)
    source, target = folder / f"float-{name}", folder / f"int8-{name}"
    onnx.save_model(graph, source)
    common = {
        "op_types_to_quantize": ["MatMul"],
        "nodes_to_exclude": _left_out(graph),
        "weight_type": quantization.QuantType.QUInt8,
        "extra_options": {"MatMulConstBOnly": True},
    }
    if feeds is None:
        quantization.quantize_dynamic(source, target, per_channel=True, **common)
    else:
        quantization.quantize_static(
            source,
            target,
            _reader(quantization, feeds),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            per_channel=True,
            **common,
        )
    return _as_before(onnx.load_model(target), graph)


def _int4(graph: onnx.ModelProto) -> onnx.ModelProto:
    require("onnx_ir", _USER)
    quantizers = require("onnxruntime.quantization.matmul_nbits_quantizer", _USER)
    copied = onnx.ModelProto()
    copied.CopyFrom(graph)
    quantizer = quantizers.MatMulNBitsQuantizer(
        copied, block_size=_BLOCK, is_symmetric=False, nodes_to_exclude=_left_out(graph)
    )
    quantizer.process()
    return _as_before(quantizer.model.model, graph)


def _as_before(made: onnx.ModelProto, before: onnx.ModelProto) -> onnx.ModelProto:
    """Refuses another operator set than the one that was asked for; the format's version stays."""
    versions = {version.domain: version.version for version in made.opset_import if version.domain in ("", "ai.onnx")}
    wanted = {version.domain: version.version for version in before.opset_import if version.domain in ("", "ai.onnx")}
    if versions != wanted:
        raise RuntimeError(f"the quantizer wrote the operator sets {versions}, asked was {wanted}")
    made.ir_version = before.ir_version
    return made


def _left_out(graph: onnx.ModelProto) -> list[str]:
    """The names of the products that are not quantized."""
    return [
        node.name
        for node in graph.graph.node
        if node.op_type == "MatMul" and any(name.endswith("engram.projection") for name in node.input)
    ] + list(_head(graph))


def _head(graph: onnx.ModelProto) -> Iterator[str]:
    """The last product before the logits; behind it stand sums and the mask at most."""
    makers = {output: node for node in graph.graph.node for output in node.output}
    waiting = [output.name for output in graph.graph.output if output.name == "logits"]
    while waiting:
        node = makers.get(waiting.pop())
        if node is None:
            continue
        if node.op_type in ("MatMul", "Gemm"):
            yield node.name
        elif node.op_type in ("Add", "Mul", "Cast"):
            waiting.extend(node.input)


def _reader(quantization: Any, feeds: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401
    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]  # its base is known at run time only
        def __init__(self) -> None:
            self.left = iter(feeds)

        def get_next(self) -> dict[str, Any] | None:
            return next(self.left, None)

    return Reader()
