"""How a memory meets the hidden states: ids go in at the stack, vectors come out at the block.

Rows travel from the stack to its blocks as a keyword argument of the call itself. So nothing is left
behind between calls, two threads cannot meet, a compiler sees plain data flow, and what a checkpointed block
recomputes does not depend on when. All hooks are plain functions, so that a copied model has its own memory.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from .module import Engram

__all__ = ["CHILD", "PLACE", "Place", "add_memory", "pass_rows", "read_ids"]

# The names of a memory in its block, and of what the hooks know in the stack.
CHILD, PLACE = "engram", "engram_place"
# The keyword arguments of a call that are ours.
ROWS, ADDRESSES, HISTORY, MASK = "engram_rows", "engram_addresses", "engram_history", "engram_mask"


@dataclass
class Place:
    """What the hooks of one stack know.

    Attributes:
        name: The name of the list of blocks in the model.
        blocks_name: Its name in the stack.
        causal: Whether a call may go on from an earlier one.
        parameters: The names of the stack's positional parameters.
        attached: The indices of the blocks with a memory, ascending.
        handles: The hooks themselves.
    """

    name: str
    blocks_name: str
    causal: bool
    parameters: tuple[str, ...]
    attached: list[int] = field(default_factory=list)
    handles: list[RemovableHandle] = field(default_factory=list)


def read_ids(stack: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Before the stack: makes rows of the call's ids for every memory in it."""
    place: Place = getattr(stack, PLACE)
    kwargs = dict(kwargs)
    addresses = kwargs.pop(ADDRESSES, None)
    history, mask = kwargs.pop(HISTORY, None), kwargs.pop(MASK, None)
    given = dict(zip(place.parameters, args, strict=False))
    ids = given.get("input_ids", kwargs.get("input_ids"))
    blocks: Any = stack.get_submodule(place.blocks_name)
    if addresses is not None:
        kwargs[ROWS] = _given_rows(place, blocks, addresses)
        return args, kwargs
    if ids is None:
        raise ValueError(
            f"a memory is attached at {place.name}, and the call gave inputs_embeds without ids; "
            f"give input_ids, or the addresses as {ADDRESSES}="
        )
    if mask is None:
        mask = given.get("attention_mask", kwargs.get("attention_mask"))
    elif not isinstance(mask, torch.Tensor) or mask.ndim != 2 or mask.shape[0] != ids.shape[0]:
        given_mask = list(mask.shape) if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise ValueError(f"{MASK} must be [{ids.shape[0]}, H + T], not {given_mask}")
    count = ids.shape[1]
    if place.causal:
        ids = _with_history(place, blocks, ids, history, kwargs.get("cache", kwargs.get("past_key_values")))
    dead = _dead(ids, mask, count)
    rows: dict[int, torch.Tensor] = {}
    known: dict[str, torch.Tensor] = {}
    for index in place.attached:
        memory = getattr(blocks[index], CHILD)
        if memory.scheme_json not in known:
            known[memory.scheme_json] = memory.rows(ids, dead)[:, -count:] if count else memory.rows(ids[:, :0])
        rows[index] = known[memory.scheme_json]
    kwargs[ROWS] = rows
    return args, kwargs


def _given_rows(place: Place, blocks: nn.ModuleList, addresses: Any) -> dict[int, torch.Tensor]:
    """Rows of addresses that the caller computed ahead."""
    if isinstance(addresses, torch.Tensor):
        if len(place.attached) != 1:
            raise ValueError(
                f"{ADDRESSES} is one tensor, but {len(place.attached)} memories are attached at {place.name}; "
                "give a mapping from block index to tensor"
            )
        addresses = {place.attached[0]: addresses}
    if sorted(addresses) != place.attached:
        raise ValueError(f"{ADDRESSES} is for blocks {sorted(addresses)}; memories are attached to {place.attached}")
    return {index: getattr(blocks[index], CHILD).rows_of(addresses[index]) for index in place.attached}


def _with_history(place: Place, blocks: nn.ModuleList, ids: torch.Tensor, history: Any, cache: Any) -> torch.Tensor:
    """The ids with those before them that a gram may reach."""
    past = cache.get_seq_length() if cache is not None else 0
    if history is not None:
        if not isinstance(history, torch.Tensor) or history.ndim != 2 or history.shape[0] != ids.shape[0]:
            given = list(history.shape) if isinstance(history, torch.Tensor) else type(history).__name__
            raise ValueError(f"{HISTORY} must be ids [{ids.shape[0]}, H], not {given}")
        reached = [getattr(blocks[index], CHILD).lookback for index in place.attached]
        if None not in reached:
            if isinstance(past, int) and history.shape[1] < min(past, max(reached)):
                raise ValueError(
                    f"{HISTORY} holds {history.shape[1]} ids; the cache has {past} positions, and the memory at "
                    f"{place.name} reaches over {max(reached)}"
                )
            history = history[:, max(0, history.shape[1] - max(reached)) :]
        return torch.cat([history.to(ids), ids], dim=1)
    if past > 0:
        raise ValueError(
            f"this call goes on from a cache of {past} positions, and the memory at {place.name} needs the ids "
            f"before it: generate() passes them by itself; in a loop of your own give them as {HISTORY}=, [B, H]"
        )
    return ids


def _dead(ids: torch.Tensor, mask: Any, count: int) -> torch.Tensor | None:
    """What nobody may attend to is padding, and part of no gram."""
    if not isinstance(mask, torch.Tensor) or mask.ndim != 2 or mask.shape[0] != ids.shape[0]:
        return None
    whole, told = ids.shape[1], mask.shape[1]
    if told < count:
        raise ValueError(f"the attention mask has {told} positions for {count} ids")
    if told >= whole:
        return mask[:, told - whole :] == 0
    # Of ids before the mask nothing is told, so they count.
    return torch.nn.functional.pad(mask == 0, (whole - told, 0))


def pass_rows(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Before a block without a memory: rows are not its business."""
    return args, {name: value for name, value in kwargs.items() if name != ROWS}


def add_memory(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    """After the block: adds what its memory says to the hidden states."""
    memory: Engram = getattr(block, CHILD)
    if memory.silent:
        return output
    rows = kwargs.get(ROWS)
    if rows is None:
        raise RuntimeError(
            "a block with a memory was called without the stack that it belongs to, or by a stack that does "
            "not pass keyword arguments on; the memory would have been left out"
        )
    hidden = output[0] if isinstance(output, tuple) else output
    index: int = memory.block_index
    added = memory.from_rows(rows[index]).to(hidden)
    if added.shape != hidden.shape:
        # Added as it is, one row would be taken for all of a batch.
        raise ValueError(
            f"the addresses are for {list(added.shape[:-1])} positions, the call has {list(hidden.shape[:-1])}"
        )
    return (hidden + added, *output[1:]) if isinstance(output, tuple) else hidden + added
