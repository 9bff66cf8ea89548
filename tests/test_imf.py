"""Model zips: what is packed is read back, and what is wrong is refused with its reason."""

import copy
import hashlib
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
yaml = pytest.importorskip("yaml")
pytest.importorskip("pydantic")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from engram_rs import Addressing, imf  # noqa: E402
from engram_rs import _yaml as document  # noqa: E402
from engram_rs.imf.graphs import describe  # noqa: E402
from engram_rs.imf.skeleton import read_skeleton  # noqa: E402
from engram_rs.memory_graph import GraphMetadata  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
WIDTH = 4
SCHEME = Addressing.byte_fnv1a(97)
IDS = ("input_ids", INT64, ["batch", "sequence"])
STATES = ("encoder_hidden_states", FLOAT, ["batch", "source", WIDTH])
LOGITS = ("logits", FLOAT, ["batch", "sequence", 384])
ADDRESSES = ("engram_addresses", INT64, ["batch", "sequence", 3])
HIDDEN = ("last_hidden_state", FLOAT, ["batch", "sequence", WIDTH])

METADATA = {
    "format": "imf-v1",
    "id": "khm-latn-1.0",
    "task": "translit",
    "source_script": "Khmr",
    "target": "Latn",
    "tokenizer": "bytes",
    "opset": 14,
    "decoder": "kv",
    "precision": "fp32",
    "license": "CC-BY-4.0",
    "trained_from": "a table of random numbers",
    "metrics": [{"name": "cer", "value": 27.42, "protocol": "895 held-out pairs", "source": "RESULTS.md#khmer"}],
    "parity": {"samples": 500, "cer_delta": 0.0},
}
ENGRAM = {"addressing": SCHEME.to_json(), "input": "engram_addresses", "dim": WIDTH, "block": 3}


def model(nodes, inputs, outputs, weights=None, opset=14, **changes):
    """A small model; IR version 7 is that of opset 14."""
    values = [[helper.make_tensor_value_info(*value) for value in values] for values in (inputs, outputs)]
    initializers = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "graph", *values, initializers)
    imports = changes.pop("imports", [helper.make_opsetid("", opset)])
    return helper.make_model(graph, opset_imports=imports, ir_version=7, **changes)


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def encoder(opset=14):
    return model(
        [node("Gather", "table input_ids", "last_hidden_state")], [IDS], [HIDDEN], {"table": floats(384, 4)}, opset
    )


def memory_encoder():
    nodes = [
        node("Gather", "table input_ids", "embedded"),
        node("Mod", "engram_addresses entries", "rows"),
        node("Gather", "memory rows", "gathered"),
        node("ReduceSum", "gathered axis", "added", keepdims=0),
        node("Add", "embedded added", "last_hidden_state"),
    ]
    weights = {"table": floats(384, 4), "memory": floats(97, 4), "entries": np.array(97), "axis": np.array([2])}
    return model(nodes, [IDS, ADDRESSES], [HIDDEN], weights)


DECODE = [
    node("Gather", "table input_ids", "embedded"),
    node("ReduceMean", "encoder_hidden_states", "context", axes=[1], keepdims=1),
    node("Add", "embedded context", "states"),
    node("MatMul", "states head", "logits"),
]
DECODER_WEIGHTS = {"table": floats(384, 4), "head": floats(4, 384)}


def decoder(opset=14):
    return model(DECODE, [IDS, STATES], [LOGITS], DECODER_WEIGHTS, opset)


def decoder_kv(layers=2):
    names = [f"{what}_{layer}" for layer in range(layers) for what in ("key", "value")]
    nodes = [*DECODE, node("Unsqueeze", "states axis", "heads")]
    nodes += [node("Concat", f"past_{name} heads", f"present_{name}", axis=2) for name in names]
    pasts = [(f"past_{name}", FLOAT, ["batch", 1, "past", WIDTH]) for name in names]
    presents = [(f"present_{name}", FLOAT, ["batch", 1, "total", WIDTH]) for name in names]
    weights = {**DECODER_WEIGHTS, "axis": np.array([1])}
    return model(nodes, [IDS, STATES, *pasts], [LOGITS, *presents], weights)


def members(**changes):
    """All members of a `kv` zip as bytes; a change is a model, bytes, or None for a member less."""
    made = {
        "README.md": b"# A model\n",
        "encoder.onnx": encoder(),
        "decoder.onnx": decoder(),
        "decoder-kv.onnx": decoder_kv(),
        **changes,
    }
    return {
        name: content if isinstance(content, bytes) else content.SerializeToString()
        for name, content in made.items()
        if content is not None
    }


def metadata(**changes):
    """Metadata with changes; None takes a field away."""
    return {name: value for name, value in {**copy.deepcopy(METADATA), **changes}.items() if value is not None}


def memory_zip(tmp_path, engram=ENGRAM, model=None):
    path = tmp_path / "memory.zip"
    imf.pack(members(**{"encoder.onnx": model or memory_encoder()}), path, metadata(format="imf-v2", engram=engram))
    return path


