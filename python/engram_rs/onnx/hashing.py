"""The hash in the graph: a runtime that knows nothing of n-grams computes the addresses by itself."""

import os
from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper

from .._core import Addressing, __version__
from .._files import replacing
from ..memory_graph import INPUT, hash_properties
from .hash_builder import Builder, Window, symbols_of
from .hash_characters import character_columns, symbols_reached
from .hash_families import fnv_columns, radix_columns, reduced
from .hash_limbs import horner_columns, mix_columns

__all__ = ["HashNodes", "export_hash", "hash_nodes"]

_CONTRIB = "com.microsoft"
_OPSETS = range(14, 24)


@dataclass(frozen=True)
class HashNodes:
    """What computes addresses, to be put before the nodes that read them.

    Attributes:
        nodes: In an order in which they can run.
        initializers: Their constants.
        opset_imports: The operator sets that they need beside ONNX's own.
    """

    nodes: list[onnx.NodeProto]
    initializers: list[onnx.TensorProto]
    opset_imports: list[onnx.OperatorSetIdProto]


def hash_nodes(addressing: Addressing, ids: str, output: str, mode: str = "graph", prefix: str = "hash.") -> HashNodes:
    """Nodes from ids int64 `[batch, sequence]` to rows int64 `[batch, sequence, K]`: the result of `addressing(ids)`.

    Args:
        addressing: The scheme.
        ids: The name of the ids in the graph.
        output: The name of the rows.
        mode: `"graph"`: operators of opset 14. `"ort"`: ONNX Runtime's `NGramHashMapping`, for `multiply_xor`.
        prefix: Of the names of nodes and constants.

    Raises:
        TypeError: `addressing` is none.
        ValueError: `mode` is unknown, or the scheme has no such form; the error says why.
    """
    if not isinstance(addressing, Addressing):
        raise TypeError(f"addressing must be an Addressing, not {type(addressing).__name__}")
    if mode not in ("graph", "ort"):
        raise ValueError(f"mode must be 'graph' or 'ort', not {mode!r}")
    build = Builder(prefix)
    imports = []
    if mode == "ort":
        rows = _by_operator(build, addressing, ids)
        imports.append(helper.make_opsetid(_CONTRIB, 1))
    else:
        rows = _by_arithmetic(build, addressing, ids)
    build.nodes.append(helper.make_node("Identity", [rows], [output], f"{prefix}rows"))
    return HashNodes(build.nodes, build.initializers, imports)


def export_hash(addressing: Addressing, path: str | os.PathLike[str], mode: str = "graph", opset: int = 14) -> None:
    """Writes the hash alone as an ONNX model: `input_ids` to `engram_addresses`.

    `input_ids` is int64 `[batch, sequence]`, `engram_addresses` int64 `[batch, sequence, K]`: the rows of
    `addressing(ids)`. The addressing JSON and its digest stand in the model's metadata.

    Args:
        addressing: The scheme.
        path: The file to write; an older one stays until the new one is whole.
        mode: As in `hash_nodes`.
        opset: The ONNX operator set, 14 … 23.

    Raises:
        TypeError: `addressing` is none.
        ValueError: As in `hash_nodes`, or `opset` is out of range.
    """
    if isinstance(opset, bool) or not isinstance(opset, int) or opset not in _OPSETS:
        raise ValueError(f"opset must be {_OPSETS[0]} … {_OPSETS[-1]}, not {opset!r}")
    hashed = hash_nodes(addressing, "input_ids", INPUT, mode)
    graph = helper.make_graph(
        hashed.nodes,
        "engram_hash",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info(INPUT, TensorProto.INT64, ["batch", "sequence", addressing.num_columns])],
        hashed.initializers,
        doc_string=f"The rows of {addressing}.",
    )
    imports = [helper.make_opsetid("", opset), *hashed.opset_imports]
    model = helper.make_model(
        graph,
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports, ignore_unknown=True),
        producer_name="engram_rs",
        producer_version=__version__,
    )
    helper.set_model_props(model, hash_properties(addressing, mode))
    onnx.checker.check_model(model, full_check=mode == "graph")
    with replacing(path) as temporary:
        onnx.save_model(model, os.fspath(temporary))


def _by_arithmetic(build: Builder, addressing: Addressing, ids: str) -> str:
    symbols = symbols_of(build, addressing, ids)
    scheme, orders = addressing.scheme, addressing.orders
    if scheme == "utf8_fnv1a":
        window = Window(build, addressing, symbols, symbols_reached(addressing))
        hashes, columns, reached = character_columns(build, addressing, window)
        return reduced(build, addressing, hashes, columns, reached if addressing.pad is None else None)
    window = Window(build, addressing, symbols, max(orders) - 1)
    makers = {
        "byte_fnv1a": fnv_columns,
        "multiply_xor": mix_columns,
        "polynomial": horner_columns,
        "vocabulary_radix": radix_columns,
    }
    hashes, columns = makers[scheme](build, addressing, window)
    null = [window.reaches(order - 1) for order in orders] if addressing.pad is None else None
    return reduced(build, addressing, hashes, columns, null)


def _by_operator(build: Builder, addressing: Addressing, ids: str) -> str:
    """ONNX Runtime's own operator, where it computes this scheme."""
    if addressing.scheme != "multiply_xor":
        raise ValueError(f"NGramHashMapping computes multiply_xor, not {addressing.scheme}; take mode='graph'")
    orders, reset, pad = addressing.orders, addressing.reset, addressing.pad
    assert addressing.multipliers is not None
    heads, longest = orders.count(2), max(orders)
    if list(orders) != [order for order in range(2, longest + 1) for _ in range(heads)]:
        raise ValueError(f"NGramHashMapping takes all orders from 2 on with equally many heads, not {orders}")
    if pad is None or addressing.dead or reset not in ((), (pad,)):
        raise ValueError(
            "NGramHashMapping ends a gram at one symbol, and reads that in place of what is missing; the scheme has "
            f"reset {reset}, dead {addressing.dead} and pad {pad}"
        )
    constants = [addressing.multipliers[:longest], addressing.row_counts, addressing.offsets]
    multipliers, counts, offsets = (build.constant(values) for values in constants)
    eos = build.constant(pad) if reset else ""
    return build.add(
        "NGramHashMapping",
        symbols_of(build, addressing, ids),
        multipliers,
        counts,
        "",
        offsets,
        eos,
        outputs=2,
        domain=_CONTRIB,
        max_ngram_size=longest,
        n_head_per_ngram=heads,
        pad_id=pad,
        reset_on_eos=int(bool(reset)),
    )
