"""What a checkpoint is worth: read from disk as anyone would, by the loader that refuses to lose a memory."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._files import replacing
from ..torch import memories
from .batches import by_length
from .share import memory_share
from .spec import RunSpec
from .student import build_student
from .tasks import Outcome, Task

__all__ = ["OUTCOMES", "evaluate"]

OUTCOMES = "evaluation.jsonl"


def evaluate(
    spec: RunSpec,
    task: Task,
    base: Path,
    checkpoint: Path,
    target: Path,
    device: torch.device,
    on_done: Callable[[int], None],
) -> dict[str, Any]:
    """Runs the held-out texts through a checkpoint and writes every outcome to `target`.

    Returns:
        `error` (wrong units over all units), `texts`, `units`, `exact` (texts without an error), `memory_digests` of
        the model that was run, and with a memory `memory_share`, over a batch of texts of middling length.
    """
    student = build_student(spec, task, base, checkpoint)
    model = student.model.to(device).eval()
    examples = task.held_out[: spec.evaluation.samples]
    outcomes: dict[int, Outcome] = {}
    batches = by_length(examples, spec.evaluation.positions, np.random.default_rng(0))
    for batch in batches:
        for example, outcome in zip(batch, task.answer(model, batch, spec.evaluation.max_new_tokens), strict=True):
            outcomes[id(example)] = outcome
        on_done(len(batch))
    ordered = [outcomes[id(example)] for example in examples]
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8") as lines:
        for outcome in ordered:
            line = {
                "input": outcome.text.input,
                "reference": outcome.text.reference,
                "output": outcome.output,
                "errors": outcome.errors,
                "units": outcome.units,
            }
            lines.write(json.dumps(line, ensure_ascii=False) + "\n")
    units = sum(outcome.units for outcome in ordered)
    found = {
        "unit": task.unit,
        "error": sum(outcome.errors for outcome in ordered) / max(1, units),
        "texts": len(ordered),
        "units": units,
        "exact": sum(outcome.errors == 0 for outcome in ordered) / len(ordered),
        "memory_digests": [handle.module.addressing.digest for handle in memories(model)],
    }
    if student.handle is not None:
        fresh = build_student(spec, task, base).model.to(device).eval()
        found["memory_share"] = memory_share(student, fresh, task, batches[len(batches) // 2])
    return found
