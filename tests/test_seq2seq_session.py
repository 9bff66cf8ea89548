"""Whole models under ONNX Runtime: the text is that of transformers, however it is asked for."""

import functools
import io
import shutil
import sys
import tempfile
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("transformers")

import engram_rs  # noqa: E402
import seq2seq_models as models  # noqa: E402
from engram_rs import Addressing, imf  # noqa: E402
from engram_rs.ort import MemorySession, Seq2SeqSession, feeding, misplaced, pieces, placement  # noqa: E402  # noqa: E402
from engram_rs.ort.batches import plan  # noqa: E402
from engram_rs.torch import attach  # noqa: E402

CPU = ["CPUExecutionProvider"]
TEXTS = ["table", "memory ship", "ខ្មែរ q", "x", "", "naïve كتاب gold", b"\xff\x00bytes"]
STEPS = 12
SCHEMES = {
    "byte_fnv1a": Addressing.byte_fnv1a(509, (2, 3)),
    "multiply_xor": Addressing.qwen_ple(base=31, heads=2, vocab_size=384, eos=1),
}
METADATA = {
    "id": "lat-rot-1.0",
    "task": "translit",
    "source_script": "Latn",
    "target": "rot13",
    "tokenizer": "bytes",
    "opset": 14,
    "precision": "fp32",
    "trained_from": "random numbers",
}
pytestmark = pytest.mark.usefixtures("one_thread")


@functools.cache
def model_of(kind):
    """A model whose output is noise, one that has learnt its task, and two whose encoder has a memory."""
    if kind == "trained":
        return models.trained()
    model = models.small_t5(seed=3, loud=True)
    if kind in SCHEMES:
        handle = attach(model, block=1, addressing=SCHEMES[kind], dim=8, quiet=True)
        torch.nn.init.normal_(handle.module.projection, std=3.0)
        torch.nn.init.normal_(handle.module.table, std=1.0)
    return model


