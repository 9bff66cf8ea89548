"""Bytes on their way, hashed and looked at as they pass."""

import hashlib
from collections.abc import Iterator

from .graphs import Graph, describe
from .limits import is_graph
from .skeleton import read_skeleton

__all__ = ["Digested", "graph_of"]


class Digested:
    """An iterator of chunks that knows the SHA-256 of those it has given."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._hash = hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        self._hash.update(chunk)
        return chunk

    @property
    def hexdigest(self) -> str:
        """Of all chunks so far."""
        return self._hash.hexdigest()


def graph_of(name: str, chunks: Iterator[bytes], size: int) -> Graph | None:
    """What the member is as a graph, if it is one; takes all chunks, whatever it finds.

    Raises:
        ValueError: The chunks are not what they are declared to be, or else are no graph that is taken.
    """
    try:
        try:
            return describe(read_skeleton(chunks, size)) if is_graph(name) else None
        finally:
            # To the end, where whoever gives them finds out about damage: that is told first.
            for _ in chunks:
                pass
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
