"""One process or several: who has which part of a batch, and how gradients meet.

A batch is cut over the ranks, and every rank divides its sum of losses by the count of the whole batch. So
gradients are added and not averaged, and several processes do what one does, within rounding.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ..torch import memories, shard_tables
from .tasks import IGNORE

__all__ = ["World", "enter_world"]


@dataclass(frozen=True)
class World:
    """The processes of a run.

    Attributes:
        rank: Which one this is.
        size: How many there are.
        device: Where this one computes.
    """

    rank: int
    size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process writes files."""
        return self.rank == 0

    def share(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """This rank's part of a batch of `[B, ...]` tensors.

        All ranks get equally many, since models take no empty batch and a shared table no unequal ones: a rank that
        is short of a text gets the first one again, without its labels.
        """
        missing = -len(batch["labels"]) % self.size
        if missing:
            batch = {name: torch.cat([values, values[:1].expand(missing, -1)]) for name, values in batch.items()}
            batch["labels"][-missing:] = IGNORE
        return {name: values[self.rank :: self.size].contiguous().to(self.device) for name, values in batch.items()}

    def share_tables(self, model: Any) -> bool:
        """Shares the rows of a model's tables out over the ranks; whether there was anything to share."""
        if self.size == 1 or not memories(model):
            return False
        from torch.distributed.device_mesh import init_device_mesh

        shard_tables(model, init_device_mesh(self.device.type, (self.size,)))
        return True

    def wrap(self, model: Any) -> Any:
        """A model whose gradients are added over the ranks."""
        if self.size == 1:
            return model
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        wrapped.register_comm_hook(None, _add)
        return wrapped

    def total(self, value: float) -> float:
        """The sum of a number over the ranks."""
        if self.size == 1:
            return value
        number = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.all_reduce(number)
        return float(number)

    def first_then_all(self, work: Callable[[], Any]) -> None:
        """Lets the first rank do what makes files, and the others wait until they are there."""
        if self.is_first:
            work()
        self.wait()

    def wait(self) -> None:
        """Until all ranks are here."""
        if self.size > 1:
            dist.barrier()


def _add(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """Adds a bucket of gradients over the ranks, where DDP by itself would average them."""
    work: Any = dist.all_reduce(bucket.buffer(), async_op=True)
    added: torch.futures.Future[torch.Tensor] = work.get_future().then(lambda done: done.value()[0])
    return added


def enter_world() -> World:
    """The world that `torchrun` made, or this process alone."""
    cuda = torch.cuda.is_available()
    if "WORLD_SIZE" not in os.environ:
        return World(0, 1, torch.device("cuda" if cuda else "cpu"))
    if not dist.is_initialized():
        dist.init_process_group("nccl" if cuda else "gloo")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    return World(dist.get_rank(), dist.get_world_size(), device)
