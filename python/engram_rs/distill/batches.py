"""Which texts stand in which step: a function of the seed alone, so that every arm and every rank agrees."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

__all__ = ["by_length", "plan"]


class _Sized(Protocol):
    @property
    def positions(self) -> int: ...


T = TypeVar("T", bound=_Sized)


def by_length(examples: Sequence[T], positions: int, rng: np.random.Generator) -> list[list[T]]:
    """Every example once, in batches of at most `positions` padded positions, or of one longer text."""
    # A little noise, so that a text does not meet the same company in every epoch.
    order = np.argsort([example.positions * rng.uniform(1.0, 1.1) for example in examples], kind="stable")
    batches: list[list[T]] = [[]]
    longest = 0
    for example in (examples[index] for index in order):
        longest = max(longest, example.positions)
        if batches[-1] and longest * (len(batches[-1]) + 1) > positions:
            batches.append([])
            longest = example.positions
        batches[-1].append(example)
    return batches


def plan(examples: Sequence[T], positions: int, seed: int, epochs: int | None, steps: int | None) -> list[list[T]]:
    """One batch a step, epoch after epoch, each in a random order.

    Args:
        examples: The training part.
        positions: The most padded positions of a batch.
        seed: The same seed gives the same plan.
        epochs: How many passes; or
        steps: how many batches.
    """
    rng = np.random.default_rng(seed)
    batches: list[list[T]] = []
    done = 0
    while (done < epochs) if epochs is not None else (len(batches) < (steps or 0)):
        epoch = by_length(examples, positions, rng)
        batches += [epoch[index] for index in rng.permutation(len(epoch))]
        done += 1
    return batches[:steps]