@functools.cache
def greedy(kind):
    """What transformers says to `TEXTS`."""
    return models.greedy(model_of(kind), TEXTS, STEPS)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The graphs of each model, made when they are wanted."""
    made = tmp_path_factory.mktemp("models")

    @functools.cache
    def of(kind):
        return models.export(model_of(kind), made / kind, addressing=SCHEMES.get(kind))

    return of


def opened(folder, **more):
    return Seq2SeqSession(folder, CPU, 1, **more)


def pack(folder, path, **changes):
    (folder / "README.md").write_text("# ROT13\n")
    files = {file.name: file for file in folder.iterdir()}
    kv = "kv" if "decoder-kv.onnx" in files else "plain"
    imf.pack(files, path, METADATA | {"format": "imf-v1", "decoder": kv} | changes)
    return path


def v2(scheme):
    return {"format": "imf-v2"} | {
        "engram": {"addressing": scheme.to_json(), "input": "engram_addresses", "dim": 8, "block": 1}
    }


@pytest.mark.parametrize("kind", ["random", "trained", *SCHEMES])
def test_the_text_is_that_of_transformers(folders, kind):
    wanted = greedy(kind)
    assert len(set(wanted)) > len(wanted) // 2, "a model that says the same to all proves nothing"
    for plain in (False, True):
        session = opened(folders(kind), plain=plain)
        assert session.cached is not plain
        assert session.addressing == SCHEMES.get(kind)
        # Alone, together, and in batches that end within the list.
        assert [session.generate(text, STEPS) for text in TEXTS] == wanted
        assert session.generate(TEXTS, STEPS) == wanted
        assert session.generate(TEXTS, STEPS, batch_size=3) == wanted


def test_it_has_learnt_its_task():
    found = models.greedy(model_of("trained"), models.WORDS, 24)
    assert sum(text == models.rot13(word) for text, word in zip(found, models.WORDS, strict=True)) >= 5


def test_a_memory_changes_the_text(folders):
    """Else the tests above would pass with addresses that are wrong."""
    session = opened(folders("byte_fnv1a"))
    wanted = session.generate(TEXTS, STEPS)
    session._encoder.addressing = Addressing.byte_fnv1a(509, (3, 4))
    assert session.generate(TEXTS, STEPS) != wanted


@pytest.mark.parametrize("kind", ["trained", *SCHEMES])
def test_a_zip_is_the_same_as_its_folder(folders, kind, tmp_path):
    changes = v2(SCHEMES[kind]) if kind in SCHEMES else {}
    session = opened(pack(folders(kind), tmp_path / "model.zip", **changes))
    assert session.metadata.id == "lat-rot-1.0"
    assert session.precision == "fp32"
    assert session.generate(TEXTS, STEPS) == opened(folders(kind)).generate(TEXTS, STEPS)


def test_nothing_stays_behind_and_nothing_is_needed_any_more(folders, tmp_path, monkeypatch):
    path = pack(folders("trained"), tmp_path / "model.zip")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    # So that every weight of this small model goes the way of big ones.
    monkeypatch.setattr("engram_rs.ort.weights._LEAST", 64)
    session = opened(path, profile=True)
    path.unlink()
    assert session.generate(TEXTS, STEPS) == greedy("trained")
    assert placement(session)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("kind", ["trained", "byte_fnv1a"])
def test_pieces_join_to_the_text(folders, kind):
    session = opened(folders(kind))
    wanted = session.generate(TEXTS, STEPS)
    assert "".join(session.generate(TEXTS[1], STEPS, stream=True)) == wanted[1]
    texts = [""] * len(TEXTS)
    for index, piece in session.generate(TEXTS, STEPS, stream=True, batch_size=3):
        assert piece
        texts[index] += piece
    assert texts == wanted


def test_pieces_come_while_it_decodes(folders):
    session = opened(folders("trained"))
    calls = []
    step = session._decoder.step
    session._decoder.step = lambda *given: calls.append(0) or step(*given)
    steps = []
    for _ in session.generate("memory", STEPS, stream=True):
        steps.append(len(calls))
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) > 1


@given(st.lists(st.one_of(st.integers(0, 383), st.sampled_from(list("naïve ខ្មែរ🧠".encode())).map(lambda b: b + 3))))
def test_pieces_are_what_decode_gives(tokens):
    stream = pieces.Pieces()
    found = [stream.push(token) for token in tokens]
    assert "".join(found) + stream.finish() == engram_rs.decode(np.array(tokens, dtype=np.int64))
    assert stream.ended == (1 in tokens)


@given(st.text())
def test_a_character_is_held_back_until_it_is_whole(text):
    stream = pieces.Pieces()
    found = [piece for token in engram_rs.encode(text).tolist() if (piece := stream.push(token))]
    assert found == list(text)


def test_graphs_that_promise_nothing_of_padding_get_none(tmp_path):
    """Decoders of others may take rows of padding for states."""
    model = model_of("trained")
    session = opened(models.export(model, tmp_path / "model", masked=False))
    assert not session.pads
    wanted = greedy("trained")
    assert session.generate(TEXTS, STEPS) == wanted
    session.pads = True
    assert session.generate(TEXTS, STEPS) != wanted


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(1, 8), st.booleans())
def test_a_plan_has_every_text_once(lengths, size, pads):
    batches = plan(lengths, size, pads)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= size for batch in batches)
    for batch in batches:
        assert pads or len({lengths[index] for index in batch}) == 1
    if pads:
        assert len(batches) == -(-len(lengths) // size)


def test_eight_threads_agree(folders):
    session = opened(folders("byte_fnv1a"))
    texts = [f"{text} {number}" for number in range(6) for text in ("hash", "memory of gold", "كتاب")]
    wanted = session.generate(texts, 16)
    ready = threading.Barrier(8)

    def work(number):
        ready.wait()
        turned = texts[number:] + texts[:number]
        found = session.generate(turned, 16, batch_size=5)
        return found[len(texts) - number :] + found[: len(texts) - number]

    with ThreadPoolExecutor(8) as pool:
        assert all(found == wanted for found in pool.map(work, range(8)))


def test_steps_by_hand(folders):
    """A cache may be used twice, windows give what single tokens give, and both decoders the same."""
    session, plain = opened(folders("trained")), opened(folders("trained"), plain=True)
    ids = engram_rs.encode("memory")[None]
    states = session.encode(ids)
    tokens = np.array([[0, 10, 20, 30, 40]])
    whole, none = plain.step(plain.encode(ids), tokens)
    assert none is None
    together, cache = session.step(states, tokens)
    assert cache.length == 5
    np.testing.assert_allclose(together, whole, atol=1e-4)
    _, first = session.step(states, tokens[:, :2])
    for _ in range(2):
        rest, cache = session.step(states, tokens[:, 2:], first)
        assert (first.length, cache.length) == (2, 5)
        np.testing.assert_allclose(rest, whole[:, 2:], atol=1e-4)
    with pytest.raises(ValueError, match="takes no cache"):
        plain.step(states, tokens, cache)


@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        ({"texts": 5}, TypeError, "texts must be"),
        ({"texts": ["a", 5]}, TypeError, "a text must be str or bytes, not int"),
        ({"texts": "\ud800"}, ValueError, "surrogates"),
        ({"max_new_tokens": 0}, ValueError, "max_new_tokens must be a whole number of at least 1, not 0"),
        ({"max_new_tokens": True}, ValueError, "max_new_tokens"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"batch_size": 2.0}, ValueError, "batch_size"),
    ],
)
def test_what_generate_refuses(folders, given, error, named):
    session = opened(folders("random"))
    for stream in (False, True):
        with pytest.raises(error, match=named):
            session.generate(**({"texts": "a"} | given), stream=stream)


def test_nothing_to_do_is_nothing(folders):
    session = opened(folders("random"))
    assert session.generate([]) == []
    assert list(session.generate([], stream=True)) == []
    assert len(session.generate("abc", 1)) <= 1


@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        ([1, 2], ValueError, r"ids must be \[batch, length\].*\[2\]"),
        (np.zeros((1, 0), dtype=int), ValueError, r"\[1, 0\]"),
        ([[1.5]], TypeError, "ids must be integers, not float64"),
    ],
)
def test_ids_that_encode_refuses(folders, given, error, named):
    with pytest.raises(error, match=named):
        opened(folders("random")).encode(given)


def test_models_that_are_refused(folders, tmp_path):
    with pytest.raises(FileNotFoundError):
        opened(tmp_path / "no.zip")
    with pytest.raises(ValueError, match=r"threads must be"):
        Seq2SeqSession(folders("random"), CPU, 0)
    with pytest.raises(TypeError, match="list of names"):
        Seq2SeqSession(folders("random"), "CPUExecutionProvider")
    with pytest.raises(ValueError, match="usable are"):
        Seq2SeqSession(folders("random"), ["No"])
    broken = tmp_path / "broken"
    shutil.copytree(folders("byte_fnv1a"), broken)
    for name, content, error, named in (
        ("encoder.onnx", b"no graph", ValueError, "cannot load .*encoder.onnx"),
        ("encoder.onnx", (broken / "encoder.onnx").read_bytes()[:-9], ValueError, "cut short"),
        ("encoder.onnx", (broken / "decoder.onnx").read_bytes(), ValueError, "has the inputs"),
        ("encoder.onnx", None, FileNotFoundError, r"no encoder\.onnx in .*broken"),
        ("decoder-kv.onnx", (broken / "decoder.onnx").read_bytes(), ValueError, "has the inputs .*wanted"),
        ("decoder-kv.onnx", (broken / "encoder.onnx").read_bytes(), ValueError, "has the inputs"),
        ("metadata.yaml", b"format: imf-v9", ValueError, r"metadata\.yaml: "),
    ):
        path = broken / name
        before = path.read_bytes() if path.exists() else None
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(error, match=named):
            opened(broken)
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_bytes(before)
    assert opened(broken).generate("a", 2) == opened(folders("byte_fnv1a")).generate("a", 2)


def test_a_damaged_zip_is_refused(folders, tmp_path):
    path = pack(folders("random"), tmp_path / "model.zip")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="damaged"):
        opened(path)


def test_addresses_of_an_unknown_scheme_are_refused(folders, tmp_path):
    import onnx

    folder = tmp_path / "model"
    shutil.copytree(folders("byte_fnv1a"), folder)
    other = v2(SCHEMES["multiply_xor"])
    text = "\n".join(f"{key}: {value!r}" for key, value in (METADATA | {"decoder": "kv", "format": "imf-v2"}).items())
    block = "\n".join(f"  {key}: {value!r}" for key, value in _block(other["engram"]).items())
    (folder / "metadata.yaml").write_text(f"{text}\nengram:\n{block}\n")
    with pytest.raises(ValueError, match=f"{SCHEMES['byte_fnv1a'].digest}.*{SCHEMES['multiply_xor'].digest}"):
        opened(folder)
    (folder / "metadata.yaml").unlink()
    graph = onnx.load(folder / "encoder.onnx")
    del graph.metadata_props[:]
    onnx.save(graph, folder / "encoder.onnx")
    with pytest.raises(ValueError, match="says of which addressing"):
        opened(folder)


def _block(engram):
    scheme = Addressing.from_json(engram["addressing"])
    return engram | {"addressing_digest": scheme.digest, "entries": scheme.entries}


def test_where_nodes_run(folders):
    session = opened(folders("byte_fnv1a"), profile=True)
    with pytest.raises(ValueError, match="profile=True"):
        placement(opened(folders("byte_fnv1a")))
    session.generate("abc", 3)
    placed = placement(session)
    assert placement(session) is placed
    assert {one.graph.partition(" ")[0] for one in placed} == {"encoder.onnx", "decoder-kv.onnx"}
    core = [one for one in placed if one.core]
    assert "Gather" in {one.operator for one in core}
    assert misplaced(placed, CPU[0]) == []
    # Seen from CUDA, every node of the memory is in the wrong place.
    assert misplaced(placed, "CUDAExecutionProvider") == core
    with pytest.raises(ValueError, match="no node is of a memory"):
        misplaced([one for one in placed if not one.core], CPU[0])


def test_a_profile_of_nothing(folders):
    with pytest.raises(ValueError, match="has not run"):
        placement(opened(folders("random"), profile=True))


def test_a_memory_session_runs_batches_ahead(trained, tmp_path):
    from engram_rs.onnx import export_memory

    export_memory(trained, tmp_path / "memory.onnx")
    session = MemorySession(tmp_path / "memory.onnx", CPU, profile=True)
    random = np.random.default_rng(0)
    batches = [random.integers(3, 259, shape) for shape in ((2, 7), (1, 30), (5,), (4, 1))]
    for ids, found in zip(batches, session.run_many(iter(batches)), strict=True):
        np.testing.assert_array_equal(found, session.run(ids))
    with pytest.raises(ValueError, match=r"\[T\] or \[B, T\]"):
        list(session.run_many([batches[0], np.zeros((1, 1, 1), dtype=int)]))
    assert misplaced(placement(session), CPU[0]) == []


def test_the_next_batch_is_prepared_while_this_one_runs():
    prepared = [threading.Event() for _ in range(3)]

    def prepare(number):
        prepared[number].set()
        return -number

    for number, found in enumerate(feeding.ahead(iter(range(3)), prepare)):
        assert found == -number
        # Were the next one prepared only when it is asked for, this would wait in vain.
        assert number == 2 or prepared[number + 1].wait(20)
    assert list(feeding.ahead([], prepare)) == []
    assert list(feeding.ahead([7], str)) == ["7"]


def test_an_error_comes_at_its_batch():
    found = feeding.ahead([1, 0, 2], lambda number: 6 // number)
    assert next(found) == 6
    with pytest.raises(ZeroDivisionError):
        next(found)


class Driver:
    """What page-locking asks of CUDA's driver."""

    def __init__(self, status=0):
        self.status = status
        self.locked = {}
        self.depth = 0

    def cuDeviceGet(self, device, ordinal):
        return 0

    def cuDevicePrimaryCtxRetain(self, context, device):
        return 0

    def cuCtxPushCurrent_v2(self, context):
        self.depth += 1
        return 0

    def cuCtxPopCurrent_v2(self, context):
        self.depth -= 1
        return 0

    def cuMemHostRegister_v2(self, address, length, flags):
        assert self.depth == 1
        self.locked[address.value] = length.value
        return self.status

    def cuMemHostUnregister(self, address):
        assert self.depth == 1
        del self.locked[address.value]
        return 0