@pytest.fixture
def folder(tmp_path):
    where = tmp_path / "folder"
    where.mkdir()
    for name, content in members().items():
        (where / name).write_bytes(content)
    (where / "metadata.yaml").write_text(yaml.safe_dump(METADATA))
    return where


@pytest.fixture
def packed(tmp_path):
    path = tmp_path / "model.zip"
    imf.pack(members(), path, METADATA)
    return path


def test_the_graphs_of_these_tests_are_right():
    for graph in (encoder(), memory_encoder(), decoder(), decoder_kv(), encoder(7), decoder(7)):
        onnx.checker.check_model(graph, full_check=True)


def test_what_is_packed_is_read_back(packed, tmp_path):
    wanted = members()
    loaded = imf.load(packed)
    assert list(loaded.members) == ["metadata.yaml", *wanted]
    assert loaded.metadata.sha256 == {
        name: hashlib.sha256(content).hexdigest() for name, content in wanted.items() if name.endswith(".onnx")
    }
    for name, content in wanted.items():
        assert loaded.read(name) == content
    assert loaded.extract(tmp_path / "out") == tmp_path / "out"
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == {
        **wanted,
        "metadata.yaml": loaded.read("metadata.yaml"),
    }
    with pytest.raises(KeyError, match=r"none\.onnx.*encoder\.onnx"):
        loaded.read("none.onnx")


def test_the_zip_is_one_that_zipfile_and_a_plain_yaml_reader_read(packed):
    with zipfile.ZipFile(packed) as archive:
        assert archive.testzip() is None
        told = yaml.safe_load(archive.read("metadata.yaml"))
    assert {name: told[name] for name in METADATA} == METADATA
    assert set(told) == {*METADATA, "sha256"}


def test_equal_input_gives_equal_bytes(packed, folder, tmp_path):
    whole = packed.read_bytes()
    for file in folder.iterdir():
        os.utime(file, (1, 1))
        file.chmod(0o600)
    imf.pack(folder, tmp_path / "again.zip", folder / "metadata.yaml")
    assert (tmp_path / "again.zip").read_bytes() == whole
    turned = dict(reversed(members().items()))
    imf.pack(turned, tmp_path / "again.zip", dict(reversed(METADATA.items())))
    assert (tmp_path / "again.zip").read_bytes() == whole
    # An extracted zip is a folder to pack, digests included.
    extracted = imf.load(packed).extract(tmp_path / "out")
    imf.pack(extracted, tmp_path / "again.zip", extracted / "metadata.yaml")
    assert (tmp_path / "again.zip").read_bytes() == whole


def test_digests_are_computed_and_never_believed(tmp_path):
    given = metadata(sha256={"encoder.onnx": "0" * 64})
    with pytest.raises(ValueError, match=r"sha256 of encoder\.onnx.*leave sha256 out"):
        imf.pack(members(), tmp_path / "model.zip", given)
    assert not os.listdir(tmp_path)


def test_optional_members_and_fields_are_kept(tmp_path):
    path = tmp_path / "model.zip"
    extra = {"NOTICE": b"thanks", "extra.onnx": encoder().SerializeToString()}
    given = metadata(
        trained_on="2026-08-14", more={"b": [1, 2.5, True, None], "a": "no"}, sha256={"NOTICE": sha(b"thanks")}
    )
    imf.pack({**members(), **extra}, path, given)
    loaded = imf.load(path)
    assert list(loaded.members)[-2:] == ["NOTICE", "extra.onnx"]
    assert set(loaded.metadata.sha256) == {*loaded.graphs, "NOTICE"}
    assert loaded.metadata.model_extra == {"trained_on": "2026-08-14", "more": given["more"]}


def sha(content):
    return hashlib.sha256(content).hexdigest()


def test_a_plain_decoder_needs_no_kv(tmp_path):
    path = tmp_path / "model.zip"
    imf.pack(members(**{"decoder-kv.onnx": None}), path, metadata(decoder="plain"))
    assert set(imf.validate(path).graphs) == {"encoder.onnx", "decoder.onnx"}


def test_opsets_from_7_on(tmp_path):
    path = tmp_path / "model.zip"
    changes = {"encoder.onnx": encoder(7), "decoder.onnx": decoder(7), "decoder-kv.onnx": None}
    imf.pack(members(**changes), path, metadata(decoder="plain", opset=7))
    assert imf.validate(path).graphs["encoder.onnx"].opset == 7


def test_a_report_tells_what_the_graphs_are(packed):
    report = imf.validate(packed, strict=True)
    assert report.strict
    assert [str(tensor) for tensor in report.graphs["encoder.onnx"].inputs] == ["input_ids int64 [batch, sequence]"]
    assert [tensor.name for tensor in report.graphs["decoder-kv.onnx"].outputs][::4] == ["logits", "present_value_1"]


def test_info_leaves_the_graphs_unread(packed):
    whole = bytearray(packed.read_bytes())
    whole[imf.info(packed).members["encoder.onnx"].start + 50] ^= 1
    packed.write_bytes(whole)
    assert imf.info(packed).metadata.id == "khm-latn-1.0"
    with pytest.raises(ValueError, match=r"model\.zip: encoder\.onnx: it is damaged"):
        imf.load(packed)


