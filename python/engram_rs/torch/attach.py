"""Adds a memory to a model of transformers, and takes it off again."""

import contextlib
import inspect
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import SupportsIndex

from torch import nn

from .._core import Addressing
from . import persistence
from .generation import follow_generation, unfollow_generation
from .hooks import CHILD, PLACE, Place, add_memory, pass_rows, read_ids
from .module import Engram, as_index
from .places import Stack, find_stack, width_of

__all__ = ["Attached", "attach", "memories"]


@dataclass(frozen=True)
class Attached:
    """A memory in a model.

    Attributes:
        model: The model.
        name: The block's name in it, such as `encoder.block.3`.
    """

    model: nn.Module
    name: str

    @property
    def module(self) -> Engram:
        """The memory itself; a part of the block, so of `model.parameters()` and `model.state_dict()`."""
        memory = getattr(self.model.get_submodule(self.name), CHILD, None)
        if not isinstance(memory, Engram):
            raise ValueError(f"there is no memory at {self.name} any more")
        return memory

    @property
    def block(self) -> int:
        """The block's index in its stack."""
        return self.module.block_index

    @property
    def line(self) -> str:
        """The line that a training record must show."""
        own = sum(parameter.numel() for parameter in self.module.parameters())
        others = _num_parameters(self.model) - sum(_count(memory) for memory in memories(self.model))
        kind = "decoder" if _place_of(self.model, self.name)[1].causal else "encoder"
        return (
            f"[engram] attached at {kind} block {self.block}: +{own / 1e6:.1f}M params on a {others / 1e6:.1f}M model"
        )

    def detach(self) -> Engram:
        """Takes the memory off and gives it back. The model is then as it was before."""
        memory = self.module
        stack, place = _place_of(self.model, self.name)
        blocks = stack.get_submodule(place.blocks_name)
        index = memory.block_index
        delattr(blocks.get_submodule(str(index)), CHILD)
        place.attached.remove(index)
        _hang(stack, place, blocks)
        if not place.attached:
            delattr(stack, PLACE)
        _declare(self.model)
        return memory

    @contextlib.contextmanager
    def silenced(self) -> Iterator[None]:
        """The model without what this memory adds, until the `with` block ends: shows what the memory is worth.

        It holds for every thread that calls the model.
        """
        memory = self.module
        before, memory.silent = memory.silent, True
        try:
            yield
        finally:
            memory.silent = before

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all memories of the model into a directory, `engram.safetensors` and `engram_config.json`."""
        persistence.save(self.model, path)

    def __repr__(self) -> str:
        return f"<Attached at {self.name}: {self.module}>"


def attach(
    model: nn.Module,
    block: SupportsIndex = 3,
    addressing: Addressing | None = None,
    *,
    entries: SupportsIndex | None = None,
    dim: SupportsIndex = 32,
    orders: Iterable[SupportsIndex] | None = None,
    stack: str | None = None,
    quiet: bool = False,
) -> Attached:
    """Adds a memory to what leaves one block of a model, and prints a line that says so.

    The model gives bit-identical outputs until the memory trains. Its parameters become the block's own, named
    `<block>.engram.table` and `<block>.engram.projection`. Every call takes its ids from itself; positions that a
    two-dimensional `attention_mask` hides are part of no gram.

    Three keyword arguments of the model's call are the memory's: `engram_addresses` (int64 `[B, T, K]`, or a
    mapping from block index to such) in place of the ids; `engram_history` (ids `[B, H]`), what stands before the
    ids of a call that goes on from a cache, for loops other than `generate()`; `engram_mask` (`[B, H + T]`), where
    the attention mask of such a call has another form.

    Args:
        model: A model of transformers, or any whose stack takes `input_ids` and passes keyword arguments on to
            its blocks; not yet compiled and not yet wrapped for parallel training.
        block: The block's index in its stack.
        addressing: The scheme, in place of `entries` and `orders`.
        entries: Rows of the table, 2,097,152 if nothing is said.
        dim: Values a row.
        orders: The n-gram lengths of `byte_fnv1a`, (2, 3, 4) if nothing is said.
        stack: The name of the stack, such as `"decoder"`; the encoder if there is one, or the only stack.
        quiet: Whether to print nothing.

    Raises:
        TypeError: `model` is no module, or a size no integer.
        ValueError: There is no such stack or block, it has a memory already, or the model is compiled or wrapped.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, not {type(model).__name__}")
    _refuse_wrapped(model)
    found = find_stack(model, stack)
    index = as_index("block", block)
    if not 0 <= index < len(found.blocks):
        raise ValueError(f"block must be 0 … {len(found.blocks) - 1} of {found.blocks_name}, not {index}")
    name = f"{found.blocks_name}.{index}"
    target = found.blocks[index]
    if hasattr(target, CHILD):
        raise ValueError(f"{name} has a memory already; detach it first")
    like = next((parameter for parameter in target.parameters() if parameter.is_floating_point()), None)
    memory = Engram(
        width_of(found),
        entries,
        dim,
        orders,
        addressing=addressing,
        device=None if like is None else like.device,
        dtype=None if like is None else like.dtype,
    )
    place = _place(found)
    memory.block_index = index
    memory.train(target.training)
    target.add_module(CHILD, memory)
    place.attached = sorted([*place.attached, index])
    _hang(found.module, place, found.blocks)
    _declare(model)
    handle = Attached(model, name)
    if not quiet:
        print(handle.line)
    return handle


