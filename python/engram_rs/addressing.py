"""Addresses over numpy: the compiled `Addressing` and `Stream`, and byte ids for text."""

from ._core import Addressing, Stream, decode, encode

__all__ = ["Addressing", "Stream", "decode", "encode"]
