"""The parity block of a model zip, written by what measured it."""

import tempfile
from pathlib import Path

from .. import imf
from .models import ModelParity

__all__ = ["stamp"]


def stamp(found: ModelParity) -> imf.Metadata:
    """Writes the number of texts and the difference of the error rates into the zip that was measured.

    All else in the zip stays. An older parity block is replaced; the zip is written anew and takes the place of the
    old one when it is whole.

    Args:
        found: What `verify_models` found of a zip.

    Returns:
        The new metadata.

    Raises:
        ValueError: What was measured is no zip, or the zip is damaged.
    """
    path = Path(found.path)
    if not path.is_file():
        raise ValueError(f"{path} is no zip; the parity block stands in one")
    model = imf.load(path)
    with tempfile.TemporaryDirectory(prefix="engram_rs-") as temporary:
        folder = model.extract(Path(temporary, "model"))
        members = {name: folder / name for name in model.members if name != "metadata.yaml"}
        fields = model.metadata.model_dump(mode="json", exclude_none=True)
        fields["parity"] = {"samples": found.texts, "cer_delta": round(found.cer_delta, 6)}
        return imf.pack(members, path, fields)
