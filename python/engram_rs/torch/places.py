"""Where a memory can stand in a model: stacks of blocks that are called with ids.

Nothing here knows a model by name. A stack is a module whose `forward` takes `input_ids` and keyword
arguments, and which holds a list of blocks; transformers writes all its text models that way.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

__all__ = ["Stack", "find_stack", "width_of"]


@dataclass(frozen=True)
class Stack:
    """A list of blocks and the module that is called with ids.

    Attributes:
        name: The module's name in the model; `""` is the model itself.
        module: What takes `input_ids`.
        blocks_name: The name of the list in the model.
        blocks: The blocks, in the order that the hidden states pass them.
        causal: Whether it generates, so that a call may go on from an earlier one.
    """

    name: str
    module: nn.Module
    blocks_name: str
    blocks: nn.ModuleList
    causal: bool

    @property
    def kind(self) -> str:
        """What one calls it."""
        return "decoder" if self.causal else "encoder"


def find_stack(model: nn.Module, wanted: str | None) -> Stack:
    """The stack that `wanted` names; for `None` the encoder, or the only one.

    Raises:
        ValueError: There is none, or no such one, or there are several and none is an encoder.
    """
    stacks = list(_stacks(model))
    if not stacks:
        raise ValueError(
            f"{type(model).__name__} holds no stack that a memory can be attached to: a module whose forward "
            "takes input_ids and keyword arguments, over a list of blocks"
        )
    known = ", ".join(repr(stack.name) for stack in stacks)
    if wanted is not None:
        for stack in stacks:
            if wanted == stack.name or wanted == stack.name.rpartition(".")[2]:
                return stack
        raise ValueError(f"{type(model).__name__} has no stack {wanted!r}; it has {known}")
    if len(stacks) == 1:
        return stacks[0]
    encoders = [stack for stack in stacks if not stack.causal]
    if len(encoders) == 1:
        return encoders[0]
    raise ValueError(f"{type(model).__name__} has several stacks; say which by stack=: {known}")


def _stacks(model: nn.Module) -> Iterator[Stack]:
    """The innermost modules that take ids, by their order in the model."""
    takers = [name for name, module in model.named_modules() if _takes_ids(module) and _block_list(module)]
    for name in takers:
        prefix = f"{name}." if name else ""
        if any(other != name and other.startswith(prefix) for other in takers):
            continue
        module = model.get_submodule(name)
        found = _block_list(module)
        assert found is not None
        blocks = module.get_submodule(found)
        assert isinstance(blocks, nn.ModuleList)
        yield Stack(name, module, prefix + found, blocks, _is_causal(model, name, module))


def _takes_ids(module: nn.Module) -> bool:
    parameters = inspect.signature(module.forward).parameters
    return "input_ids" in parameters and has_keywords(module)


def has_keywords(module: nn.Module) -> bool:
    """Whether `forward` takes keyword arguments that it does not name."""
    parameters = inspect.signature(module.forward).parameters.values()
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)


def _block_list(module: nn.Module) -> str | None:
    """The name of the outermost list of modules that take keyword arguments; a block may hold further lists."""
    lists = [
        (name.count("."), name)
        for name, inner in module.named_modules()
        if isinstance(inner, nn.ModuleList) and len(inner) and all(map(has_keywords, inner))
    ]
    return min(lists)[1] if lists else None


def _is_causal(model: nn.Module, name: str, module: nn.Module) -> bool:
    """Whether a call of the stack may go on from an earlier one."""
    whole, own = getattr(model, "config", None), getattr(module, "config", None)
    if getattr(whole, "is_encoder_decoder", False):
        return bool(getattr(own, "is_decoder", False) or "decoder" in name.rpartition(".")[2])
    if getattr(own, "is_decoder", False):
        return True
    # No configuration says so of a decoder-only model, but its attention does.
    return any(getattr(inner, "is_causal", False) is True for inner in module.modules())


def width_of(found: Stack) -> int:
    """The width of the hidden states that pass the blocks."""
    for module in (found.module, *found.blocks.modules()):
        config = getattr(module, "config", None)
        for name in ("hidden_size", "d_model"):
            size = getattr(config, name, None)
            if isinstance(size, int):
                return size
    raise ValueError(f"the width of the hidden states of {found.blocks_name} is unknown: no config names hidden_size")
