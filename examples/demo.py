"""The whole tour on real text: address, train, export, serve, compare, draw. `python -m examples.demo --help`."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from engram_rs.distill import quran
from engram_rs.distill.batches import plan
from engram_rs.torch import Engram

from . import diacritics
from .batches import Batch
from .diacritics import Example
from .picture import Findings, draw
from .report import console, show_addresses, show_errors, show_failure, show_next, show_serving, show_task
from .runs import Run, pair, race
from .serving import serve
from .touches import seen_ngrams, touches

SEED = 0
# Padded positions of a batch; some 16 verses.
POSITIONS = 2048


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tour.

    Returns:
        0; 1 where a claim of the project does not hold; 2 where the tour cannot start.
    """
    options = _options(arguments)
    began = time.perf_counter()
    # What runs beside ONNX Runtime's threads, or beside another training, does best with one of its own.
    torch.set_num_threads(1)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        data = diacritics.prepare(verse.text for verse in quran.read_verses())
        without, with_memory = pair(len(data.classes), options.entries, options.orders, SEED)
    except (OSError, ValueError) as error:
        show_failure("The demo cannot start", error)
        return 2
    memory = with_memory.memory
    assert isinstance(memory, Engram)

    show_addresses(memory.addressing, data.train + data.held_out)
    batches = plan(data.train, POSITIONS, SEED, None, options.steps)
    show_task(data, batches, memory)
    runs = race((without, with_memory), batches, data.held_out, console)
    baseline = diacritics.letter_baseline(data)
    show_errors(runs, baseline)
    saved = options.out / "demo.safetensors"
    memory.save(saved)
    graphs = serve(memory, options.out, data.held_out)
    show_serving(graphs, runs[1], memory, data.held_out, saved)
    draw(_findings(runs, baseline, memory, batches, data.held_out), options.out / "demo.png")

    different = [graph.path.name for graph in graphs if not graph.parity.passed]
    if different:
        why = "more than the precision allows lies between the trained module and"
        show_failure("FAILED", f"{why} {', '.join(different)}")
        return 1
    if runs[1].error >= runs[0].error:
        show_failure("FAILED", "the encoder with a memory made no fewer errors than the one without")
        return 1
    show_next(options.out, time.perf_counter() - began)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__.partition(". `")[0])
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the files (default: the current one)")
    parser.add_argument("--steps", type=int, default=250, help="training steps of each model (default: %(default)s)")
    parser.add_argument("--entries", type=int, default=262_139, help="rows of the table (default: %(default)s)")
    parser.add_argument(
        "--orders",
        type=_orders,
        default=(4, 8, 12),
        help="n-gram lengths in bytes, ascending; two bytes are an Arabic letter (default: 4,8,12)",
    )
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error("--steps must be positive")
    if list(options.orders) != sorted(set(options.orders)):
        parser.error("--orders must ascend")
    return options


def _orders(text: str) -> tuple[int, ...]:
    return tuple(int(order) for order in text.split(","))


def _findings(
    runs: Sequence[Run], baseline: float, memory: Engram, batches: Sequence[Batch], held_out: Sequence[Example]
) -> Findings:
    without, with_memory = runs
    trained = [example for batch in batches for example in batch]
    return Findings(
        losses=(without.losses, with_memory.losses),
        errors=(without.error, with_memory.error),
        intervals=(without.interval(), with_memory.interval()),
        baseline=baseline,
        wrong=(np.concatenate(without.wrong), np.concatenate(with_memory.wrong)),
        seen=seen_ngrams(memory.addressing, trained, held_out),
        orders=memory.addressing.orders,
        norms=memory.table.detach().norm(dim=1).numpy(),
        touches=touches(memory.addressing, trained),
    )


if __name__ == "__main__":
    sys.exit(main())