# --- imf-v2 -----------------------------------------------------------------------------------------------------------


def test_a_memory_that_takes_addresses(tmp_path):
    engram = imf.validate(memory_zip(tmp_path), strict=True).metadata.engram
    assert (engram.scheme, engram.addressing_digest, engram.entries) == (SCHEME, SCHEME.digest, 97)
    assert (engram.input, engram.dim, engram.block) == ("engram_addresses", WIDTH, 3)


def test_an_encoder_may_carry_its_addressing_and_must_agree(tmp_path):
    carrying = memory_encoder()
    properties = GraphMetadata(SCHEME, "fp32", WIDTH, WIDTH).to_properties()
    helper.set_model_props(carrying, properties)
    memory_zip(tmp_path, model=carrying)
    other = Addressing.byte_fnv1a(97, (2, 3, 5))
    for key, wrong in (("addressing", other.to_json()), ("addressing_digest", other.digest), ("dim", "5")):
        helper.set_model_props(carrying, {**properties, f"engram.{key}": wrong})
        with pytest.raises(ValueError, match=rf"encoder\.onnx carries engram\.{key} "):
            memory_zip(tmp_path, model=carrying)


def test_the_addressing_is_written_in_its_canonical_form(tmp_path):
    loose = json.dumps(json.loads(SCHEME.to_json()), indent=1)
    assert (
        imf.load(memory_zip(tmp_path, {**ENGRAM, "addressing": loose})).metadata.engram.addressing == SCHEME.to_json()
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"addressing": "{}"}, "^metadata: engram.addressing: .*JSON"),
        ({"addressing": 5}, "engram.addressing: "),
        ({"addressing_digest": "0" * 64}, f"{SCHEME.digest}.*0{{64}}"),
        ({"entries": 98}, "entries is 98.*97"),
        ({"dim": 0}, "engram.dim"),
        ({"dim": True}, "engram.dim"),
        ({"block": -1}, "engram.block"),
        ({"input": "input_ids"}, "another than input_ids"),
        ({"input": "addresses"}, "exactly input_ids, addresses: missing addresses; unexpected engram_addresses"),
        (
            {"addressing": Addressing.byte_fnv1a(97, (2, 3)).to_json()},
            r"\[batch, sequence, 3\].*\[dynamic, dynamic, 2\]",
        ),
        ({"addressing": Addressing.longcat(50, 3, 3, 2).to_json()}, "every id of the tokenizer"),
    ],
)
def test_an_engram_block_that_is_wrong(tmp_path, change, named):
    with pytest.raises(ValueError, match=named):
        memory_zip(tmp_path, {**ENGRAM, **change})


def test_the_format_follows_from_the_memory(tmp_path):
    for given in (metadata(format="imf-v2"), metadata(engram=ENGRAM)):
        with pytest.raises(ValueError, match="what imf-v2 has and imf-v1 has not"):
            imf.pack(members(), tmp_path / "model.zip", given)
    with pytest.raises(ValueError, match=r"exactly input_ids: unexpected engram_addresses$"):
        imf.pack(members(**{"encoder.onnx": memory_encoder()}), tmp_path / "model.zip", METADATA)


# --- metadata ---------------------------------------------------------------------------------------------------------

WRONG_FIELDS = [
    ({"format": "imf-v3"}, "format: .*imf-v3"),
    ({"format": None}, "format: Field required"),
    ({"id": "khm-latn"}, "id: .*khm-latn"),
    ({"id": "Khm-latn-1.0"}, "id: "),
    ({"id": "khm-latn-1.0\n"}, "id: "),
    ({"id": "khm-latn-1.01"}, "id: "),
    ({"id": "khm-latn-١.0"}, "id: "),
    ({"id": 1.0}, "id: .*1.0; put text in quotes"),
    ({"task": "translate"}, "task: "),
    ({"source_script": "khmr"}, "source_script: "),
    ({"source_script": "KHMR"}, "source_script: "),
    ({"source_script": "Khm"}, "source_script: "),
    ({"target": ""}, "target: "),
    ({"target": False}, "target: .*put text in quotes"),
    ({"tokenizer": "bpe"}, "tokenizer: .*bytes.*bpe"),
    ({"opset": 6}, "opset: .*6"),
    ({"opset": 15}, "opset: .*15"),
    ({"opset": "14"}, "opset: "),
    ({"opset": 14.0}, "opset: "),
    ({"opset": True}, "opset: "),
    ({"opset": 13}, r"encoder\.onnx has opset 14, but the metadata 13"),
    ({"decoder": "beam"}, "decoder: "),
    ({"precision": "bf16"}, "precision: "),
    ({"license": " "}, "license: "),
    ({"trained_from": None}, "trained_from: Field required"),
    ({"metrics": {}}, "metrics: "),
    ({"metrics": [{**METADATA["metrics"][0], "value": "27.42"}]}, r"metrics\.0\.value"),
    ({"metrics": [{**METADATA["metrics"][0], "value": float("nan")}]}, r"metrics\.0\.value"),
    ({"metrics": [{**METADATA["metrics"][0], "value": True}]}, r"metrics\.0\.value"),
    ({"metrics": [{"name": "cer", "value": 1}]}, r"metrics\.0\.protocol: Field required; metrics\.0\.source"),
    ({"parity": {"samples": 0, "cer_delta": 0}}, r"parity\.samples"),
    ({"parity": {"samples": 500, "cer_delta": float("inf")}}, r"parity\.cer_delta"),
    ({"sha256": {"encoder.onnx": "ABC"}}, r"sha256\.encoder\.onnx"),
    ({"sha256": {"other.onnx": "0" * 64}}, r"not there: other\.onnx"),
    ({"sha256": {"metadata.yaml": "0" * 64}}, "sha256 of themselves"),
    ({"more": float("nan")}, "finite"),
    ({"more": 10**18}, "too big"),
    ({"more": json.loads("[" * 20 + "]" * 20)}, "nested more than 16"),
    ({"more": list(range(5000))}, "more than 4096 values"),
    ({"more": "\x1b[2J"}, r"U\+001B"),
]


