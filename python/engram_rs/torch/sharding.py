"""A table whose rows are shared out over the processes of a run, by PyTorch's DTensor.

Each process holds a block of rows and its own texts. It tells the others which rows its texts read, adds up what it
holds of everybody's rows, and the sums are added over the processes. So what travels is an index a position and a
vector a position, never the table, and the gradient of a row arises where the row lies.
"""

import sys
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

__all__ = ["is_spread", "shard_tables", "shared_mean", "spread_as", "whole"]


def shard_tables(model: nn.Module, mesh: "DeviceMesh") -> list[str]:
    """Shares the rows of every table in a model out over processes.

    Call it in all of them, after the memories are attached or loaded and the model is on its device, and before an
    optimizer or `DistributedDataParallel` is made of it; the latter then leaves the tables alone. The first process's
    values count. All must then call the model equally often and with inputs of one shape, as data-parallel training
    does with padded batches. Gradients of a table are **summed** over the processes, where DDP by itself takes the
    mean of all others.

    `engram_rs.torch.save`, `model.save_pretrained` and `to_artifact` gather the rows, so all processes must call those
    too; what is written is the same as without sharing, and loads with any number of processes or none.

    Args:
        model: A model with attached memories, or an `Engram`.
        mesh: The processes, a mesh of one dimension.

    Returns:
        The names of the tables in `model.named_parameters()`.

    Raises:
        ValueError: There is no memory, the mesh has more dimensions, a table is shared already, or has so few rows
            that a process would get none.
    """
    from torch.distributed.tensor import Shard, distribute_tensor

    from .module import Engram

    if mesh.ndim != 1:
        raise ValueError(f"the mesh must have one dimension, not {mesh.ndim}")
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, Engram)]
    if not found:
        raise ValueError(f"{type(model).__name__} has no memory whose table could be shared")
    for name, memory in found:
        if is_spread(memory.table):
            raise ValueError(f"the table of {name or 'the memory'} is shared already")
        if (mesh.size() - 1) * _rows_each(memory.addressing.entries, mesh) >= memory.addressing.entries:
            raise ValueError(f"{memory.addressing.entries} rows are too few for {mesh.size()} processes")
    names = []
    for name, memory in found:
        trains = memory.table.requires_grad
        rows = distribute_tensor(memory.table.detach(), mesh, [Shard(0)])
        memory.table = nn.Parameter(rows, requires_grad=trains)
        memory.mesh = mesh
        names.append(f"{name}.table" if name else "table")
    ignored = getattr(model, "_ddp_params_and_buffers_to_ignore", [])
    # DDP's own way to say so; it would broadcast and reduce the parts as if they were copies.
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(  # type: ignore[no-untyped-call]
        model, [*ignored, *names]
    )
    return names


def shared_mean(rows: torch.Tensor, table: "DTensor", mesh: "DeviceMesh") -> torch.Tensor:
    """The means of rows that lie in several processes, `[N, K]` to `[N, dim]`; every process must call it."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    mine = DTensor.from_local(rows, mesh, [Shard(0)], run_check=False)
    everybodys = mine.redistribute(placements=[Replicate()]).to_local()
    own = table.to_local()
    local = everybodys - mesh.get_local_rank() * _rows_each(len(table), mesh)
    held = (local >= 0) & (local < len(own))
    # The mean over all K columns; a row that lies elsewhere adds nothing here.
    weights = held.to(own.dtype) / rows.shape[-1]
    sums = F.embedding_bag(torch.where(held, local, 0), own, mode="sum", per_sample_weights=weights)
    parts = DTensor.from_local(sums, mesh, [Partial()], run_check=False)
    return parts.redistribute(placements=[Shard(0)]).to_local()


def is_spread(tensor: torch.Tensor) -> "TypeGuard[DTensor]":
    """Whether a tensor lies in several processes."""
    # Importing the module takes seconds; where nobody did, nobody has such a tensor.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All values of a tensor; every process that holds a part of it must call this."""
    return tensor.full_tensor() if is_spread(tensor) else tensor


def spread_as(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A tensor of as many rows as `like`, whole in every process, laid out as that one is."""
    if not is_spread(like) or is_spread(tensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    # Everyone has it, so nothing needs to be sent.
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def _rows_each(entries: int, mesh: "DeviceMesh") -> int:
    """How many rows a process holds; the last may hold fewer."""
    return -(-entries // mesh.size())
