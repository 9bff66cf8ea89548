"""`engram-rs info`: what a file says of itself."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from .options import console


def info(
    path: Annotated[Path, typer.Argument(help="A saved memory (.safetensors) or a memory graph (.onnx).")],
) -> None:
    """Shows the addressing, sizes and precision of a memory or a graph, and checks its digest."""
    size = f"{path.stat().st_size / 2**20:.2f} MiB"
    if path.suffix.lower() == ".onnx":
        from ..ort import MemorySession

        meta = MemorySession(path, providers=["CPUExecutionProvider"]).metadata
        kind, precision, addressing, dim, d_model = "graph", meta.precision, meta.addressing, meta.dim, meta.d_model
    else:
        from ..artifact import MemoryArtifact

        artifact = MemoryArtifact.load(path)
        kind, precision = "memory", f"int8, one step is {artifact.scale:.3g}"
        addressing, dim, d_model = artifact.addressing, artifact.dim, artifact.d_model
    table = Table("", Column(overflow="fold"), title=str(path), show_header=False)
    for name, value in (
        ("kind", kind),
        ("on disk", size),
        ("precision", precision),
        ("table", f"{addressing.entries:,} x {dim}"),
        ("projection", f"{d_model:,} x {dim}"),
        ("scheme", addressing.scheme),
        ("orders", ", ".join(map(str, addressing.orders))),
        ("digest", addressing.digest),
        ("addressing", addressing.to_json()),
    ):
        table.add_row(name, value)
    console.print(table)