@pytest.mark.parametrize(("change", "named"), WRONG_FIELDS, ids=[str(change)[:50] for change, _ in WRONG_FIELDS])
def test_wrong_fields_are_named(tmp_path, change, named):
    with pytest.raises(ValueError, match=named) as caught:
        imf.pack(members(), tmp_path / "model.zip", metadata(**change))
    assert "\n" not in str(caught.value)
    assert not os.listdir(tmp_path)


def test_values_that_yaml_does_not_have(tmp_path):
    for wrong in (object(), {1, 2}, np.float32(1), {5: "a key"}):
        with pytest.raises(TypeError):
            imf.pack(members(), tmp_path / "model.zip", metadata(more=wrong))
    assert not os.listdir(tmp_path)


# What YAML 1.1 makes of these would be another value than what was written.
PITFALLS = {
    "no": "no",
    "Off": "Off",
    "y": "y",
    "True": "True",
    "~": "~",
    "012": "012",
    "0x1F": "0x1F",
    "1_000": "1_000",
    "12:30:45": "12:30:45",
    "2026-08-14": "2026-08-14",
    ".inf": ".inf",
    ".NaN": ".NaN",
    "+1": "+1",
    "1.": "1.",
    "'1.0'": "1.0",
    '"14"': "14",
    "1.0": 1.0,
    "1e5": 1e5,
    "14": 14,
    "true": True,
    "null": None,
    "": None,
    "=": "=",
}


@pytest.mark.parametrize(("written", "value"), PITFALLS.items())
def test_scalars_stay_what_was_written(written, value):
    read = document.parse(f"key: {written}\n")["key"]
    assert (read, type(read)) == (value, type(value))


TRICKY = [*PITFALLS, *PITFALLS.values(), 1e-5, 1e16, -0.5, 10**17, -3, False, "1e5", "e", " padded ", "a: b", "a #b"]
TRICKY += [
    "#a",
    "- a",
    "&a",
    "*a",
    "!a",
    "<<",
    "a\nb",
    "a\tb",
    "\n",
    "'",
    '"',
    "{}",
    "ក្មេង",
    "𐎀",
    "\u200c",
    "\ufeff",
    "\u2028",
]


def test_what_is_written_is_what_two_readers_read():
    for value in ({str(index): item for index, item in enumerate(TRICKY)}, dict.fromkeys(map(str, TRICKY), 1)):
        text = document.dump(value)
        assert document.parse(text) == value
        assert yaml.safe_load(text) == value
    assert document.dump({"id": "khm-latn-1.0", "sha256": {"a": "0" * 64}}).splitlines()[0] == "id: khm-latn-1.0"


def test_ids_and_versions_survive_a_file(folder, tmp_path):
    text = yaml.safe_dump(metadata(target=None)) + "target: no\nversion: '1.0'\nreleased: 2026-08-14\n"
    (folder / "metadata.yaml").write_text(text)
    imf.pack(folder, tmp_path / "model.zip", folder / "metadata.yaml")
    told = yaml.safe_load(imf.load(tmp_path / "model.zip").read("metadata.yaml"))
    assert (told["target"], told["version"], told["released"]) == ("no", "1.0", "2026-08-14")


# --- strict -----------------------------------------------------------------------------------------------------------

