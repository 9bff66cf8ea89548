"""The launch gate: a run counts only if its own record shows that the memory was there.

A memory that is lost on the way leaves a plain model that trains, evaluates and looks merely weak. Each rule here
is one way in which that has happened.
"""

import json
from pathlib import Path
from typing import Any

from .record import read_record
from .spec import RunSpec, parse_spec

__all__ = ["GateError", "check_evaluation", "check_launch", "gate"]


class GateError(ValueError):
    """A run must not count; the message says why."""


def check_launch(spec: RunSpec, record: dict[str, Any]) -> list[str]:
    """What is wrong with a run that has made its first steps; nothing if it may go on."""
    reasons = []
    if record.get("labels", {}).get("sha256") != spec.labels.sha256:
        reasons.append(f"it learned from labels with sha256 {record.get('labels', {}).get('sha256')}, not the pinned")
    memory = record.get("memory") or {}
    if spec.memory is None:
        if memory:
            reasons.append("the spec has no memory, but the record shows one")
        return reasons
    block = spec.memory.block
    line = memory.get("line")
    if not isinstance(line, str) or not line.startswith("[engram] attached at ") or f"block {block}:" not in line:
        reasons.append(f"its record lacks the line that says that a memory was attached at block {block}")
    width = memory.get("d_model")
    wanted = (spec.memory.entries + width) * spec.memory.dim if isinstance(width, int) else None
    before, after = memory.get("parameters_before"), memory.get("parameters_after")
    grown = after - before if isinstance(before, int) and isinstance(after, int) else None
    if grown is None or grown != wanted:
        reasons.append(f"its parameter count grew by {grown}, where the memory has {wanted}")
    if memory.get("addressing_digest") != spec.memory.addressing().digest:
        reasons.append(f"its memory has the digest {memory.get('addressing_digest')}, the spec's has another")
    norm = memory.get("table_gradient_norm")
    if not isinstance(norm, int | float) or not norm > 0:
        reasons.append(f"its table received no gradient in the first steps (norm {norm})")
    return reasons


def check_evaluation(spec: RunSpec, record: dict[str, Any]) -> list[str]:
    """What is wrong with the evaluation of a run that is done."""
    found = record.get("evaluation")
    if not isinstance(found, dict):
        return ["it was not evaluated"]
    digests = found.get("memory_digests")
    wanted = [] if spec.memory is None else [spec.memory.addressing().digest]
    if digests != wanted:
        return [f"its evaluation loaded the memories {digests}; wanted {wanted}"]
    return []


def gate(run: str | Path) -> dict[str, Any]:
    """Refuses to count a run that cannot prove itself.

    Args:
        run: The run's directory.

    Returns:
        The record.

    Raises:
        FileNotFoundError: There is no record.
        GateError: The run must not count; all reasons are named.
    """
    folder = Path(run)
    record = read_record(folder)
    spec = parse_spec(record.get("spec"), f"{folder}: the spec in its record")
    reasons = check_launch(spec, record)
    if record.get("status") != "finished":
        reasons.append(f"it is not finished (its status is {record.get('status')!r})")
    if record.get("dry_run"):
        reasons.append("it is a dry run")
    reasons += check_evaluation(spec, record)
    reasons += _check_files(folder, spec, record)
    if reasons:
        raise GateError(f"{folder} does not count: " + "; ".join(reasons))
    return record


def _check_files(folder: Path, spec: RunSpec, record: dict[str, Any]) -> list[str]:
    """The record against what lies beside it."""
    from ..torch.persistence import CONFIG, TENSORS
    from .labels import sha256_of

    reasons = []
    final = folder / str(record.get("checkpoint"))
    if not final.is_dir():
        return [f"its checkpoint {record.get('checkpoint')} is gone"]
    if spec.memory is not None:
        try:
            config = json.loads((final / CONFIG).read_text(encoding="utf-8"))
            digests = [one["addressing_digest"] for one in config["memories"]]
            if digests != [spec.memory.addressing().digest]:
                reasons.append("its checkpoint holds another memory")
            elif sha256_of(final / TENSORS) != config["sha256"]:
                reasons.append("the memory in its checkpoint is damaged")
        except (OSError, ValueError, KeyError, TypeError):
            reasons.append("its checkpoint holds no memory")
    elif (final / TENSORS).exists():
        reasons.append("its checkpoint holds a memory, which the spec does not have")
    log = folder / "log.jsonl"
    steps = len(log.read_bytes().splitlines()) if log.is_file() else 0
    if steps != record.get("steps"):
        reasons.append(f"its log has {steps} steps, its record {record.get('steps')}")
    return reasons
