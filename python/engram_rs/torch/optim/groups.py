"""Which rule trains which parameter."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from torch import nn

from ..module import Engram

__all__ = ["HEADS", "ParamGroups", "param_groups"]

# What transformers calls the modules that turn hidden states into answers, and what most other code does too.
HEADS = ("lm_head", "embed_out", "head", "classifier", "classification_head", "score", "qa_outputs", "cls")


@dataclass(frozen=True)
class ParamGroups:
    """The trainable parameters of a model, each in exactly one group.

    Attributes:
        table: `[entries, dim]` of every memory.
        projection: `[d_model, dim]` of every memory.
        matrices: Every other hidden weight of two dimensions.
        rest: Norms, biases, embeddings, heads, and whatever has not two dimensions.
    """

    table: tuple[nn.Parameter, ...]
    projection: tuple[nn.Parameter, ...]
    matrices: tuple[nn.Parameter, ...]
    rest: tuple[nn.Parameter, ...]


def param_groups(model: nn.Module, *, heads: Collection[str] = HEADS) -> ParamGroups:
    """Sorts a model's trainable parameters by the rule that should train them.

    A weight is a hidden matrix if it has two dimensions and `weight` in its own name, as those of `nn.Linear`,
    `nn.MultiheadAttention`, `nn.LSTM` or transformers' `Conv1D` have. What else has two dimensions (positions, learned
    queries, bias tables) is looked up rather than multiplied, and goes to `rest`.

    Embeddings and heads go to `rest` too, with every weight tied to one. A head is what the model's own
    `get_output_embeddings()` gives, or a module named in `heads`, with all that lies under it.

    Args:
        model: Any module; memories may sit anywhere in it, or be it.
        heads: Names of modules, each one component of a dotted path.

    Returns:
        The groups, each in the order of `model.named_parameters()`. A parameter that several modules share appears
        once, a frozen one not at all.
    """
    memories = [module for module in model.modules() if isinstance(module, Engram)]
    tables = {id(memory.table) for memory in memories}
    projections = {id(memory.projection) for memory in memories}
    apart = set(_embeddings_and_heads(model, heads))
    table, projection, matrices, rest = [], [], [], []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if id(parameter) in tables:
            table.append(parameter)
        elif id(parameter) in projections:
            projection.append(parameter)
        elif parameter.ndim == 2 and "weight" in name.rpartition(".")[2] and id(parameter) not in apart:
            matrices.append(parameter)
        else:
            rest.append(parameter)
    return ParamGroups(tuple(table), tuple(projection), tuple(matrices), tuple(rest))


def _embeddings_and_heads(model: nn.Module, heads: Collection[str]) -> Iterator[int]:
    """Identities of their parameters: a tied weight has several names, but one identity."""
    for module in model.modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            yield from map(id, module.parameters())
        # Asked of every module, since the model may be wrapped (DDP, torch.compile) or a part of a larger one.
        head = getattr(module, "get_output_embeddings", lambda: None)()
        if head is not None:
            yield from map(id, head.parameters())
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if not set(heads).isdisjoint(name.split(".")[:-1]):
            yield id(parameter)
