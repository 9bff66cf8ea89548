"""The one place where a run's student is built: fresh, resumed, or to be evaluated; in both modes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .._extras import require
from ..torch import Attached, attach, load, require_memory
from .spec import Model, RunSpec
from .tasks import Task

__all__ = ["Student", "build_model", "build_student"]


@dataclass(frozen=True)
class Student:
    """A model, and what happened when it was built.

    Attributes:
        model: The model.
        handle: Its memory, if it has one.
        bare_parameters: How many parameters it had before.
    """

    model: Any
    handle: Attached | None
    bare_parameters: int


def build_student(spec: RunSpec, task: Task, base: Path, checkpoint: Path | None = None) -> Student:
    """Builds the student of a run.

    Args:
        spec: The run.
        task: What it is asked.
        base: The directory that relative paths in the spec start from.
        checkpoint: A directory of this run; a fresh student if nothing is said.

    Raises:
        ValueError: The checkpoint lacks the memory that the spec declares, or holds another.
    """
    if checkpoint is None:
        # The same seed for every arm: a memory draws from its own state, after the model.
        torch.manual_seed(spec.seed)
        model = build_model(spec.student, task, base)
    else:
        model = _auto(task).from_pretrained(checkpoint)
    bare = sum(parameter.numel() for parameter in model.parameters())
    handle = None
    if spec.memory is not None:
        if checkpoint is None:
            torch.manual_seed(spec.seed + 1)
            handle = attach(model, spec.memory.block, spec.memory.addressing(), dim=spec.memory.dim, quiet=True)
        else:
            load(model, checkpoint, quiet=True)
        found = require_memory(model)
        handle = found[0]
        if len(found) != 1 or handle.module.addressing != spec.memory.addressing():
            raise ValueError(f"{checkpoint} holds another memory than the spec")
    # Dropout draws from here on, the same in every arm.
    torch.manual_seed(spec.seed + 2)
    return Student(model, handle, bare)


def build_model(described: Model, task: Task, base: Path) -> Any:
    """A model without a memory of the run's own: drawn from a configuration, or read from a checkpoint."""
    transformers = require("transformers", "engram-rs train", "train")
    if described.checkpoint is not None:
        local = base / described.checkpoint
        return _auto(task).from_pretrained(local if local.is_dir() else described.checkpoint, **task.config())
    assert described.config is not None
    fields = {**task.config(), **described.config}
    kind = fields.pop("model_type")
    try:
        config = transformers.AutoConfig.for_model(kind, **fields)
        return _auto(task).from_config(config)
    except (ValueError, TypeError) as error:
        raise ValueError(f"no model can be made of the configuration {described.config}: {error}") from error


def _auto(task: Task) -> Any:
    return getattr(require("transformers", "engram-rs train", "train"), task.auto_class)
