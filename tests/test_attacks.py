"""What an attacker tried: each of these once gave a wrong result, a panic or an abort."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from engram_rs import Addressing, address_file, decode

SCHEME = Addressing.byte_fnv1a()


@pytest.mark.parametrize("name", ["reset", "dead"])
def test_long_lists_of_marks_are_whole_or_refused(name):
    scheme = Addressing.multiply_xor([1, 3], [7], 1, vocab_size=10_000)
    marks = range(4096)
    assert len(getattr(scheme.with_boundary(pad=0, **{name: marks}), name)) == 4096
    with pytest.raises(ValueError, match=f"{name} must hold at most 4096"):
        scheme.with_boundary(pad=0, **{name: range(4097)})


def test_an_empty_first_segment_keeps_the_history_to_itself():
    whole = SCHEME([1, 2, 3, 5, 6, 7, 8], cu_seqlens=[0, 3, 3, 7])
    np.testing.assert_array_equal(SCHEME([5, 6, 7, 8], history=[1, 2, 3], cu_seqlens=[0, 0, 4]), whole[3:])
    np.testing.assert_array_equal(
        SCHEME([5, 6, 7, 8], history=[1, 2, 3], cu_seqlens=[0, 4]), SCHEME([1, 2, 3, 5, 6, 7, 8])[3:]
    )


def test_a_mask_in_the_memory_of_the_output():
    memory = bytearray(4 * 24)
    ids = np.array([5, 6, 7, 8])
    dead = np.frombuffer(memory, dtype=bool)[40:44]
    memory[41] = 2  # true as any other byte but 0
    wanted = SCHEME(ids, dead=[False, True, False, False])
    out = np.frombuffer(memory, dtype=np.int64).reshape(4, 3)
    np.testing.assert_array_equal(SCHEME(ids, out=out, dead=dead), wanted)


def test_what_can_be_made_can_be_read_back():
    with pytest.raises(ValueError, match="bytes of JSON"):
        Addressing.multiply_xor([1, 3], [4099], 1, token_map=np.arange(1_300_000))


ABORTS = [
    "A(np.empty((2**40, 0), int), history=np.empty((2**40, 0), int))",
    "decode(np.broadcast_to(np.int8(5), (2**45,)))",
    "A([1], lengths=np.broadcast_to(np.int8(5), (2**32,)))",
    "A.stream().reorder(np.broadcast_to(np.int8(0), (2**31,)))",
    "A(np.broadcast_to(np.int64(5), (2**45,)))",
    "A(np.empty((2**60, 0), np.int8), history=np.empty((2**60, 0), np.int8))",
]


@pytest.mark.parametrize("code", ABORTS)
def test_sizes_that_cannot_be_are_errors(code):
    names = {"A": SCHEME, "np": np, "decode": decode}
    with pytest.raises((ValueError, MemoryError)):
        eval(code, names)


RESIZED = """
import numpy as np
from engram_rs import Addressing
ids = np.arange(1000)
class Hostile:
    def __array__(self, dtype=None, copy=None):
        ids.resize(10, refcheck=False)
        return np.array([3])
