"""Against code that we did not write: transformers and ONNX Runtime's own operator, on random ids."""

import numpy as np
import pytest

from engram_rs import Addressing

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

RNG = np.random.default_rng(20)


@pytest.mark.parametrize("functions", [1, 3, 11])
def test_blt_of_transformers(functions):
    from transformers import BltConfig
    from transformers.models.blt import modeling_blt

    config = BltConfig(encoder_hash_byte_group_nb_functions=functions, encoder_hash_byte_group_vocab=5003)
    addressing = Addressing.from_hf_config(config)
    sizes = config.encoder_hash_byte_group_size
    ids = RNG.integers(0, 260, (3, 90))
    seen = []

    class Table(torch.nn.Module):
        """Stands for the model's table, and writes down the rows that are asked for."""

        def forward(self, rows):
            seen.append(rows)
            return torch.zeros(*rows.shape, 4)

    class Tokens:
        embed_tokens = staticmethod(lambda ids: torch.zeros(*ids.shape, 4))

    modeling_blt.compute_hash_embeddings(torch.from_numpy(ids), Tokens(), Table(), functions, sizes, 5003)
    np.testing.assert_array_equal(addressing(ids), torch.stack(seen, dim=-1).numpy())


@pytest.mark.parametrize("index", [0, 2])
def test_qwen_of_transformers(index):
    from transformers.models.qwen4_exp.configuration_qwen4_exp import Qwen4ExpTextConfig
    from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpTextNGramEmbedding

    layers = [1, 3, 5]
    config = Qwen4ExpTextConfig(
        vocab_size=500,
        hidden_size=48,
        num_hidden_layers=6,
        layer_types=["linear_attention"] * 6,
        ple_layer_ids=layers,
        ngram_vocab_size_base=1009,
        heads_per_ngram=4,
        eos_token_id=7,
    )
    module = Qwen4ExpTextNGramEmbedding(config, 48, layers[index], index)
    addressing = Addressing.from_hf_config(config, layer=layers[index])
    assert addressing.entries == module.ngram_embedding.num_embeddings
    seen = []
    module.ngram_embedding.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    for length in (1, 2, 3, 40):
        ids = RNG.integers(0, 500, (4, length))
        ids[RNG.random(ids.shape) < 0.2] = 7
        module(torch.from_numpy(ids), None)
        rows = seen.pop().numpy()
        np.testing.assert_array_equal(addressing(ids).reshape(rows.shape), rows)


def operator(addressing: Addressing, kind: str, eos: int | None):
    """ONNX Runtime's operator with the constants of a scheme."""
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper, numpy_helper

    order = max(addressing.orders)
    constants = {
        "multipliers": np.array(addressing.multipliers),
        "vocab_sizes": np.array(addressing.row_counts),
        "head_offsets": np.array(addressing.offsets),
    }
    if eos is not None:
        constants["eos"] = np.array(eos, dtype=np.int64)
    inputs = ["ids", "multipliers", "vocab_sizes", "past" if kind == "past" else "", "head_offsets"]
    inputs += ["eos" if eos is not None else "", "segments" if kind == "segments" else ""]
    node = helper.make_node(
        "NGramHashMapping",
        inputs,
        ["rows", "present"],
        domain="com.microsoft",
        max_ngram_size=order,
        n_head_per_ngram=addressing.orders.count(2),
        pad_id=addressing.pad,
        reset_on_eos=int(eos is not None),
    )
    value = helper.make_tensor_value_info
    given = [value("ids", TensorProto.INT64, ["b", "t"])]
    if kind == "past":
        given.append(value("past", TensorProto.INT64, ["b", order - 1]))
    if kind == "segments":
        given.append(value("segments", TensorProto.INT32, ["b", "t"]))
    results = [value("rows", TensorProto.INT64, None), value("present", TensorProto.INT64, None)]
    graph = helper.make_graph(
        [node], "oracle", given, results, [numpy_helper.from_array(array, name) for name, array in constants.items()]
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8
    )
    assert onnx
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:
        if "NGramHashMapping" not in str(error) or "not a registered" not in str(error):
            raise
        pytest.skip("this ONNX Runtime is older than its operator")


def test_ngram_hash_mapping_with_a_history():
    addressing = Addressing.deepseek_v41(1)
    session = operator(addressing, "past", None)
    ids = RNG.integers(0, 99_092, (5, 60))
    past, stream, at = np.full((5, 3), addressing.pad), addressing.stream(5), 0
    for cut in (1, 2, 9, 10, 60):
        rows, past = session.run(None, {"ids": ids[:, at:cut], "past": past})
        np.testing.assert_array_equal(stream.push(ids[:, at:cut]), rows)
        at = cut


def test_ngram_hash_mapping_with_resets():
    addressing = Addressing.qwen_ple(eos=7, vocab_size=500)
    session = operator(addressing, "", 7)
    for length in (1, 2, 3, 50):
        ids = RNG.integers(0, 500, (4, length))
        ids[RNG.random(ids.shape) < 0.2] = 7
        rows, _ = session.run(None, {"ids": ids})
        np.testing.assert_array_equal(addressing(ids), rows)


def test_ngram_hash_mapping_with_segments():
    addressing = Addressing.deepseek_v41(14)
    session = operator(addressing, "segments", None)
    ends = np.array([0, 1, 3, 4, 20, 41, 64])
    ids = RNG.integers(0, 99_092, 64)
    segments = np.repeat(np.arange(6), np.diff(ends)).astype(np.int32)
    rows, _ = session.run(None, {"ids": ids[None], "segments": segments[None]})
    np.testing.assert_array_equal(addressing(ids, cu_seqlens=ends), rows[0])


def test_ngram_hash_mapping_where_products_wrap():
    addressing = Addressing.multiply_xor(
        [2**62 + 1, -(2**61) + 1, 2**63 - 1], [5, 4099, 16_000_057, 20_000_003], heads=2, pad=3
    )
    session = operator(addressing, "", None)
    ids = RNG.integers(-(2**62), 2**62, (2, 200))
    rows, _ = session.run(None, {"ids": ids})
    np.testing.assert_array_equal(addressing(ids), rows)
