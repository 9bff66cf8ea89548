"""The exported graph against torch, at every precision, and the session that runs it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from engram_rs import Addressing, encode  # noqa: E402
from engram_rs.artifact import MemoryArtifact  # noqa: E402
from engram_rs.onnx import export_memory  # noqa: E402
from engram_rs.ort import MemorySession, available_providers  # noqa: E402
from engram_rs.parity import error_bound, verify  # noqa: E402
from engram_rs.torch import Engram  # noqa: E402

PRECISIONS = ["fp32", "fp16", "int8"]
TEXT = "وَلَقَدْ يَسَّرْنَا ٱلْقُرْءَانَ لِلذِّكْرِ"


@pytest.fixture(params=PRECISIONS)
def graph(request, trained, tmp_path):
    path = tmp_path / f"{request.param}.onnx"
    export_memory(trained, path, request.param)
    return path


def test_parity(graph, trained):
    report = verify(graph, trained)
    assert report.passed
    assert report.positions > 8192
    assert report.largest_output > 0.01
    assert report.provider in available_providers()
    if report.precision == "fp32":
        assert report.max_difference <= 1e-6
    else:
        # The tolerance must be of the difference's own size, else it would pass what is wrong.
        assert report.max_difference > report.tolerance / 50


def test_int8_stays_within_half_a_step_of_the_table(trained):
    scale = trained.to_artifact().scale
    projection = trained.projection.detach().abs()
    peak = trained.table.detach().abs().max()
    worst = (projection.sum(dim=1) * scale / 2 + (projection * 2**-11).sum(dim=1) * (peak + scale)).max()
    assert error_bound(trained, "int8") <= worst * 1.001


def test_a_wrong_graph_fails(trained, tmp_path):
    wrong = Engram.from_artifact(trained.to_artifact())
    with torch.no_grad():
        wrong.table[:, 0] += 0.02
    for precision in PRECISIONS:
        export_memory(wrong, tmp_path / "wrong.onnx", precision)
        assert not verify(tmp_path / "wrong.onnx", trained).passed, precision


def test_an_artifact_and_its_graph_agree_to_rounding(trained, tmp_path):
    trained.save(tmp_path / "memory.safetensors")
    loaded = Engram.load(tmp_path / "memory.safetensors")
    for precision in ("int8", "fp32"):
        export_memory(tmp_path / "memory.safetensors", tmp_path / "graph.onnx", precision)
        report = verify(tmp_path / "graph.onnx", loaded)
        assert report.passed
        assert report.max_difference < 1e-6


def test_the_graph_is_what_it_says(graph):
    model = onnx.load(graph)
    assert [opset.version for opset in model.opset_import] == [14]
    assert model.ir_version <= 8
    (given,), (result,) = model.graph.input, model.graph.output
    shape = lambda value: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]  # noqa: E731
    assert (given.name, given.type.tensor_type.elem_type, shape(given)) == (
        "engram_addresses",
        onnx.TensorProto.INT64,
        ["batch", "sequence", 3],
    )
    assert (result.name, result.type.tensor_type.elem_type, shape(result)) == (
        "memory",
        onnx.TensorProto.FLOAT,
        ["batch", "sequence", 48],
    )
    table = next(tensor for tensor in model.graph.initializer if tensor.name == "engram.table")
    wanted = {"fp32": onnx.TensorProto.FLOAT, "fp16": onnx.TensorProto.FLOAT16, "int8": onnx.TensorProto.INT8}
    assert table.data_type == wanted[graph.stem]


@pytest.mark.parametrize("opset", [13, 14, 15, 17, 18, 21])
def test_opsets(trained, tmp_path, opset):
    export_memory(trained, tmp_path / "graph.onnx", opset=opset)
    assert verify(tmp_path / "graph.onnx", trained, positions=64).max_difference <= 1e-6


@pytest.mark.parametrize("entries", [1, 7, 2**16, 2_097_143])
def test_the_remainder_is_in_the_graph(tmp_path, entries):
    # Feeding the hash itself must find the same row as feeding the remainder, up to the last uint32.
    module = Engram(2, entries=entries, dim=1, orders=(2,))
    torch.nn.init.ones_(module.projection)
    export_memory(module, tmp_path / "graph.onnx")
    session = MemorySession(tmp_path / "graph.onnx")
    hashes = np.array([0, 1, entries - 1, entries, entries + 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1])[:, None]
    np.testing.assert_array_equal(session.run_addresses(hashes), session.run_addresses(hashes % entries))
    torch.testing.assert_close(
        torch.from_numpy(session.run_addresses(hashes)), module.from_addresses(torch.from_numpy(hashes)).detach()
    )


@pytest.mark.parametrize(
    "addressing",
    [
        Addressing.utf8_fnv1a(4099, (2, 3)),
        Addressing.deepseek_v41(1, max_order=3, heads=2, vocab_size=400, compressed_vocab_size=300),
        Addressing.qwen_ple(heads=2, base=400, vocab_size=300, eos=7),
        Addressing.blt(2, (2, 3), 500),
        Addressing.longcat(300, 2, 3, 2, one_table=True),
    ],
    ids=lambda addressing: addressing.scheme,
)
def test_every_family_has_a_module_and_a_graph(addressing, tmp_path):
    torch.manual_seed(0)
    module = Engram(24, dim=8, addressing=addressing)
    torch.nn.init.normal_(module.projection)
    module.save(tmp_path / "memory.safetensors")
    assert Engram.load(tmp_path / "memory.safetensors").addressing == addressing
    export_memory(module, tmp_path / "graph.onnx")
    report = verify(tmp_path / "graph.onnx", module, ids=[np.arange(200).reshape(2, 100) % 97])
    assert report.passed
    assert report.largest_output > 0.001
    session = MemorySession(tmp_path / "graph.onnx")
    ids = torch.arange(90)[None] * 7 % 256
    torch.testing.assert_close(torch.from_numpy(session.run(ids.numpy())), module(ids).detach(), atol=1e-6, rtol=0)


def test_a_fresh_memory_adds_exactly_zero(tmp_path):
    module = Engram(16, entries=100, dim=4)
    for precision in PRECISIONS:
        export_memory(module, tmp_path / "graph.onnx", precision)
        assert not MemorySession(tmp_path / "graph.onnx").run(encode(TEXT)).any()
        assert verify(tmp_path / "graph.onnx", module).largest_output == 0


def test_shapes_of_a_run(graph, trained):
    session = MemorySession(graph)
    ids = encode(TEXT)
    single = session.run(ids)
    assert (single.shape, single.dtype) == ((len(ids), 48), np.float32)
    batch = session.run(np.stack([ids, ids[::-1]]))
    np.testing.assert_allclose(batch[0], single, atol=1e-6)
    assert session.run([]).shape == (0, 48)
    assert session.run(np.zeros((0, 5), dtype=int)).shape == (0, 5, 48)
    assert session.run(np.zeros((3, 0), dtype=int)).shape == (3, 0, 48)
    assert session.run([100, 101]).shape == (2, 48)
    assert session.run(torch.tensor([100, 101])).shape == (2, 48)


def test_a_run_writes_into_out(graph):
    session = MemorySession(graph)
    ids = np.stack([encode(TEXT)] * 2)
    out = np.empty((*ids.shape, 48), dtype=np.float32)
    assert session.run(ids, out=out) is out
    np.testing.assert_array_equal(out, session.run(ids))
    addresses = session.metadata.addressing(ids)
    assert session.run_addresses(addresses, out=out) is out
    np.testing.assert_array_equal(session.run_addresses(addresses[0]), out[0])


def test_results_outlive_the_next_run(graph):
    session = MemorySession(graph)
    first = session.run(encode("first"))
    kept = first.copy()
    session.run(encode("other"))
    np.testing.assert_array_equal(first, kept)


def test_threads_share_a_session(graph):
    from concurrent.futures import ThreadPoolExecutor

    session = MemorySession(graph)
    inputs = [np.random.default_rng(i).integers(0, 259, 10 + 37 * i) for i in range(24)]
    wanted = [session.run(ids) for ids in inputs]
    with ThreadPoolExecutor(8) as pool:
        for got, want in zip(pool.map(session.run, inputs), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_session_reuses_its_address_buffer(graph, monkeypatch):
    session = MemorySession(graph)
    seen = set()
    run = session.run_addresses
    monkeypatch.setattr(
        session, "run_addresses", lambda addresses, out: (seen.add(addresses.ctypes.data), run(addresses, out))[1]
    )
    for length in (50, 10, 50, 49):
        session.run(np.arange(length))
    assert len(seen) == 1


def test_it_says_who_runs_it(graph):
    session = MemorySession(graph)
    assert session.provider in ("CUDAExecutionProvider", "CPUExecutionProvider")
    assert session.provider in repr(session)
    assert session.metadata.precision == graph.stem
    assert MemorySession(graph, providers=["CPUExecutionProvider"], threads=1).provider == "CPUExecutionProvider"


@pytest.mark.parametrize(
    ("providers", "error", "named"),
    [
        (["QuantumExecutionProvider"], ValueError, "QuantumExecutionProvider.*CPUExecutionProvider"),
        ([], ValueError, "at least one"),
        ("CPUExecutionProvider", TypeError, "list"),
    ],
)
def test_bad_providers(graph, providers, error, named):
    with pytest.raises(error, match=named):
        MemorySession(graph, providers=providers)


def test_cuda_that_is_not_there_is_an_error(graph):
    if "CUDAExecutionProvider" in available_providers():
        pytest.skip("there is a GPU here")
    with pytest.raises(ValueError, match="CUDAExecutionProvider"):
        MemorySession(graph, providers=["CUDAExecutionProvider"])


@pytest.mark.parametrize(
    ("ids", "error", "named"),
    [
        ("text", TypeError, "encode"),
        ([1.5], TypeError, "float64"),
        (np.zeros((1, 1, 1), dtype=int), ValueError, r"\[1, 1, 1\]"),
        (5, ValueError, r"\[\]"),
    ],
)
def test_bad_ids(graph, ids, error, named):
    with pytest.raises(error, match=named):
        MemorySession(graph).run(ids)


@pytest.mark.parametrize(
    ("addresses", "error"),
    [
        ([[1, 2, 3]], TypeError),
        (np.zeros((2, 3), dtype=np.int32), TypeError),
        (np.zeros(3, dtype=np.int64), ValueError),
        (np.zeros((2, 4), dtype=np.int64), ValueError),
    ],
)
def test_bad_addresses(graph, addresses, error):
    with pytest.raises(error, match="addresses must be"):
        MemorySession(graph).run_addresses(addresses)


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.zeros((3, 48)), TypeError),
        (np.zeros((2, 48), dtype=np.float32), ValueError),
        (np.zeros((48, 3), dtype=np.float32).T, ValueError),
        ([0.0], TypeError),
    ],
)
def test_bad_out(graph, out, error):
    with pytest.raises(error, match="out must"):
        MemorySession(graph).run([1, 2, 3], out=out)


def test_bad_sessions(tmp_path, graph):
    with pytest.raises(FileNotFoundError):
        MemorySession(tmp_path / "none.onnx")
    with pytest.raises(ValueError, match="threads"):
        MemorySession(graph, threads=0)
    (tmp_path / "text.onnx").write_text("not a graph")
    with pytest.raises(ValueError, match="cannot load"):
        MemorySession(tmp_path / "text.onnx")
    (tmp_path / "cut.onnx").write_bytes(graph.read_bytes()[:-500])
    with pytest.raises(ValueError, match=r"cut\.onnx"):
        MemorySession(tmp_path / "cut.onnx")


DAMAGE = {
    "no metadata": (lambda p: p.clear(), "not a memory graph"),
    "another format": (lambda p: p.update({"engram.format": "x"}), "not a memory graph"),
    "no digest": (lambda p: p.pop("engram.addressing_digest"), "lacks engram.addressing_digest"),
    "no d_model": (lambda p: p.pop("engram.d_model"), "lacks engram.d_model"),
    "a foreign addressing": (
        lambda p: p.update({"engram.addressing": Addressing.byte_fnv1a(4099, (3, 4, 5)).to_json()}),
        "digest",
    ),
    "an unknown precision": (lambda p: p.update({"engram.precision": "fp7"}), "fp7"),
    "a width that is no number": (lambda p: p.update({"engram.dim": "wide"}), "wide"),
    "another width": (lambda p: p.update({"engram.d_model": "47"}), "47"),
}


@pytest.mark.parametrize(("damage", "named"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_metadata_says_what_is_wrong(trained, tmp_path, damage, named):
    path = tmp_path / "graph.onnx"
    export_memory(trained, path)
    model = onnx.load(path)
    properties = {entry.key: entry.value for entry in model.metadata_props}
    damage(properties)
    onnx.helper.set_model_props(model, properties)
    onnx.save(model, path)
    with pytest.raises(ValueError, match=named) as caught:
        MemorySession(path)
    assert "graph.onnx" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"precision": "int4"}, ValueError, "int4"),
        ({"opset": 12}, ValueError, "12"),
        ({"opset": 999}, ValueError, "999"),
        ({"opset": "14"}, ValueError, "14"),
    ],
)
def test_bad_exports(trained, tmp_path, arguments, error, named):
    with pytest.raises(error, match=named):
        export_memory(trained, tmp_path / "graph.onnx", **arguments)
    assert not list(tmp_path.iterdir())


def test_exports_of_what_is_no_memory(tmp_path):
    with pytest.raises(TypeError, match="Linear"):
        export_memory(torch.nn.Linear(2, 2), tmp_path / "graph.onnx")
    with pytest.raises(FileNotFoundError):
        export_memory(tmp_path / "none.safetensors", tmp_path / "graph.onnx")
    with pytest.raises(FileNotFoundError, match="no folder"):
        export_memory(Engram(2, entries=2), tmp_path / "none" / "graph.onnx")


def test_values_that_do_not_fit_are_not_written(tmp_path):
    path = tmp_path / "graph.onnx"
    path.write_bytes(b"older")
    module = Engram(2, entries=5, dim=2)
    with torch.no_grad():
        module.table[0, 0] = 1e6
    with pytest.raises(ValueError, match="float16"):
        export_memory(module, path, "fp16")
    with torch.no_grad():
        module.table[0, 0] = float("nan")
    for precision in PRECISIONS:
        with pytest.raises(ValueError, match="finite"):
            export_memory(module, path, precision)
    assert path.read_bytes() == b"older"


def test_a_graph_beyond_two_gibibytes_is_refused(tmp_path):
    # Broadcasting gives a table of the size without its memory.
    class Huge:
        addressing = Addressing.byte_fnv1a(2**24)
        table = torch.zeros(1, 1).expand(2**24, 32)
        projection = torch.zeros(4, 32)

        def to_artifact(self):
            return MemoryArtifact(self.addressing, None, 1.0, None)

    with pytest.raises(ValueError, match="2 GiB"):
        export_memory(Huge(), tmp_path / "graph.onnx")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_modules_of_other_dtypes_and_autocast(trained, tmp_path, dtype):
    module = trained.to(dtype)
    for precision in PRECISIONS:
        export_memory(module, tmp_path / "graph.onnx", precision)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert verify(tmp_path / "graph.onnx", module).passed, precision
    assert module.table.dtype == dtype


def test_an_artifact_or_its_path_may_be_verified(trained, tmp_path):
    trained.save(tmp_path / "memory.safetensors")
    export_memory(tmp_path / "memory.safetensors", tmp_path / "graph.onnx", "int8")
    for memory in (tmp_path / "memory.safetensors", MemoryArtifact.load(tmp_path / "memory.safetensors")):
        assert verify(tmp_path / "graph.onnx", memory).max_difference < 1e-6


def test_an_export_does_not_overwrite_what_it_reads(trained, tmp_path):
    path = tmp_path / "memory.safetensors"
    trained.save(path)
    whole = path.read_bytes()
    (tmp_path / "link").symlink_to(path)
    for target in (path, tmp_path / "link"):
        with pytest.raises(ValueError, match="the file that is read"):
            export_memory(path, target)
    assert path.read_bytes() == whole


def test_verify_names_both_sides(trained, tmp_path):
    export_memory(trained, tmp_path / "graph.onnx")
    other = Engram(48, entries=4099, dim=16, orders=(2, 3, 5))
    with pytest.raises(ValueError, match=f"{trained.addressing.digest}.*{other.addressing.digest}"):
        verify(tmp_path / "graph.onnx", other)
    with pytest.raises(ValueError, match=r"d_model 48.*32"):
        verify(tmp_path / "graph.onnx", Engram(32, entries=4099, dim=16))
    with pytest.raises(TypeError, match="Engram"):
        verify(tmp_path / "graph.onnx", torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="not both"):
        verify(tmp_path / "graph.onnx", trained, texts=["a"], ids=[np.arange(3)])
    tokens = Engram(4, dim=2, addressing=Addressing.longcat(50, 3, 3, 2))
    export_memory(tokens, tmp_path / "tokens.onnx")
    with pytest.raises(ValueError, match="give ids"):
        verify(tmp_path / "tokens.onnx", tokens)
    with pytest.raises(ValueError, match="positions"):
        verify(tmp_path / "graph.onnx", trained, positions=0)


def test_a_difference_that_is_no_number_fails(trained, tmp_path):
    export_memory(trained, tmp_path / "graph.onnx")
    with torch.no_grad():
        trained.projection[:] = float("nan")
    assert not verify(tmp_path / "graph.onnx", trained).passed
