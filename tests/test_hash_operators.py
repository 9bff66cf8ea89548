"""The operators of the hash in the graph: ONNX Runtime computes each right on the values that it meets there."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import helper, numpy_helper  # noqa: E402

from engram_rs.onnx.hashing import hash_nodes  # noqa: E402
from test_hash_graph import FAMILIES  # noqa: E402

EXTREMES = np.array([-(2**63), -(2**63) + 1, -(2**32) - 1, -257, -256, -1, 0, 1, 255, 256, 2**31, 2**32 - 1, 2**53 + 1])
BIG = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**57 - 1, 2**62 + 1, 2**63 - 1])


def compute(kind, *inputs, **attributes):
    names = [f"i{number}" for number in range(len(inputs))]
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["o"], **attributes)],
        "one",
        [],
        [helper.make_empty_tensor_value_info("o")],
        [numpy_helper.from_array(np.asarray(value), name) for value, name in zip(inputs, names, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=7)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {})[0]


def exact(values):
    return np.array(values, dtype=object).astype(np.int64)


def test_every_operator_over_its_range():
    """Each operator of the graphs, on the largest values that it meets there."""
    python = [int(value) for value in EXTREMES]
    for divisor in (1, 256, 2**16, 2**32, 2_097_143, 384_016_682, 2**61 - 1, 2**63 - 1):
        np.testing.assert_array_equal(
            compute("Mod", EXTREMES, np.int64(divisor)), [value % divisor for value in python]
        )
    for divisor in (256, 2**16):
        np.testing.assert_array_equal(compute("Div", BIG, np.int64(divisor)), [int(value) // divisor for value in BIG])
    # Exact multiples, as negative limbs are divided.
    multiples = EXTREMES - EXTREMES % 2**16
    wanted = [int(value) // 2**16 for value in multiples]
    np.testing.assert_array_equal(compute("Div", multiples, np.int64(2**16)), wanted)
    # 32 bits times the prime, and products of 63 bits.
    for factor, values in ((0x01000193, BIG[BIG < 2**32]), (2**31, BIG[BIG < 2**32]), (3, BIG[BIG < 2**61])):
        np.testing.assert_array_equal(
            compute("Mul", values, np.int64(factor)), exact([int(v) * factor for v in values])
        )
    halves = BIG // 2
    np.testing.assert_array_equal(compute("Add", halves, halves), exact([int(v) * 2 for v in halves]))
    np.testing.assert_array_equal(compute("Sub", BIG, halves), exact([int(value) - int(value) // 2 for value in BIG]))
    np.testing.assert_array_equal(compute("Equal", BIG, BIG[::-1].copy()), BIG[::-1] == BIG)
    np.testing.assert_array_equal(compute("Less", BIG, np.int64(2**31)), BIG < 2**31)
    np.testing.assert_array_equal(compute("Less", BIG[:-1], BIG[1:]), np.ones(len(BIG) - 1, dtype=bool))
    np.testing.assert_array_equal(compute("Where", BIG > 2**40, BIG, np.int64(1)), np.where(BIG > 2**40, BIG, 1))
    np.testing.assert_array_equal(compute("Gather", BIG, np.array([9, 0, 8])), BIG[[9, 0, 8]])
    np.testing.assert_array_equal(compute("Pad", BIG, np.array([2, 0]), np.int64(0)), np.pad(BIG, (2, 0)))
    np.testing.assert_array_equal(compute("Slice", BIG, *(np.array([n]) for n in (1, -1, 0, 1))), BIG[1:-1])
    np.testing.assert_array_equal(compute("Concat", BIG, BIG, axis=0), np.concatenate([BIG, BIG]))
    # A number is put together from its highest digit, which has the sign, and the others.
    for bits in (8, 16):
        tops = np.array([-(2 ** (bits - 1)), -1, 0, 1, 2 ** (bits - 1) - 1])
        weight = 2 ** (64 - bits)
        shifted = compute("Mul", tops, np.int64(weight))
        np.testing.assert_array_equal(shifted, exact([int(top) * weight for top in tops]))
        np.testing.assert_array_equal(
            compute("Add", shifted, np.int64(weight - 1)), exact([int(top) * weight + weight - 1 for top in tops])
        )
    # Sums of 64 symbols of four limbs each, as large as they can be, in doubles.
    for bits in (8, 16):
        limbs, factors = np.full((3, 256), 2**16 - 1), np.full((256, 5), 2**bits - 1)
        doubles = [compute("Cast", one, to=onnx.TensorProto.DOUBLE) for one in (limbs, factors)]
        sums = compute("Cast", compute("MatMul", *doubles), to=onnx.TensorProto.INT64)
        np.testing.assert_array_equal(sums, limbs @ factors)
    for small in (np.int16, np.uint8):
        ends = np.array([np.iinfo(small).min, -1 if small == np.int16 else 1, np.iinfo(small).max], dtype=small)
        np.testing.assert_array_equal(compute("Cast", ends, to=onnx.TensorProto.INT64), ends.astype(np.int64))
    ones = np.ones((2, 5), dtype=np.int64)
    np.testing.assert_array_equal(compute("CumSum", ones, np.int64(1)), ones.cumsum(1))
    np.testing.assert_array_equal(compute("CumSum", ones, np.int64(1), exclusive=1), ones.cumsum(1) - 1)


def test_what_the_graphs_do_without():
    """Operators that one would reach for, and that this runtime computes in floating point."""
    used = set()
    for addressing, _ in FAMILIES.values():
        used |= {node.op_type for node in hash_nodes(addressing, "i", "o").nodes}
    assert not used & {"Max", "Min", "ReduceSum", "ReduceMax", "BitwiseXor", "BitwiseAnd", "BitShift", "Clip", "Pow"}
    tested = {
        "Add",
        "Cast",
        "Concat",
        "CumSum",
        "Div",
        "Equal",
        "Gather",
        "Less",
        "MatMul",
        "Mod",
        "Mul",
        "Pad",
        "Slice",
    }
    # These move values or compare small ones.
    tested |= {"Sub", "Where", "And", "GatherElements", "Identity", "Not", "Or", "ScatterElements"}
    assert used <= tested | {"Reshape", "Squeeze", "Transpose", "Unsqueeze"}
