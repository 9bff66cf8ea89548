"""`engram-rs verify`: graphs against the memory, or the whole model, that they came from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from .options import Providers, console

if TYPE_CHECKING:
    from ..parity import ModelParity


def verify(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="A memory's ONNX file and the saved memory; or model zips or folders, and last the directory that "
            "save_pretrained wrote."
        ),
    ],
    text: Annotated[
        Path | None, typer.Option(help="Real inputs, one a line; after a tab, for models, the right output.")
    ] = None,
    positions: Annotated[int, typer.Option(help="Random positions, for a memory.")] = 8192,
    seed: Annotated[int, typer.Option(help="Of the random positions.")] = 0,
    max_new_tokens: Annotated[int, typer.Option(help="The most tokens of an output, for models.")] = 128,
    report: Annotated[Path | None, typer.Option(help="Folder for parity.json and parity.png, for models.")] = None,
    stamp: Annotated[bool, typer.Option("--stamp", help="Write the parity block into the model zips.")] = False,
    provider: Providers = None,
) -> None:
    """Runs graphs beside PyTorch; exit status 1 if a memory differs by more than rounding."""
    if len(paths) < 2:
        raise ValueError("give what is to be verified, and then what it came from")
    if paths[0].suffix == ".onnx":
        if len(paths) != 2 or report is not None or stamp:
            raise ValueError("a memory's graph is verified by itself; --report and --stamp are for whole models")
        _verify_memory(paths[0], paths[1], text, positions, seed, provider)
    else:
        if text is None:
            raise ValueError("whole models are verified on real inputs: give --text")
        _verify_models(paths[:-1], paths[-1], text, max_new_tokens, report, stamp, provider)


def _verify_memory(
    graph: Path, memory: Path, text: Path | None, positions: int, seed: int, provider: list[str] | None
) -> None:
    from .. import parity

    texts = None if text is None else text.read_text(encoding="utf-8").splitlines()
    found = parity.verify(graph, memory, texts=texts, positions=positions, seed=seed, providers=provider)
    table = Table("", "", title=str(graph), show_header=False)
    for name, value in (
        ("precision", found.precision),
        ("provider", found.provider),
        ("positions", f"{found.positions:,}"),
        ("largest output", f"{found.largest_output:.3g}"),
        ("largest difference, random", f"{found.random_difference:.3g}"),
        ("largest difference, real", f"{found.real_difference:.3g}"),
        ("tolerance", f"{found.tolerance:.3g}"),
        ("verdict", "equal within the tolerance" if found.passed else "DIFFERENT"),
    ):
        table.add_row(name, value)
    console.print(table)
    if found.largest_output == 0:
        console.print("The memory adds zero everywhere, so nothing was compared: is it trained?")
    if not found.passed:
        console.print(
            "A saved memory is rounded to int8: a graph that was exported from the float module differs from it "
            "by that rounding. engram_rs.parity.verify compares a graph with the module itself."
        )
        raise typer.Exit(1)


def _verify_models(
    paths: list[Path],
    source: Path,
    text: Path,
    max_new_tokens: int,
    report: Path | None,
    stamp: bool,
    provider: list[str] | None,
) -> None:
    from .. import parity

    if stamp and (folders := [path for path in paths if not path.is_file()]):
        raise ValueError(f"--stamp is for model zips, and {folders[0]} is none")
    texts, references = parity.read_pairs(text)
    model = parity.load_model(source)
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console) as bars:
        bar = bars.add_task("texts", total=len(texts))
        found = parity.verify_models(
            paths,
            model,
            texts,
            references,
            max_new_tokens=max_new_tokens,
            providers=provider,
            on_done=lambda count: bars.update(bar, advance=count),
        )
    names = [path.stem if path.is_file() else path.name for path in paths]
    console.print(table_of(found, names))
    if report is not None:
        for path in parity.save_report(found, report, names):
            console.print(str(path), soft_wrap=True)
    if stamp:
        for one in found:
            block = parity.stamp(one).parity
            assert block is not None
            console.print(f"{one.path}: parity on {block.samples} samples, {block.cer_delta:g} points", soft_wrap=True)


def table_of(found: "list[ModelParity]", names: list[str]) -> Table:
    title = f"Against torch: {found[0].texts:,} texts, {found[0].positions:,} tokens, {found[0].provider}"
    table = Table(title=title)
    for heading in ("model", "MiB", "states", "logits", "other first choice", "near ties", "KL, nats", "same texts"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    table.add_column("unlike torch", justify="right")
    with_references = found[0].reference_error is not None
    if with_references:
        table.add_column("error (torch)", justify="right")
    for name, one in zip(names, found, strict=True):
        cells = [
            name,
            f"{one.size / 2**20:.2f}",
            f"{one.encoder_difference:.2g}",
            f"{one.logit_difference:.2g}",
            f"{one.flips} ({one.flips / max(1, one.positions):.2%})",
            str(one.near_ties),
            f"{one.divergence:.2g}",
            f"{one.same} ({one.same / one.texts:.1%})",
            f"{one.error_rate:.2%}",
        ]
        if with_references:
            cells.append(f"{one.reference_error:.2%} ({one.torch_error:.2%})")
        table.add_row(*cells)
    return table
