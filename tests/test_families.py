"""Every family against the golden vectors, by every kernel, and what the published models say of themselves."""

import json

import numpy as np
import pytest

from conftest import load_vectors
from engram_rs import Addressing, _core


@pytest.fixture(params=_core.kernels())
def kernel(request):
    _core.force_kernel(request.param)
    yield request.param
    _core.force_kernel(None)


def scheme_of(case: dict) -> Addressing:
    """The scheme that a case of multiply_xor describes, by the constructor of its layout."""
    if case["layout"] == "qwen_ple":
        return Addressing.qwen_ple(
            case["ple_layer_index"],
            **{name: case[name] for name in ("max_order", "heads", "base", "vocab_size", "seed", "divisor", "eos")},
        )
    return Addressing.deepseek_v41(
        case["layer"],
        case["layer_ids"],
        **{name: case[name] for name in ("max_order", "heads", "vocab_size", "compressed_vocab_size", "pad")},
    )


def test_fnv1a(kernel):
    for scheme in ("byte_fnv1a", "utf8_fnv1a"):
        for case in load_vectors(scheme):
            addressing = getattr(Addressing, scheme)(case["entries"], case["orders"])
            shape = (len(case["ids"]), len(case["orders"]))
            np.testing.assert_array_equal(addressing.hashes(case["ids"]), np.reshape(case["hashes"], shape))
            np.testing.assert_array_equal(addressing(case["ids"]), np.reshape(case["rows"], shape))


def test_multiply_xor(kernel):
    for case in load_vectors("multiply_xor"):
        addressing = scheme_of(case)
        assert list(addressing.multipliers) == case["multipliers"]
        assert list(addressing.row_counts) == case["row_counts"]
        assert list(addressing.offsets) == case["offsets"]
        assert addressing.entries == case.get("padded_rows", case["total_rows"])
        ids = case.get("symbols", case.get("ids"))
        np.testing.assert_array_equal(addressing(ids, dead=case.get("dead")), case["rows"])


def test_polynomial(kernel):
    for case in load_vectors("polynomial"):
        addressing = Addressing.blt(case["functions"], case["group_sizes"], case["rows_per_column"])
        np.testing.assert_array_equal(addressing(case["ids"]), case["rows"])


def test_vocabulary_radix(kernel):
    for case in load_vectors("vocabulary_radix"):
        sizes = (case["vocab_size"], case["ratio"], case["max_order"], case["splits"])
        rows = Addressing.longcat(*sizes)(case["ids"])
        np.testing.assert_array_equal(rows, case["rows"])
        # In one table the columns follow each other.
        one = Addressing.longcat(*sizes, one_table=True)
        np.testing.assert_array_equal(one(case["ids"]), rows + np.array(one.offsets))
        assert one.entries == sum(one.row_counts)


def test_the_published_totals():
    assert Addressing.deepseek_v41(1).entries == 384_006_168
    assert Addressing.deepseek_v41(14).entries == 384_016_682
    qwen = Addressing.qwen_ple()
    assert sum(qwen.row_counts) == 320_001_446
    assert qwen.entries == 320_001_536
    assert qwen.multipliers == (23703573157769, 20109073645365, 8052911324071)
    assert Addressing.blt().entries == 6 * 500_002
    assert Addressing.longcat().num_columns == 12


def test_the_demo_layout_is_a_seeded_v41():
    plain = {"heads": 2, "compressed_vocab_size": 500}
    demo = Addressing.deepseek_demo(1, (1, 15), vocab_sizes=(701, 701), seed=0, **plain)
    assert demo == Addressing.deepseek_v41(1, (1, 15), max_order=3, vocab_size=701, **plain)
    other = Addressing.deepseek_demo(1, (1, 15), vocab_sizes=(701, 701), seed=3, **plain)
    assert other.row_counts == demo.row_counts
    assert other.multipliers != demo.multipliers
    sizes = Addressing.deepseek_demo(1, (1, 15), vocab_sizes=(701, 1009), **plain)
    assert sizes.row_counts[2] >= 1009


