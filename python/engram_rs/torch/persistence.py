"""Checkpoints beside a model's own files: `engram.safetensors` and `engram_config.json`.

A loader that knows nothing of memories drops one without a word, and what is left looks like a weak model.
So the model's own configuration says that there is a memory, and everything here refuses where it is missing.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .._extras import require
from .._files import replacing
from ..artifact import check_addressing
from .module import Engram
from .places import find_stack, width_of
from .sharding import spread_as, whole

if TYPE_CHECKING:
    from .attach import Attached

__all__ = ["CONFIG", "TENSORS", "declare", "load", "require_memory", "save"]

FORMAT = "engram-checkpoint-v1"
CONFIG, TENSORS = "engram_config.json", "engram.safetensors"
_PARTS = ("table", "projection")
_DECLARED = "engram"


def save(model: nn.Module, path: str | os.PathLike[str], *, is_main_process: bool = True) -> None:
    """Writes all memories of a model into a directory, at the dtype that they train in.

    Args:
        model: A model with attached memories.
        path: The directory, made if its parent is there; beside the model's own files or alone.
        is_main_process: Whether this process writes. Where processes share a table, all must call.

    Raises:
        ValueError: The model has no memory.
        FileNotFoundError: There is no folder to make the directory in.
    """
    safetensors = require("safetensors.torch", "saving a memory")
    handles = _attached(model)
    if not handles:
        raise ValueError(f"{type(model).__name__} has no memory to save")
    folder = Path(path)
    if is_main_process:
        folder.mkdir(exist_ok=True)
    tensors, described = {}, []
    for handle in handles:
        name, memory = _relative(model, handle.name), handle.module
        for part in _PARTS:
            tensors[f"{name}.{part}"] = whole(getattr(memory, part).detach()).cpu().contiguous()
        described.append(
            {
                "block": name,
                "d_model": memory.d_model,
                "dim": memory.dim,
                "dtype": str(memory.table.dtype).removeprefix("torch."),
                "addressing": memory.addressing.to_json(),
                "addressing_digest": memory.addressing.digest,
            }
        )
    if not is_main_process:
        return
    with replacing(folder / TENSORS) as weights, replacing(folder / CONFIG) as config:
        safetensors.save_file(tensors, weights)
        declared = {"format": FORMAT, "sha256": _sha256(weights), "memories": described}
        config.write_text(json.dumps(declared, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def load(model: nn.Module, path: str | os.PathLike[str], *, quiet: bool = False) -> "list[Attached]":
    """Attaches the memories of a checkpoint and fills them; fills those that are attached already.

    Everything is checked before the model is touched.

    Args:
        model: The model that the checkpoint belongs to.
        path: A directory that `save` or the model's `save_pretrained` wrote.
        quiet: Whether to print nothing.

    Returns:
        The handles, in the order of the blocks' names.

    Raises:
        FileNotFoundError: There is no such directory.
        ValueError: The directory declares a memory but holds none, or holds none at all; a file is damaged; a
            block is missing, or its width or an attached memory's addressing differs; or the model has a
            memory for which the checkpoint holds nothing.
    """
    from .attach import attach

    folder = Path(path)
    described = _read_config(folder)
    tensors = _read_tensors(folder, described["sha256"])
    plan = [_check(model, folder, one, tensors) for one in described["memories"]]
    handles = {handle.name: handle for handle in _attached(model)}
    foreign = sorted(set(handles) - {name for name, _, _ in plan})
    if foreign:
        raise ValueError(f"{folder} holds nothing for the memory at {', '.join(foreign)}")
    for name, stack, memory in plan:
        if name not in handles:
            index = int(name.rpartition(".")[2])
            handles[name] = attach(model, index, memory.addressing, dim=memory.dim, stack=stack, quiet=quiet)
        own = handles[name].module
        with torch.no_grad():
            for part in _PARTS:
                values = getattr(own, part)
                values.copy_(spread_as(getattr(memory, part), values))
        own.mark_filled()
    return [handles[name] for name in sorted(handles)]


def require_memory(model: nn.Module) -> "list[Attached]":
    """The memories of a model that must have one: for evaluators, and for whatever else would not notice.

    Raises:
        ValueError: None is attached, or not those that the model's configuration declares.
    """
    handles = _attached(model)
    declared = getattr(getattr(model, "config", None), _DECLARED, None)
    wanted = {one["block"]: one["addressing_digest"] for one in declared} if declared else {}
    found = {_relative(model, handle.name): handle.module.addressing.digest for handle in handles}
    if not handles or (wanted and wanted != found):
        has = ", ".join(sorted(found)) or "none"
        says = f"; its configuration declares {', '.join(sorted(wanted))}" if wanted else ""
        raise ValueError(
            f"{type(model).__name__} must have a memory, and has {has}{says}. "
            "Load it by engram_rs.torch.load(model, directory)"
        )
    return handles


def declare(model: nn.Module, handles: "Sequence[Attached]") -> None:
    """Writes into the model's configuration what is attached, and lets `save_pretrained` keep to it."""
    config = getattr(model, "config", None)
    if config is None or not hasattr(type(model), "save_pretrained"):
        return
    ignored = set(getattr(model, "_keys_to_ignore_on_save", None) or ())
    ignored = {key for key in ignored if ".engram." not in key}
    vars(model).pop("save_pretrained", None)
    if hasattr(config, _DECLARED):
        delattr(config, _DECLARED)
    if handles:
        declared = [
            {"block": _relative(model, handle.name), "addressing_digest": handle.module.addressing.digest}
            for handle in handles
        ]
        setattr(config, _DECLARED, declared)
        ignored |= {f"{handle.name}.engram.{key}" for handle in handles for key in (*_PARTS, "_extra_state")}
        model.save_pretrained = _SavePretrained(model)  # type: ignore[assignment]
    model._keys_to_ignore_on_save = ignored  # type: ignore[assignment]


