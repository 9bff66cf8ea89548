"""Whole models as graphs: the same numbers as torch, in any batch, with any cache, by every way to get addresses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from engram_rs import Addressing, encode, imf  # noqa: E402
from engram_rs.memory_graph import EncoderMetadata  # noqa: E402
from engram_rs.onnx import export_encoder, export_seq2seq  # noqa: E402
from engram_rs.onnx.seq2seq import TIERS  # noqa: E402
from engram_rs.torch import attach  # noqa: E402
from test_attach import bert  # noqa: E402

RNG = np.random.default_rng(3)
TEXTS = ["ship", "memory of gold", "كِتَابٌ", "naïve — ខ្មែរ"]
SCHEMES = {
    "bytes": Addressing.byte_fnv1a(1009),
    "characters": Addressing.utf8_fnv1a(1009),
    "tokens": Addressing.multiply_xor([11, 7, 5], [97, 101, 103, 107], heads=2, vocab_size=384, pad=0),
}


def build(seed=0, scheme=None, **changes):
    torch.manual_seed(seed)
    fields = {"vocab_size": 384, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_decoder_layers": 2}
    fields |= {"num_heads": 4, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**fields | changes)).eval()
    if scheme is not None:
        handle = attach(model, 1, scheme, dim=8, quiet=True)
        torch.nn.init.normal_(handle.module.projection)
    return model


class Graphs:
    """The three sessions of a folder."""

    def __init__(self, folder):
        self.encoder, self.decoder, self.cached = (
            onnxruntime.InferenceSession(str(folder / name), providers=["CPUExecutionProvider"])
            for name in ("encoder.onnx", "decoder.onnx", "decoder-kv.onnx")
        )
        self.told = EncoderMetadata.from_properties(self.encoder.get_modelmeta().custom_metadata_map, "encoder.onnx")

    def encode(self, ids):
        feed = {"input_ids": ids}
        if self.told is not None and self.told.mode == "input":
            scheme = self.told.addressing
            feed["engram_addresses"] = scheme.hashes(ids) if scheme.scheme.endswith("fnv1a") else scheme(ids)
        return self.encoder.run(None, feed)[0]

    def decode(self, tokens, states):
        return self.decoder.run(None, {"input_ids": tokens, "encoder_hidden_states": states})[0]

    def pasts(self, batch):
        ports = [port for port in self.cached.get_inputs() if port.name.startswith("past_")]
        dtype = np.float16 if "16" in ports[0].type else np.float32
        return {port.name: np.zeros((batch, port.shape[1], 0, port.shape[3]), dtype) for port in ports}

    def step(self, tokens, states, pasts):
        logits, *presents = self.cached.run(None, {"input_ids": tokens, "encoder_hidden_states": states, **pasts})
        names = [port.name.replace("present_", "past_") for port in self.cached.get_outputs()[1:]]
        return logits, dict(zip(names, presents, strict=True))


def padded(texts):
    rows = [encode(text) for text in texts]
    full = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for target, row in zip(full, rows, strict=True):
        target[: len(row)] = row
    return full


def by_torch(model, ids, tokens):
    with torch.no_grad():
        mask = torch.from_numpy((ids != 0).astype(np.int64))
        states = model.encoder(input_ids=torch.from_numpy(ids), attention_mask=mask)[0]
        found = model(input_ids=torch.from_numpy(ids), attention_mask=mask, decoder_input_ids=torch.from_numpy(tokens))
    return states.numpy(), found.logits.numpy()


KINDS = {
    "T5": {},
    "gated, untied": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "more decoder": {"num_decoder_layers": 3},
}


@pytest.mark.parametrize(("kind", "scheme"), [("T5", None), ("gated, untied", "bytes"), ("more decoder", "characters")])
def test_the_graphs_are_the_model(kind, scheme, tmp_path):
    model = build(scheme=scheme and SCHEMES[scheme], **KINDS[kind])
    exported = export_seq2seq(model, tmp_path / "model")
    graphs = Graphs(tmp_path / "model")
    assert (graphs.told is None) == (scheme is None)
    assert exported.memory == graphs.told
    for texts in (TEXTS[:1], TEXTS, [TEXTS[1] * 20, "a"]):
        ids = padded(texts)
        tokens = np.concatenate([np.zeros((len(texts), 1), np.int64), RNG.integers(3, 259, (len(texts), 9))], axis=1)
        states, logits = by_torch(model, ids, tokens)
        got = graphs.encode(ids)
        here = ids != 0
        np.testing.assert_allclose(got[here], states[here], atol=1e-4)
        assert not got[~here].any()
        np.testing.assert_allclose(graphs.decode(tokens, got), logits, atol=1e-4)
        whole, _ = graphs.step(tokens, got, graphs.pasts(len(texts)))
        np.testing.assert_allclose(whole, logits, atol=1e-4)
    for path in exported.paths.values():
        graph = onnx.load(path)
        onnx.checker.check_model(graph, full_check=True)
        assert [(one.domain, one.version) for one in graph.opset_import] == [("", 14)]
        assert (graph.ir_version, graph.producer_name) == (7, "engram_rs")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    model = build(scheme=SCHEMES["bytes"])
    export_seq2seq(model, folder)
    return model, Graphs(folder)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 2**32))
def test_any_windows_give_one_text(plain, widths, seed):
    """Tokens fed one by one, in windows, or all at once."""
    _, graphs = plain
    draw = np.random.default_rng(seed)
    states = graphs.encode(padded(TEXTS[:3]))
    tokens = draw.integers(3, 259, (3, sum(widths)))
    tokens[:, 0] = 0
    wanted = graphs.decode(tokens, states)
    pasts, start, pieces = graphs.pasts(3), 0, []
    for width in widths:
        logits, pasts = graphs.step(tokens[:, start : start + width], states, pasts)
        pieces.append(logits)
        start += width
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), wanted, atol=1e-4)


def test_a_batch_is_its_texts(plain):
    _, graphs = plain
    together = graphs.encode(padded(TEXTS))
    tokens = np.array([[0, 40, 50]])
    for row, text in enumerate(TEXTS):
        alone = graphs.encode(encode(text)[None])
        np.testing.assert_allclose(together[row, : alone.shape[1]], alone[0], atol=1e-5)
        np.testing.assert_allclose(
            graphs.decode(np.repeat(tokens, len(TEXTS), 0), together)[row], graphs.decode(tokens, alone)[0], atol=1e-5
        )
    nothing = graphs.decode(tokens, np.zeros((1, 4, 32), np.float32))
    assert np.isfinite(nothing).all()


@pytest.mark.parametrize(("scheme", "mode"), [("bytes", "graph"), ("characters", "graph"), ("tokens", "graph"),
                                              ("tokens", "ort")])  # fmt: skip
def test_every_way_to_get_addresses(scheme, mode, tmp_path):
    model = build(scheme=SCHEMES[scheme])
    exported = [export_seq2seq(model, tmp_path / way, addresses=way) for way in ("input", mode)]
    try:
        fed, alone = (Graphs(tmp_path / way) for way in ("input", mode))
    except Exception as error:
        if mode == "ort" and "not a registered" in str(error):
            pytest.skip("this ONNX Runtime is older than its operator")
        raise
    assert [port.name for port in alone.encoder.get_inputs()] == ["input_ids"]
    assert [port.name for port in fed.encoder.get_inputs()] == ["input_ids", "engram_addresses"]
    for ids in (padded(TEXTS), padded(["a"]), RNG.integers(3, 259, (7, 100))):
        np.testing.assert_array_equal(alone.encode(ids), fed.encode(ids))
    assert [one.zip_fields()["format"] for one in exported] == ["imf-v2", "imf-v1"]


@pytest.mark.parametrize("mode", ["input", "graph"])
def test_it_packs_and_is_valid(mode, tmp_path):
    model = build(scheme=SCHEMES["bytes"])
    exported = export_seq2seq(model, tmp_path / "model", addresses=mode)
    (tmp_path / "README.md").write_text("A model.\n")
    fields = {"id": "ara-diac-0.1", "task": "diacritization", "source_script": "Arab", "target": "Arab"}
    fields |= {"trained_from": "nothing", **exported.zip_fields()}
    imf.pack({**exported.paths, "README.md": tmp_path / "README.md"}, tmp_path / "model.zip", fields)
    report = imf.validate(tmp_path / "model.zip")
    assert report.metadata.opset == 14
    assert (report.metadata.engram is not None) == (mode == "input")


@pytest.mark.parametrize("precision", TIERS)
def test_precisions(precision, tmp_path):
    """Near the float model, and the closer the more bits; the head and the tables are left alone."""
    model = build(scheme=SCHEMES["bytes"])
    samples = [encode(text) for text in TEXTS[:2]] if precision == "int8-static" else None
    exported = export_seq2seq(model, tmp_path / "model", precision=precision, calibration=samples)
    graphs = Graphs(tmp_path / "model")
    ids, tokens = padded(TEXTS), np.array([[0, 40, 50]] * len(TEXTS))
    _, logits = by_torch(model, ids, tokens)
    got = graphs.decode(tokens, graphs.encode(ids)).astype(np.float32)
    assert np.isfinite(got).all()
    error = np.sqrt(((got - logits) ** 2).mean()) / logits.std()
    assert error < {"fp32": 1e-5, "fp16": 5e-3, "int8": 0.05, "int8-static": 0.15, "int4": 0.3}[precision]
    stepped, _ = graphs.step(tokens, graphs.encode(ids), graphs.pasts(len(TEXTS)))
    assert np.sqrt(((stepped - logits) ** 2).mean()) / logits.std() < 0.3
    assert exported.precision == graphs.told.precision == precision.partition("-")[0]
    initializers = {one.name: one for one in onnx.load(exported.paths["encoder.onnx"]).graph.initializer}
    table = next(one for name, one in initializers.items() if name.endswith("engram.table"))
    wanted = {"fp32": onnx.TensorProto.FLOAT, "fp16": onnx.TensorProto.FLOAT16}.get(precision, onnx.TensorProto.INT8)
    assert table.data_type == wanted
    decoder = onnx.load(exported.paths["decoder.onnx"])
    head = next(node for node in decoder.graph.node if "logits" in node.output)
    assert head.op_type == "MatMul"
    products = {node.op_type for node in decoder.graph.node} & {"MatMulInteger", "DequantizeLinear", "MatMulNBits"}
    assert products == {"int8": {"MatMulInteger"}, "int8-static": {"DequantizeLinear"}, "int4": {"MatMulNBits"}}.get(
        precision, set()
    )


def test_an_encoder_alone(tmp_path):
    torch.manual_seed(0)
    model = bert("BertModel").eval()
    handle = attach(model, 1, entries=97, dim=4, quiet=True)
    torch.nn.init.normal_(handle.module.projection)
    ids = torch.from_numpy(padded(["abc", "a longer one"])) % 300
    with torch.no_grad():
        wanted = model(input_ids=ids, attention_mask=(ids != 0).long())[0].numpy()
    for way in ("input", "graph"):
        exported = export_encoder(model, tmp_path / f"{way}.onnx", addresses=way)
        session = onnxruntime.InferenceSession(str(exported.paths[f"{way}.onnx"]), providers=["CPUExecutionProvider"])
        feed = {"input_ids": ids.numpy()}
        if way == "input":
            feed["engram_addresses"] = handle.module.addressing(ids.numpy())
        got = session.run(["last_hidden_state"], feed)[0]
        here = ids.numpy() != 0
        np.testing.assert_allclose(got[here], wanted[here], atol=1e-4)


def test_a_classifier(tmp_path):
    torch.manual_seed(0)
    config = transformers.T5Config(vocab_size=384, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, num_labels=5)
    model = transformers.T5ForTokenClassification(config).eval()
    torch.nn.init.normal_(attach(model, 0, entries=97, dim=4, quiet=True).module.projection)
    ids = padded(TEXTS)
    with torch.no_grad():
        wanted = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(ids != 0).long()).logits
    path = tmp_path / "tagger.onnx"
    export_encoder(model, path, addresses="graph", precision="int8")
    got = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(
        ["logits"], {"input_ids": ids}
    )
    here = ids != 0
    error = (got[0] - wanted.numpy())[here]
    assert np.sqrt((error**2).mean()) < 0.1 * wanted.numpy()[here].std()


def test_the_model_is_not_touched(tmp_path):
    model = build(scheme=SCHEMES["bytes"]).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    export_seq2seq(model, tmp_path / "model", precision="fp16")
    assert model.training
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model.eval()(input_ids=torch.from_numpy(padded(["a"])), decoder_input_ids=torch.zeros((1, 1), dtype=torch.int64))


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "opset must be 14 … 17, not 13", {"opset": 13}),
        (ValueError, "addresses must be one of input, graph, ort, not 'rust'", {"addresses": "rust"}),
        (ValueError, "precision must be one of fp32", {"precision": "bf16"}),
        (ValueError, "calibration belongs to the precision int8-static", {"precision": "int8-static"}),
        (ValueError, "calibration belongs", {"calibration": [encode("a")]}),
        (ValueError, "at least one id", {"precision": "int8-static", "calibration": [np.zeros(0, np.int64)]}),
        (ValueError, "computes multiply_xor, not byte_fnv1a", {"addresses": "ort"}),
    ],
)
def test_wrong_arguments(error, message, arguments, tmp_path):
    with pytest.raises(error, match=message):
        export_seq2seq(build(scheme=SCHEMES["bytes"]), tmp_path / "model", **arguments)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_old_model(monkeypatch, tmp_path):
    """Not an encoder of one model beside the decoder of another."""
    (tmp_path / "model").mkdir()
    before = {name: name.encode() for name in ("encoder.onnx", "decoder.onnx", "decoder-kv.onnx")}
    for name, content in before.items():
        (tmp_path / "model" / name).write_bytes(content)
    save = onnx.save_model

    def full(model, path, *more, **others):
        if "decoder-kv" in str(path):
            raise OSError(28, "No space left on device")
        save(model, path, *more, **others)

    monkeypatch.setattr(onnx, "save_model", full)
    with pytest.raises(OSError, match="No space left"):
        export_seq2seq(build(num_layers=1, num_decoder_layers=1), tmp_path / "model")
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before


def test_models_that_are_too_large(tmp_path):
    """They are refused before anything is copied: these have no weights at all."""
    sizes = {"vocab_size": 384, "d_model": 4096, "d_kv": 64, "num_heads": 32, "pad_token_id": 0}
    for blocks, precision, said in ((6, "int8", "at float32, from which int8 is made"), (9, "fp16", "at float16;")):
        config = transformers.T5Config(**sizes, d_ff=16384, num_layers=blocks)
        with torch.device("meta"):
            model = transformers.T5ForConditionalGeneration(config)
        with pytest.raises(ValueError, match=rf"encoder\.onnx take \d\.\d\d GiB {said}"):
            export_seq2seq(model, tmp_path / "model", precision=precision)
    with torch.device("meta"):
        model = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, d_ff=64, num_layers=1))
        attach(model, 0, entries=2**21 + 1, dim=256, quiet=True)
    with pytest.raises(ValueError, match=r"encoder\.onnx take 2\.\d\d GiB at float32; one ONNX file holds 2 GiB"):
        export_seq2seq(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_heads_that_say_nothing_of_positions(tmp_path):
    for name in ("BertForSequenceClassification", "BertForQuestionAnswering"):
        with pytest.raises(TypeError, match=rf"must give last_hidden_state or logits .* {name} gives \w*logits "):
            export_encoder(bert(name).eval(), tmp_path / "model.onnx")
    config = transformers.T5Config(vocab_size=9, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    with pytest.raises(TypeError, match="an encoder of transformers, not T5ForSequenceClassification"):
        export_encoder(transformers.T5ForSequenceClassification(config), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_wrong_models(tmp_path):
    for pad in (None, 3):
        with pytest.raises(ValueError, match=f"pad_token_id is {pad}; texts of a batch are padded with 0"):
            export_seq2seq(build(pad_token_id=pad), tmp_path / "model")
    with pytest.raises(TypeError, match="must be a T5ForConditionalGeneration"):
        export_seq2seq(bert("BertModel"), tmp_path / "model")
    with pytest.raises(TypeError, match="must be an encoder of transformers, not T5ForConditionalGeneration"):
        export_encoder(build(), tmp_path / "model.onnx")
    two = build(scheme=SCHEMES["bytes"])
    attach(two, 0, entries=97, dim=4, quiet=True)
    with pytest.raises(ValueError, match="2 memories; a graph can have one"):
        export_seq2seq(two, tmp_path / "model")
    late = build()
    attach(late, 0, entries=97, dim=4, stack="decoder", quiet=True)
    with pytest.raises(ValueError, match=r"the memory is at decoder\.block\.0"):
        export_seq2seq(late, tmp_path / "model")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        export_seq2seq(build(), tmp_path / "no" / "model")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is no folder"):
        export_seq2seq(build(), tmp_path / "file")