rows = Addressing.byte_fnv1a()(ids, lengths=Hostile())
print(rows.shape)
"""


def test_ids_that_an_argument_resizes():
    done = subprocess.run([sys.executable, "-c", RESIZED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(10, 3)"


def test_what_an_object_raises_is_passed_on():
    class Interrupted:
        def __index__(self):
            raise KeyboardInterrupt

        def __iter__(self):
            raise KeyboardInterrupt

        def __array__(self, dtype=None, copy=None):
            raise KeyboardInterrupt

    for call in (
        lambda: Addressing.byte_fnv1a(Interrupted()),
        lambda: Addressing.byte_fnv1a(5, Interrupted()),
        lambda: SCHEME(Interrupted()),
        lambda: SCHEME([1], threads=Interrupted()),
    ):
        with pytest.raises(KeyboardInterrupt):
            call()


def test_ids_that_another_thread_changes_end_nothing():
    scheme = Addressing.multiply_xor([1, 3], [4099], 1, token_map=np.arange(100))
    ids, stop = np.zeros(200_000, dtype=np.int64), threading.Event()

    def change():
        while not stop.is_set():
            ids[::7] = 10**9
            ids[::7] = 0

    worker = threading.Thread(target=change)
    worker.start()
    try:
        for _ in range(50):
            try:
                scheme(ids)
            except ValueError as error:
                assert "id 1000000000" in str(error)  # noqa: PT017
    finally:
        stop.set()
        worker.join()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Addressing.deepseek_v41(255, range(256), max_order=17, heads=64),
        lambda: Addressing.deepseek_v41(31, range(32), max_order=64, heads=64),
        lambda: Addressing.qwen_ple(1024, max_order=17, heads=64, base=2**40),
        lambda: Addressing.qwen_ple(0, max_order=64, heads=64),
    ],
)
def test_searches_that_would_not_end_are_refused(make):
    with pytest.raises(ValueError, match="primes were asked for"):
        make()


@pytest.mark.parametrize("offset", range(5))
def test_long_runs_of_continuation_bytes(offset):
    # Every fourth of them starts a character, wherever a thread's share begins.
    scheme = Addressing.utf8_fnv1a(977, (1, 3))
    run = np.full(70_000, 0x85 + 3)
    run[:offset] = 100
    for ids in (run, run[offset:]):
        rows = scheme(ids, threads=2)
        np.testing.assert_array_equal(rows, scheme(ids, threads=1))
        stream = scheme.stream()
        cut = 16_389 + offset
        parts = [stream.push(ids[:cut]), stream.push(ids[cut:], threads=2)]
        np.testing.assert_array_equal(np.concatenate(parts), rows)


def test_arrays_for_objects_in_json():
    text = (
        '[[[],null,[],"null_row"],[[0,2,null,7]],7,"engram-addressing-v1",null,null,"byte_fnv1a",["bytes",null,3,null]]'
    )
    with pytest.raises(ValueError, match="array stands where an object"):
        Addressing.from_json(text)


def test_states_with_impossible_symbols():
    stream = SCHEME.stream()
    stream.push([5])
    state = bytearray(stream.state)
    state[-8:] = (1000).to_bytes(8, "little")
    with pytest.raises(ValueError, match="not the state"):
        type(stream).from_state(SCHEME, bytes(state))


def test_history_errors_name_the_history():
    for history in ([1.5], "ab"):
        with pytest.raises(TypeError, match="history must be integers"):
            SCHEME([1], history=history)


def test_two_calls_do_not_write_one_file(tmp_path):
    pytest.importorskip("fcntl")
    out = tmp_path / "rows.npy"

    def pieces():
        yield np.arange(10)
        with pytest.raises(ValueError, match="another call is writing"):
            address_file([np.arange(50)], out)
        yield np.arange(10)

    np.testing.assert_array_equal(address_file(pieces(), out), SCHEME(np.tile(np.arange(10), 2)))
    assert os.listdir(tmp_path) == ["rows.npy"]


def test_another_iterable_is_not_resumed(tmp_path):
    out = tmp_path / "rows.npy"
    with pytest.raises(TypeError):
        address_file([np.arange(100), np.array([1.5])], out)
    with pytest.raises(ValueError, match="other ids than those"):
        address_file([np.arange(1000, 1200)], out)


@pytest.mark.parametrize(
    "record", ["[]", "null", "{", "{}", '{"positions": "x"}', '{"positions": -3, "state": "", "ids": ""}']
)
def test_damaged_records_of_partial_work(tmp_path, record):
    out = tmp_path / "rows.npy"
    (tmp_path / "rows.npy.partial").write_bytes(b"\0" * 128)
    (tmp_path / "rows.npy.partial.json").write_text(record)
    with pytest.raises(ValueError, match=r"rows\.npy\.partial\.json"):
        address_file([np.arange(5)], out)


def test_a_record_of_more_than_there_is(tmp_path):
    out = tmp_path / "rows.npy"

    def broken():
        yield np.arange(100)
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        address_file(broken(), out)
    os.truncate(tmp_path / "rows.npy.partial", 128)
    with pytest.raises(ValueError, match="does not hold"):
        address_file([np.arange(100)], out)


def test_a_foreign_partial_file_is_left_alone(tmp_path):
    other = tmp_path / "rows.npy.partial"
    other.write_bytes(b"somebody's work" * 20)
    with pytest.raises(ValueError, match="move it away"):
        address_file([np.arange(5)], tmp_path / "rows.npy")
    with pytest.raises(ValueError, match="the file that is read"):
        address_file(other, tmp_path / "rows.npy")
    assert other.read_bytes() == b"somebody's work" * 20


@pytest.mark.parametrize("source", [[np.zeros(3)], [np.zeros((2, 2), int)], b"abc", [np.array([True])]])
def test_a_call_that_fails_at_once_leaves_nothing(tmp_path, source):
    with pytest.raises((TypeError, ValueError)):
        address_file(source, tmp_path / "rows.npy")
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the platform has no pipes with names")
def test_a_pipe_is_not_replaced_and_a_link_is_followed(tmp_path):
    from engram_rs._files import replacing

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="device or a pipe"), replacing(tmp_path / "pipe"):
        pass
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("older")
    target.chmod(0o600)
    link.symlink_to(target)
    with replacing(link) as temporary:
        temporary.write_text("newer")
    assert link.is_symlink()
    assert target.read_text() == "newer"
    assert target.stat().st_mode & 0o777 == 0o600


def test_paths_with_brackets_on_the_command_line(tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer")
    from engram_rs.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["engram-rs", "address", "abc", "--out", "x[bold]o.npy"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    assert "x[bold]o.npy" in capsys.readouterr().out


@pytest.mark.parametrize("scale", [1e-60, 1e300, -1.0, float("nan")])
def test_scales_that_float32_cannot_hold(scale):
    from engram_rs.artifact import MemoryArtifact

    with pytest.raises(ValueError, match="scale"):
        MemoryArtifact(Addressing.byte_fnv1a(7), np.zeros((7, 2), np.int8), scale, np.zeros((3, 2), np.float16))
