"""How many edits lie between two sequences."""

from collections.abc import Sequence

__all__ = ["edits"]


def edits(said: Sequence[object], wanted: Sequence[object]) -> int:
    """Levenshtein's distance: units put in, left out or exchanged."""
    row = list(range(len(wanted) + 1))
    for count, unit in enumerate(said, 1):
        before, row[0] = row[0], count
        for index, other in enumerate(wanted, 1):
            before, row[index] = row[index], min(row[index] + 1, row[index - 1] + 1, before + (unit != other))
    return row[-1]
