"""Texts to ids, and which of them are decoded together."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import PAD, encode

__all__ = ["encode_texts", "padded", "plan", "two_dimensional"]


def encode_texts(texts: object) -> list[NDArray[np.int64]]:
    """The ids of each text, end symbol included.

    Raises:
        TypeError: `texts` is no sequence, or one of them is neither `str` nor `bytes`.
    """
    if not isinstance(texts, Iterable):
        raise TypeError(f"texts must be a str, bytes or a sequence of these, not {type(texts).__name__}")
    rows = []
    for text in texts:
        if not isinstance(text, (str, bytes)):
            raise TypeError(f"a text must be str or bytes, not {type(text).__name__}")
        rows.append(encode(text))
    return rows


def padded(rows: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The rows as one array, filled up with pads on the right."""
    ids = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for target, row in zip(ids, rows, strict=True):
        target[: len(row)] = row
    return ids


def plan(lengths: list[int], batch_size: int, pads: bool) -> list[list[int]]:
    """Indices of rows that go together: neighbours in length, or without `pads` only those of one length."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    groups = [order] if pads else [list(group) for _, group in groupby(order, lengths.__getitem__)]
    return [group[at : at + batch_size] for group in groups for at in range(0, len(group), batch_size)]


def two_dimensional(ids: Any, name: str) -> NDArray[np.int64]:  # noqa: ANN401
    """Integers `[B, T]` as ONNX Runtime takes them.

    Raises:
        TypeError: They are no integers.
        ValueError: They are of another shape, or empty.
    """
    array = np.asarray(ids)
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must be integers, not {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must be [batch, length], each at least 1, not of shape {list(array.shape)}")
    return np.ascontiguousarray(array, dtype=np.int64)