ALL = [
    Addressing.byte_fnv1a(),
    Addressing.utf8_fnv1a(2_097_143, (2, 4, 6)),
    Addressing.byte_fnv1a(97, (1, 3)).with_boundary(pad=0, reset=[254], dead=[253]),
    Addressing.deepseek_v41(1),
    Addressing.deepseek_v41(14, token_map=np.arange(500) // 2, dead=[3, 1]),
    Addressing.qwen_ple(),
    Addressing.blt(3, (2, 5), 1000),
    Addressing.longcat(),
]
# Digests are written into tables and graphs: none of these may ever change, on any platform.
STABLE = [
    "707382837cce69bd",
    "4d2a4c5eb0f2f46c",
    "0f5faf5bcc219343",
    "d51c831d2654413f",
    "54ddbfc2673841d2",
    "97f1e97d2b1e0402",
    "c58c12ee2d2ad902",
    "62f3a6bad7355d13",
]


@pytest.mark.parametrize("addressing", ALL, ids=repr)
def test_one_json_form(addressing):
    text = addressing.to_json()
    assert Addressing.from_json(text) == addressing
    document = json.loads(text)
    assert json.dumps(document, sort_keys=True, separators=(",", ":")) == text
    assert set(document) >= {"boundary", "columns", "entries", "format", "scheme", "symbols"}
    # No number exceeds what a reader holds that takes numbers for doubles.
    numbers = [column[key] for column in document["columns"] for key in column]
    assert max([*numbers, document["entries"]]) < 2**53


def test_digests_are_stable():
    assert [addressing.digest[:16] for addressing in ALL] == STABLE


def test_marks_are_a_set():
    scheme = Addressing.byte_fnv1a()
    one = scheme.with_boundary(reset=[5, 3, 5], dead=[9])
    assert one == scheme.with_boundary(reset=(3, 5), dead=[9, 9])
    assert (one.reset, one.dead, one.pad) == ((3, 5), (9,), None)
    assert scheme.with_boundary(pad=7).pad == 7
    assert one.with_boundary() == scheme


def test_values_of_a_scheme():
    scheme = Addressing.deepseek_v41(14, token_map=[0, 2, 1, 2], pad=1)
    assert (scheme.vocab_size, scheme.pad, scheme.lookback, scheme.scheme) == (4, 1, 3, "multiply_xor")
    assert scheme.token_map.tolist() == [0, 2, 1, 2]
    assert scheme.orders == (2,) * 8 + (3,) * 8 + (4,) * 8
    assert Addressing.byte_fnv1a().multipliers is None
    assert Addressing.byte_fnv1a().token_map is None
    assert Addressing.byte_fnv1a().vocab_size is None
    assert Addressing.utf8_fnv1a(orders=(2, 6)).lookback == 23
    assert "multiply_xor" in repr(scheme)
    assert scheme.digest[:8] in repr(scheme)


def test_a_token_map_is_applied_first():
    mapped = np.random.default_rng(0).integers(0, 50, 300)
    ids = np.random.default_rng(1).integers(0, 300, 100)
    arguments = {"max_order": 3, "vocab_size": 1000}
    by_map = Addressing.deepseek_v41(1, token_map=mapped, **arguments)
    by_hand = Addressing.deepseek_v41(1, compressed_vocab_size=int(mapped.max()) + 1, **arguments)
    np.testing.assert_array_equal(by_map(ids), by_hand(mapped[ids]))


V41 = {
    "engram_layer_ids": [1, 14],
    "engram_num_embeddings": [384006168, 384016682],
    "engram_max_ngram_size": 4,
    "engram_n_heads": 8,
    "engram_vocab_size": 16000000,
    "engram_compressed_vocab_size": 99092,
    "engram_pad_token_id": 2,
}


def test_configurations_of_deepseek():
    assert Addressing.from_hf_config(V41, layer=14) == Addressing.deepseek_v41(14)
    assert Addressing.from_hf_config({"text_config": V41}, layer=1) == Addressing.deepseek_v41(1)
    mapped = np.arange(99_092)[::-1].copy()
    scheme = Addressing.from_hf_config(V41, layer=1, token_map=mapped)
    assert scheme.pad == mapped[2]
    assert scheme.multipliers == Addressing.deepseek_v41(1).multipliers
    for broken, named in (
        ({"engram_num_embeddings": [5, 6]}, "declares"),
        ({"engram_layer_ids": [1, 1]}, "different"),
    ):
        with pytest.raises(ValueError, match=named):
            Addressing.from_hf_config({**V41, **broken}, layer=1)
    with pytest.raises(ValueError, match="which layer"):
        Addressing.from_hf_config(V41)
    with pytest.raises(ValueError, match="layer 3"):
        Addressing.from_hf_config(V41, layer=3)
    with pytest.raises(TypeError, match="engram_n_heads"):
        Addressing.from_hf_config({**V41, "engram_n_heads": None}, layer=1)
    with pytest.raises(ValueError, match="no n-gram memory"):
        Addressing.from_hf_config({"vocab_size": 5})


BIG = "x" * 10_000_000
GOOD = {"multipliers": [3, 5], "row_counts": [7, 11], "heads": 2}


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: Addressing.multiply_xor(**{**GOOD, "multipliers": [3, 4]}), ValueError, "multiplier 4 is even"),
        (lambda: Addressing.multiply_xor(**{**GOOD, "multipliers": [3]}), ValueError, "row counts"),
        (lambda: Addressing.multiply_xor(**{**GOOD, "multipliers": [3, 2**63]}), ValueError, "multipliers"),
        (lambda: Addressing.multiply_xor(**{**GOOD, "row_counts": [7, 12]}), ValueError, "12 rows.*prime"),
        (lambda: Addressing.multiply_xor(**{**GOOD, "row_counts": [7]}), ValueError, "1 row counts"),
        (lambda: Addressing.multiply_xor(**{**GOOD, "row_counts": [7, 0]}), ValueError, "row_counts"),
        (lambda: Addressing.multiply_xor([3, 5], [2**63 - 25] * 2, 2), ValueError, "2\\^63"),
        (lambda: Addressing.multiply_xor(**GOOD, entries=17), ValueError, "the table has 17"),
        (lambda: Addressing.multiply_xor(**GOOD, offsets=[0]), ValueError, "1 offsets"),
        (lambda: Addressing.multiply_xor(**GOOD, offsets=[0, 2**63 - 1]), ValueError, "column 1"),
        (lambda: Addressing.multiply_xor(**GOOD, vocab_size=10, pad=10), ValueError, "pad symbol 10"),
        (lambda: Addressing.multiply_xor(**GOOD, vocab_size=10, reset=[-1]), ValueError, "reset symbol -1"),
        (lambda: Addressing.multiply_xor(**GOOD, token_map=[0, 4], dead=[5]), ValueError, "dead symbol 5"),
        (lambda: Addressing.multiply_xor(**GOOD, token_map=[]), ValueError, "map is empty"),
        (lambda: Addressing.multiply_xor(**GOOD, token_map=[0, -1]), ValueError, "-1"),
        (lambda: Addressing.multiply_xor(**GOOD, token_map=[2**32]), ValueError, str(2**32)),
        (lambda: Addressing.multiply_xor(**GOOD, token_map=[1.5]), TypeError, "token_map"),
        (lambda: Addressing.multiply_xor(**GOOD, vocab_size=5, token_map=[1]), ValueError, "a map has its size"),
        (lambda: Addressing.byte_fnv1a().with_boundary(pad=256), ValueError, "256"),
        (lambda: Addressing.byte_fnv1a().with_boundary(reset=[1.5]), TypeError, "reset"),
        (lambda: Addressing.deepseek_v41(2), ValueError, "layer 2"),
        (lambda: Addressing.deepseek_v41(1, max_order=1), ValueError, "max_order"),
        (lambda: Addressing.deepseek_v41(1, compressed_vocab_size=9, token_map=[1]), ValueError, "not both"),
        (lambda: Addressing.deepseek_demo(1), ValueError, "compressed_vocab_size or token_map"),
        (lambda: Addressing.qwen_ple(eos=248_320), ValueError, "248320"),
        (lambda: Addressing.qwen_ple(heads=0), ValueError, "heads"),
        (lambda: Addressing.blt(12), ValueError, "functions"),
        (lambda: Addressing.blt(2, (3, 4), 2**62), ValueError, "2\\^63"),
        (lambda: Addressing.longcat(2**40, 2**30), ValueError, "int64"),
        (lambda: Addressing.longcat(2**30, 2**10), ValueError, "int64"),
        (lambda: Addressing.longcat(max_order=1), ValueError, "max_order"),
    ],
)
def test_bad_schemes(make, error, named):
    with pytest.raises(error, match=named):
        make()


