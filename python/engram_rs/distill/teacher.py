"""Who makes the labels, and whose distribution the student may follow."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from ..torch import load
from ..torch.persistence import CONFIG
from .corpora import Text
from .spec import RunSpec
from .student import build_model
from .tasks import Task

__all__ = ["build_teacher", "teach_by"]


def build_teacher(spec: RunSpec, task: Task, base: Path) -> Any:
    """The teacher's model, with its memory if it has one, ready to be asked."""
    assert spec.teacher.model is not None
    torch.manual_seed(spec.seed)
    model = build_model(spec.teacher.model, task, base)
    checkpoint = spec.teacher.model.checkpoint
    if checkpoint is not None and (base / checkpoint / CONFIG).is_file():
        load(model, base / checkpoint, quiet=True)
    return model.eval().requires_grad_(False)


def teach_by(spec: RunSpec, task: Task | None, base: Path) -> Callable[[Sequence[Text]], Iterable[str]]:
    """What makes labels: the corpus itself, or a model over the task's examples."""
    if spec.teacher.kind == "reference":
        return lambda texts: [text.reference for text in texts]
    assert task is not None
    teacher = build_teacher(spec, task, base)

    def teach(texts: Sequence[Text]) -> list[str]:
        batch = [task.example(text, text.reference) for text in texts]
        return [outcome.output for outcome in task.answer(teacher, batch, spec.evaluation.max_new_tokens)]

    return teach
