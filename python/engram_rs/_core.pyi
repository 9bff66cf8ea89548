"""Types of the compiled core; a test compares them with the built module."""

from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = [
    "BYTE_OFFSET",
    "EOS",
    "PAD",
    "UNK",
    "Addressing",
    "Stream",
    "__version__",
    "available_threads",
    "cpu_features",
    "decode",
    "empty_array_call",
    "empty_call",
    "encode",
    "force_kernel",
    "kernels",
]

__version__: str
PAD: int
EOS: int
UNK: int
BYTE_OFFSET: int

_Ids = NDArray[np.integer[Any]] | Sequence[int] | Sequence[Sequence[int]]
_Counts = NDArray[np.integer[Any]] | Sequence[int]
_Addresses = NDArray[np.int64] | NDArray[np.int32]

@final
class Addressing:
    @classmethod
    def byte_fnv1a(
        cls, entries: SupportsIndex = 2097152, orders: Iterable[SupportsIndex] = (2, 3, 4)
    ) -> Addressing: ...
    @classmethod
    def utf8_fnv1a(
        cls, entries: SupportsIndex = 2097152, orders: Iterable[SupportsIndex] = (2, 3, 4)
    ) -> Addressing: ...
    @classmethod
    def multiply_xor(
        cls,
        multipliers: Iterable[SupportsIndex],
        row_counts: Iterable[SupportsIndex],
        heads: SupportsIndex = 8,
        *,
        offsets: Iterable[SupportsIndex] | None = None,
        entries: SupportsIndex | None = None,
        vocab_size: SupportsIndex | None = None,
        token_map: _Counts | None = None,
        pad: SupportsIndex = 0,
        reset: Iterable[SupportsIndex] = (),
        dead: Iterable[SupportsIndex] = (),
    ) -> Addressing: ...
    @classmethod
    def deepseek_v41(
        cls,
        layer: SupportsIndex,
        layer_ids: Iterable[SupportsIndex] = (1, 14),
        *,
        max_order: SupportsIndex = 4,
        heads: SupportsIndex = 8,
        vocab_size: SupportsIndex = 16000000,
        compressed_vocab_size: SupportsIndex = 99092,
        token_map: _Counts | None = None,
        pad: SupportsIndex = 2,
        dead: Iterable[SupportsIndex] = (),
    ) -> Addressing: ...
    @classmethod
    def deepseek_demo(
        cls,
        layer: SupportsIndex,
        layer_ids: Iterable[SupportsIndex] = (1, 15),
        *,
        heads: SupportsIndex = 8,
        vocab_sizes: Iterable[SupportsIndex] = (646400, 646400),
        seed: SupportsIndex = 0,
        compressed_vocab_size: SupportsIndex | None = None,
        token_map: _Counts | None = None,
        pad: SupportsIndex = 2,
    ) -> Addressing: ...
    @classmethod
    def qwen_ple(
        cls,
        layer_index: SupportsIndex = 0,
        *,
        max_order: SupportsIndex = 3,
        heads: SupportsIndex = 8,
        base: SupportsIndex = 20000000,
        vocab_size: SupportsIndex = 248320,
        seed: SupportsIndex = 1234,
        divisor: SupportsIndex = 128,
        eos: SupportsIndex = 248044,
    ) -> Addressing: ...
    @classmethod
    def blt(
        cls,
        functions: SupportsIndex = 1,
        sizes: Iterable[SupportsIndex] = (3, 4, 5, 6, 7, 8),
        rows: SupportsIndex = 500002,
    ) -> Addressing: ...
    @classmethod
    def longcat(
        cls,
        vocab_size: SupportsIndex = 131072,
        ratio: SupportsIndex = 78,
        max_order: SupportsIndex = 4,
        splits: SupportsIndex = 4,
        *,
        one_table: bool = False,
    ) -> Addressing: ...
    @staticmethod
    def from_hf_config(
        config: object, layer: SupportsIndex | None = None, token_map: _Counts | None = None
    ) -> Addressing: ...
    @staticmethod
    def from_json(text: str) -> Addressing: ...
    def with_boundary(
        self,
        *,
        pad: SupportsIndex | None = None,
        reset: Iterable[SupportsIndex] = (),
        dead: Iterable[SupportsIndex] = (),
    ) -> Addressing: ...
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
    @property
    def row_counts(self) -> tuple[int, ...]: ...
    @property
    def offsets(self) -> tuple[int, ...]: ...
    @property
    def multipliers(self) -> tuple[int, ...] | None: ...
    @property
    def vocab_size(self) -> int | None: ...
    @property
    def token_map(self) -> NDArray[np.int64] | None: ...
    @property
    def pad(self) -> int | None: ...
    @property
    def reset(self) -> tuple[int, ...]: ...
    @property
    def dead(self) -> tuple[int, ...]: ...
    @property
    def lookback(self) -> int: ...
    def __call__(
        self,
        ids: _Ids,
        out: _Addresses | None = None,
        threads: SupportsIndex | None = None,
        *,
        dtype: DTypeLike | None = None,
        history: _Ids | None = None,
        lengths: _Counts | None = None,
        cu_seqlens: _Counts | None = None,
        dead: NDArray[np.bool_] | Sequence[bool] | Sequence[Sequence[bool]] | None = None,
    ) -> NDArray[Any]: ...
    def hashes(
        self,
        ids: _Ids,
        out: NDArray[np.int64] | None = None,
        threads: SupportsIndex | None = None,
        *,
        history: _Ids | None = None,
        lengths: _Counts | None = None,
        cu_seqlens: _Counts | None = None,
        dead: NDArray[np.bool_] | Sequence[bool] | Sequence[Sequence[bool]] | None = None,
    ) -> NDArray[np.int64]: ...
    def stream(self, batch_size: SupportsIndex = 1) -> Stream: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...

@final
class Stream:
    def push(
        self,
        ids: _Ids,
        out: _Addresses | None = None,
        threads: SupportsIndex | None = None,
        *,
        dtype: DTypeLike | None = None,
        lengths: _Counts | None = None,
        dead: NDArray[np.bool_] | Sequence[bool] | Sequence[Sequence[bool]] | None = None,
        hashes: bool = False,
    ) -> NDArray[Any]: ...
    state: bytes
    @staticmethod
    def from_state(addressing: Addressing, state: bytes) -> Stream: ...
    def reset(self, rows: _Counts | None = None) -> None: ...
    def reorder(self, indices: _Counts) -> None: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def addressing(self) -> Addressing: ...
    def __reduce__(self) -> tuple[Any, tuple[Addressing, bytes]]: ...

def encode(text: str | bytes | bytearray, eos: bool = True) -> NDArray[np.int64]: ...
def decode(ids: _Ids, errors: str = "replace") -> str: ...
def cpu_features() -> list[str]: ...
def kernels() -> list[str]: ...
def force_kernel(name: str | None) -> None: ...
def available_threads() -> int: ...
def empty_array_call(ids: NDArray[np.integer[Any]], out: NDArray[np.int64]) -> int: ...
def empty_call(
    ids: object,
    out: object | None = None,
    threads: object | None = None,
    *,
    dtype: object | None = None,
    lengths: object | None = None,
    dead: object | None = None,
    hashes: bool = False,
) -> object | None: ...