class _SavePretrained:
    """`save_pretrained` of a model with memories: its own files as without them, and theirs beside.

    An object, and no function over the model: so a copied or unpickled model has one of its own.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        result = type(self.model).save_pretrained(self.model, save_directory, *args, **kwargs)
        # Every process, since gathering a shared table takes all of them.
        save(self.model, save_directory, is_main_process=kwargs.get("is_main_process", True))
        return result


def _attached(model: nn.Module) -> "list[Attached]":
    from .attach import memories

    return memories(model)


def _relative(model: nn.Module, name: str) -> str:
    """A block's name inside the base model, which models with different heads share."""
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    return name.removeprefix(prefix) if len(prefix) > 1 else name


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no directory {folder}")
    file = folder / CONFIG
    if not file.is_file():
        if _model_declares(folder):
            raise ValueError(f"{folder} declares a memory in its config.json, but holds no {CONFIG}")
        raise ValueError(f"{folder} holds no memory: there is no {CONFIG}")
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        given = described.get("format") if isinstance(described, dict) else described
        raise ValueError(f"{file}: format is {given!r}; wanted {FORMAT!r}")
    keys = {"block": str, "d_model": int, "dim": int, "dtype": str, "addressing": str, "addressing_digest": str}
    listed = described.get("memories")
    if not isinstance(listed, list):
        listed = []
    fits = isinstance(described.get("sha256"), str) and bool(listed)
    for one in listed:
        fits = fits and isinstance(one, dict) and all(type(one.get(key)) is kind for key, kind in keys.items())
    if not fits or len({one["block"] for one in listed}) != len(listed):
        raise ValueError(
            f"{file} is damaged: it must hold sha256 and memories, each of another block, with {list(keys)}"
        )
    return described


def _model_declares(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / "config.json").read_text(encoding="utf-8")).get(_DECLARED))
    except (OSError, ValueError, AttributeError):
        return False


def _read_tensors(folder: Path, sha256: str) -> dict[str, torch.Tensor]:
    safetensors = require("safetensors", "loading a memory")
    file = folder / TENSORS
    if not file.is_file():
        raise ValueError(f"{folder} declares a memory in its {CONFIG}, but holds no {TENSORS}")
    found = _sha256(file)
    if found != sha256:
        raise ValueError(f"{file} is damaged or foreign: its sha256 is {found}, declared is {sha256}")
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{file} is no safetensors file: {error}") from error


def _check(
    model: nn.Module, folder: Path, one: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> tuple[str, str, Engram]:
    """The block's name in this model, its stack, and a memory with the values of the checkpoint."""
    addressing = check_addressing(one["addressing"], one["addressing_digest"], f"{folder}: {one['block']}")
    name, stack = _find_block(model, folder, one)
    shapes = {"table": [addressing.entries, one["dim"]], "projection": [one["d_model"], one["dim"]]}
    for part, shape in shapes.items():
        tensor = tensors.get(f"{one['block']}.{part}")
        if tensor is None:
            raise ValueError(f"{folder}: {TENSORS} holds no {part} for {one['block']}")
        if list(tensor.shape) != shape or not tensor.is_floating_point():
            raise ValueError(
                f"{folder}: the {part} of {one['block']} is {tensor.dtype} {list(tensor.shape)}; wanted floats {shape}"
            )
    with torch.device("meta"):
        memory = Engram(one["d_model"], dim=one["dim"], addressing=addressing)
    for part in _PARTS:
        setattr(memory, part, nn.Parameter(tensors[f"{one['block']}.{part}"]))
    own = next((handle.module for handle in _attached(model) if handle.name == name), None)
    if own is not None and own.addressing != addressing:
        raise ValueError(
            f"{folder}: the memory of {one['block']} has an addressing with digest {addressing.digest}; "
            f"the one attached there has {own.addressing.digest}"
        )
    if own is not None and list(own.table.shape) != shapes["table"]:
        raise ValueError(
            f"{folder}: the table of {one['block']} is {shapes['table']}, the attached one {list(own.table.shape)}"
        )
    return name, stack, memory


def _find_block(model: nn.Module, folder: Path, one: dict[str, Any]) -> tuple[str, str]:
    blocks, _, index = one["block"].rpartition(".")
    prefix = getattr(model, "base_model_prefix", "")
    for candidate in (f"{prefix}.{blocks}" if prefix else blocks, blocks):
        parent = candidate
        while True:
            parent = parent.rpartition(".")[0]
            try:
                found = find_stack(model, parent)
            except ValueError:
                found = None
            if found is not None and found.blocks_name == candidate:
                if not index.isdecimal() or int(index) >= len(found.blocks):
                    raise ValueError(f"{folder}: this model has no block {one['block']}")
                if width_of(found) != one["d_model"]:
                    raise ValueError(
                        f"{folder}: the memory of {one['block']} is for hidden states of {one['d_model']}, "
                        f"this model's have {width_of(found)}"
                    )
                return f"{candidate}.{index}", found.name
            if not parent:
                break
    raise ValueError(f"{folder}: this model has no block {one['block']}")
