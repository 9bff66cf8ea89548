"""`engram-rs pack`: graphs and metadata to a model zip."""

from pathlib import Path
from typing import Annotated

import typer

from .options import console


def pack(
    folder: Annotated[Path, typer.Argument(help="The graphs and README.md; all of its files are packed.")],
    path: Annotated[Path, typer.Argument(help="The zip to write.")],
    metadata: Annotated[Path | None, typer.Option(help="The metadata; by default metadata.yaml of the folder.")] = None,
) -> None:
    """Checks graphs and metadata, computes the digests, and writes a model zip."""
    from .. import imf

    written = imf.pack(folder, path, folder / "metadata.yaml" if metadata is None else metadata)
    console.print(f"{path}: {written.format}, {written.id}, {written.precision}, {path.stat().st_size / 2**20:.2f} MiB")