MULTIPLY = Addressing.multiply_xor(**GOOD, vocab_size=10).to_json()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (MULTIPLY.replace('["3","5"]', '["3","05"]'), "multipliers"),
        (MULTIPLY.replace('["3","5"]', "[3,5]"), "not the JSON"),
        (MULTIPLY.replace('"multipliers":["3","5"],', ""), "lacks multipliers"),
        (MULTIPLY.replace('"multipliers"', '"radix":5,"multipliers"'), "radix"),
        (MULTIPLY.replace('"order":2', '"order":2,"prime":3'), "prime"),
        (MULTIPLY.replace('"pad":0,', ""), "boundary.start"),
        (MULTIPLY.replace('"pad":0', '"pad":11'), "pad symbol 11"),
        (MULTIPLY.replace('"size":10', '"size":0'), "0 tokens"),
        (MULTIPLY.replace('"size":10', '"size":10,"offset":3'), "symbols.kind"),
        (MULTIPLY.replace('{"kind":"tokens","size":10}', '{"kind":"bytes","offset":3}'), "symbols"),
        (MULTIPLY.replace('"entries":18', '"entries":17'), "17"),
        (MULTIPLY.replace('"order":2', '"order":3'), "multipliers"),
        (Addressing.byte_fnv1a(5).to_json().replace('"offset":0', '"offset":1'), "column 0"),
        (Addressing.blt().to_json().replace("1000000007", "1000000008"), "1000000008"),
        (Addressing.longcat(50, 3, 3, 2).to_json().replace('"radix":50', '"radix":49'), "radix"),
        (MULTIPLY.replace('"size":10', f'"size":10,"{BIG}":1'), "at most"),
    ],
)
def test_json_that_is_wrong_says_what(text, named):
    with pytest.raises(ValueError, match=named):
        Addressing.from_json(text)


