"""Batches of verses as tensors."""

import numpy as np
import torch

from .diacritics import IGNORE, Example
from .encoder import PAD

__all__ = ["Batch", "collate"]

Batch = list[Example]


def collate(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and labels, int64 `[B, T]`, padded at the right."""
    shape = len(batch), max(len(example.ids) for example in batch)
    ids, labels = np.full(shape, PAD, dtype=np.int64), np.full(shape, IGNORE, dtype=np.int64)
    for row, example in enumerate(batch):
        ids[row, : len(example.ids)] = example.ids
        labels[row, : len(example.labels)] = example.labels
    return torch.from_numpy(ids), torch.from_numpy(labels)
