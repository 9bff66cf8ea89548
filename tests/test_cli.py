"""The command line, as a user types it."""

import io
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("typer")

import engram_rs  # noqa: E402
from engram_rs import Addressing, encode  # noqa: E402
from engram_rs.cli import main  # noqa: E402


@dataclass
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs the command in this process: importing torch anew for each would take most of the time."""

    def call(*arguments: object, given: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "argv", ["engram-rs", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        monkeypatch.setenv("COLUMNS", "200")
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        return Done(code, *capsys.readouterr())

    return call


@pytest.fixture
def saved(trained, tmp_path):
    path = tmp_path / "memory.safetensors"
    trained.save(path)
    return path


def test_address_prints_rows(run):
    done = run("address", "كت")
    assert done.returncode == 0
    for value in Addressing.byte_fnv1a()(encode("كت")).ravel():
        assert f" {value} " in done.stdout


def test_address_writes_files(run, tmp_path):
    out, text = tmp_path / "rows.npy", tmp_path / "text"
    text.write_bytes(b"bytes \xff of a file")
    assert run("address", "--file", text, "--entries", 977, "--orders", "1,5", "--out", out).returncode == 0
    wanted = Addressing.byte_fnv1a(977, (1, 5))
    np.testing.assert_array_equal(np.load(out), wanted(encode(text.read_bytes())))
    assert run("address", "-", "--hashes", "--no-eos", "--out", out, given=b"piped").returncode == 0
    np.testing.assert_array_equal(np.load(out), Addressing.byte_fnv1a().hashes(encode("piped", eos=False)))


def test_export_then_verify_then_info(run, saved, tmp_path):
    for precision in ("fp32", "fp16", "int8"):
        graph = tmp_path / f"{precision}.onnx"
        assert run("export", saved, graph, "--precision", precision).returncode == 0
        done = run("verify", graph, saved, "--positions", 100)
        assert done.returncode == 0, done.stderr
        assert "equal within the tolerance" in done.stdout
        assert precision in run("info", graph).stdout
    text = tmp_path / "lines.txt"
    text.write_text("first line\nالسطر الثاني\n", encoding="utf-8")
    assert run("verify", graph, saved, "--text", text, "--provider", "CPUExecutionProvider").returncode == 0
    done = run("info", saved)
    assert "4,099 x 16" in done.stdout
    assert Addressing.byte_fnv1a(4099).digest in done.stdout


def test_verify_fails_on_a_difference(run, trained, saved, tmp_path):
    from engram_rs.onnx import export_memory

    with torch.no_grad():
        trained.table.mul_(1.1)
    export_memory(trained, tmp_path / "graph.onnx")
    done = run("verify", tmp_path / "graph.onnx", saved)
    assert done.returncode == 1
    assert "DIFFERENT" in done.stdout


def test_verify_says_that_an_untrained_memory_proves_nothing(run, tmp_path):
    from engram_rs.torch import Engram

    Engram(4, entries=10, dim=2).save(tmp_path / "fresh")
    assert run("export", tmp_path / "fresh", tmp_path / "graph.onnx").returncode == 0
    assert "nothing was compared" in run("verify", tmp_path / "graph.onnx", tmp_path / "fresh").stdout


def test_doctor(run):
    done = run("doctor")
    assert done.returncode == 0
    for word in ("cpu features", "providers", "CPUExecutionProvider", torch.__version__.partition("+")[0]):
        assert word in done.stdout


def test_the_installed_command():
    command = Path(sys.executable).with_name("engram-rs")
    done = subprocess.run([command, "address", "a", "--entries", "0"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr


def test_version(run):
    assert run("--version").stdout.strip() == f"engram_rs {engram_rs.__version__}"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("address",), "a text or --file"),
        (("address", "a", "--file", "b"), "a text or --file"),
        (("address", "--file", "none"), "none"),
        (("address", "a", "--orders", "2,x"), "2,x"),
        (("address", "a", "--orders", "99"), "99"),
        (("address", "a", "--entries", "0"), "entries"),
        (("address", "a", "--out", "none/rows.npy"), "no folder"),
        (("info", "none"), "none"),
        (("export", "none", "graph.onnx"), "none"),
        (("verify", "none.onnx", "none"), "none"),
    ],
)
def test_errors_are_one_line(run, arguments, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.returncode == 1
    assert named in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
