"""Long work: files and iterables in pieces, interrupted and resumed."""

import numpy as np
import pytest

import engram_rs
from engram_rs import Addressing, address_file, encode

TEXT = ("ذَاكِرَةٌ تُعْنَى بِمَا قُرِئَ · a memory · 記憶 · " * 40).encode()


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_bytes(TEXT)
    return path


@pytest.mark.parametrize("chunk", [1, 7, 1000, 10**6])
@pytest.mark.parametrize("addressing", [None, Addressing.utf8_fnv1a(977, (2, 3))])
def test_text(text, tmp_path, chunk, addressing):
    if chunk == 1:
        text.write_bytes(TEXT[:50])
    rows = address_file(text, tmp_path / "rows.npy", addressing, chunk=chunk)
    wanted = (addressing or Addressing.byte_fnv1a())(encode(text.read_bytes(), eos=False))
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), wanted)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "rows.npy"]


def test_ids_and_int32(tmp_path):
    ids = np.random.default_rng(0).integers(0, 99_092, 5000).astype(np.int32)
    np.save(tmp_path / "ids.npy", ids)
    scheme = Addressing.deepseek_v41(1)
    rows = address_file(tmp_path / "ids.npy", tmp_path / "rows.npy", scheme, dtype=np.int32, chunk=999)
    assert rows.dtype == np.int32
    np.testing.assert_array_equal(rows, scheme(ids))
    pieces = (ids[at : at + 123] for at in range(0, 5000, 123))
    np.testing.assert_array_equal(address_file(pieces, tmp_path / "rows.npy", scheme, chunk=50), scheme(ids))


@pytest.mark.parametrize("source", ["empty", "none"])
def test_nothing_to_do(tmp_path, source):
    (tmp_path / "empty").write_bytes(b"")
    rows = address_file(tmp_path / "empty" if source == "empty" else [], tmp_path / "rows.npy")
    assert rows.shape == (0, 3)
    # What stays on the disk, once everything is closed, is what was given.
    assert np.load(tmp_path / "rows.npy").shape == (0, 3)


class Interruption(Exception):
    """Stands for a lost machine."""


def interrupted(ids, pieces):
    for at in range(0, len(ids), 100):
        if at >= 100 * pieces:
            raise Interruption
        yield ids[at : at + 100]


def test_resuming(tmp_path):
    ids = np.random.default_rng(0).integers(0, 259, 1000)
    out = tmp_path / "rows.npy"
    out.write_bytes(b"older")
    with pytest.raises(Interruption):
        address_file(interrupted(ids, 4), out, chunk=70)
    assert out.read_bytes() == b"older"
    # What was half written after the last record does not count.
    with (tmp_path / "rows.npy.partial").open("ab") as file:
        file.write(b"torn")
    with pytest.raises(Interruption):
        address_file(interrupted(ids, 6), out)
    np.testing.assert_array_equal(address_file(interrupted(ids, 99), out), Addressing.byte_fnv1a()(ids))
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


def test_a_text_resumes_where_it_was(text, tmp_path, monkeypatch):
    out = tmp_path / "rows.npy"
    fsync, calls = engram_rs.corpus.os.fsync, []

    def failing(handle):
        calls.append(handle)
        if len(calls) == 6:
            raise OSError("disk full")
        fsync(handle)

    monkeypatch.setattr(engram_rs.corpus.os, "fsync", failing)
    with pytest.raises(OSError, match="disk full"):
        address_file(text, out, chunk=200)
    monkeypatch.undo()
    rows = address_file(text, out, chunk=333)
    np.testing.assert_array_equal(rows, Addressing.byte_fnv1a()(encode(TEXT, eos=False)))


def test_another_job_is_not_resumed(text, tmp_path):
    ids = np.arange(1000) % 259
    out = tmp_path / "rows.npy"
    with pytest.raises(Interruption):
        address_file(interrupted(ids, 2), out)
    for arguments, named in (
        ({"addressing": Addressing.byte_fnv1a(7)}, "digest"),
        ({"dtype": np.int32}, "dtype"),
        ({"source": text}, "source"),
    ):
        with pytest.raises(ValueError, match=f"{named} = "):
            address_file(**{"source": [ids], "out": out, **arguments})
    with pytest.raises(ValueError, match="150 positions before"):
        address_file([ids[:50]], out)


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"source": "none.txt"}, FileNotFoundError, "none.txt"),
        ({"out": "none/rows.npy"}, FileNotFoundError, "no folder"),
        ({"out": "corpus.txt"}, ValueError, "the file that is read"),
        ({"chunk": 0}, ValueError, "chunk"),
        ({"chunk": 1.5}, ValueError, "chunk"),
        ({"dtype": np.float32}, TypeError, "dtype"),
        ({"dtype": np.int32, "addressing": Addressing.byte_fnv1a(2**32)}, ValueError, "int32"),
        ({"source": [np.zeros((2, 2), dtype=int)]}, ValueError, r"\[2, 2\]"),
        ({"source": [np.zeros(2)]}, TypeError, "float64"),
    ],
)
def test_bad_calls(text, tmp_path, monkeypatch, arguments, error, named):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=named):
        address_file(**{"source": text, "out": "rows.npy", **arguments})
    assert not (tmp_path / "rows.npy").exists()


def test_a_bar_on_request(text, tmp_path, capfd):
    address_file(text, tmp_path / "rows.npy", progress=True)
    assert "positions" in capfd.readouterr().err
