"""What the tour prints."""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engram_rs import Addressing
from engram_rs.distill import quran
from engram_rs.torch import Engram

from .batches import Batch, collate
from .diacritics import Dataset, Example
from .runs import Run
from .serving import Graph, Served, median_ms
from .touches import NULL
from .training import mistakes

__all__ = ["console", "show_addresses", "show_errors", "show_failure", "show_next", "show_serving", "show_task"]

console = Console(highlight=False)


def show_addresses(addressing: Addressing, examples: Sequence[Example]) -> None:
    """How fast all verses are addressed, and how much of the table they use."""
    verses = [example.ids for example in examples]
    joined = np.concatenate(verses)
    console.rule("[bold]1  Addresses[/]", align="left")
    console.print(f"Text: {quran.SOURCE}; its marks and pause signs are taken off before a model reads it.")
    console.print(f"{len(verses):,} verses, {len(joined):,} positions (a byte or an end), {addressing}")

    table = Table("how", "ms", "million positions/s", title="Hashed in Rust, median of 9", title_justify="left")
    ways: tuple[tuple[str, Callable[[], object]], ...] = (
        ("a call a verse, 1 thread", lambda: [addressing(ids, threads=1) for ids in verses]),
        ("one call, 1 thread", lambda: addressing(joined, threads=1)),
        ("one call, all threads", lambda: addressing(joined)),
    )
    for name, way in ways:
        seconds = statistics.median(_seconds(way) for _ in range(9))
        table.add_row(name, f"{seconds * 1e3:.1f}", f"{len(joined) / seconds / 1e6:.0f}")
    _right(table)
    console.print(table)

    table = Table("order", "distinct n-grams", "distinct rows", "of the table", title="Touched", title_justify="left")
    rows = np.concatenate([addressing(ids) for ids in verses])
    hashes = np.concatenate([addressing.hashes(ids) for ids in verses])
    names = [f"{order} bytes" for order in addressing.orders]
    for number, name in enumerate(names):
        _add_touched(table, name, hashes[:, number], rows[:, number], addressing.entries)
    _add_touched(table, "together", hashes, rows, addressing.entries)
    _right(table)
    console.print(table)


def _add_touched(table: Table, name: str, hashes: NDArray[np.int64], rows: NDArray[np.int64], entries: int) -> None:
    distinct = len(np.unique(rows))
    table.add_row(name, f"{len(np.unique(hashes[hashes != NULL])):,}", f"{distinct:,}", f"{distinct / entries:.1%}")


def _seconds(way: Callable[[], object]) -> float:
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def show_task(data: Dataset, batches: Sequence[Batch], memory: Engram) -> None:
    """What is trained and what is measured."""
    letters = sum(int((example.labels >= 0).sum()) for example in data.held_out)
    steps = len(batches)
    epochs = sum(map(len, batches)) / len(data.train)
    console.print()
    console.rule("[bold]2  Two encoders, one of them with a memory[/]", align="left")
    console.print(
        f"Task: name the marks of every Arabic letter, one of {len(data.classes)} combinations, from bare letters. "
        f"{len(data.train):,} verses to train on; {len(data.held_out):,} with {letters:,} letters held out, chosen "
        f"by a checksum of the bare text. Both encoders see the whole verse, start from the same weights and take "
        f"the same {steps} steps ({epochs:.2f} epochs) in the same order at the same learning rate. The memory adds "
        f"{sum(weight.numel() for weight in memory.parameters()):,} parameters, of which a position reads "
        f"{memory.addressing.num_columns} rows of {memory.dim} and the projection."
    )


def show_errors(runs: Sequence[Run], baseline: float) -> None:
    """Held-out error rates."""
    table = Table("", "parameters", "last loss", "errors", "95% interval", title="Held out", title_justify="left")
    table.add_row("most frequent marks", "", "", f"{baseline:.1%}", "")
    for run, name in zip(runs, ("encoder without memory", "encoder with memory"), strict=True):
        size = sum(weight.numel() for weight in run.model.parameters())
        low, high = run.interval()
        loss = statistics.mean(run.losses[-20:])
        table.add_row(name, f"{size:,}", f"{loss:.3f}", f"[bold]{run.error:.1%}[/]", f"{low:.1%} … {high:.1%}")
    _right(table)
    console.print(table)
    change = runs[1].error / runs[0].error - 1
    console.print(f"Letters with wrong marks, with the memory against without: [bold]{change:+.0%}[/]. One seed.")


