"""The two losses, as sums, so that parts of a batch add up to the whole."""

import torch
from torch.nn import functional as F

from .spec import Logit
from .tasks import IGNORE

__all__ = ["counted", "distilled", "supervised"]


def counted(labels: torch.Tensor) -> int:
    """How many positions have a label."""
    return int((labels != IGNORE).sum())


def supervised(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The sum of the cross-entropies of `[B, T, C]` logits and `[B, T]` labels, in nats."""
    return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum")


def distilled(logits: torch.Tensor, taught: torch.Tensor, labels: torch.Tensor, by: Logit) -> torch.Tensor:
    """`weight * T² * KL(teacher || student) + (1 - weight) * CE`, summed over positions with a label.

    T² keeps the gradient's size when the temperature changes (Hinton, Vinyals, Dean 2015, section 2.1).
    """
    real = labels != IGNORE
    student = F.log_softmax(logits.float()[real] / by.temperature, dim=-1)
    teacher = F.log_softmax(taught.float()[real] / by.temperature, dim=-1)
    divergence = F.kl_div(student, teacher, reduction="sum", log_target=True)
    return by.weight * by.temperature**2 * divergence + (1 - by.weight) * supervised(logits, labels)