@pytest.mark.parametrize(
    ("addressing", "ids", "named"),
    [
        (Addressing.deepseek_v41(1), [1, 99_092], "id 99092"),
        (Addressing.deepseek_v41(1), [-1, 5], "id -1"),
        (Addressing.deepseek_v41(1, token_map=[1, 2, 0]), [3], "id 3"),
        (Addressing.longcat(50, 3, 3, 2), [50], "id 50"),
        (Addressing.blt(), np.array([2**63], dtype=np.uint64), str(2**63)),
    ],
)
def test_ids_outside_the_range_name_the_value(addressing, ids, named):
    out = np.full((len(ids), addressing.num_columns), -5)
    for call in (lambda: addressing(ids, out=out), lambda: addressing.stream().push(ids, out=out)):
        with pytest.raises(ValueError, match=named):
            call()
    with pytest.raises(ValueError, match=named):
        addressing([1], history=ids)
    assert (out == -5).all()


def test_int32_rows(kernel):
    rng = np.random.default_rng(0)
    for addressing in (Addressing.byte_fnv1a(), Addressing.utf8_fnv1a(), Addressing.deepseek_v41(1), Addressing.blt()):
        ids = rng.integers(0, 259, (3, 777))
        wanted = addressing(ids)
        rows = addressing(ids, dtype=np.int32)
        assert rows.dtype == np.int32
        np.testing.assert_array_equal(rows, wanted)
        out = np.empty_like(rows)
        assert addressing(ids, out=out, dtype="int32") is out
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda a: a([1], dtype=np.int16), TypeError, "int64 or int32"),
        (lambda a: a([1], dtype="words"), TypeError, "int64 or int32"),
        (lambda a: a([1], dtype=np.int64, out=np.zeros((1, 3), np.int32)), TypeError, "another dtype"),
        (lambda a: Addressing.byte_fnv1a(2**31 + 1)([1], dtype=np.int32), ValueError, str(2**31 + 1)),
        (lambda a: a.hashes([1], out=np.zeros((1, 3), np.int32)), ValueError, "hashes"),
    ],
)
def test_int32_that_cannot_be(call, error, named):
    with pytest.raises(error, match=named):
        call(Addressing.byte_fnv1a())


def test_kernels_by_name():
    assert _core.kernels()[0] == "portable"
    with pytest.raises(ValueError, match="portable"):
        _core.force_kernel("abacus")
