"""Streams, packed and padded forms: any division of the ids gives the same rows."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram_rs import Addressing, encode

MARKS = {"reset": [7, 60], "dead": [9, 0x85]}
SCHEMES = [
    Addressing.byte_fnv1a(),
    Addressing.byte_fnv1a(977, (1, 9, 3)).with_boundary(**MARKS),
    Addressing.byte_fnv1a(977).with_boundary(pad=5, reset=[7]),
    Addressing.utf8_fnv1a(),
    Addressing.utf8_fnv1a(977, (1, 3)).with_boundary(**MARKS),
    Addressing.utf8_fnv1a(977).with_boundary(pad=5),
    Addressing.multiply_xor([77, -5, 3], [4099, 4111, 5003, 5009], 2, vocab_size=300, pad=1, **MARKS),
    Addressing.multiply_xor([7, 5], [11], 1, token_map=np.arange(300) * 7 % 101).with_boundary(reset=[7]),
    Addressing.blt(2, (1, 4), 500),
    Addressing.longcat(300, 3, 3, 2),
]
# Marks, continuation bytes and plain ids, each often.
IDS = st.lists(st.one_of(st.integers(0, 20), st.integers(0, 299), st.integers(0x83, 0xC2)), max_size=120)
schemes = st.sampled_from(SCHEMES)


@given(addressing=schemes, ids=IDS, cuts=st.lists(st.integers(0, 120), max_size=8), threads=st.integers(1, 2))
def test_chunks_steps_and_history(addressing, ids, cuts, threads):
    ids = np.array(ids, dtype=np.int64)
    whole = addressing(ids)
    stream, at = addressing.stream(), 0
    for cut in sorted({min(cut, len(ids)) for cut in cuts} | {len(ids)}):
        chunk = ids[at:cut]
        np.testing.assert_array_equal(addressing(chunk, history=ids[:at], threads=threads), whole[at:cut])
        # Going ahead on other ids and rolling back leaves nothing behind.
        state = stream.state
        stream.push(ids[::-1])
        stream.state = state
        np.testing.assert_array_equal(stream.push(chunk, threads=threads), whole[at:cut])
        at = cut
    steps = addressing.stream()
    rows = [steps.push([token]) for token in ids.tolist()]
    np.testing.assert_array_equal(np.concatenate([np.zeros_like(whole[:0]), *rows]), whole)
    assert steps.state == stream.state


@given(addressing=schemes, ids=IDS, hashes=st.booleans())
def test_steps_into_memory(addressing, ids, hashes):
    """The shortest way through the bindings: one int64 id into the caller's int64 memory."""
    whole = (addressing.hashes if hashes else addressing)(np.array(ids, dtype=np.int64))
    stream, twin = addressing.stream(), addressing.stream()
    out = np.empty((1, addressing.num_columns), dtype=np.int64)
    for token, rows in zip(ids, whole, strict=True):
        assert stream.push(np.array([token]), out=out, hashes=hashes) is out
        np.testing.assert_array_equal(out[0], rows)
        twin.push([token])
        assert stream.state == twin.state


def test_a_step_that_cannot_be_written_changes_nothing():
    addressing = Addressing.multiply_xor([7, 5], [11], 1, vocab_size=300)
    stream = addressing.stream()
    stream.push([1, 2])
    state = stream.state
    closed = np.empty((1, 1), dtype=np.int64)
    closed.flags.writeable = False
    shared = np.full((1, 1), 5)
    attempts = {
        "out cannot be written": (np.array([5]), closed),
        "share memory": (shared[0], shared),
        "out must have shape": (np.array([5]), np.empty((1, 2), dtype=np.int64)),
        "out must be int64 or int32": (np.array([5]), np.empty((1, 1), dtype=np.uint64)),
        "id 300 was given": (np.array([300]), np.empty((1, 1), dtype=np.int64)),
        "the stream 1": (np.array([[5], [5]]), np.empty((2, 1, 1), dtype=np.int64)),
    }
    for sentence, (ids, out) in attempts.items():
        with pytest.raises((TypeError, ValueError), match=sentence):
            stream.push(ids, out=out)
        assert stream.state == state


