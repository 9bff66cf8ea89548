"""The hash in the graph: ONNX Runtime computes what the core does."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import helper  # noqa: E402

from conftest import load_vectors  # noqa: E402
from engram_rs import Addressing, encode  # noqa: E402
from engram_rs.memory_graph import INPUT  # noqa: E402
from engram_rs.onnx import export_hash  # noqa: E402
from engram_rs.onnx.hashing import hash_nodes  # noqa: E402
from engram_rs.vectors import vectors_json  # noqa: E402
from test_families import scheme_of  # noqa: E402


def radix_above_vocabulary():
    document = json.loads(Addressing.longcat(vocab_size=1000, ratio=3).to_json())
    document["symbols"]["size"] = 900
    return Addressing.from_json(json.dumps(document))


RNG = np.random.default_rng(11)
LENGTHS = (0, 1, 2, 3, 1000)
WRAPPING = Addressing.multiply_xor(
    [2**62 + 1, -(2**61) + 1, 2**63 - 1], [5, 4099, 16_000_057, 20_000_003], heads=2, pad=-3
)
ANY, BYTES, MARKS = "any int64", "bytes", "bytes that begin and go on characters"
FAMILIES = {
    "byte": (Addressing.byte_fnv1a(), ANY),
    "byte, prime": (Addressing.byte_fnv1a(2_097_143, (4, 8, 12, 1)), ANY),
    "byte, one order twice": (Addressing.byte_fnv1a(997, (3, 3)), ANY),
    "byte, pad": (Addressing.byte_fnv1a(997, (3, 2)).with_boundary(pad=7), ANY),
    "byte, boundaries": (Addressing.byte_fnv1a(997, (3, 2)).with_boundary(reset=[7, 9], dead=[3]), BYTES),
    "characters": (Addressing.utf8_fnv1a(2_097_143), MARKS),
    "characters, pad": (Addressing.utf8_fnv1a(10_007, (1, 3)).with_boundary(pad=65), MARKS),
    "characters, boundaries": (Addressing.utf8_fnv1a(10_007, (2, 3)).with_boundary(reset=[7], dead=[200]), MARKS),
    "deepseek": (Addressing.deepseek_v41(1), 99_092),
    "qwen": (Addressing.qwen_ple(eos=7, vocab_size=500), 500),
    "mixed, null rows": (
        Addressing.multiply_xor([5, 7, 11], [97, 101], heads=1, vocab_size=90).with_boundary(dead=[3]),
        90,
    ),
    "token map": (
        Addressing.multiply_xor([5, 7, 11], [97, 101, 103, 107], heads=2, pad=1, token_map=[3, 1, 0, 2, 1]),
        5,
    ),
    "mixed, products that wrap": (WRAPPING, ANY),
    "mixed, all of int64, null rows": (WRAPPING.with_boundary(), ANY),
    "blt": (Addressing.blt(2), ANY),
    "blt, large tables": (Addressing.blt(1, (1, 4), 2**61), ANY),
    "blt, boundaries": (Addressing.blt(1, (2, 3), 1009).with_boundary(pad=-1, reset=[7], dead=[9]), BYTES),
    "longcat": (Addressing.longcat(vocab_size=1000, ratio=3), 1000),
    "longcat, large": (Addressing.longcat(one_table=True), 131_072),
    "longcat, fewer tokens than the radix": (radix_above_vocabulary(), 900),
}


def draw(kind, shape):
    if kind == ANY:
        return RNG.integers(-(2**63), 2**63 - 1, shape, endpoint=True)
    if kind == BYTES:
        return RNG.integers(3, 16, shape)
    if kind == MARKS:
        return RNG.choice(np.array([7, 65, 66, 0x80, 0xBF, 0xC3, 0xE2, 0xF0, 200]) + 3, shape)
    return RNG.integers(0, kind, shape)


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    """Graphs that were exported once, by scheme and mode."""
    made = {}

    def get(addressing, mode="graph"):
        key = (addressing, mode)
        if key not in made:
            path = tmp_path_factory.mktemp("hash") / "hash.onnx"
            export_hash(addressing, path, mode)
            made[key] = (session_of(str(path)), path)
        return made[key]

    return get


def ask(session, ids):
    return session.run([INPUT], {"input_ids": ids})[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_graph_is_the_core(name, sessions):
    addressing, kind = FAMILIES[name]
    session, path = sessions(addressing)
    for batch in (1, 7):
        for length in LENGTHS:
            ids = draw(kind, (batch, length))
            np.testing.assert_array_equal(ask(session, ids), addressing(ids))
    assert ask(session, draw(kind, (0, 5))).shape == (0, 5, addressing.num_columns)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 14)]
    assert model.ir_version == 7
    assert {node.domain for node in model.graph.node} == {""}
    told = {one.key: one.value for one in model.metadata_props}
    assert told["engram.addressing_digest"] == addressing.digest


def test_a_million_positions(sessions):
    addressing = Addressing.byte_fnv1a()
    session, _ = sessions(addressing)
    for shape in ((1, 300_000), (7, 50_000), (1000, 350)):
        ids = draw(ANY, shape)
        np.testing.assert_array_equal(ask(session, ids), addressing(ids))


def golden():
    """Schemes, ids and rows of cases with a sequence and no marks from outside."""
    for scheme in ("byte_fnv1a", "utf8_fnv1a"):
        for case in load_vectors(scheme):
            yield getattr(Addressing, scheme)(case["entries"], case["orders"]), case["ids"], case["rows"]
    for case in load_vectors("multiply_xor"):
        if not any(case.get("dead", [])):
            yield scheme_of(case), case.get("symbols", case.get("ids")), case["rows"]
    for case in load_vectors("polynomial"):
        yield (
            Addressing.blt(case["functions"], case["group_sizes"], case["rows_per_column"]),
            case["ids"],
            case["rows"],
        )
    for case in load_vectors("vocabulary_radix"):
        sizes = (case["vocab_size"], case["ratio"], case["max_order"], case["splits"])
        yield Addressing.longcat(*sizes), case["ids"], case["rows"]


def test_golden_vectors(sessions):
    compared = {}
    for addressing, ids, rows in golden():
        known = compared.setdefault(addressing.scheme, set())
        # The graph of a scheme with long orders is long: so many schemes of a family are enough.
        if addressing not in known and (len(known) > 12 or max(addressing.orders) > 16):
            continue
        known.add(addressing)
        got = ask(sessions(addressing)[0], np.array([ids], dtype=np.int64))
        np.testing.assert_array_equal(got[0], np.reshape(rows, (len(ids), addressing.num_columns)))
    assert min(len(known) for known in compared.values()) > 1
    assert len(compared) == 5


@pytest.mark.parametrize("scheme", ["byte_fnv1a", "utf8_fnv1a"])
def test_a_hash_of_zero_becomes_one(scheme, sessions):
    """No golden vector has such a gram; the generator of vectors looks for some."""
    found = 0
    for case in json.loads(vectors_json(scheme, cases=0, seed=3, entries=2_097_143, orders=(4, 8)))["cases"]:
        addressing = getattr(Addressing, scheme)(case["entries"], case["orders"])
        rows = ask(sessions(addressing)[0], np.array([case["ids"]], dtype=np.int64).reshape(1, -1))[0]
        assert rows.tolist() == case["rows"]
        found += sum(row.count(1) for row in case["hashes"])
    assert found > 0


@settings(max_examples=15)
@given(
    orders=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    entries=st.integers(1, 2**63 - 1),
    characters=st.booleans(),
    pad=st.none() | st.integers(0, 255),
    marks=st.lists(st.integers(0, 255), max_size=2),
    data=st.data(),
)
def test_any_scheme_of_bytes(orders, entries, characters, pad, marks, data):
    make = Addressing.utf8_fnv1a if characters else Addressing.byte_fnv1a
    addressing = make(entries, orders).with_boundary(pad=pad, reset=marks[:1], dead=marks[1:])
    some = [symbol + 3 for symbol in (*marks, 0x41, 0x80, 0xBF, 0xC0)]
    agrees(addressing, data.draw(batches(st.integers(-(2**63), 2**63 - 1) | st.sampled_from(some))))


@settings(max_examples=15)
@given(
    multipliers=st.lists(st.integers(-(2**62), 2**62 - 1).map(lambda half: 2 * half + 1), min_size=1, max_size=4),
    heads=st.integers(1, 3),
    vocabulary=st.none() | st.integers(12, 2**40),
    pad=st.integers(0, 11),
    marks=st.lists(st.integers(0, 11), max_size=2),
    data=st.data(),
)
def test_any_scheme_of_products(multipliers, heads, vocabulary, pad, marks, data):
    columns = heads * max(1, len(multipliers) - 1)
    primes = data.draw(st.lists(st.sampled_from([2, 97, 16_000_057, 2**61 - 1]), min_size=columns, max_size=columns))
    entries = 2**63 - 1
    offsets = [data.draw(st.integers(0, entries - prime)) for prime in primes]
    addressing = Addressing.multiply_xor(
        [*multipliers, 1][: max(2, len(multipliers))],
        primes,
        heads,
        offsets=offsets,
        entries=entries,
        vocab_size=vocabulary,
        pad=pad,
        reset=marks[:1],
        dead=marks[1:],
    )
    low, high = (-(2**63), 2**63 - 1) if vocabulary is None else (0, vocabulary - 1)
    agrees(addressing, data.draw(batches(st.integers(low, high) | st.integers(0, 11))))


def batches(ids):
    """Arrays `[batch, sequence]`, empty ones too."""
    shapes = st.tuples(st.integers(0, 3), st.integers(0, 12))
    return shapes.flatmap(
        lambda shape: st.lists(ids, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]).map(
            lambda flat: np.array(flat, dtype=np.int64).reshape(shape)
        )
    )


def agrees(addressing, ids):
    session = session_of(as_model(addressing, "graph").SerializeToString())
    np.testing.assert_array_equal(ask(session, ids), addressing(ids))


def as_model(addressing, mode):
    hashed = hash_nodes(addressing, "input_ids", INPUT, mode)
    value = helper.make_tensor_value_info
    kind = onnx.TensorProto.INT64
    graph = helper.make_graph(
        hashed.nodes, "h", [value("input_ids", kind, ["b", "t"])], [value(INPUT, kind, None)], hashed.initializers
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14), *hashed.opset_imports], ir_version=7)


def test_real_text(sessions):
    text = "Ship of gold: كِتَابٌ أُحْكِمَتْ آيَاتُهُ — ខ្មែរ 🚢"
    for addressing in (Addressing.byte_fnv1a(), Addressing.utf8_fnv1a()):
        ids = encode(text)[None]
        np.testing.assert_array_equal(ask(sessions(addressing)[0], ids), addressing(ids))


@pytest.mark.parametrize("opset", [15, 17, 21])
def test_later_operator_sets(opset, tmp_path):
    for name in ("byte", "characters", "characters, pad", "mixed, products that wrap", "blt", "longcat"):
        addressing, kind = FAMILIES[name]
        export_hash(addressing, tmp_path / "h.onnx", opset=opset)
        ids = draw(kind, (2, 20))
        np.testing.assert_array_equal(ask(session_of(str(tmp_path / "h.onnx")), ids), addressing(ids))


def test_quantizers_leave_it_alone(tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization")
    source, target = tmp_path / "h.onnx", tmp_path / "q.onnx"
    addressing, kind = FAMILIES["blt"]
    export_hash(addressing, source)
    quantization.quantize_dynamic(source, target, weight_type=quantization.QuantType.QUInt8)
    ids = draw(kind, (2, 20))
    np.testing.assert_array_equal(ask(session_of(str(target)), ids), addressing(ids))
    nbits = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    quantizer = nbits.MatMulNBitsQuantizer(onnx.load(source), block_size=32, is_symmetric=False)
    quantizer.process()
    session = session_of(quantizer.model.model.SerializeToString())
    np.testing.assert_array_equal(ask(session, ids), addressing(ids))


@pytest.mark.parametrize(
    "addressing",
    [Addressing.qwen_ple(eos=7, vocab_size=500), Addressing.deepseek_v41(1), WRAPPING],
    ids=["reset", "no reset", "products that wrap"],
)
def test_by_the_runtimes_own_operator(addressing, sessions):
    try:
        session, path = sessions(addressing, "ort")
    except Exception as error:
        if "NGramHashMapping" in str(error) and "not a registered" in str(error):
            pytest.skip("this ONNX Runtime is older than its operator")
        raise
    for shape in ((1, 1), (3, 2), (7, 50)):
        ids = RNG.integers(0, 500, shape)
        ids[RNG.random(shape) < 0.2] = 7
        np.testing.assert_array_equal(ask(session, ids), addressing(ids))
    assert {one.domain: one.version for one in onnx.load(path).opset_import} == {"": 14, "com.microsoft": 1}


@pytest.mark.parametrize(
    ("addressing", "mode", "message"),
    [
        (Addressing.byte_fnv1a(), "ort", "computes multiply_xor, not byte_fnv1a"),
        (Addressing.multiply_xor([3, 5, 7], [97, 101], 1).with_boundary(), "ort", "reads that in place of what is"),
        (
            Addressing.from_json(
                Addressing.multiply_xor([3, 5, 7], [97, 101], 1).to_json().replace('"order":2', '"order":1')
            ),
            "ort",
            "all orders from 2 on with equally many heads",
        ),
        (Addressing.multiply_xor([3, 5], [97], heads=1, pad=0).with_boundary(dead=[3]), "ort", "dead"),
        (Addressing.byte_fnv1a(), "rust", "mode must be 'graph' or 'ort', not 'rust'"),
    ],
)
def test_what_has_no_such_form(addressing, mode, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        export_hash(addressing, tmp_path / "h.onnx", mode)
    assert not list(tmp_path.iterdir())


def test_wrong_arguments(tmp_path):
    with pytest.raises(TypeError, match="must be an Addressing, not str"):
        export_hash("byte_fnv1a", tmp_path / "h.onnx")
    for opset in (13, 24, True, "14"):
        with pytest.raises(ValueError, match="opset must be 14 … 23"):
            export_hash(Addressing.byte_fnv1a(), tmp_path / "h.onnx", opset=opset)
