"""The checks of `make gpu-check`, run on the CPU provider, and what they say where there is no GPU."""

import dataclasses
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("transformers")

from engram_rs.ort import cuda_devices  # noqa: E402
from engram_rs.ort.sessions import with_options  # noqa: E402

ROOT = Path(__file__).parent.parent
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benches import gpu

    return gpu


def test_every_check_works(gpu, one_thread, tmp_path, monkeypatch):
    monkeypatch.setattr("benches.harness.SAMPLE_SECONDS", 1e-4)
    monkeypatch.setattr("benches.harness.SETTLE_SECONDS", 0.0)
    found = gpu.check(CPU, "no GPU at all", gpu.SMALL, tmp_path)
    assert len(found.checks) == 3 * 2 + 4
    assert all(seconds > 0 for rows in found.speeds.values() for _, seconds in rows)
    assert found.passed, found.checks
    page = gpu.render(found)
    for what, came, right in found.checks:
        assert f"| {what} | {came} | {'yes' if right else '**no**'} |" in page
    for title in found.speeds:
        assert f"## {title}" in page
    found.checks.append(("a thing", "wrong", False))
    assert not found.passed
    assert "| a thing | wrong | **no** |" in gpu.render(found)


@pytest.mark.skipif(cuda_devices() > 0, reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_writes_nothing(gpu, tmp_path, capsys):
    assert gpu.main(["--page", str(tmp_path / "gpu.md")]) == 0
    assert "no GPU" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_page_is_written_whole(gpu, tmp_path, monkeypatch, capsys):
    found = gpu.Findings("a device", [("a thing", "as it should be", True)])
    monkeypatch.setattr(gpu, "cuda_devices", lambda: 1)
    monkeypatch.setattr(gpu, "gpu_name", lambda: "a device")
    monkeypatch.setattr(gpu, "check", lambda *given: found)
    assert gpu.main(["--page", str(tmp_path / "gpu.md")]) == 0
    assert (tmp_path / "gpu.md").read_text() == gpu.render(found)
    monkeypatch.setattr(gpu, "check", lambda *given: dataclasses.replace(found, checks=[("a thing", "wrong", False)]))
    assert gpu.main(["--page", str(tmp_path / "gpu.md")]) == 1
    assert "SOMETHING IS WRONG" in capsys.readouterr().out


def test_cuda_multiplies_floats_as_floats():
    assert with_options(CUDA) == (CUDA, {"use_tf32": "0"})
    assert with_options(CPU) == CPU


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is told by Linux")
def test_generate_leaks_nothing(gpu, one_thread, tmp_path):
    """A short form of `python -m benches.soak`."""
    from benches import soak

    session = soak.tiny_session(tmp_path / "model")
    for threads in (1, 8):
        found = soak.soak(session, 100, threads)
        assert max(found) - found[0] < soak.BOUND


@pytest.mark.skipif(cuda_devices() == 0, reason="needs a GPU")
def test_a_gpu(gpu, tmp_path):
    found = gpu.check(CUDA, gpu.gpu_name(), gpu.SMALL, tmp_path)
    assert found.passed, found.checks