def show_serving(graphs: Sequence[Graph], run: Run, memory: Engram, held_out: Sequence[Example], saved: Path) -> None:
    """Each graph against the module that it came from: differences, speed, size, and the errors of the whole model."""
    console.print()
    console.rule("[bold]3  The memory in ONNX Runtime[/]", align="left")
    parity = Table("graph", "positions", "largest difference", "tolerance", "", title_justify="left")
    parity.title = f"Against the trained module, on {graphs[0].session.provider.removesuffix('ExecutionProvider')}"
    for graph in graphs:
        report = graph.parity
        verdict = "[green]equal[/]" if report.passed else "[red]DIFFERENT[/]"
        difference, tolerance = f"{report.max_difference:.2e}", f"{report.tolerance:.2e}"
        parity.add_row(graph.path.name, f"{report.positions:,}", difference, tolerance, verdict)
    _right(parity)
    console.print(parity)
    largest = graphs[0].parity.largest_output
    console.print(
        f"The memory's largest output is {largest:.2f}; a tolerance follows from the weights and the precision."
    )

    by_length = sorted(held_out, key=lambda example: len(example.ids))
    verse = by_length[len(by_length) // 2].ids
    batch = collate(by_length[len(by_length) // 2 :][:64])[0].numpy()
    speed = Table("file", "MiB", "ms, one verse", f"ms, {len(batch)} verses", "held-out errors", title_justify="left")
    speed.title = f"Ids to outputs, median: {len(verse)} positions, and {batch.size:,} with padding"
    for graph in graphs:
        # The encoder stays; only its memory comes from the graph now.
        run.model.memory = Served(graph.session)
        errors = float(np.concatenate(mistakes(run.model, held_out)).mean())
        run.model.memory = memory
        one, many = median_ms(graph.session.run, verse, 300), median_ms(graph.session.run, batch, 30)
        speed.add_row(graph.path.name, _mib(graph.path), f"{one:.3f}", f"{many:.2f}", f"{errors:.2%}")
    speed.add_row(saved.name, _mib(saved), "", "", f"float module: {run.error:.2%}")
    _right(speed)
    console.print(speed)


def _mib(path: Path) -> str:
    return f"{path.stat().st_size / 2**20:.1f}"


def _right(table: Table) -> None:
    for column in table.columns[1:]:
        column.justify = "right"


def show_next(out: Path, seconds: float) -> None:
    """Where the files are, and what to do with them."""
    console.print()
    console.rule(f"[bold]Done, {seconds:.0f} s after the imports[/]", align="left")
    for name, what in (
        ("demo.png", "the two runs, drawn"),
        ("demo.safetensors", "the trained memory, int8, with its addressing"),
        ("demo.onnx", "the same as a graph, fp32"),
        ("demo-int8.onnx", "the same as a graph, int8"),
    ):
        console.print(f"  {out / name!s:<24} {what}", markup=False)
    graph, saved = out / "demo-int8.onnx", out / "demo.safetensors"
    console.print(
        f"Next:\n"
        f"  . .venv/bin/activate\n"
        f"  engram-rs info {graph}\n"
        f"  engram-rs verify {graph} {saved}\n"
        f"  python -m examples.demo --orders 2,3,4      # n-grams that hardly span an Arabic letter\n"
        f'  python -c "import engram_rs, engram_rs.ort as ort; '
        f"print(ort.MemorySession('{graph}').run(engram_rs.encode('...')).shape)\"",
        soft_wrap=True,
        markup=False,
    )


def show_failure(what: str, why: object) -> None:
    """One line, whole, so that it can be searched for."""
    console.print(f"[red]{what}:[/] {escape(str(why))}", soft_wrap=True)
