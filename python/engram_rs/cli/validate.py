"""`engram-rs validate`: whether a model zip is whole and right."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from .options import console


def validate(
    path: Annotated[Path, typer.Argument(help="A model zip.")],
    strict: Annotated[bool, typer.Option("--strict", help="Ask for what a release needs, too.")] = False,
) -> None:
    """Checks layout, metadata, digests and graphs of a model zip; exit status 1 and the reason if one is wrong."""
    from .. import imf

    report = imf.validate(path, strict)
    table = Table("graph", "opset", "inputs", "outputs", title=str(path))
    for name, graph in report.graphs.items():
        table.add_row(name, str(graph.opset), "\n".join(map(str, graph.inputs)), "\n".join(map(str, graph.outputs)))
    console.print(table)
    ready = "ready for a release" if report.strict else "--strict would check what a release needs, too"
    console.print(f"{report.metadata.format}, {report.metadata.id}: valid; {ready}")
