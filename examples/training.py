"""The training loop and the error rate."""

import threading
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from engram_rs.distill.batches import by_length
from engram_rs.torch import Engram

from .batches import Batch, collate
from .diacritics import IGNORE, Example
from .encoder import ByteEncoder

__all__ = ["Stopped", "mistakes", "train"]

LEARNING_RATE = 3e-3
# A row is touched in few batches, so it must learn more from each.
TABLE_FACTOR = 5
WARM_UP = 30


class Stopped(Exception):
    """Training was told to stop."""


def train(
    model: ByteEncoder, batches: Sequence[Batch], on_step: Callable[[float], None], stop: threading.Event
) -> list[float]:
    """One step a batch, all else equal for every model.

    Args:
        model: Trained in place.
        batches: In the order to take them.
        on_step: Called with the loss of every step.
        stop: Set from another thread to end early.

    Returns:
        The loss of every step.

    Raises:
        Stopped: `stop` was set.
    """
    optimizer = torch.optim.AdamW(_groups(model), lr=LEARNING_RATE, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _warm_then_linear(step, len(batches)))
    losses = []
    for batch in batches:
        if stop.is_set():
            raise Stopped
        ids, labels = collate(batch)
        loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), ignore_index=IGNORE)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        on_step(losses[-1])
    return losses


def _groups(model: ByteEncoder) -> list[dict[str, object]]:
    table = model.memory.table if isinstance(model.memory, Engram) else None
    groups: list[dict[str, object]] = [{"params": [weight for weight in model.parameters() if weight is not table]}]
    if table is not None:
        # Decay would shrink every row at every step, also those that no batch has touched.
        groups.append({"params": [table], "lr": TABLE_FACTOR * LEARNING_RATE, "weight_decay": 0.0})
    return groups


def _warm_then_linear(step: int, steps: int) -> float:
    return min((step + 1) / WARM_UP, (steps - step) / (0.6 * steps), 1.0)


@torch.no_grad()
def mistakes(model: ByteEncoder, examples: Sequence[Example]) -> list[NDArray[np.bool_]]:
    """For every example, in order: which of its letters got wrong marks."""
    model.eval()
    found: dict[int, NDArray[np.bool_]] = {}
    for batch in by_length(examples, 4096, np.random.default_rng(0)):
        ids, labels = collate(batch)
        wrong = (model(ids).argmax(dim=-1) != labels).numpy()
        for row, example in enumerate(batch):
            letters = np.flatnonzero(example.labels != IGNORE)
            found[id(example)] = wrong[row, letters]
    return [found[id(example)] for example in examples]
