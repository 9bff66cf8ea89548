"""The same hash, `byte_fnv1a` with orders (2, 3, 4), written with what a user would reach for first.

Each function takes entries, uint8 ids `[T]` and an int64 output `[T, 3]`, and gives a function that fills the
output. Each form is the fastest of several that were tried.
"""

from collections.abc import Callable
from functools import cache

import numba
import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper

__all__ = ["ORDERS", "numba_loop", "numpy_columns", "onnxruntime_operator", "python_loop", "torch_columns"]

Ids = NDArray[np.uint8]
Out = NDArray[np.int64]
Work = Callable[[], object]

ORDERS = (2, 3, 4)
BASIS, PRIME = 0x811C9DC5, 0x01000193
SEEDS = tuple(BASIS ^ (column + 1) for column in range(len(ORDERS)))
HISTORY = max(ORDERS) - 1
# Positions whose arrays of 32-bit values still fit the second cache level.
BLOCK = 1 << 15


def python_loop(entries: int, ids: Ids, out: Out) -> Work:
    """The scheme as one would write it down."""

    def run() -> None:
        symbols = [(int(byte) - 3) & 0xFF for byte in ids]
        for position in range(len(symbols)):
            for column, (order, seed) in enumerate(zip(ORDERS, SEEDS, strict=True)):
                value = 0
                if position + 1 >= order:
                    value = seed
                    for symbol in symbols[position + 1 - order : position + 1]:
                        value = (value ^ symbol) * PRIME & 0xFFFFFFFF
                    value = value or 1
                out[position, column] = value % entries

    return run


def numpy_columns(entries: int, ids: Ids, out: Out) -> Work:
    """uint32 columns, in place, a block at a time; no temporary array."""
    symbols = np.zeros(BLOCK + HISTORY, dtype=np.uint32)
    states, quotients = np.empty(BLOCK, dtype=np.uint32), np.empty(BLOCK, dtype=np.uint32)
    prime, one, divisor = np.uint32(PRIME), np.uint32(1), np.uint32(entries)

    def run() -> None:
        for start in range(0, len(ids), BLOCK):
            stop = min(start + BLOCK, len(ids))
            history = min(start, HISTORY)
            symbols[HISTORY - history : HISTORY + stop - start] = ids[start - history : stop] - np.uint8(3)
            state, quotient = states[: stop - start], quotients[: stop - start]
            for column, (order, seed) in enumerate(zip(ORDERS, SEEDS, strict=True)):
                for step in range(order):
                    first = HISTORY + 1 - order + step
                    symbol = symbols[first : first + stop - start]
                    np.bitwise_xor(state if step else np.uint32(seed), symbol, out=state)
                    np.multiply(state, prime, out=state)
                np.maximum(state, one, out=state)
                if entries & (entries - 1) == 0:
                    np.bitwise_and(state, np.uint32(entries - 1), out=state)
                else:
                    # numpy divides by a scalar with SIMD, and takes remainders one by one.
                    np.floor_divide(state, divisor, out=quotient)
                    np.multiply(quotient, divisor, out=quotient)
                    np.subtract(state, quotient, out=state)
                out[start:stop, column] = state
        _null_rows(out)

    return run


def torch_columns(entries: int, ids: Ids, out: Out, threads: int) -> Work:
    """int32 columns, whose products wrap as uint32's do, a block at a time; widened for the remainder."""
    tensor, target = torch.from_numpy(ids), torch.from_numpy(out)
    # Below 32,768 elements a thread, torch keeps an operator on one.
    block = 2 * BLOCK * threads
    symbols = torch.zeros(block + HISTORY, dtype=torch.int32)

    def run() -> None:
        for start in range(0, len(tensor), block):
            stop = min(start + block, len(tensor))
            history = min(start, HISTORY)
            symbols[HISTORY - history : HISTORY + stop - start] = tensor[start - history : stop] - 3
            for column, (order, seed) in enumerate(zip(ORDERS, SEEDS, strict=True)):
                first = HISTORY + 1 - order
                state = symbols[first : first + stop - start] ^ (seed - 2**32)
                state *= PRIME
                for step in range(first + 1, first + order):
                    state ^= symbols[step : step + stop - start]
                    state *= PRIME
                state[state == 0] = 1
                if entries & (entries - 1) == 0:
                    state &= entries - 1
                    target[start:stop, column] = state
                else:
                    wide = state.to(torch.int64).bitwise_and_(0xFFFFFFFF)
                    # A double holds the quotient exactly enough for its floor, and has SIMD; int64 has none.
                    quotient = (wide.to(torch.float64) / entries).to(torch.int64)
                    target[start:stop, column] = wide.sub_(quotient.mul_(entries))
        _null_rows(out)

    return run