def memories(model: nn.Module) -> list[Attached]:
    """The memories that are attached to a model, in the order of their names in it."""
    return [
        Attached(model, f"{prefix}{place.blocks_name}.{index}")
        for prefix, place in _places(model)
        for index in place.attached
    ]


def _places(model: nn.Module) -> list[tuple[str, Place]]:
    found = [(name, getattr(module, PLACE, None)) for name, module in model.named_modules()]
    return [(f"{name}." if name else "", place) for name, place in found if isinstance(place, Place)]


def _place_of(model: nn.Module, name: str) -> tuple[nn.Module, Place]:
    for prefix, place in _places(model):
        if name.rpartition(".")[0] == prefix + place.blocks_name:
            return model.get_submodule(prefix.rstrip(".")), place
    raise ValueError(f"there is no memory at {name}")


def _place(found: Stack) -> Place:
    place: Place | None = getattr(found.module, PLACE, None)
    if place is None:
        parameters = inspect.signature(found.module.forward).parameters.values()
        positional = tuple(one.name for one in parameters if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)
        inner = found.blocks_name[len(found.name) + 1 :] if found.name else found.blocks_name
        place = Place(found.blocks_name, inner, found.causal, positional)
        setattr(found.module, PLACE, place)
    return place


def _hang(stack: nn.Module, place: Place, blocks: nn.Module) -> None:
    """Hangs the hooks of a stack anew, for the blocks that have a memory now."""
    for handle in place.handles:
        handle.remove()
    place.handles = []
    if not place.attached:
        return
    place.handles.append(stack.register_forward_pre_hook(read_ids, with_kwargs=True))
    for index, block in enumerate(blocks.children()):
        if index in place.attached:
            place.handles.append(block.register_forward_hook(add_memory, with_kwargs=True))
        else:
            place.handles.append(block.register_forward_pre_hook(pass_rows, with_kwargs=True))


def _declare(model: nn.Module) -> None:
    """Lets the model's own saving, loading and generating know what is attached."""
    handles = memories(model)
    persistence.declare(model, handles)
    if any(_place_of(model, handle.name)[1].causal for handle in handles):
        follow_generation(model)
    else:
        unfollow_generation(model)


def _refuse_wrapped(model: nn.Module) -> None:
    kind = type(model)
    if kind.__module__.startswith("torch._dynamo"):
        raise ValueError("the model is compiled already; attach first, then compile")
    if kind.__module__.startswith("torch.nn.parallel") or kind.__name__ == "FullyShardedDataParallel":
        raise ValueError(f"the model is wrapped in {kind.__name__} already; attach first, then wrap")


def _count(handle: Attached) -> int:
    return sum(parameter.numel() for parameter in handle.module.parameters())


def _num_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
