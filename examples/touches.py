"""What the training verses wrote into a table, told from their addresses alone."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engram_rs import Addressing

from .diacritics import IGNORE, Example

__all__ = ["NULL", "seen_ngrams", "touches"]

# The hash of an n-gram that would begin before the text, where there is none.
NULL = 0


def touches(addressing: Addressing, examples: Sequence[Example]) -> NDArray[np.int64]:
    """How often each row was read, int64 `[entries]`."""
    rows = np.concatenate([addressing(example.ids).ravel() for example in examples])
    return np.bincount(rows, minlength=addressing.entries)


def seen_ngrams(addressing: Addressing, trained: Sequence[Example], asked: Sequence[Example]) -> NDArray[np.int64]:
    """For every letter of `asked`: how many of the n-grams that end at it were trained on.

    An n-gram contains the shorter ones that end with it, so of orders (4, 8, 12) 2 means 4 and 8. Hashes before
    the remainder are compared: two n-grams share a row far oftener than a hash.

    Returns:
        int64, one a letter, 0 … K; -1 near the start of a verse, where the longest n-gram does not exist.
    """
    columns = np.concatenate([addressing.hashes(example.ids) for example in trained]).T
    wanted = np.concatenate([addressing.hashes(example.ids)[example.labels != IGNORE] for example in asked])
    seen = np.zeros(len(wanted), dtype=np.int64)
    for known, hashes in zip(columns, wanted.T, strict=True):
        seen += np.isin(hashes, np.unique(known))
    seen[(wanted == NULL).any(axis=1)] = -1
    return seen