def test_buffers_for_cuda_are_page_locked(monkeypatch):
    driver = Driver()
    monkeypatch.setattr(feeding, "cuda_driver", lambda: driver)
    feeder = feeding.Feeder("CUDAExecutionProvider")
    first = feeder.buffer((2, 50, 3))
    assert feeder.pinned
    assert driver.locked == {first.ctypes.data: 450 * 8}
    first[...] = 7
    assert feeder.buffer((1, 100, 3)).ctypes.data == first.ctypes.data
    bigger = feeder.buffer((10, 50, 3))
    # Memory that someone still holds stays locked.
    assert set(driver.locked) == {first.ctypes.data, bigger.ctypes.data}
    assert (first == 7).all()
    del first
    assert set(driver.locked) == {bigger.ctypes.data}
    gone = weakref.ref(feeder)
    del feeder, bigger
    assert gone() is None
    assert driver.locked == {}
    assert driver.depth == 0


def test_memory_that_cannot_be_locked_is_used_as_it_is(monkeypatch):
    monkeypatch.setattr(feeding, "cuda_driver", lambda: Driver(status=2))
    feeder = feeding.Feeder("CUDAExecutionProvider")
    with pytest.warns(RuntimeWarning, match=r"cannot page-lock .*status 2"):
        assert feeder.buffer((4,)).shape == (4,)
    assert not feeder.pinned


