"""How much of what training changed is the memory's."""

from collections.abc import Sequence
from typing import Any

import torch

from .student import Student
from .tasks import IGNORE, Example, Task

__all__ = ["memory_share"]


@torch.inference_mode()
def memory_share(trained: Student, fresh: Any, task: Task, batch: Sequence[Example]) -> dict[str, float]:
    """Compares a trained model with itself, its memory silenced, and with what it was before.

    Args:
        trained: A student with a memory, its model in evaluation mode.
        fresh: The model that the training began with, where a memory adds nothing.
        task: What both are asked.
        batch: Some texts.

    Returns:
        `change`, the root mean square difference of the logits of `trained` and `fresh` over all positions with a
        label; `memory`, that of `trained` and `trained` with its memory silenced; and `share`, the second over the
        first. It is no part of a whole: what the memory adds may be more than what is left of it after later blocks.
    """
    assert trained.handle is not None
    inputs = {name: values.to(trained.model.device) for name, values in task.collate(batch).items()}
    labelled = inputs["labels"] != IGNORE
    after = trained.model(**inputs).logits[labelled].float()
    with trained.handle.silenced():
        without = trained.model(**inputs).logits[labelled].float()
    before = fresh(**inputs).logits[labelled].float()
    change, memory = (float((after - other).square().mean().sqrt()) for other in (before, without))
    return {"change": change, "memory": memory, "share": memory / change if change else 0.0}
