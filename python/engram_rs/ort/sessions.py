"""The one place where inference sessions are opened, and how they are asked to run."""

import operator
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import SupportsIndex, TypeVar

import onnxruntime

from .placement import Profile
from .providers import CUDA, choose_providers
from .weights import detach_weights

__all__ = ["check_threads", "guarded", "open_session", "run_bound", "with_options"]

_MAX_THREADS = 1024
# Windows cannot remove a file that is mapped, so that weights would stay behind in the temporary folder.
_MAPPED = os.name != "nt"

T = TypeVar("T")


def check_threads(threads: SupportsIndex | None) -> int | None:
    """The number of threads of one call.

    Raises:
        ValueError: It is not 1 … 1024.
    """
    number = None if threads is None else operator.index(threads)
    if number is not None and not 1 <= number <= _MAX_THREADS:
        raise ValueError(f"threads must be 1 … {_MAX_THREADS}, not {number}")
    return number


def open_session(
    path: Path,
    providers: Sequence[str] | None = None,
    threads: int | None = None,
    *,
    named: str | os.PathLike[str] | None = None,
    profile: Profile | None = None,
) -> onnxruntime.InferenceSession:
    """Opens a graph; never falls back in silence.

    Weights of a MiB and more are copied to a temporary file, which ONNX Runtime maps. So loading takes little more
    memory than the weights themselves, and the file at `path` may be replaced or removed afterwards.

    Args:
        path: An ONNX file.
        providers: As in `choose_providers`.
        threads: Threads of one call; None for what the machine has.
        named: What errors call the graph, where it is not `path`.
        profile: Takes the profile of what runs; None for none.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no graph that ONNX Runtime can load, or a provider is unknown or cannot run.
    """
    chosen = choose_providers(providers)
    named = path if named is None else named
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {named}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    # It keeps a plan for every combination of lengths it has seen, for ever; a decoder sees new ones all the time.
    options.enable_mem_pattern = False
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = os.fspath(profile.prefix)
    if CUDA in chosen:
        # Finds the CUDA libraries that PyTorch's packages brought.
        onnxruntime.preload_dlls()

    def load() -> onnxruntime.InferenceSession:
        with tempfile.TemporaryDirectory(prefix="engram_rs-") as folder:
            graph = detach_weights(path, Path(folder)) if _MAPPED else path
            # Its own fallback goes on with the CPU when a GPU fails, and only prints a line.
            return onnxruntime.InferenceSession(
                os.fspath(graph), options, providers=[with_options(name) for name in chosen], enable_fallback=0
            )

    session = guarded(load, f"load {named}")
    if profile is not None:
        profile.add(os.fspath(named), session)
    started = session.get_providers()[0]
    if started != chosen[0]:
        problem = f"ONNX Runtime could not start {chosen[0]}, though its device is here (are its libraries?)"
        if providers is not None:
            raise ValueError(problem)
        warnings.warn(f"{problem}; {started} runs {named}", RuntimeWarning, stacklevel=3)
    return session


def with_options(provider: str) -> str | tuple[str, dict[str, str]]:
    """A provider with the settings that it is to have.

    CUDA would round the factors of float32 products to TF32's 10 bits, which is worse than 1e-3 and not what a graph
    at fp32 promises.
    """
    return (CUDA, {"use_tf32": "0"}) if provider == CUDA else provider


def guarded(call: Callable[[], T], what: str) -> T:
    """Makes ONNX Runtime's errors a ValueError that says what it could not do."""
    try:
        return call()
    except Exception as error:  # ONNX Runtime's own errors share no base class but Exception
        raise ValueError(f"ONNX Runtime cannot {what}: {error}") from error


def run_bound(session: onnxruntime.InferenceSession, binding: onnxruntime.IOBinding, named: object) -> None:
    """Runs what is bound.

    Raises:
        ValueError: ONNX Runtime cannot run it.
    """
    guarded(lambda: session.run_with_iobinding(binding), f"run {named}")
