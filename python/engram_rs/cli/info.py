"""`engram-rs info`: what a file says of itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from .._core import Addressing
from .options import console


def info(
    path: Annotated[
        Path, typer.Argument(help="A saved memory (.safetensors), a memory graph (.onnx) or a model zip (.zip).")
    ],
) -> None:
    """Shows what a memory, a graph or a model zip says of itself; checks the digest of memories and graphs."""
    size = f"{path.stat().st_size / 2**20:.2f} MiB"
    rows = {".onnx": _graph, ".zip": _model_zip}.get(path.suffix.lower(), _memory)(path)
    (kind, *others) = rows
    table = Table("", Column(overflow="fold"), title=str(path), show_header=False)
    for name, value in (kind, ("on disk", size), *others):
        table.add_row(name, value)
    console.print(table)


def _graph(path: Path) -> Iterator[tuple[str, str]]:
    from ..ort import MemorySession

    meta = MemorySession(path, providers=["CPUExecutionProvider"]).metadata
    yield "kind", "graph"
    yield "precision", meta.precision
    yield from _scheme(meta.addressing, meta.dim, meta.d_model)


def _memory(path: Path) -> Iterator[tuple[str, str]]:
    from ..artifact import MemoryArtifact

    artifact = MemoryArtifact.load(path)
    yield "kind", "memory"
    yield "precision", f"int8, one step is {artifact.scale:.3g}"
    yield from _scheme(artifact.addressing, artifact.dim, artifact.d_model)


def _model_zip(path: Path) -> Iterator[tuple[str, str]]:
    from .. import imf

    told = imf.info(path)
    meta = told.metadata
    yield "kind", f"model zip, {meta.format}; engram-rs validate checks its graphs"
    yield "id", meta.id
    yield "task", f"{meta.task}, {meta.source_script} to {meta.target}"
    yield "graphs", f"opset {meta.opset}, decoder {meta.decoder}, {meta.precision}"
    yield "trained from", meta.trained_from
    yield "license", meta.license or "none told"
    for metric in meta.metrics:
        yield metric.name, f"{metric.value} ({metric.protocol}; {metric.source})"
    if meta.parity is not None:
        yield "parity", f"{meta.parity.cer_delta} percentage points on {meta.parity.samples:,} samples"
    if meta.engram is not None:
        yield "memory", f"after encoder block {meta.engram.block}, fed by the input {meta.engram.input}"
        yield from _scheme(meta.engram.scheme, meta.engram.dim)
    for member in told.members.values():
        yield member.name, f"{member.size:,} bytes"


def _scheme(addressing: Addressing, dim: int, d_model: int | None = None) -> Iterator[tuple[str, str]]:
    yield "table", f"{addressing.entries:,} x {dim}"
    if d_model is not None:
        yield "projection", f"{d_model:,} x {dim}"
    yield "scheme", addressing.scheme
    yield "orders", ", ".join(map(str, addressing.orders))
    yield "digest", addressing.digest
    yield "addressing", addressing.to_json()
