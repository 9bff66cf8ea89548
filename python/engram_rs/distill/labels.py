"""The labels file: what a teacher said to every input, once, and pinned by its digest.

One JSON object a line, `input` and `output`, in the order of the corpus. A file that was cut off is
continued; one that belongs to other inputs is refused.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from .corpora import Text

__all__ = ["check_labels", "make_labels", "read_labels", "sha256_of"]

# How many inputs a teacher gets at a time; after each lot the file is on disk.
_LOT = 64


def make_labels(
    texts: Sequence[Text], file: Path, teach: Callable[[Sequence[Text]], Iterable[str]], on_done: Callable[[int], None]
) -> str:
    """Writes the labels of all texts, or what is missing of them.

    Args:
        texts: The corpus.
        file: The labels file. While it grows its name ends in `.part`.
        teach: Gives one output a text.
        on_done: Called with the number of texts that became done.

    Returns:
        The file's sha256.

    Raises:
        ValueError: The unfinished file belongs to other inputs.
    """
    part = file.with_name(file.name + ".part")
    done = _sound_lines(part, texts)
    on_done(done)
    with part.open("a", encoding="utf-8", newline="\n") as lines:
        for start in range(done, len(texts), _LOT):
            lot = texts[start : start + _LOT]
            for text, output in zip(lot, teach(lot), strict=True):
                lines.write(_line(text.input, output))
            lines.flush()
            os.fsync(lines.fileno())
            on_done(len(lot))
    part.replace(file)
    return sha256_of(file)


def _line(input_: str, output: str) -> str:
    return json.dumps({"input": input_, "output": output}, ensure_ascii=False) + "\n"


def _sound_lines(part: Path, texts: Sequence[Text]) -> int:
    """How many whole lines an unfinished file has; what a crash cut off is taken away."""
    if not part.exists():
        return 0
    done, sound = 0, 0
    with part.open("rb") as lines:
        for raw in lines:
            given = None
            with contextlib.suppress(ValueError, KeyError, TypeError):
                given = json.loads(raw)["input"]
            if given is None or not raw.endswith(b"\n"):
                break
            if done >= len(texts) or given != texts[done].input:
                raise ValueError(f"{part}, line {done + 1}, belongs to another corpus; take it away to begin anew")
            done, sound = done + 1, sound + len(raw)
    with part.open("rb+") as file:
        file.truncate(sound)
    return done


def check_labels(file: Path, wanted: str) -> str:
    """The sha256 of a labels file, if it is the pinned one; a run with other labels stops.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Its sha256 is another.
    """
    if not file.is_file():
        raise FileNotFoundError(f"there is no labels file {file}")
    found = sha256_of(file)
    if found != wanted:
        raise ValueError(f"{file} has sha256 {found}, but the spec pins {wanted}: these are other labels")
    return found


def read_labels(file: Path, texts: Sequence[Text]) -> list[str]:
    """The outputs, one a text.

    Raises:
        ValueError: The file belongs to other inputs.
    """
    outputs = []
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            try:
                value = json.loads(line)
                given, output = value["input"], value["output"]
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"{file}, line {number + 1}: wanted an object with input and output") from None
            if number >= len(texts) or given != texts[number].input or not isinstance(output, str):
                raise ValueError(f"{file}, line {number + 1}, belongs to another corpus")
            outputs.append(output)
    if len(outputs) != len(texts):
        raise ValueError(f"{file} holds {len(outputs)} labels for {len(texts)} texts")
    return outputs


def sha256_of(file: Path) -> str:
    """A file's digest."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
