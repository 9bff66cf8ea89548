"""Checkpoints of a run: a directory each, there whole or not at all."""

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from ..torch import memories, save
from ..torch.sharding import whole
from .parallel import World

__all__ = ["latest", "resume", "save_checkpoint"]

_STATE = "training.pt"


def save_checkpoint(
    run: Path,
    step: int,
    model: Any,
    optimizer: torch.optim.Optimizer,
    scheduler: Any,
    facts: dict[str, Any],
    keep: int,
    world: World,
) -> Path:
    """Writes everything that the next step depends on, then forgets the oldest checkpoints.

    A directory gets its final name when all is on disk; whatever fails before leaves the earlier ones alone. Every
    rank calls it, since rows that are shared must be gathered; the first one writes.
    """
    folder = run / "checkpoints"
    target, temporary = folder / f"step-{step:07d}", folder / f".step-{step:07d}.tmp"
    moved = _whole(optimizer.state_dict())
    if not world.is_first:
        if memories(model):
            save(model, temporary, is_main_process=False)
        world.wait()
        return target
    folder.mkdir(exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        model.save_pretrained(temporary)
        state = {
            "step": step,
            "optimizer": moved,
            "scheduler": scheduler.state_dict(),
            "random": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "facts": json.dumps(facts),
        }
        torch.save(state, temporary / _STATE)
        for file in temporary.iterdir():
            with file.open("rb+") as opened:
                os.fsync(opened.fileno())
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for old in _all(run)[:-keep]:
        shutil.rmtree(old)
    world.wait()
    return target


def latest(run: Path) -> Path | None:
    """The newest checkpoint that reads whole; a damaged one is passed over."""
    for folder in reversed(_all(run)):
        with contextlib.suppress(Exception):
            _read(folder)
            return folder
    return None


def resume(folder: Path, optimizer: torch.optim.Optimizer, scheduler: Any) -> tuple[int, dict[str, Any]]:
    """Puts back what the next step depends on, but for the model itself.

    Returns:
        The step that the checkpoint was made after, and the facts that were kept with it.

    Raises:
        ValueError: The file is damaged.
    """
    try:
        state = _read(folder)
    except Exception as error:
        raise ValueError(f"{folder / _STATE} cannot be read: {error}") from error
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["random"])
    if torch.cuda.is_available() and state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
    return state["step"], json.loads(state["facts"])


def _whole(state: Any) -> Any:
    """A state with all rows of what processes share."""
    if isinstance(state, dict):
        return {key: _whole(value) for key, value in state.items()}
    return whole(state) if isinstance(state, torch.Tensor) else state


def _read(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(folder / _STATE, weights_only=True, map_location="cpu")
    return state


def _all(run: Path) -> list[Path]:
    folder = run / "checkpoints"
    return sorted(path for path in folder.glob("step-*") if path.is_dir()) if folder.is_dir() else []