def numba_loop(entries: int, ids: Ids, out: Out) -> Work:
    """Compiled loops over blocks, a column at a time so that they vectorise, shared out among numba's threads."""
    fill = _compile(entries)
    return lambda: fill(ids, out)


@cache
def _compile(entries: int) -> Callable[[Ids, Out], None]:
    word = np.uint32
    # A divisor that is known to the compiler becomes a mask, or a multiplication.
    divisor, prime, one, shift = word(entries), word(PRIME), word(1), np.uint8(3)
    seed2, seed3, seed4 = (word(seed) for seed in SEEDS)
    run_length, block = 1 << 16, 1 << 11

    @numba.njit(inline="always")
    def step(state, byte):
        return word(word(state ^ word(np.uint8(byte - shift))) * prime)

    @numba.njit(inline="always")
    def row(state):
        return word(max(state, one)) % divisor

    @numba.njit(parallel=True)
    def fill(ids, out):
        for task in numba.prange((len(ids) + run_length - 1) // run_length):
            rows = np.empty((3, block), dtype=np.uint32)
            end = min((task + 1) * run_length, len(ids))
            for start in range(max(task * run_length, 3), end, block):
                count = min(block, end - start)
                x = ids[start - 3 : start + count]
                for i in range(count):
                    rows[0, i] = row(step(step(seed2, x[i + 2]), x[i + 3]))
                for i in range(count):
                    rows[1, i] = row(step(step(step(seed3, x[i + 1]), x[i + 2]), x[i + 3]))
                for i in range(count):
                    rows[2, i] = row(step(step(step(step(seed4, x[i]), x[i + 1]), x[i + 2]), x[i + 3]))
                for i in range(count):
                    for column in range(3):
                        out[start + i, column] = rows[column, i]
        # The block loops begin where all columns have their symbols; what stands before is three positions.
        out[:3] = 0
        for t in range(1, 3):
            out[t, 0] = row(step(step(seed2, ids[t - 1]), ids[t]))
        out[2, 1] = row(step(step(step(seed3, ids[0]), ids[1]), ids[2]))

    return fill


def onnxruntime_operator(entries: int, ids: Ids, out: Out, threads: int) -> Work:
    """ONNX Runtime's own n-gram hash, into the same buffer: another hash (multiply-xor), of similar work."""
    wide = ids.astype(np.int64).reshape(1, -1)
    multipliers = np.array([23703573157769, 20109073645365, 8052911324071, 6364136223846793005], dtype=np.int64)
    constants = {"multipliers": multipliers, "vocab_sizes": np.full(len(ORDERS), entries, dtype=np.int64)}
    node = helper.make_node(
        "NGramHashMapping",
        ["ids", *constants],
        ["rows", "present_ids"],
        domain="com.microsoft",
        max_ngram_size=max(ORDERS),
        n_head_per_ngram=1,
        pad_id=0,
    )
    graph = helper.make_graph(
        [node],
        "hash",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("rows", TensorProto.INT64, ["batch", "sequence", len(ORDERS)])],
        [
            helper.make_tensor(name, TensorProto.INT64, values.shape, values.tolist())
            for name, values in constants.items()
        ],
    )
    imports = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports[:1]))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("ids", wide)
    binding.bind_output("rows", "cpu", 0, np.int64, (1, *out.shape), out.ctypes.data)
    session.run_with_iobinding(binding)
    _check_multiply_xor(wide[0, :64], multipliers, entries, out[:64])
    return lambda: session.run_with_iobinding(binding)


def _check_multiply_xor(ids: Out, multipliers: Out, entries: int, rows: Out) -> None:
    """That the operator does the three columns of work that the table says it does."""
    for column, order in enumerate(ORDERS):
        mix = np.zeros_like(ids)
        for back in range(order):
            mix ^= np.concatenate([np.zeros(back, dtype=np.int64), ids[: len(ids) - back]]) * multipliers[back]
        if not np.array_equal(rows[:, column], mix % entries):
            raise AssertionError(f"NGramHashMapping: order {order} is not the multiply-xor that was expected")


def _null_rows(out: Out) -> None:
    for column, order in enumerate(ORDERS):
        out[: order - 1, column] = 0
