"""Types of the compiled core; a test compares them with the built module."""

from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BYTE_OFFSET",
    "EOS",
    "PAD",
    "UNK",
    "Addressing",
    "__version__",
    "available_threads",
    "cpu_features",
    "decode",
    "encode",
]

__version__: str
PAD: int
EOS: int
UNK: int
BYTE_OFFSET: int

_Ids = NDArray[np.integer[Any]] | Sequence[int] | Sequence[Sequence[int]]

@final
class Addressing:
    @classmethod
    def byte_fnv1a(
        cls, entries: SupportsIndex = 2097152, orders: Iterable[SupportsIndex] = (2, 3, 4)
    ) -> Addressing: ...
    @staticmethod
    def from_json(text: str) -> Addressing: ...
    def to_json(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def scheme(self) -> str: ...
    @property
    def entries(self) -> int: ...
    @property
    def orders(self) -> tuple[int, ...]: ...
    @property
    def num_columns(self) -> int: ...
    def __call__(
        self, ids: _Ids, out: NDArray[np.int64] | None = None, threads: SupportsIndex | None = None
    ) -> NDArray[np.int64]: ...
    def hashes(
        self, ids: _Ids, out: NDArray[np.int64] | None = None, threads: SupportsIndex | None = None
    ) -> NDArray[np.int64]: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...

def encode(text: str | bytes | bytearray, eos: bool = True) -> NDArray[np.int64]: ...
def decode(ids: _Ids, errors: str = "replace") -> str: ...
def cpu_features() -> list[str]: ...
def available_threads() -> int: ...
