"""`engram-rs framing`: whether the output depends on how many tokens share one call."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress
from rich.table import Table

from .._files import check_target
from .options import Providers, console


def framing(
    models: Annotated[list[Path], typer.Argument(help="Model zips or folders, such as one for each precision.")],
    window: Annotated[list[int] | None, typer.Option(help="Tokens a call; repeat for several (default 8).")] = None,
    steps: Annotated[int, typer.Option(help="The most tokens an input.")] = 96,
    text: Annotated[Path | None, typer.Option(help="Inputs, one a line; five sentences by default.")] = None,
    provider: Providers = None,
    threads: Annotated[int | None, typer.Option(help="Threads of one call.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write every figure to this file.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the matrix: a .png or .svg file.")] = None,
) -> None:
    """Measures every model with every provider and window, each provider in a session of its own."""
    from ..ort import framing_matrix as matrix

    for path in filter(None, (json, picture)):
        check_target(path)
    inputs = text.read_text(encoding="utf-8").splitlines() if text else list(matrix.SAMPLE_INPUTS)
    inputs = [line for line in inputs if line]
    providers: list[str | None] = [*provider] if provider else [None]
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("decoding", total=len(models) * len(providers) * len(inputs))
        found = matrix.measure_matrix(
            models, inputs, window or [8], providers, steps, threads=threads, progress=lambda: bar.advance(task)
        )
    table = Table("model", "precision", "provider", "W", "match", "of", "share")
    for one in found:
        matched, total = sum(one.matches), sum(one.totals)
        share = "all" if matched == total else f"{matched / total:.2%}"
        table.add_row(one.model, one.precision, one.provider, str(one.window), str(matched), str(total), share)
    console.print(table)
    console.print(f"{len(inputs)} inputs, at most {steps} steps; ONNX Runtime {found[0].runtime}; {found[0].machine}")
    if json:
        matrix.write_json(found, json)
    if picture:
        matrix.draw(found, picture)