@given(addressing=schemes, sequences=st.lists(IDS, min_size=1, max_size=5), shift=st.integers(0, 299))
def test_packed_and_padded(addressing, sequences, shift):
    sequences = [np.array(ids, dtype=np.int64) for ids in sequences]
    alone = [addressing(ids) for ids in sequences]
    ends = np.cumsum([0, *map(len, sequences)])
    packed = addressing(np.concatenate(sequences), cu_seqlens=ends)
    np.testing.assert_array_equal(packed, np.concatenate(alone))

    lengths = [len(ids) for ids in sequences]
    batch = np.full((len(sequences), max(lengths)), shift)
    for row, ids in zip(batch, sequences, strict=True):
        row[: len(ids)] = ids
    stream = addressing.stream(len(sequences))
    for rows in (addressing(batch, lengths=lengths), stream.push(batch, lengths=lengths)):
        for got, want in zip(rows, alone, strict=True):
            np.testing.assert_array_equal(got[: len(want)], want)
    # The padding is not remembered.
    after = stream.push(np.tile([[11, 12]], (len(sequences), 1)))
    for got, ids in zip(after, sequences, strict=True):
        np.testing.assert_array_equal(got, addressing([11, 12], history=ids))


@given(addressing=schemes, ids=IDS, data=st.data())
def test_dead_positions(addressing, ids, data):
    dead = np.array(data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids))), dtype=bool)
    ids = np.array(ids, dtype=np.int64)
    rows = addressing(ids, dead=dead)
    # A run of living positions is a sequence of its own.
    starts = np.flatnonzero(np.diff(np.concatenate([[True], dead]).astype(int)) == -1)
    for start in starts:
        end = next((at for at in range(start, len(ids)) if dead[at]), len(ids))
        np.testing.assert_array_equal(rows[start:end], addressing(ids[start:end]))
    if dead.any():
        nothing = addressing([5], dead=[True])[0]
        assert (rows[dead] == nothing).all()
        if addressing.pad is None:
            assert not nothing.any()


def test_padding_has_null_rows():
    addressing = Addressing.byte_fnv1a()
    rows = addressing(np.full((2, 5), 77), lengths=[5, 2])
    assert rows[0, 4].all()
    assert not rows[1, 2:].any()


def test_a_reset_ends_a_document():
    addressing = Addressing.byte_fnv1a().with_boundary(reset=[254])  # the symbol of eos
    two = np.concatenate([encode("one"), encode("two")])
    np.testing.assert_array_equal(
        addressing(two), np.concatenate([addressing(encode("one")), addressing(encode("two"))])
    )


def test_beams():
    addressing = Addressing.byte_fnv1a()
    texts = np.stack([encode(text, eos=False) for text in ("abcd", "wxyz", "mnop")])
    stream = addressing.stream(3)
    stream.push(texts)
    stream.reorder([2, 0, 0, 1])
    assert stream.batch_size == 4
    rows = stream.push([[100]] * 4)
    for got, index in zip(rows, (2, 0, 0, 1), strict=True):
        np.testing.assert_array_equal(got, addressing([100], history=texts[index]))
    stream.reset([1, 3])
    rows = stream.push([[101]] * 4)
    np.testing.assert_array_equal(rows[1], addressing([101]))
    np.testing.assert_array_equal(rows[2], addressing([101], history=[*texts[0], 100]))
    stream.reset()
    np.testing.assert_array_equal(stream.push([[101]] * 4)[2], addressing([101]))


def test_streams_survive_pickling_and_state():
    addressing = SCHEMES[4]
    stream = addressing.stream(2)
    stream.push([[200, 201, 0x84], [1, 2, 3]])
    for other in (pickle.loads(pickle.dumps(stream)), type(stream).from_state(addressing, stream.state)):
        assert other.addressing == addressing
        assert other.state == stream.state
        np.testing.assert_array_equal(
            other.push([[5], [6]]), addressing([[5], [6]], history=[[200, 201, 0x84], [1, 2, 3]])
        )


