"""Addresses against golden vectors, and the laws of layout, dtype, batch and threads."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import engram_rs
from conftest import load_vectors
from engram_rs import Addressing

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def test_golden_vectors():
    cases = load_vectors("byte_fnv1a")
    assert len(cases) >= 200
    for case in cases:
        addressing = Addressing.byte_fnv1a(entries=case["entries"], orders=case["orders"])
        wanted = np.array(case["hashes"], dtype=np.int64).reshape(len(case["ids"]), len(case["orders"]))
        hashes = addressing.hashes(case["ids"])
        np.testing.assert_array_equal(hashes, wanted)
        rows = addressing(case["ids"])
        np.testing.assert_array_equal(rows, np.array(case["rows"], dtype=np.int64).reshape(wanted.shape))
        assert rows.dtype == hashes.dtype == np.int64


def test_a_gram_whose_hash_is_zero_has_hash_one():
    # No golden vector holds one; each was found by search, for seeds 1, 2 and 3.
    grams = np.array([[205, 36, 49, 196], [206, 36, 49, 196], [207, 36, 49, 196]]) + 3
    hashes = Addressing.byte_fnv1a(orders=(4, 4, 4)).hashes(grams)
    assert hashes[:, -1].diagonal().tolist() == [1, 1, 1]


def test_feeding_rows_gives_the_rows_of_hashes():
    addressing = Addressing.byte_fnv1a(entries=1009)
    ids = engram_rs.encode("reduced twice is reduced once")
    np.testing.assert_array_equal(addressing.hashes(ids) % 1009, addressing(ids))
    np.testing.assert_array_equal(addressing(ids) % 1009, addressing(ids))


def test_ids_that_are_256_apart_hash_alike():
    ids = np.array([-1000, -1, 0, 1, 2, 3, 255, 258, 259, 70_000, 2**63 - 1, -(2**63)])
    addressing = Addressing.byte_fnv1a(entries=2**32)
    np.testing.assert_array_equal(addressing(ids), addressing(ids % 256))


@given(data=st.data(), dtype=st.sampled_from(INTEGERS), threads=st.integers(1, 3))
def test_dtype_layout_batch_and_threads_change_nothing(data, dtype, threads):
    ids = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=40)))
    orders = data.draw(st.lists(st.integers(1, 64), min_size=1, max_size=5))
    addressing = Addressing.byte_fnv1a(entries=data.draw(st.integers(1, 2**33)), orders=orders)
    rows = addressing(ids)
    assert rows.shape == (*ids.shape, len(orders))
    # Python's integers know no width, so they are the witness for every dtype.
    wide = np.array([(int(i) - 3) % 256 for i in ids.ravel()], dtype=np.int64).reshape(ids.shape) + 3
    np.testing.assert_array_equal(addressing(wide, threads=threads), rows)
    for layout in (
        np.asfortranarray(ids),
        np.repeat(ids, 3, axis=-1)[..., ::3],
        ids[..., ::-1].copy()[..., ::-1],
        ids.astype(ids.dtype.newbyteorder()),
    ):
        np.testing.assert_array_equal(addressing(layout, threads=threads), rows)
    for row, wanted in zip(np.atleast_2d(ids), rows if ids.ndim == 2 else rows[np.newaxis], strict=True):
        np.testing.assert_array_equal(addressing(row), wanted)


def test_threads_agree_on_a_long_sequence():
    ids = np.random.default_rng(1).integers(0, 256, 300_001, dtype=np.uint8)
    addressing = Addressing.byte_fnv1a(entries=2_097_143, orders=(1, 5, 64))
    one = addressing(ids, threads=1)
    for threads in (2, 3, 7, None):
        np.testing.assert_array_equal(addressing(ids, threads=threads), one)


def test_views_at_odd_addresses_and_of_records():
    ids = np.arange(50, dtype=np.int32)
    addressing = Addressing.byte_fnv1a()
    record = np.zeros(50, dtype=[("flag", "u1"), ("id", "<i4")])
    record["id"] = ids
    np.testing.assert_array_equal(addressing(record["id"]), addressing(ids))
    np.testing.assert_array_equal(addressing(np.broadcast_to(ids, (4, 50)))[3], addressing(ids))


def test_lists_and_array_likes():
    addressing = Addressing.byte_fnv1a()
    wanted = addressing(np.array([10, 20, 30]))
    np.testing.assert_array_equal(addressing([10, 20, 30]), wanted)
    np.testing.assert_array_equal(addressing(((10, 20, 30), (10, 20, 30)))[1], wanted)
    assert addressing([]).shape == (0, 3)
    assert addressing([[], []]).shape == (2, 0, 3)
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(addressing(torch.tensor([10, 20, 30])), wanted)


def test_out_is_written_in_place():
    addressing = Addressing.byte_fnv1a()
    ids = np.arange(24).reshape(4, 6)
    whole = np.full((6, 6, 3), -7)
    out = whole[1:5]
    assert addressing(ids, out=out) is out
    np.testing.assert_array_equal(whole[1:5], addressing(ids))
    assert (whole[[0, 5]] == -7).all()
    assert addressing.hashes(ids, out=out) is out
    np.testing.assert_array_equal(out, addressing.hashes(ids))


PEAK = """
import resource, sys
import numpy as np
from engram_rs import Addressing
positions = 1 << 23
addressing = Addressing.byte_fnv1a(orders=(3,))
ids = np.ones(positions, dtype=sys.argv[1])
out = np.ones((positions, 1), dtype=np.int64)
addressing(ids[:1000], out=out[:1000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
addressing(ids, out=out, threads=2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_a_call_copies_neither_ids_nor_output(dtype):
    # 8 MiB of uint8 ids at least: a copy of the ids or of the 64 MiB of output would show.
    grown = subprocess.run([sys.executable, "-c", PEAK, dtype], capture_output=True, text=True, check=True)
    assert int(grown.stdout) < 4 << 10, f"{grown.stdout} KiB more at the peak"


def test_the_gil_is_released():
    import threading

    ids = np.zeros(1 << 22, dtype=np.uint8)
    out = np.empty((1 << 22, 3), dtype=np.int64)
    ticks, stop = 0, False

    def tick():
        nonlocal ticks
        while not stop:
            ticks += 1

    interval = sys.getswitchinterval()
    worker = threading.Thread(target=tick)
    try:
        worker.start()
        # For the next half second a thread runs only when another gives the GIL away.
        sys.setswitchinterval(0.5)
        before = ticks
        Addressing.byte_fnv1a()(ids, out=out, threads=1)
        assert ticks > before
    finally:
        stop = True
        sys.setswitchinterval(interval)
        worker.join()


FORK = """
import os, sys
import numpy as np
from engram_rs import Addressing
ids = np.arange(200_000)
addressing = Addressing.byte_fnv1a()
wanted = addressing(ids, threads=2)
child = os.fork()
if child == 0:
    os._exit(0 if (addressing(ids, threads=2) == wanted).all() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="the platform does not fork")
def test_a_forked_worker_hashes_on_threads_of_its_own():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=True, timeout=60)


def test_several_python_threads_share_one_addressing():
    from concurrent.futures import ThreadPoolExecutor

    addressing = Addressing.byte_fnv1a()
    batches = [np.random.default_rng(i).integers(0, 256, 50_000) for i in range(16)]
    wanted = [addressing(ids, threads=1) for ids in batches]
    with ThreadPoolExecutor(8) as pool:
        for got, want in zip(pool.map(lambda ids: addressing(ids, threads=2), batches), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_it_is_a_value():
    one, two = Addressing.byte_fnv1a(), Addressing.byte_fnv1a(2_097_152, [2, 3, 4])
    assert one == two
    assert hash(one) == hash(two)
    assert one != Addressing.byte_fnv1a(orders=(2, 4, 3))
    assert one != Addressing.byte_fnv1a(entries=2_097_143)
    assert one != "byte_fnv1a"
    assert pickle.loads(pickle.dumps(one)) == one
    assert (one.entries, one.orders, one.num_columns, one.scheme) == (2_097_152, (2, 3, 4), 3, "byte_fnv1a")
    assert repr(one) == "Addressing.byte_fnv1a(entries=2097152, orders=(2, 3, 4))"
    assert repr(Addressing.byte_fnv1a(7, [3])) == "Addressing.byte_fnv1a(entries=7, orders=(3,))"
    with pytest.raises(AttributeError):
        one.entries = 5


def test_the_digest_is_stable_and_of_the_canonical_json():
    import hashlib

    addressing = Addressing.byte_fnv1a()
    assert addressing.digest == hashlib.sha256(addressing.to_json().encode()).hexdigest()
    # Written into every table and graph: this value may never change.
    assert addressing.digest == "707382837cce69bd058d64c4fa075c17effda6f1c9b6609771b1c6b2c915b57b"


@given(st.integers(1, 2**63 - 1), st.lists(st.integers(1, 64), min_size=1, max_size=64))
def test_json_round_trips(entries, orders):
    import json

    addressing = Addressing.byte_fnv1a(entries, orders)
    text = addressing.to_json()
    assert Addressing.from_json(text) == addressing
    assert json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) == text
    assert Addressing.from_json(json.dumps(dict(reversed(json.loads(text).items())), indent=3)).digest == (
        addressing.digest
    )


JSON = Addressing.byte_fnv1a(1000, (2, 3)).to_json()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "not the JSON of an addressing"),
        ("[]", "not the JSON of an addressing"),
        (JSON[:-1], "not the JSON of an addressing"),
        (JSON.replace('"entries":1000,', ""), "missing field `entries`"),
        (JSON.replace('"entries"', '"extra":1,"entries"'), "unknown field `extra`"),
        (JSON.replace('"entries":1000', '"entries":1000,"entries":1000'), "duplicate field `entries`"),
        (JSON.replace("byte_fnv1a", "sha1"), "sha1"),
        (JSON.replace("null_row", "wrap"), "boundary.start"),
        (JSON.replace('"kind":"bytes"', '"kind":"words"'), "symbols.kind"),
        (JSON.replace('"offset":3', '"offset":4'), "symbols.offset"),
        (JSON.replace('"entries":1000', '"entries":999'), "rows"),
        (JSON.replace('"entries":1000', '"entries":-1'), "-1"),
        (JSON.replace("1000", "0"), "entries is 0"),
        (JSON.replace('"order":2', '"order":65'), "order 65"),
        (JSON.replace("-v1", "-v2"), "engram-addressing-v2"),
        (JSON.replace("byte_fnv1a", "x" * 10_000_000), "at most"),
    ],
)
def test_json_that_is_wrong_says_what(text, named):
    with pytest.raises(ValueError, match=named):
        Addressing.from_json(text)


BAD_SCHEMES = [
    ({"entries": 0}, ValueError, "entries must be 1"),
    ({"entries": -5}, ValueError, "-5"),
    ({"entries": 2**63}, ValueError, "entries"),
    ({"entries": 10**30}, ValueError, "entries"),
    ({"entries": 2.0}, TypeError, "entries must be an integer"),
    ({"entries": "2"}, TypeError, "entries must be an integer"),
    ({"entries": True}, TypeError, "entries must be an integer"),
    ({"orders": ()}, ValueError, "0 orders"),
    ({"orders": (0,)}, ValueError, "order"),
    ({"orders": (65,)}, ValueError, "65"),
    ({"orders": (-1,)}, ValueError, "-1"),
    ({"orders": (2,) * 65}, ValueError, "65 orders"),
    ({"orders": iter(lambda: 2, 3)}, ValueError, "orders"),
    ({"orders": 3}, TypeError, "orders must be integers"),
    ({"orders": "234"}, TypeError, "orders must be integers"),
    ({"orders": (2.0,)}, TypeError, "each of orders must be an integer"),
]


@pytest.mark.parametrize(("arguments", "error", "named"), BAD_SCHEMES)
def test_bad_schemes(arguments, error, named):
    with pytest.raises(error, match=named):
        Addressing.byte_fnv1a(**arguments)


@pytest.mark.parametrize("text", ["abc", b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_text_is_refused_with_a_hint(text):
    with pytest.raises(TypeError, match="encode"):
        Addressing.byte_fnv1a()(text)


@pytest.mark.parametrize(
    ("ids", "error", "named"),
    [
        (np.zeros(3), TypeError, "float64"),
        (np.zeros(0), TypeError, "float64"),
        (np.zeros(3, dtype=bool), TypeError, "bool"),
        (np.zeros(3, dtype=complex), TypeError, "complex"),
        (np.array(["a"]), TypeError, "U1"),
        (np.array([None]), TypeError, "object"),
        ([1, 2.5], TypeError, "float64"),
        ([True, False], TypeError, "bool"),
        ([1, 2**70], TypeError, "object"),
        ([[1, 2], [3]], TypeError, "ids must be integers"),
        (None, TypeError, "object"),
        ({1: 2}, TypeError, "object"),
        (5, ValueError, r"\[T\] or \[B, T\]"),
        (np.zeros((), dtype=int), ValueError, r"\[T\] or \[B, T\]"),
        (np.zeros((1, 1, 1), dtype=int), ValueError, r"\[1, 1, 1\]"),
    ],
)
def test_bad_ids(ids, error, named):
    for call in (Addressing.byte_fnv1a(), Addressing.byte_fnv1a().hashes):
        with pytest.raises(error, match=named):
            call(ids)


READ_ONLY = np.zeros((4, 3), dtype=np.int64)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("out", "error", "named"),
    [
        (np.zeros((4, 3)), TypeError, "float64"),
        (np.zeros((4, 3), dtype=np.uint64), TypeError, "uint64"),
        (np.zeros((4, 3), dtype=">i8"), TypeError, ">i8"),
        ([[0] * 3] * 4, TypeError, "numpy array"),
        (np.zeros((3, 4), dtype=np.int64), ValueError, r"\[4, 3\]"),
        (np.zeros((1, 4, 3), dtype=np.int64), ValueError, r"\[4, 3\]"),
        (np.zeros((3, 4), dtype=np.int64).T, ValueError, "contiguous"),
        (np.zeros((4, 6), dtype=np.int64)[:, ::2], ValueError, "contiguous"),
        (np.zeros(97, dtype=np.uint8)[1:].view(np.int64).reshape(4, 3), ValueError, "aligned"),
        (READ_ONLY, ValueError, "written"),
    ],
)
def test_bad_out(out, error, named):
    with pytest.raises(error, match=named):
        Addressing.byte_fnv1a()(np.arange(4), out=out)


def test_out_that_overlaps_the_ids_is_refused():
    memory = bytearray(8 * 16)
    ids = np.frombuffer(memory, dtype=np.int64)[:4]
    # Two arrays over one buffer, of which neither is the other's base.
    out = np.frombuffer(memory, dtype=np.int64)[3:15].reshape(4, 3)
    with pytest.raises(ValueError, match="share memory"):
        Addressing.byte_fnv1a()(ids, out=out)
    assert not any(memory)


@pytest.mark.parametrize(
    ("threads", "error"), [(0, ValueError), (-1, ValueError), (1025, ValueError), (1.0, TypeError), ("2", TypeError)]
)
def test_bad_threads(threads, error):
    with pytest.raises(error, match="threads"):
        Addressing.byte_fnv1a()(np.arange(4), threads=threads)
