"""The task: give the bare letters of a vocalised verse their marks back."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import engram_rs
from engram_rs.distill.corpora import held_out as is_held_out
from engram_rs.distill.diacritics import Letter, bears_marks, split_marks

__all__ = ["IGNORE", "Dataset", "Example", "letter_baseline", "prepare"]

# The class of a position at which no letter ends; cross-entropy skips it.
IGNORE = -100


@dataclass(frozen=True)
class Example:
    """One verse.

    Attributes:
        text: The bare text.
        ids: int64 `[T]`, one a UTF-8 byte, and the end of the text.
        labels: int64 `[T]`: at the last byte of a letter the class of its marks, elsewhere `IGNORE`.
    """

    text: str
    ids: NDArray[np.int64]
    labels: NDArray[np.int64]

    @property
    def positions(self) -> int:
        """What the verse takes of a batch."""
        return len(self.ids)


@dataclass(frozen=True)
class Dataset:
    """The verses in two parts, and the combinations of marks that are the classes."""

    train: list[Example]
    held_out: list[Example]
    classes: tuple[str, ...]


def prepare(texts: Iterable[str]) -> Dataset:
    """Turns vocalised texts into examples.

    Args:
        texts: Vocalised, one a verse.

    Returns:
        The examples. A combination that no training verse has is a class of the held-out part alone, `len(classes)`:
        a model cannot know it, so it counts as an error.
    """
    verses = [split_marks(text) for text in texts]
    bare = ["".join(base for base, _ in verse) for verse in verses]
    held_out = [is_held_out(text) for text in bare]
    seen = Counter(
        marks
        for verse, held in zip(verses, held_out, strict=True)
        if not held
        for base, marks in verse
        if bears_marks(base)
    )
    classes = tuple(marks for marks, _ in seen.most_common())
    numbers = {marks: number for number, marks in enumerate(classes)}
    parts: tuple[list[Example], list[Example]] = ([], [])
    for verse, text, held in zip(verses, bare, held_out, strict=True):
        parts[held].append(_example(verse, text, numbers))
    return Dataset(*parts, classes)


def _example(verse: Sequence[Letter], bare: str, numbers: dict[str, int]) -> Example:
    ids = engram_rs.encode(bare)
    labels = np.full(len(ids), IGNORE, dtype=np.int64)
    end = 0
    for base, marks in verse:
        end += len(base.encode())
        if bears_marks(base):
            labels[end - 1] = numbers.get(marks, len(numbers))
    return Example(bare, ids, labels)


def letter_baseline(dataset: Dataset) -> float:
    """Error rate on the held-out verses of giving every letter the marks that it has most often in training."""
    counts: dict[int, Counter[int]] = {}
    for example in dataset.train:
        for key, label in _letters(example):
            counts.setdefault(key, Counter())[label] += 1
    best = {key: counter.most_common(1)[0][0] for key, counter in counts.items()}
    results = [best.get(key) != label for example in dataset.held_out for key, label in _letters(example)]
    return sum(results) / len(results)


def _letters(example: Example) -> Iterable[tuple[int, int]]:
    """Two bytes make an Arabic letter."""
    ends = np.flatnonzero(example.labels != IGNORE)
    keys = example.ids[ends - 1] * 512 + example.ids[ends]
    return zip(keys.tolist(), example.labels[ends].tolist(), strict=True)
