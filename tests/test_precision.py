"""Fewer bits: which matrices they take, how far each value moves, and what is left alone."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from onnx import numpy_helper  # noqa: E402

from engram_rs import encode  # noqa: E402
from engram_rs.onnx import export_encoder, export_seq2seq  # noqa: E402
from engram_rs.torch import attach  # noqa: E402

SIZES = {"vocab_size": 384, "d_model": 48, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_decoder_layers": 1}
SIZES |= {"num_heads": 4, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
TEXTS = ["memory of gold", "كِتَابٌ"]


def with_memory(model):
    torch.nn.init.normal_(attach(model, 0, entries=97, dim=4, quiet=True).module.projection)
    return model.eval()


def encoder_only(seed=0):
    torch.manual_seed(seed)
    sizes = {name: value for name, value in SIZES.items() if "decoder" not in name}
    return with_memory(transformers.T5EncoderModel(transformers.T5Config(**sizes)))


def matrices(stack):
    """Those of torch's linear layers, `[in, out]`."""
    return [module.weight.detach().numpy().T for module in stack.modules() if isinstance(module, torch.nn.Linear)]


def constants(path):
    graph = onnx.load(path).graph
    return graph, {one.name: numpy_helper.to_array(one) for one in graph.initializer}


def test_int8_takes_every_matrix_but_the_head_and_moves_none_by_more_than_half_a_step(tmp_path):
    torch.manual_seed(0)
    model = with_memory(transformers.T5ForConditionalGeneration(transformers.T5Config(**SIZES)))
    exported = export_seq2seq(model, tmp_path / "model", precision="int8", addresses="graph")
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder), ("decoder-kv", model.decoder)):
        graph, values = constants(exported.paths[f"{name}.onnx"])
        stored = []
        for node in graph.node:
            if node.op_type == "MatMulInteger":
                scale = values[node.input[1].replace("_quantized", "_scale")]
                zero = values[node.input[3]].astype(np.float32)
                stored.append(((values[node.input[1]].astype(np.float32) - zero) * scale, scale))
        wanted = matrices(stack)
        assert len(stored) == len(wanted)
        for matrix in wanted:
            near = [np.abs(got - matrix).max() / scale.max() for got, scale in stored if got.shape == matrix.shape]
            assert min(near) <= 0.51, "no stored matrix is this one"
        left = [
            values[one].shape for node in graph.node if node.op_type == "MatMul" for one in node.input if one in values
        ]
        assert left == ([(4, 48)] if name == "encoder" else [(48, 384)]), "the projection, and the head"
        assert any(one.shape == (384, 48) and one.dtype == np.float32 for one in values.values()), "the embedding"


def test_int4_takes_every_matrix_and_needs_onnx_runtime(tmp_path):
    model = encoder_only()
    export_encoder(model, tmp_path / "model.onnx", precision="int4", addresses="graph")
    written = onnx.load(tmp_path / "model.onnx")
    assert {one.domain: one.version for one in written.opset_import} == {"": 14, "com.microsoft": 1}
    made = [node for node in written.graph.node if node.domain == "com.microsoft"]
    assert {node.op_type for node in made} == {"MatMulNBits"}
    wanted = matrices(model.encoder)
    sizes = [{one.name: one.i for one in node.attribute} for node in made]
    assert sorted((one["K"], one["N"]) for one in sizes) == sorted(matrix.shape for matrix in wanted)
    assert {(one["bits"], one["block_size"]) for one in sizes} == {(4, 32)}


def test_static_scales_are_those_of_the_samples(tmp_path):
    """Other samples give other scales, and one that can be computed by torch is right."""
    model = encoder_only()
    for name, text in (("one", TEXTS[0]), ("other", TEXTS[1])):
        export_encoder(model, tmp_path / name, precision="int8-static", calibration=[encode(text)])
    found = {}
    for name in ("one", "other"):
        graph, values = constants(tmp_path / name)
        found[name] = {
            node.input[0]: float(values[node.input[1]]) for node in graph.node if node.op_type == "QuantizeLinear"
        }
    assert found["one"].keys() == found["other"].keys() != set()
    assert found["one"] != found["other"]
    # What enters the first block is known: the norm of the ids' embedding.
    with torch.no_grad():
        states = model.encoder.block[0].layer[0].layer_norm(model.shared(torch.from_numpy(encode(TEXTS[0]))))
    span = float(states.max().clamp(min=0) - states.min().clamp(max=0)) / 255
    assert min(abs(scale - span) for scale in found["one"].values()) < 1e-3 * span


@pytest.mark.parametrize("precision", ["fp16", "int8", "int8-static", "int4"])
def test_padding_is_hidden_at_every_precision(precision, tmp_path):
    """A text gives the same with padding behind it; at int8 but for the scales of a call."""
    model = encoder_only()
    samples = [encode(text) for text in TEXTS] if precision == "int8-static" else None
    path = tmp_path / "model.onnx"
    export_encoder(model, path, precision=precision, addresses="graph", calibration=samples)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    alone = encode(TEXTS[0])[None]
    padded = np.pad(alone, ((0, 0), (0, 9)))
    first, second = (session.run(None, {"input_ids": ids})[0].astype(np.float32) for ids in (alone, padded))
    assert not second[:, alone.shape[1] :].any()
    error = np.abs(second[:, : alone.shape[1]] - first).max() / first.std()
    # Scales that are found at run time are found over all of a call, its padding too.
    assert error < {"fp16": 5e-3, "int8": 0.1, "int8-static": 1e-5, "int4": 1e-5}[precision]


def test_values_beyond_float16(tmp_path):
    model = encoder_only()
    with torch.no_grad():
        model.encoder.block[0].layer[1].DenseReluDense.wo.weight[0, 0] = 7e4
    with pytest.raises(ValueError, match=r"DenseReluDense\.wo\.weight holds values that float16 cannot .*65504"):
        export_encoder(model, tmp_path / "model.onnx", precision="fp16")
    assert not list(tmp_path.iterdir())
    export_encoder(model, tmp_path / "model.onnx")
