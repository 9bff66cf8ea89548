"""The walls of the house: who may import whom, what importing costs, and that the stubs tell the truth."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import engram_rs

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "engram_rs"
HEAVY = {
    "torch",
    "onnx",
    "onnxruntime",
    "transformers",
    "tokenizers",
    "safetensors",
    "typer",
    "rich",
    "matplotlib",
    "pydantic",
    "yaml",
}

# What a room must not import, however deep; "engram_rs.x" names one of our own rooms.
WALLS = {
    "addressing.py": {*HEAVY, "engram_rs.torch", "engram_rs.onnx", "engram_rs.ort"},
    "corpus.py": {"torch", "onnx", "onnxruntime", "engram_rs.torch", "engram_rs.onnx", "engram_rs.ort"},
    "vocabulary.py": {"torch", "onnx", "onnxruntime", "engram_rs.torch", "engram_rs.onnx", "engram_rs.ort"},
    "artifact.py": {"torch", "onnx", "onnxruntime", "engram_rs.torch", "engram_rs.onnx", "engram_rs.ort"},
    "vectors.py": {*HEAVY, "engram_rs.torch", "engram_rs.onnx", "engram_rs.ort"},
    "memory_graph.py": {*HEAVY, "engram_rs.torch", "engram_rs.onnx", "engram_rs.ort"},
    "torch": {
        "engram_rs.distill",
        "transformers",
        "onnx",
        "onnxruntime",
        "engram_rs.onnx",
        "engram_rs.ort",
        "engram_rs.parity",
        "engram_rs.cli",
    },
    "onnx": {"engram_rs.distill", "onnxruntime", "engram_rs.ort", "engram_rs.parity", "engram_rs.cli"},
    "ort": {
        "engram_rs.distill",
        "torch",
        "onnx",
        "engram_rs.torch",
        "engram_rs.onnx",
        "engram_rs.parity",
        "engram_rs.cli",
    },
    "imf": {
        "torch",
        "onnxruntime",
        "transformers",
        "tokenizers",
        "safetensors",
        "matplotlib",
        "typer",
        "rich",
        "engram_rs.torch",
        "engram_rs.onnx",
        "engram_rs.ort",
        "engram_rs.parity",
        "engram_rs.distill",
        "engram_rs.cli",
    },
    "distill": {"onnx", "onnxruntime", "engram_rs.onnx", "engram_rs.ort", "engram_rs.parity", "engram_rs.cli"},
    "parity": {"onnx", "engram_rs.onnx", "engram_rs.cli", "engram_rs.distill"},
}


# One file quantises, by ONNX Runtime's own quantiser; it opens no session.
DOORS = {"onnx/precision.py": {"onnxruntime"}}


def imports(path: Path) -> set[str]:
    """Every module that a file imports at run time, relative ones made absolute, with their parents."""
    package = ["engram_rs", *path.relative_to(PACKAGE).parent.parts]
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            found.add(module)
            found.update(f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "require" and node.args:
            found.add(ast.literal_eval(node.args[0]))
    return {".".join(name.split(".")[:depth]) for name in found for depth in range(1, 4)}


def files(room: str) -> list[Path]:
    path = PACKAGE / room
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


@pytest.mark.parametrize("room", WALLS)
def test_walls(room):
    assert files(room), f"{room} is gone; the wall needs its new name"
    for file in files(room):
        reached = imports(file) & WALLS[room] - DOORS.get(str(file.relative_to(PACKAGE)), set())
        assert not reached, f"{file.relative_to(ROOT)} reaches through a wall"


def test_only_ort_opens_sessions():
    for file in PACKAGE.rglob("*.py"):
        if "InferenceSession" in file.read_text():
            assert file.is_relative_to(PACKAGE / "ort"), file


def test_the_core_crate_knows_no_python():
    manifest = (ROOT / "rust/core/Cargo.toml").read_text()
    assert "pyo3" not in manifest
    assert "numpy" not in manifest


def test_unsafe_stands_in_simd_and_mmap_files_only():
    for file in (ROOT / "rust").rglob("*.rs"):
        code = "\n".join(line.split("//")[0] for line in file.read_text().splitlines())
        if "unsafe" in code.replace("unsafe_op_in_unsafe_fn", ""):
            assert file.stem in {"x86", "mmap"}, file


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_pulls_in_numpy_and_nothing_heavier():
    loaded = run("import sys, engram_rs; print(*{name.partition('.')[0] for name in sys.modules})").split()
    assert "engram_rs" in loaded
    assert not HEAVY & set(loaded)


HIDE = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
"""


@pytest.mark.parametrize(
    ("hidden", "module", "extra"),
    [
        ({"torch"}, "engram_rs.torch", "torch"),
        ({"safetensors"}, "engram_rs.torch", "torch"),
        ({"onnx"}, "engram_rs.onnx", "onnx"),
        ({"onnxruntime"}, "engram_rs.ort", "onnx"),
        ({"torch"}, "engram_rs.parity", "torch"),
        ({"onnxruntime"}, "engram_rs.parity", "onnx"),
        ({"yaml"}, "engram_rs.imf", "onnx"),
        ({"transformers"}, "engram_rs.distill", "train"),
    ],
)
def test_a_missing_package_names_its_extra(hidden, module, extra):
    code = (
        HIDE.format(hidden=hidden)
        + f"""
try:
    import {module}
except ImportError as error:
    print(error)
"""
    )
    assert f"pip install 'engram_rs[{extra}]'" in run(code)


@pytest.mark.parametrize("hidden", [{"typer"}, {"rich"}])
def test_the_command_names_its_extra(hidden):
    code = HIDE.format(hidden=hidden) + "from engram_rs.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'engram_rs[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_everything_works_without_the_extras():
    code = (
        HIDE.format(hidden=HEAVY)
        + """
import engram_rs
print(engram_rs.Addressing.byte_fnv1a()(engram_rs.encode('numpy is enough')).shape)
"""
    )
    assert run(code).strip() == "(16, 3)"


def test_stubs_agree_with_the_built_module():
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "engram_rs._core", "--mypy-config-file", "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]])
def test_python_is_clean(command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_public_names():
    assert set(engram_rs.__all__) == {
        "Addressing",
        "Stream",
        "__version__",
        "address_file",
        "compress_vocabulary",
        "decode",
        "encode",
    }
    for name in engram_rs.__all__:
        assert hasattr(engram_rs, name)
    for name in set(engram_rs.__all__) - {"__version__"}:
        assert getattr(engram_rs, name).__doc__
