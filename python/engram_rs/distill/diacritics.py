"""Vocalised Arabic: letters, and the marks on them."""

import re
import unicodedata

__all__ = ["Letter", "bears_marks", "split_marks"]

# Recitation signs tell a reader where to pause, not how a letter sounds.
RECITATION_SIGNS = re.compile("[\u06d6-\u06ed]")
# Tanween, short vowels, shadda, sukun, the combining hamzas and maddah, superscript alef.
MARKS = frozenset(map(chr, range(0x064B, 0x0660))) | {"\u0670"}
# A mere carrier of the superscript alef: left in the bare text, it would give the mark away.
TATWEEL = "\u0640"

Letter = tuple[str, str]


def split_marks(text: str) -> list[Letter]:
    """Characters of a vocalised text, each with the marks on it, in canonical order.

    >>> split_marks("بِهِ")
    [('ب', 'ِ'), ('ه', 'ِ')]
    """
    # Canonical order makes fatha + shadda and shadda + fatha one class.
    text = unicodedata.normalize("NFC", " ".join(RECITATION_SIGNS.sub("", text).split()))
    letters: list[Letter] = []
    for character in text:
        if character == TATWEEL:
            continue
        if character in MARKS and letters:
            base, marks = letters[-1]
            letters[-1] = (base, marks + character)
        else:
            letters.append((character, ""))
    return letters


def bears_marks(character: str) -> bool:
    """Whether a character is an Arabic letter, so that its marks are asked for."""
    return "\u0621" <= character <= "\u064a" and character != TATWEEL
