"""What a comparison of whole models needs from disk."""

import json
import os
from pathlib import Path
from typing import Any

from .._extras import require
from ..torch import load
from ..torch.persistence import CONFIG

__all__ = ["load_model", "read_pairs"]


def load_model(path: str | os.PathLike[str]) -> Any:  # noqa: ANN401
    """A sequence-to-sequence model that `save_pretrained` wrote, with its memory if the directory declares one.

    Raises:
        FileNotFoundError: There is no such directory.
        ValueError: It holds no such model, or lacks the memory that it declares.
    """
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"there is no model at {folder}: a directory with a config.json is wanted")
    transformers = require("transformers", "reading a model", "train")
    try:
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True)
        declared = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("engram")
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{folder} holds no sequence-to-sequence model: {error}") from error
    if declared or (folder / CONFIG).is_file():
        load(model, folder, quiet=True)
    return model.eval()


def read_pairs(path: str | os.PathLike[str]) -> tuple[list[str], list[str] | None]:
    """Inputs, one a line, and what stands after a tab, the right outputs; None if no line has one.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It has no line, or some lines have an output and some have none.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if line]
    if not lines:
        raise ValueError(f"{file} has no text")
    widths = {len(line) for line in lines}
    if widths == {1}:
        return [line[0] for line in lines], None
    if widths != {2}:
        raise ValueError(f"{file}: every line is an input, or an input, a tab and the right output; not both kinds")
    return [line[0] for line in lines], [line[1] for line in lines]