NOT_READY = [
    ({"license": None}, "no license"),
    ({"metrics": None}, "no metrics"),
    ({"metrics": [{**METADATA["metrics"][0], "source": "RESULTS.md"}]}, r"RESULTS\.md'; wanted page#anchor"),
    ({"metrics": [{**METADATA["metrics"][0], "source": "RESULTS.md#"}]}, "page#anchor"),
    ({"metrics": [{**METADATA["metrics"][0], "source": "#khmer"}]}, "page#anchor"),
    ({"parity": None}, "no parity"),
    ({"parity": {"samples": 499, "cer_delta": 0}}, "499 samples; wanted at least 500"),
    ({"license": None, "metrics": None, "parity": None}, "no license; no metrics; no parity"),
]
for _precision, _limit in {"fp32": 0.2, "fp16": 1.0, "int8": 2.0, "int4": 3.0}.items():
    for _delta in (_limit + 0.01, -_limit - 0.01):
        _change = {"precision": _precision, "parity": {"samples": 500, "cer_delta": _delta}}
        NOT_READY.append((_change, f"at {_precision} at most {_limit:g}"))


@pytest.mark.parametrize(("change", "named"), NOT_READY)
def test_strict_names_what_a_release_lacks(tmp_path, change, named):
    path = tmp_path / "model.zip"
    imf.pack(members(), path, metadata(**change))
    assert not imf.validate(path).strict
    with pytest.raises(ValueError, match=f"model.zip: not ready for a release: .*{named}"):
        imf.validate(path, strict=True)


@pytest.mark.parametrize(("precision", "limit"), [("fp32", 0.2), ("fp16", 1.0), ("int8", 2.0), ("int4", 3)])
def test_strict_takes_what_reaches_the_limit(tmp_path, precision, limit):
    path = tmp_path / "model.zip"
    imf.pack(members(), path, metadata(precision=precision, parity={"samples": 500, "cer_delta": limit}))
    assert imf.validate(path, strict=True).strict


# --- graphs -----------------------------------------------------------------------------------------------------------


def changed(made, change):
    change(made)
    return made


def shape(made, name, *dims):
    for value in (*made.graph.input, *made.graph.output):
        if value.name == name:
            value.CopyFrom(helper.make_tensor_value_info(name, value.type.tensor_type.elem_type, dims))
    return made


def dtype(made, name, kind):
    for value in (*made.graph.input, *made.graph.output):
        if value.name == name:
            value.type.tensor_type.elem_type = kind
    return made


def named(made, old, new):
    for value in (*made.graph.input, *made.graph.output):
        if value.name == old:
            value.name = new
    return made


def with_node(made, kind, domain):
    made.graph.node.append(helper.make_node(kind, ["x"], ["y"], domain=domain))
    return made


def with_function(made):
    made.functions.append(helper.make_function("own", "f", ["x"], ["y"], [], [helper.make_opsetid("", 14)]))
    return made


def nested(made):
    inner = helper.make_graph([helper.make_node("Own", ["x"], ["y"], domain="com.microsoft")], "inner", [], [])
    made.graph.node.append(helper.make_node("If", ["c"], ["z"], then_branch=inner))
    return made


