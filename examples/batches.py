"""Batches of verses that are about equally long."""

from collections.abc import Sequence

import numpy as np
import torch

from .diacritics import IGNORE, Example
from .encoder import PAD

__all__ = ["Batch", "by_length", "collate", "plan"]

Batch = list[Example]


def by_length(examples: Sequence[Example], positions: int, rng: np.random.Generator) -> list[Batch]:
    """Every example once, in batches of at most `positions` padded positions (or of one longer verse)."""
    # A little noise, so that a verse does not meet the same company in every epoch.
    order = np.argsort([len(example.ids) * rng.uniform(1.0, 1.1) for example in examples])
    batches: list[Batch] = [[]]
    longest = 0
    for example in (examples[index] for index in order):
        longest = max(longest, len(example.ids))
        if batches[-1] and longest * (len(batches[-1]) + 1) > positions:
            batches.append([])
            longest = len(example.ids)
        batches[-1].append(example)
    return batches


def plan(examples: Sequence[Example], steps: int, positions: int, seed: int) -> list[Batch]:
    """One batch a step, epoch after epoch, in a random order; the same seed gives the same plan."""
    rng = np.random.default_rng(seed)
    batches: list[Batch] = []
    while len(batches) < steps:
        epoch = by_length(examples, positions, rng)
        batches += [epoch[index] for index in rng.permutation(len(epoch))]
    return batches[:steps]


def collate(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and labels, int64 `[B, T]`, padded at the right."""
    shape = len(batch), max(len(example.ids) for example in batch)
    ids, labels = np.full(shape, PAD, dtype=np.int64), np.full(shape, IGNORE, dtype=np.int64)
    for row, example in enumerate(batch):
        ids[row, : len(example.ids)] = example.ids
        labels[row, : len(example.labels)] = example.labels
    return torch.from_numpy(ids), torch.from_numpy(labels)