def test_hashes_of_a_stream():
    addressing = Addressing.byte_fnv1a()
    stream = addressing.stream()
    ids = encode("hashes, too")
    got = np.concatenate([stream.push(ids[:4], hashes=True), stream.push(ids[4:], hashes=True)])
    np.testing.assert_array_equal(got, addressing.hashes(ids))


def push(ids, **options):
    return lambda a: a.stream(2).push(ids, **options)


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (push([1, 2]), ValueError, "1 sequences, the stream 2"),
        (push([[1], [2], [3]]), ValueError, "3 sequences, the stream 2"),
        (push([[1], [2]], lengths=[1]), ValueError, "1 lengths"),
        (push([[1], [2]], lengths=[1, 2]), ValueError, "a length of 2"),
        (push([[1], [2]], lengths=[1, -1]), ValueError, "-1"),
        (push([[1], [2]], lengths=[1.0, 1.0]), TypeError, "lengths"),
        (push([[1], [2]], dead=[True, False]), ValueError, "dead must have shape"),
        (push([[1], [2]], dead=[[1], [0]]), TypeError, "booleans"),
        (lambda a: a([1, 2], lengths=[3]), ValueError, "a length of 3"),
        (lambda a: a([1, 2, 3], cu_seqlens=[0, 2]), ValueError, "cu_seqlens"),
        (lambda a: a([1, 2, 3], cu_seqlens=[1, 3]), ValueError, "cu_seqlens"),
        (lambda a: a([1, 2, 3], cu_seqlens=[0, 2, 1, 3]), ValueError, "cu_seqlens"),
        (lambda a: a([1, 2, 3], cu_seqlens=[0, 4]), ValueError, "cu_seqlens"),
        (lambda a: a([1, 2, 3], cu_seqlens=[]), ValueError, "cu_seqlens"),
        (lambda a: a([1, 2, 3], cu_seqlens=[[0, 3]]), ValueError, "cu_seqlens"),
        (lambda a: a([1, 2, 3], cu_seqlens=[0, -1, 3]), ValueError, "-1"),
        (lambda a: a([[1], [2]], cu_seqlens=[0, 1]), ValueError, "packed"),
        (lambda a: a([1], history=[[1]]), ValueError, "history"),
        (lambda a: a([[1], [2]], history=[[1]]), ValueError, "history"),
        (lambda a: a([1], history="text"), TypeError, "encode"),
        (lambda a: a.stream(0), ValueError, "batch_size"),
        (lambda a: a.stream(2**40), ValueError, "batch_size"),
        (lambda a: a.stream("2"), TypeError, "batch_size"),
        (lambda a: a.stream(2).reset([2]), ValueError, "no sequence 2"),
        (lambda a: a.stream(2).reset([-1]), ValueError, "-1"),
        (lambda a: a.stream(2).reorder([0, 5]), ValueError, "no sequence 5"),
        (lambda a: type(a.stream()).from_state(a, b""), ValueError, "not the state"),
        (lambda a: type(a.stream()).from_state(a, a.stream().state[:-1]), ValueError, "not the state"),
        (lambda a: type(a.stream()).from_state(a, a.stream().state + b"x"), ValueError, "not the state"),
        (lambda a: type(a.stream()).from_state(a, SCHEMES[1].stream().state), ValueError, SCHEMES[1].digest),
    ],
)
def test_bad_calls(call, error, named):
    with pytest.raises(error, match=named):
        call(Addressing.byte_fnv1a())


def test_a_failed_push_changes_nothing():
    addressing = Addressing.longcat(300, 3, 3, 2)
    stream = addressing.stream()
    stream.push([5, 6])
    state = stream.state
    with pytest.raises(ValueError, match="id 300"):
        stream.push([7, 300])
    assert stream.state == state
