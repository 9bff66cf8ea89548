"""Text from byte ids, as they come."""

import codecs

from .._core import BYTE_OFFSET, EOS, PAD, UNK

__all__ = ["Pieces"]


class Pieces:
    """Turns one sequence's ids into pieces of text.

    A character's bytes are held back until the last of them is there. The pieces and what `finish` gives are
    together what `engram_rs.decode` makes of all ids at once: pad and unk are skipped, eos ends the text, and bytes
    that are not UTF-8 become U+FFFD.

    Attributes:
        ended: Whether eos was there.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.ended = False

    def push(self, token: int) -> str:
        """The text that this id completes; empty within a character."""
        if self.ended or token in (PAD, UNK):
            return ""
        if token == EOS:
            self.ended = True
            return self.finish()
        return self._decoder.decode(bytes([(token - BYTE_OFFSET) % 256]))

    def finish(self) -> str:
        """What was held back: U+FFFD for a character that the ids broke off."""
        return self._decoder.decode(b"", final=True)