WRONG_GRAPHS = {
    "opset": ({"encoder.onnx": encoder(13)}, r"encoder\.onnx has opset 13, but the metadata 14"),
    "opset of kv": (
        {"decoder-kv.onnx": changed(decoder_kv(), lambda m: m.opset_import[0].__setattr__("version", 15))},
        "opset 15",
    ),
    "no opset": ({"encoder.onnx": changed(encoder(), lambda m: m.ClearField("opset_import"))}, "imports 0 versions"),
    "two opsets": (
        {"encoder.onnx": changed(encoder(), lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx", 13)))},
        "imports 2 versions",
    ),
    "a foreign operator": ({"encoder.onnx": with_node(encoder(), "Gelu", "com.microsoft")}, r"com\.microsoft\.Gelu"),
    "MatMulNBits at fp32": ({"decoder.onnx": with_node(decoder(), "MatMulNBits", "com.microsoft")}, "at fp32 all"),
    "a nested foreign operator": ({"encoder.onnx": nested(encoder())}, r"com\.microsoft\.Own"),
    "a function": ({"encoder.onnx": with_function(encoder())}, "functions of its own"),
    "another input": (
        {"encoder.onnx": named(encoder(), "input_ids", "ids")},
        "missing input_ids; unexpected ids",
    ),
    "no output": (
        {"encoder.onnx": changed(encoder(), lambda m: m.graph.ClearField("output"))},
        "0 outputs; wanted one",
    ),
    "two outputs": (
        {"encoder.onnx": changed(encoder(), lambda m: m.graph.output.append(m.graph.output[0]))},
        "2 outputs; wanted one",
    ),
    "int32 ids": ({"encoder.onnx": dtype(encoder(), "input_ids", TensorProto.INT32)}, "input_ids int32.*type int64"),
    "int states": ({"encoder.onnx": dtype(encoder(), "last_hidden_state", INT64)}, "not of type float or float16"),
    "other states": (
        {"decoder.onnx": dtype(decoder(), "encoder_hidden_states", TensorProto.FLOAT16)},
        "encoder_hidden_states float16.*not of type float",
    ),
    "an unknown type": ({"encoder.onnx": dtype(encoder(), "input_ids", 99)}, "type 99"),
    "no type": ({"encoder.onnx": changed(encoder(), lambda m: m.graph.input[0].ClearField("type"))}, "no type"),
    "a sequence": (
        {"encoder.onnx": changed(encoder(), lambda m: m.graph.input[0].type.sequence_type.SetInParent())},
        "sequence_type",
    ),
    "a fixed batch": (
        {"encoder.onnx": shape(encoder(), "input_ids", 1, "sequence")},
        r"\[1, sequence\].*\[dynamic, dynamic\]",
    ),
    "a fixed length": ({"decoder.onnx": shape(decoder(), "input_ids", "batch", 8)}, r"decoder\.onnx: the shape"),
    "a fixed output": (
        {"encoder.onnx": shape(encoder(), "last_hidden_state", "batch", 8, WIDTH)},
        "the shape of last_hidden",
    ),
    "three axes of ids": ({"encoder.onnx": shape(encoder(), "input_ids", "b", "s", "k")}, "does not fit"),
    "no shape": (
        {"encoder.onnx": changed(encoder(), lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"))},
        "the shape of input_ids int64 does not fit",
    ),
    "another width": (
        {"decoder.onnx": shape(decoder(), "encoder_hidden_states", "batch", "source", 5)},
        r"decoder\.onnx takes .*5\], but the encoder gives .*4\]",
    ),
    "no encoder states": (
        {"decoder.onnx": named(decoder(), "encoder_hidden_states", "states")},
        "missing encoder_hidden_states; unexpected states",
    ),
    "no logits": (
        {"decoder.onnx": named(decoder(), "logits", "scores")},
        "outputs .* missing logits; unexpected",
    ),
    "no pasts": ({"decoder-kv.onnx": decoder()}, "no input past_key_0"),
    "a past less": (
        {"decoder-kv.onnx": named(decoder_kv(), "past_value_1", "other")},
        "inputs .* missing past_value_1",
    ),
    "a gap in the layers": (
        {"decoder-kv.onnx": named(decoder_kv(), "past_key_1", "past_key_2")},
        "unexpected past_key_2",
    ),
    "a present less": (
        {"decoder-kv.onnx": named(decoder_kv(), "present_key_1", "other")},
        "outputs .* missing present_key_1",
    ),
    "a fixed past": (
        {"decoder-kv.onnx": shape(decoder_kv(), "past_key_0", "batch", 1, 0, WIDTH)},
        "past_key_0 float .*0, 4",
    ),
    "a flat past": ({"decoder-kv.onnx": shape(decoder_kv(), "past_key_0", "batch", "past", WIDTH)}, "does not fit"),
    "present of another type": (
        {"decoder-kv.onnx": dtype(decoder_kv(), "present_key_0", TensorProto.FLOAT16)},
        "present_key_0 float16 .*not of type float",
    ),
    "a name that steers a terminal": ({"encoder.onnx": named(encoder(), "input_ids", "\x1b[2J")}, r"name '\\x1b\[2J'"),
    "a long name": ({"encoder.onnx": named(encoder(), "input_ids", "x" * 257)}, "more than 256 characters"),
    "a dimension that steers a terminal": ({"encoder.onnx": shape(encoder(), "input_ids", "\x07", "s")}, r"'\\x07'"),
    "many inputs": (
        {"encoder.onnx": changed(encoder(), lambda m: m.graph.input.extend([m.graph.input[0]] * 5))},
        "unexpected input_ids$",
    ),
    "no graph": ({"encoder.onnx": b"no graph at all"}, r"encoder\.onnx: it is no ONNX model"),
    "an empty graph": ({"encoder.onnx": b""}, r"encoder\.onnx: it imports 0 versions"),
    "a missing decoder": ({"decoder.onnx": None}, r"missing: decoder\.onnx"),
    "a missing kv": ({"decoder-kv.onnx": None}, r"missing: decoder-kv\.onnx"),
    "a missing readme": ({"README.md": None}, r"missing: README\.md"),
}


@pytest.mark.parametrize(("change", "told"), WRONG_GRAPHS.values(), ids=WRONG_GRAPHS)
def test_wrong_graphs_are_named_and_nothing_is_written(tmp_path, change, told):
    path = tmp_path / "model.zip"
    path.write_bytes(b"older")
    with pytest.raises(ValueError, match=told):
        imf.pack(members(**change), path, METADATA)
    assert path.read_bytes() == b"older"
    assert os.listdir(tmp_path) == ["model.zip"]


def test_inputs_that_have_their_value_in_the_graph_are_none(tmp_path):
    # Files of IR version 3 list their weights among the inputs.
    old = encoder()
    old.ir_version = 3
    old.graph.input.append(helper.make_tensor_value_info("table", FLOAT, [384, 4]))
    imf.pack(members(**{"encoder.onnx": old}), tmp_path / "model.zip", METADATA)


def test_four_bits_need_an_operator_that_onnx_has_not(tmp_path):
    path = tmp_path / "model.zip"
    four = with_node(decoder(), "MatMulNBits", "com.microsoft")
    imf.pack(members(**{"decoder.onnx": four}), path, metadata(precision="int4"))
    assert imf.validate(path).graphs["decoder.onnx"].foreign == {("com.microsoft", "MatMulNBits")}
    # Quantizers leave imports behind that nothing uses.
    idle = encoder()
    idle.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    imf.pack(members(**{"encoder.onnx": idle}), path, METADATA)


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_the_skeleton_tells_what_the_whole_model_tells(size):
    packed_floats = helper.make_tensor("floats", FLOAT, [2], [1.0, 2.0])
    made = nested(with_node(memory_encoder(), "Constant", ""))
    made.graph.node.append(helper.make_node("Constant", [], ["c"], value=packed_floats))
    made.graph.sparse_initializer.append(
        helper.make_sparse_tensor(packed_floats, helper.make_tensor("at", INT64, [2], [0, 1]), [5])
    )
    helper.set_model_props(made, {"key": "value"})
    for graph in (made, decoder_kv(), encoder()):
        data = graph.SerializeToString()
        chunks = (data[at : at + size] for at in range(0, len(data), size))
        skeleton = read_skeleton(chunks, len(data))
        assert describe(skeleton) == describe(graph)
        assert len(skeleton.graph.node) == len(graph.graph.node)
        assert not any(tensor.raw_data for tensor in skeleton.graph.initializer)


# --- packing ----------------------------------------------------------------------------------------------------------


def test_as_many_members_as_a_reader_takes(tmp_path):
    path = tmp_path / "model.zip"
    more = {f"more{index}": b"" for index in range(59)}
    imf.pack({**members(), **more}, path, METADATA)
    assert len(imf.load(path).members) == 64
    with pytest.raises(ValueError, match="65 members; at most 64"):
        imf.pack({**members(), **more, "last": b""}, path, METADATA)


def test_a_table_of_zeros_is_stored(tmp_path):
    path = tmp_path / "model.zip"
    made = encoder()
    made.graph.initializer.append(numpy_helper.from_array(np.zeros(2**20, np.float32), "zeros"))
    imf.pack(members(**{"encoder.onnx": made}), path, METADATA)
    found = imf.validate(path).members
    assert not found["encoder.onnx"].deflated
    assert found["decoder.onnx"].deflated


def test_arguments_of_wrong_types(folder, tmp_path):
    target = tmp_path / "model.zip"
    for arguments, told in (
        ((5, target, METADATA), "source must be a folder or a mapping"),
        ((members(), target, 5), "metadata must be a mapping or a YAML file"),
        (({5: b""}, target, METADATA), "name must be text, not 5"),
        (({"README.md": 5}, target, METADATA), r"README\.md must be a path or bytes, not int"),
    ):
        with pytest.raises(TypeError, match=told):
            imf.pack(*arguments)
    for call in (imf.load, imf.validate, imf.info, lambda path: imf.pack(members(), path, METADATA)):
        with pytest.raises(TypeError):
            call(5)
    assert os.listdir(tmp_path) == ["folder"]


def test_paths_that_cannot_be(folder, packed, tmp_path):
    target = tmp_path / "new.zip"
    for arguments, told in (
        ((tmp_path / "none", target, METADATA), "no folder"),
        (({"README.md": tmp_path / "none"}, target, METADATA), "no file .*none"),
        ((members(), target, tmp_path / "none.yaml"), r"no file .*none\.yaml"),
        ((members(), tmp_path / "none" / "new.zip", METADATA), "no folder"),
    ):
        with pytest.raises(FileNotFoundError, match=told):
            imf.pack(*arguments)
    for call in (imf.load, imf.validate, imf.info):
        for path in (tmp_path / "none.zip", folder):
            with pytest.raises(FileNotFoundError, match="there is no file"):
                call(path)
    with pytest.raises(FileNotFoundError, match="no folder"):
        imf.load(packed).extract(tmp_path / "none" / "out")
    assert not target.exists()


def test_folders_that_are_no_members(folder, tmp_path):
    target = tmp_path / "model.zip"
    yaml_file = folder / "metadata.yaml"
    with pytest.raises(ValueError, match=r"metadata\.yaml is among the members"):
        imf.pack(folder, target, METADATA)
    with pytest.raises(ValueError, match="would lie among the members"):
        imf.pack(folder, folder / "model.zip", yaml_file)
    with pytest.raises(ValueError, match="the file that is read"):
        imf.pack(members(), yaml_file, yaml_file)
    with pytest.raises(ValueError, match="the file that is read"):
        imf.pack({**members(), "encoder.onnx": folder / "encoder.onnx"}, folder / "encoder.onnx", METADATA)
    (folder / ".hidden").touch()
    with pytest.raises(ValueError, match=r"'\.hidden'; wanted a plain file name"):
        imf.pack(folder, target, yaml_file)
    (folder / ".hidden").unlink()
    (folder / "sub").mkdir()
    with pytest.raises(ValueError, match="sub is no file; a model zip has no folders"):
        imf.pack(folder, target, yaml_file)
    assert not target.exists()


def test_a_file_that_changes_while_it_is_packed(folder, tmp_path, monkeypatch):
    from engram_rs.imf import packing

    def check_and_change(*arguments):
        (folder / "encoder.onnx").write_bytes(encoder().SerializeToString()[:-1] + b"\0")

    monkeypatch.setattr(packing, "check_graphs", check_and_change)
    with pytest.raises(ValueError, match=r"encoder\.onnx was changed while it was packed"):
        imf.pack(folder, tmp_path / "model.zip", folder / "metadata.yaml")
    assert os.listdir(tmp_path) == ["folder"]


def test_metadata_files_that_are_none(folder, tmp_path):
    for text, told in ((b"- a\n", "no mapping"), (b"\xff", "'utf-8' codec"), (b"", "empty"), (b"a: b: c", "no YAML")):
        (folder / "metadata.yaml").write_bytes(text)
        with pytest.raises(ValueError, match=rf"metadata\.yaml.*{told}"):
            imf.pack(folder, tmp_path / "model.zip", folder / "metadata.yaml")


# --- extracting -------------------------------------------------------------------------------------------------------


def test_extraction_into_an_empty_folder_keeps_its_rights(packed, tmp_path):
    out = tmp_path / "out"
    out.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(out)
    imf.load(packed).extract(tmp_path / "link")
    assert out.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "link").is_symlink()
    assert len(list(out.iterdir())) == 5


def test_extraction_into_what_is_not_empty(packed, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").touch()
    with pytest.raises(FileExistsError, match="not empty; wanted a new or empty folder"):
        imf.load(packed).extract(out)
    with pytest.raises(FileExistsError, match="it is a file"):
        imf.load(packed).extract(packed)
    assert sorted(os.listdir(tmp_path)) == ["model.zip", "out"]
    assert os.listdir(out) == ["mine"]


def test_a_zip_that_changes_after_its_check(packed, tmp_path):
    loaded = imf.load(packed)
    whole = bytearray(packed.read_bytes())
    whole[loaded.members["decoder.onnx"].start + 20] ^= 1
    packed.write_bytes(whole)
    with pytest.raises(ValueError, match=r"decoder\.onnx: it is damaged"):
        loaded.read("decoder.onnx")
    with pytest.raises(ValueError, match=r"decoder\.onnx: it is damaged"):
        loaded.extract(tmp_path / "out")
    assert os.listdir(tmp_path) == ["model.zip"]
    packed.write_bytes(whole[:100])
    with pytest.raises(ValueError, match=r"model\.zip: .* is damaged"):
        loaded.read("decoder.onnx")


# --- memory -----------------------------------------------------------------------------------------------------------

STREAMED = """
import resource, sys
from pathlib import Path
from engram_rs import imf
from test_imf import METADATA
where = Path(sys.argv[1])
def run(folder, name):
    imf.pack(folder, where / f"{name}.zip", METADATA)
    assert imf.validate(where / f"{name}.zip", strict=True)
    imf.load(where / f"{name}.zip").extract(where / name)
run(where / "small", "one")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run(where / "big", "two")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit elsewhere")
def test_big_models_take_little_memory(tmp_path):
    for name in ("small", "big"):
        (tmp_path / name).mkdir()
        for member, content in members().items():
            (tmp_path / name / member).write_bytes(content)
    made = encoder()
    weights = np.random.default_rng(0).bytes(2**20) * 24
    made.graph.initializer.append(helper.make_tensor("big", TensorProto.INT8, [len(weights)], weights, raw=True))
    (tmp_path / "big" / "encoder.onnx").write_bytes(made.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", STREAMED, tmp_path],
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 8 * 1024  # KiB, for 24 MiB of weights
    assert (tmp_path / "two" / "encoder.onnx").stat().st_size > len(weights)


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def command():
    typer = pytest.importorskip("typer")
    testing = pytest.importorskip("typer.testing")
    from engram_rs.cli.info import info
    from engram_rs.cli.pack import pack
    from engram_rs.cli.validate import validate

    app = typer.Typer()
    for function in (pack, validate, info):
        app.command()(function)
    return lambda *words: testing.CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(word) for word in words])


def test_the_command_line(command, folder, tmp_path):
    path = tmp_path / "[model].zip"
    assert "imf-v1, khm-latn-1.0, fp32" in command("pack", folder, path).stdout
    (folder / "metadata.yaml").rename(tmp_path / "other.yaml")
    assert command("pack", folder, path, "--metadata", tmp_path / "other.yaml").exit_code == 0
    assert "ready for a release" in command("validate", path, "--strict").stdout
    shown = command("validate", path).stdout
    assert "past_key_1 float [batch, 1, past, 4]" in shown
    assert "khm-latn-1.0: valid" in shown
    shown = command("info", path).stdout
    for words in ("model zip, imf-v1", "27.42 (895 held-out pairs; RESULTS.md#khmer)", "decoder-kv.onnx", "CC-BY-4.0"):
        assert words in shown
    assert SCHEME.digest in command("info", memory_zip(tmp_path)).stdout
    path.write_bytes(path.read_bytes()[:-1])
    for words in (("validate", path), ("info", path)):
        assert isinstance(command(*words).exception, ValueError)
