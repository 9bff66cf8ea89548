"""Nodes with names, and the window of symbols that a hash looks at."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from .._core import BYTE_OFFSET, Addressing

__all__ = ["Builder", "Window", "symbols_of"]

_LAST = np.iinfo(np.int64).max


@dataclass
class Builder:
    """Collects nodes and constants; the names of all of them start with `prefix`.

    Attributes:
        prefix: Keeps the names apart from those of the graph that they will stand in.
        nodes: In an order in which they can run.
        initializers: The constants.
    """

    prefix: str
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    _known: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)

    def add(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> str:  # noqa: ANN401
        """A node; gives the name of its first output."""
        name = f"{self.prefix}{kind}_{len(self.nodes)}"
        names = [name, *(f"{name}.{index}" for index in range(1, outputs))]
        self.nodes.append(helper.make_node(kind, inputs, names, name, domain=domain, **attributes))
        return name

    def constant(self, values: Any, dtype: Any = np.int64) -> str:  # noqa: ANN401
        """The name of a constant; equal ones are one."""
        array = np.ascontiguousarray(values, dtype=dtype).reshape(np.shape(values))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = f"{self.prefix}constant_{len(self.initializers)}"
            self.initializers.append(numpy_helper.from_array(array, self._known[key]))
        return self._known[key]

    def cast(self, value: str, dtype: int = TensorProto.INT64) -> str:
        """Another type."""
        return self.add("Cast", value, to=dtype)

    def take(self, table: NDArray[Any], index: str) -> str:
        """`table[index]`."""
        return self.add("Gather", self.constant(table, table.dtype), index, axis=0)


def symbols_of(build: Builder, addressing: Addressing, ids: str) -> str:
    """The symbols of ids `[B, T]`.

    An id that has none is an error in the core. A graph cannot say so: where there is a token map, too large an id
    stops the runtime; a negative one counts from the end.
    """
    if addressing.scheme in ("byte_fnv1a", "utf8_fnv1a"):
        # The remainder comes first: subtracting from the smallest int64 would not be defined everywhere.
        byte = build.add("Mod", ids, build.constant(256))
        return build.add("Mod", build.add("Add", byte, build.constant(256 - BYTE_OFFSET)), build.constant(256))
    table = addressing.token_map
    return ids if table is None else build.take(np.asarray(table, dtype=np.int64), ids)


class Window:
    """What stands k positions before every position, and whether a gram may reach so far."""

    def __init__(self, build: Builder, addressing: Addressing, symbols: str, reach: int) -> None:
        self._build, self._reach = build, reach
        # Read before the start; the flags say that it is not to be used.
        self._symbols = self._padded(symbols)
        closed = self._among(symbols, addressing.dead)
        ended = self._among(symbols, addressing.reset)
        ones = build.add("Equal", symbols, symbols)
        self._exists = self._padded_flags(ones)
        self._closed = None if closed is None else self._padded_flags(closed)
        self._ended = None if ended is None else self._padded_flags(ended)
        self._flags: list[str] = []
        self._known: dict[tuple[int, int | None], str] = {}

    def back(self, k: int) -> str:
        """The symbols k positions back, `[B, T]`; 0 before the start."""
        if (k, None) not in self._known:
            self._known[k, None] = self._shifted(self._symbols, k)
        return self._known[k, None]

    def reaches(self, k: int) -> str:
        """Whether a gram may read the symbol k positions back, booleans `[B, T]`."""
        build = self._build
        while len(self._flags) <= k:
            step = len(self._flags)
            flag = self._shifted(self._exists, step)
            if self._closed is not None:
                flag = build.add("And", flag, build.add("Not", self._shifted(self._closed, step)))
            if self._ended is not None and step:
                flag = build.add("And", flag, build.add("Not", self._shifted(self._ended, step)))
            if self._flags and (self._closed is not None or self._ended is not None):
                flag = build.add("And", flag, self._flags[-1])
            self._flags.append(flag)
        return self._flags[k]

    def symbol_or(self, k: int, pad: int | None) -> str:
        """The symbol k positions back, or the pad symbol where a gram does not reach it.

        Without a pad symbol such a gram is null as a whole, and it does not matter what is read.
        """
        if pad is None:
            return self.back(k)
        if (k, pad) not in self._known:
            self._known[k, pad] = self._build.add("Where", self.reaches(k), self.back(k), self._build.constant(pad))
        return self._known[k, pad]

    def _padded(self, values: str) -> str:
        if self._reach == 0:
            return values
        ends = self._build.constant([0, self._reach, 0, 0])
        return self._build.add("Pad", values, ends, self._build.constant(0))

    def _padded_flags(self, flags: str) -> str:
        # As numbers: old runtimes pad no booleans.
        return self._padded(self._build.cast(flags)) if self._reach else flags

    def _shifted(self, padded: str, k: int) -> str:
        if self._reach == 0:
            return padded
        build = self._build
        start, end = self._reach - k, _LAST if k == 0 else -k
        bounds = [build.constant([bound]) for bound in (start, end, 1)]
        part = build.add("Slice", padded, *bounds[:2], bounds[2])
        return build.cast(part, TensorProto.BOOL) if padded != self._symbols else part

    def _among(self, symbols: str, marks: tuple[int, ...]) -> str | None:
        found: str | None = None
        for mark in marks:
            equal = self._build.add("Equal", symbols, self._build.constant(mark))
            found = equal if found is None else self._build.add("Or", found, equal)
        return found
