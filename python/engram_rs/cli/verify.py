"""`engram-rs verify`: a graph against the memory that it came from."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from .options import Providers, console


def verify(
    graph: Annotated[Path, typer.Argument(help="The ONNX file.")],
    memory: Annotated[Path, typer.Argument(help="The saved memory.")],
    text: Annotated[Path | None, typer.Option(help="Real inputs, one a line; some sentences by default.")] = None,
    positions: Annotated[int, typer.Option(help="Random positions.")] = 8192,
    seed: Annotated[int, typer.Option(help="Of the random positions.")] = 0,
    provider: Providers = None,
) -> None:
    """Runs a graph beside a saved memory in PyTorch; exit status 1 if they differ by more than rounding."""
    from .. import parity

    texts = None if text is None else text.read_text(encoding="utf-8").splitlines()
    report = parity.verify(graph, memory, texts=texts, positions=positions, seed=seed, providers=provider)
    table = Table("", "", title=str(graph), show_header=False)
    for name, value in (
        ("precision", report.precision),
        ("provider", report.provider),
        ("positions", f"{report.positions:,}"),
        ("largest output", f"{report.largest_output:.3g}"),
        ("largest difference, random", f"{report.random_difference:.3g}"),
        ("largest difference, real", f"{report.real_difference:.3g}"),
        ("tolerance", f"{report.tolerance:.3g}"),
        ("verdict", "equal within the tolerance" if report.passed else "DIFFERENT"),
    ):
        table.add_row(name, value)
    console.print(table)
    if report.largest_output == 0:
        console.print("The memory adds zero everywhere, so nothing was compared: is it trained?")
    if not report.passed:
        console.print(
            "A saved memory is rounded to int8: a graph that was exported from the float module differs from it "
            "by that rounding. engram_rs.parity.verify compares a graph with the module itself."
        )
        raise typer.Exit(1)
