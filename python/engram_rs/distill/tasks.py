"""What a model is asked: a class for every letter, or an output for every text.

A task turns texts into examples, examples into a batch, and what the model says into errors. Both kinds give
logits `[B, T, C]` and labels `[B, T]` of which `IGNORE` are skipped, so that one loss serves both.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import decode, encode
from .._distance import edits
from .corpora import Text, held_out
from .diacritics import bears_marks, split_marks

__all__ = ["IGNORE", "Diacritics", "Example", "Outcome", "Task", "TextToText", "task_of"]

IGNORE = -100
PAD = 0
# 256 bytes after the three special ids, and the sentinels that ByT5 has.
VOCABULARY = 384


@dataclass(frozen=True)
class Example:
    """One text as numbers.

    Attributes:
        text: The text.
        ids: int64 `[T]`.
        labels: int64: `[T]` for classes, `[U]` for outputs.
    """

    text: Text
    ids: NDArray[np.int64]
    labels: NDArray[np.int64]

    @property
    def positions(self) -> int:
        """What the example costs a batch."""
        return max(len(self.ids), len(self.labels))


@dataclass(frozen=True)
class Outcome:
    """What a model said to one text.

    Attributes:
        text: The text.
        output: What came out.
        errors: How many units are wrong.
        units: How many the reference has.
    """

    text: Text
    output: str
    errors: int
    units: int


class Task(ABC):
    """What differs between the two kinds."""

    unit: str
    auto_class: str

    def __init__(self, texts: Sequence[Text], outputs: Sequence[str], max_length: int) -> None:
        examples = [self.example(text, output) for text, output in zip(texts, outputs, strict=True)]
        fitting = [example for example in examples if example.positions <= max_length]
        self.left_out = len(examples) - len(fitting)
        self.train = [example for example in fitting if not held_out(example.text.input)]
        self.held_out = [example for example in fitting if held_out(example.text.input)]
        if not self.train or not self.held_out:
            raise ValueError(
                f"{len(self.train)} texts are left to train on and {len(self.held_out)} to test on; "
                "both must be at least one"
            )

    @abstractmethod
    def example(self, text: Text, output: str) -> Example:
        """A text and its label as numbers."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """What the student's configuration must say for this task."""

    def collate(self, batch: Sequence[Example]) -> dict[str, torch.Tensor]:
        """`input_ids` and `attention_mask` `[B, T]`, and `labels`, all int64, padded at the right."""
        ids = _padded([example.ids for example in batch], PAD)
        labels = _padded([example.labels for example in batch], IGNORE)
        return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}

    @abstractmethod
    def answer(self, model: Any, batch: Sequence[Example], max_new_tokens: int) -> list[Outcome]:
        """What a model says to a batch, compared with the references."""


class Diacritics(Task):
    """Gives bare letters their marks back: a class at the last byte of every letter."""

    unit, auto_class = "letter", "AutoModelForTokenClassification"

    def __init__(self, texts: Sequence[Text], outputs: Sequence[str], max_length: int) -> None:
        letters = [split_marks(output) for text, output in zip(texts, outputs, strict=True) if not held_out(text.input)]
        counts: dict[str, int] = {}
        for base, marks in (letter for text in letters for letter in text):
            if bears_marks(base):
                counts[marks] = counts.get(marks, 0) + 1
        # The most frequent first, ties by their letters: the classes must not depend on the order of the texts.
        self.classes = tuple(sorted(counts, key=lambda marks: (-counts[marks], marks)))
        self._numbers = {marks: number for number, marks in enumerate(self.classes)}
        super().__init__(texts, outputs, max_length)

    def example(self, text: Text, output: str) -> Example:
        ids = encode(text.input)
        labels = np.full(len(ids), IGNORE, dtype=np.int64)
        end = 0
        letters = split_marks(output)
        if "".join(base for base, _ in letters) != text.input:
            raise ValueError(f"the label {output!r} does not have the letters of {text.input!r}")
        for base, marks in letters:
            end += len(base.encode())
            # Marks that no training text has can be no class: a model cannot know them.
            if bears_marks(base):
                labels[end - 1] = self._numbers.get(marks, IGNORE)
        return Example(text, ids, labels)

    def config(self) -> dict[str, Any]:
        return {"vocab_size": VOCABULARY, "num_labels": len(self.classes)}

    @torch.inference_mode()
    def answer(self, model: Any, batch: Sequence[Example], max_new_tokens: int) -> list[Outcome]:
        inputs = {name: values for name, values in self.collate(batch).items() if name != "labels"}
        best = model(**_on(model, inputs)).logits.argmax(dim=-1).cpu().numpy()
        return [self._outcome(example.text, row) for example, row in zip(batch, best, strict=True)]

    def _outcome(self, text: Text, row: NDArray[np.int64]) -> Outcome:
        end, errors, units, said = 0, 0, 0, []
        for base, marks in split_marks(text.reference):
            end += len(base.encode())
            given = ""
            if bears_marks(base):
                given = self.classes[row[end - 1]]
                units += 1
                errors += given != marks
            said.append(base + given)
        return Outcome(text, "".join(said), errors, units)


class TextToText(Task):
    """An output for every input, byte by byte; units are what spaces part, errors an edit distance."""

    unit, auto_class = "unit", "AutoModelForSeq2SeqLM"

    def example(self, text: Text, output: str) -> Example:
        return Example(text, encode(text.input), encode(output))

    def config(self) -> dict[str, Any]:
        return {
            "vocab_size": VOCABULARY,
            "pad_token_id": PAD,
            "eos_token_id": 1,
            "decoder_start_token_id": PAD,
        }

    @torch.inference_mode()
    def answer(self, model: Any, batch: Sequence[Example], max_new_tokens: int) -> list[Outcome]:
        inputs = {name: values for name, values in self.collate(batch).items() if name != "labels"}
        written = model.generate(**_on(model, inputs), max_new_tokens=max_new_tokens, do_sample=False, num_beams=1)
        outcomes = []
        for example, ids in zip(batch, written.cpu().numpy(), strict=True):
            output = decode(ids)
            said, wanted = output.split(), example.text.reference.split()
            outcomes.append(Outcome(example.text, output, edits(said, wanted), len(wanted)))
        return outcomes


def task_of(name: str, texts: Sequence[Text], outputs: Sequence[str], max_length: int) -> Task:
    """The task of a spec."""
    kinds: dict[str, type[Task]] = {"diacritics": Diacritics, "text": TextToText}
    return kinds[name](texts, outputs, max_length)


def _padded(rows: Sequence[NDArray[np.int64]], value: int) -> torch.Tensor:
    full = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for target, row in zip(full, rows, strict=True):
        target[: len(row)] = row
    return torch.from_numpy(full)


def _on(model: Any, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: values.to(model.device) for name, values in inputs.items()}
