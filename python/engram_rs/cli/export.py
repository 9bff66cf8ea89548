"""`engram-rs export`: a saved memory to ONNX."""

from pathlib import Path
from typing import Annotated

import typer

from .options import console


def export(
    memory: Annotated[Path, typer.Argument(help="A memory that was saved as safetensors.")],
    path: Annotated[Path, typer.Argument(help="The ONNX file to write.")],
    precision: Annotated[str, typer.Option(help="fp32, fp16 or int8.")] = "int8",
    opset: Annotated[int, typer.Option(help="The ONNX operator set.")] = 14,
) -> None:
    """Writes a saved memory as an ONNX model that takes addresses."""
    from ..onnx import export_memory

    metadata = export_memory(memory, path, precision, opset)
    console.print(
        f"{path}: {metadata.precision}, opset {opset}, {path.stat().st_size / 2**20:.2f} MiB, {metadata.addressing}",
        highlight=False,
    )
