"""Addresses over numpy: the compiled `Addressing`, and byte ids for text."""

from ._core import Addressing, decode, encode

__all__ = ["Addressing", "decode", "encode"]
