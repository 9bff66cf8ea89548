"""Two models on the same batches, side by side."""

import copy
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from engram_rs.torch import Engram

from .batches import Batch
from .diacritics import Example
from .encoder import ByteEncoder
from .training import mistakes, train

__all__ = ["Run", "pair", "race"]


@dataclass(frozen=True)
class Run:
    """One trained model, the loss of every step, and which letters it got wrong in each held-out verse."""

    model: ByteEncoder
    losses: list[float]
    wrong: list[NDArray[np.bool_]]

    @property
    def error(self) -> float:
        """The share of held-out letters with wrong marks."""
        return float(np.concatenate(self.wrong).mean())

    def interval(self) -> tuple[float, float]:
        """Where 95% of the error rates lie when the held-out verses are drawn anew."""
        wrong = np.array([verse.sum() for verse in self.wrong])
        letters = np.array([len(verse) for verse in self.wrong])
        drawn = np.random.default_rng(0).integers(len(wrong), size=(1000, len(wrong)))
        low, high = np.percentile(wrong[drawn].sum(axis=1) / letters[drawn].sum(axis=1), (2.5, 97.5))
        return float(low), float(high)


def pair(classes: int, entries: int, orders: Sequence[int], seed: int) -> tuple[ByteEncoder, ByteEncoder]:
    """The same fresh encoder twice, the second with a memory that still adds zero."""
    torch.manual_seed(seed)
    without = ByteEncoder(classes)
    with_memory = copy.deepcopy(without)
    with_memory.memory = Engram(without.embedding.embedding_dim, entries, orders=orders)
    return without, with_memory


def race(
    models: Sequence[ByteEncoder], batches: Sequence[Batch], held_out: Sequence[Example], console: Console
) -> list[Run]:
    """Trains and tests every model in a thread of its own, with a live bar for each.

    One torch thread a model: the results do not depend on the number of cores, and a busy machine costs only
    its share. Threads that share one product would wait for the slowest of them, several times a millisecond.
    """
    bars = Progress(
        TextColumn("  {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=console,
    )
    stop = threading.Event()

    def run(model: ByteEncoder) -> Run:
        name = "with memory   " if model.memory is not None else "without memory"
        bar = bars.add_task(name, total=len(batches), loss=float("nan"))
        recent: list[float] = []

        def on_step(loss: float) -> None:
            recent.append(loss)
            bars.update(bar, advance=1, loss=sum(recent[-20:]) / len(recent[-20:]))

        losses = train(model, batches, on_step, stop)
        return Run(model, losses, mistakes(model, held_out))

    with bars, ThreadPoolExecutor(len(models), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        futures = [pool.submit(run, model) for model in models]
        try:
            finished = wait(futures, return_when=FIRST_EXCEPTION).done
        finally:
            # After an error or Ctrl-C the other model must not train to its end.
            stop.set()
        # An error first, and only then what was stopped for it.
        for future in finished:
            future.result()
        return [future.result() for future in futures]
