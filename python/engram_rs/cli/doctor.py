"""`engram-rs doctor`: what is here, and what is missing."""

import importlib.metadata
import importlib.util
import platform

from rich.table import Table

from .. import _core
from .._extras import EXTRAS
from .options import console

_PACKAGES = {"onnxruntime": ("onnxruntime-gpu", "onnxruntime")}


def doctor() -> None:
    """Shows versions, ONNX Runtime providers and CPU features, and names the extra of what is missing."""
    table = Table("", "", title=f"engram_rs {_core.__version__}", show_header=False)
    table.add_row("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    table.add_row("cpu features", ", ".join(_core.cpu_features()) or "none that a kernel could use")
    table.add_row("kernel", f"{_core.kernels()[-1]}, of {', '.join(_core.kernels())}")
    table.add_row("threads", str(_core.available_threads()))
    for module, extra in {"numpy": "", **EXTRAS}.items():
        table.add_row(module, _version(module) or f"missing: pip install 'engram_rs[{extra}]'")
    if importlib.util.find_spec("onnxruntime"):
        from ..ort import available_providers, cuda_devices

        table.add_row("providers", ", ".join(available_providers()))
        table.add_row("cuda devices", str(cuda_devices() or "none: graphs run on the CPU"))
    console.print(table)


def _version(module: str) -> str | None:
    if importlib.util.find_spec(module) is None:
        return None
    for package in _PACKAGES.get(module, (module,)):
        try:
            return (
                f"{importlib.metadata.version(package)} ({package})"
                if package != module
                else (importlib.metadata.version(package))
            )
        except importlib.metadata.PackageNotFoundError:
            continue
    return "present, of unknown version"
