"""Parity, placement and speed on a GPU, written to docs/benchmarks/gpu.md; where there is none, says so."""

import argparse
import ctypes
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from rich.console import Console
from transformers import T5Config, T5ForConditionalGeneration

import engram_rs
from engram_rs._files import replacing
from engram_rs.onnx import export_memory, export_seq2seq
from engram_rs.ort import MemorySession, Seq2SeqSession, cuda_devices, measure_framing, misplaced, placement
from engram_rs.ort.framing_matrix import SAMPLE_INPUTS
from engram_rs.ort.providers import CPU, CUDA, cuda_driver
from engram_rs.parity import verify
from engram_rs.torch import Engram, attach

from . import gpu_speed

__all__ = ["Findings", "check", "main", "render"]

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "gpu.md"
STATES_TOLERANCE = {"fp32": 1e-4, "fp16": 5e-2}


@dataclass
class Findings:
    """What was found.

    Attributes:
        device: The GPU, or what stood in for it.
        checks: What was checked, what came out, and whether that is right.
        speeds: What was timed and its seconds, by table.
    """

    device: str
    checks: list[tuple[str, str, bool]] = field(default_factory=list)
    speeds: dict[str, list[tuple[str, float]]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return all(right for _, _, right in self.checks)


@dataclass(frozen=True)
class Size:
    """How much work: for a measurement, or for a look at whether the checks themselves work."""

    entries: int
    d_model: int
    layers: int
    steps: int
    shapes: Sequence[tuple[int, int]]
    forms: Sequence[tuple[str, str]]
    rounds: int


FORMS = (("input", "fp32"), ("graph", "fp32"), ("input", "fp16"))
FULL = Size(2_097_152, 512, 6, 96, ((1, 128), (1, 1024), (32, 256)), FORMS, 7)
SMALL = Size(4_099, 32, 2, 6, ((2, 32),), FORMS[:1], 2)


def check(provider: str, device: str, size: Size, folder: Path) -> Findings:
    """Runs everything with one provider beside the CPU and torch."""
    found = Findings(device)
    torch.manual_seed(0)
    memory = Engram(size.d_model, entries=size.entries, dim=32)
    torch.nn.init.normal_(memory.projection, std=0.5)
    for precision in ("fp32", "fp16", "int8"):
        path = folder / f"memory-{precision}.onnx"
        export_memory(memory, path, precision=precision)
        _check_memory(found, provider, path, memory)
    model = _model(size)
    for addresses, precision in size.forms:
        where = folder / f"model-{addresses}-{precision}"
        export_seq2seq(model, where, addresses=addresses, precision=precision)
        _check_model(found, provider, where, f"{precision}, addresses: {addresses}", precision, size)
    for shape in size.shapes:
        found.speeds.update(gpu_speed.memory(provider, folder, memory, shape, size.rounds))
    texts = [f"{text} {number}" for number in range(8) for text in SAMPLE_INPUTS]
    found.speeds.update(gpu_speed.decoding(provider, folder / "model-input-fp32", texts, size.steps, size.rounds))
    if provider == CUDA:
        pinned, speeds = gpu_speed.copies(size.rounds)
        found.checks.append(("memory for addresses is page-locked", str(pinned), pinned))
        found.speeds.update(speeds)
    return found


def _check_memory(found: Findings, provider: str, path: Path, memory: Engram) -> None:
    told = verify(path, memory, providers=[provider])
    difference = f"{told.max_difference:.2e} of at most {told.tolerance:.2e}"
    found.checks.append((f"{path.stem}: difference from torch", difference, told.passed))
    session = MemorySession(path, [provider], profile=True)
    session.run(engram_rs.encode("where does each node run?"))
    _check_placement(found, session, path.stem, provider)


def _check_model(found: Findings, provider: str, folder: Path, name: str, precision: str, size: Size) -> None:
    session, reference = Seq2SeqSession(folder, [provider], profile=True), Seq2SeqSession(folder, [CPU])
    ids = engram_rs.encode(SAMPLE_INPUTS[0])[np.newaxis]
    states, wanted = (one.encode(ids).numpy().astype(np.float32) for one in (session, reference))
    difference, limit = float(np.abs(states - wanted).max()), STATES_TOLERANCE[precision]
    right = difference <= limit
    found.checks.append((f"model, {name}: encoder's difference from the CPU", f"{difference:.2e}", right))
    texts = list(SAMPLE_INPUTS)
    alike = sum(
        mine == theirs
        for mine, theirs in zip(*(one.generate(texts, size.steps) for one in (session, reference)), strict=True)
    )
    # At fp16 two providers may round to either side; the figure stands as it is.
    same = alike == len(texts) or precision != "fp32"
    found.checks.append((f"model, {name}: texts as on the CPU", f"{alike}/{len(texts)}", same))
    framing = measure_framing(session, texts, 8, size.steps)
    votes, same = f"{sum(framing.matches)}/{sum(framing.totals)}", framing.matches == framing.totals
    found.checks.append((f"model, {name}: votes that match at W = 8", votes, same or precision != "fp32"))
    _check_placement(found, session, f"model, {name}", provider)


def _check_placement(found: Findings, session: MemorySession | Seq2SeqSession, name: str, provider: str) -> None:
    placed = placement(session)
    try:
        wrong = [f"{one.operator} on {one.provider}" for one in misplaced(placed, provider)]
    except ValueError as error:
        # No node has a memory's name, so that nothing can be told.
        wrong = [str(error)]
    told = ", ".join(wrong) or f"all {sum(one.core for one in placed)}"
    found.checks.append((f"{name}: nodes of the memory on {provider}", told, not wrong))


def _model(size: Size) -> T5ForConditionalGeneration:
    config = T5Config(
        vocab_size=384, d_model=size.d_model, d_kv=max(8, size.d_model // 8), d_ff=2 * size.d_model,
        num_layers=size.layers, num_decoder_layers=size.layers, num_heads=8, dropout_rate=0.0,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config).eval()
    handle = attach(model, min(3, size.layers - 1), entries=size.entries // 16, dim=32, quiet=True)
    torch.nn.init.normal_(handle.module.projection, std=0.5)
    # Fresh weights are so small that every text decodes alike.
    torch.nn.init.normal_(model.shared.weight, std=1.0)
    torch.nn.init.normal_(model.lm_head.weight, std=0.5)
    return model


def render(found: Findings) -> str:
    """The findings as a page."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Findings) -> Iterator[str]:
    yield from ("# Measured on a GPU", "", "Written by `make gpu-check`.", "", f"- device: {found.device}")
    for package in ("onnxruntime-gpu", "onnxruntime", "torch"):
        try:
            yield f"- {package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            continue
    yield f"- engram_rs {engram_rs.__version__}, ONNX Runtime's build: {onnxruntime.get_build_info()}"
    yield from ("", "## Checks", "", "| what | found | right |", "|---|---|---|")
    yield from (f"| {what} | {came} | {'yes' if right else '**no**'} |" for what, came, right in found.checks)
    for title, rows in found.speeds.items():
        yield from ("", f"## {title}", "", "| | time | ÷ the first |", "|---|---|---|")
        yield from (f"| {name} | {seconds * 1e3:.3f} ms | {seconds / rows[0][1]:.2f} |" for name, seconds in rows)


def gpu_name() -> str:
    """What the driver calls device 0, and the CUDA version that it brings."""
    driver = cuda_driver()
    assert driver is not None
    device, name, version = ctypes.c_int(), ctypes.create_string_buffer(100), ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDriverGetVersion(ctypes.byref(version))
    return f"{name.value.decode()}, driver for CUDA {version.value // 1000}.{version.value % 1000 // 10}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write")
    page = parser.parse_args(arguments).page
    console = Console(markup=False, highlight=False)
    if cuda_devices() == 0:
        console.print("no GPU: the CUDA driver finds no device here, so nothing was checked and nothing written")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = check(CUDA, gpu_name(), FULL, Path(folder))
    text = render(found)
    with replacing(page) as temporary:
        temporary.write_text(text, encoding="utf-8")
    console.print(text)
    console.print("All is right." if found.passed else "SOMETHING IS WRONG.", f"Written to {page}")
    return 0 if found.passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