def test_the_command(folders, tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer")
    from engram_rs.cli import main

    def run(*words, given=b""):
        monkeypatch.setattr(sys, "argv", ["engram-rs", "run", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code, capsys.readouterr().err
        return capsys.readouterr().out

    folder = folders("trained")
    session = opened(folder)
    both = session.generate(["memory ship", "table"])
    assert run(pack(folder, tmp_path / "model.zip"), "memory ship") == f"{both[0]}\n"
    short = run(folder, "memory", "--plain", "--max-new-tokens", "3", "--provider", CPU[0])
    assert short == f"{session.generate('memory', 3)}\n"
    assert run(folder, given=b"memory ship\r\ntable") == f"{both[0]}\n{both[1]}\n"


def test_loading_takes_little_more_than_the_weights(tmp_path):
    """The peak of a fresh process that opens a 32 MiB table, beside one that opens a small one."""
    from engram_rs.onnx import export_memory
    from engram_rs.torch import Engram

    peaks = []
    for entries in (1024, 2**20):
        memory = Engram(16, entries=entries, dim=32)
        export_memory(memory, tmp_path / "memory.onnx", precision="int8")
        code = (
            "import engram_rs; from engram_rs.ort import MemorySession\n"
            f"session = MemorySession({str(Path(tmp_path, 'memory.onnx'))!r}, {CPU!r}, threads=1)\n"
            "session.run(engram_rs.encode('any text'))\n"
            "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
        )
        peaks.append(int(models.python(code)))
    assert (peaks[1] - peaks[0]) * 1024 <= 1.5 * 2**25


if not Path("/proc/self/status").exists():
    del test_loading_takes_little_more_than_the_weights
