"""`multiply_xor`, 3 orders x 8 heads: the same rows by engram_rs, ONNX Runtime's operator and transformers."""

import argparse
from collections.abc import Callable

import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from transformers.models.qwen4_exp.configuration_qwen4_exp import Qwen4ExpTextConfig
from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpTextNGramEmbedding

from engram_rs import Addressing

from .harness import Contestant, Report, main

__all__ = ["bench"]

EOS, VOCABULARY, BASE = 7, 248_320, 16_000_000
OURS, FILL = "engram_rs", "fill"


def bench(report: Report, arguments: argparse.Namespace) -> None:
    shape = (4, 1 << (11 if arguments.quick else 15))
    config = Qwen4ExpTextConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
        ple_layer_ids=[1],
        ngram_size=4,
        heads_per_ngram=8,
        ngram_vocab_size_base=8,
        eos_token_id=EOS,
    )
    # The module's own search divides by all odd numbers and its table would be large: it is made small, then
    # gets the row counts of the real size.
    module = Qwen4ExpTextNGramEmbedding(config, 24, 1)
    addressing = Addressing.qwen_ple(max_order=4, base=BASE, vocab_size=VOCABULARY, eos=EOS)
    module.ngram_heads_vocab_sizes = torch.tensor(addressing.row_counts)
    module.ngram_heads_offsets = torch.tensor(addressing.offsets)
    assert tuple(module.layer_multipliers.tolist()) == addressing.multipliers
    module.ngram_embedding = _Rows()

    ids = np.random.default_rng(0).integers(8, VOCABULARY, shape)
    out = np.empty((*shape, addressing.num_columns), dtype=np.int64)
    tensor, written = torch.from_numpy(ids), torch.from_numpy(out)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        operator = _operator(addressing, ids, out, threads)
        by_torch = lambda: module(tensor, None)  # noqa: E731

        def ours(threads: int = threads) -> object:
            return addressing(ids, out=out, threads=threads)

        fill = (lambda: out.fill(7)) if threads == 1 else (lambda: written.fill_(7))
        _check(addressing(ids), out, operator, by_torch)
        contestants = {FILL: fill, OURS: ours, "ONNX Runtime": operator, "transformers": by_torch}
        case = f"{threads} thread{'s' * (threads > 1)}"
        report.table(
            f"Rows of {shape[0]} x {shape[1]:,} tokens, 24 columns, int64: {case}",
            {case: (ids.size, [Contestant(name, call) for name, call in contestants.items()])},
            [FILL, OURS],
            "All three compute the same rows, checked. transformers: Qwen's n-gram embedding without its table.",
        )


class _Rows(nn.Module):
    """In place of the table: gives the rows themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.empty(0)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows


def _operator(addressing: Addressing, ids: np.ndarray, out: np.ndarray, threads: int) -> Callable[[], object]:
    constants = {
        "multipliers": np.array(addressing.multipliers),
        "vocab_sizes": np.array(addressing.row_counts),
        "head_offsets": np.array(addressing.offsets),
        "eos": np.array(EOS, dtype=np.int64),
    }
    node = helper.make_node(
        "NGramHashMapping",
        ["ids", "multipliers", "vocab_sizes", "", "head_offsets", "eos"],
        ["rows", "present_ids"],
        domain="com.microsoft",
        max_ngram_size=4,
        n_head_per_ngram=8,
        pad_id=EOS,
        reset_on_eos=1,
    )
    graph = helper.make_graph(
        [node],
        "hash",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("rows", TensorProto.INT64, ["batch", "sequence", 24])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    imports = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("ids", ids)
    binding.bind_output("rows", "cpu", 0, np.int64, out.shape, out.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


def _check(
    expected: np.ndarray, out: np.ndarray, operator: Callable[[], object], by_torch: Callable[[], torch.Tensor]
) -> None:
    """A race between different results tells nothing."""
    out.fill(-1)
    operator()
    if not np.array_equal(out, expected):
        raise AssertionError("ONNX Runtime's operator computes other rows")
    if not np.array_equal(by_torch().reshape(expected.shape).numpy(), expected):
        raise AssertionError("transformers computes other rows")


if __name__ == "__main__":
    main(__doc__, bench)
