"""Framing over models, providers and windows: measured, written as JSON, drawn."""

import dataclasses
import json
import os
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .._extras import require
from .._files import check_target, replacing
from .framing import Framing, measure_windows
from .seq2seq import Seq2SeqSession

__all__ = ["SAMPLE_INPUTS", "draw", "measure_matrix", "write_json"]

# Scripts of one to three bytes a character; written for this measurement.
SAMPLE_INPUTS = (
    "the ship that came with the morning tide",
    "من قرأ كثيرا عرف كثيرا",
    "ភាសាខ្មែរមានអក្សរច្រើន",
    "слово за словом, строка за строкой",
    "seven zebras and a quiet address book",
)


def measure_matrix(
    models: Sequence[str | os.PathLike[str]],
    inputs: Sequence[str | bytes],
    windows: Sequence[int],
    providers: Sequence[str | None] = (None,),
    steps: int = 96,
    *,
    threads: int | None = None,
    progress: Callable[[], object] | None = None,
) -> list[Framing]:
    """Measures every model with every provider and window, as `measure_framing` does.

    Args:
        models: Zips or folders, such as one for each precision.
        inputs: Texts.
        windows: Tokens a call.
        providers: One session each; None for the default.
        steps: The most tokens an input.
        threads: Threads of one call.
        progress: Called when an input is done: once for each model, provider and input.

    Returns:
        Models in their order, in each providers, in each windows.
    """
    names = [Path(model).name for model in models]
    labels = names if len(set(names)) == len(names) else [os.fspath(model) for model in models]
    found = []
    for model, label in zip(models, labels, strict=True):
        for provider in providers:
            session = Seq2SeqSession(model, None if provider is None else [provider], threads)
            measured = measure_windows(session, inputs, windows, steps, progress=progress)
            found += [dataclasses.replace(one, model=label) for one in measured]
    return found


def write_json(framings: Sequence[Framing], path: str | os.PathLike[str]) -> None:
    """Writes all figures, with runtime, provider and machine beside each."""
    told = [dataclasses.asdict(one) | {"matched": sum(one.matches), "of": sum(one.totals)} for one in framings]
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({"framing": told}, indent=1) + "\n", encoding="utf-8")


def draw(framings: Sequence[Framing], path: str | os.PathLike[str]) -> None:
    """Draws the share of votes that match, a row for each model and provider, a column for each window.

    Args:
        framings: What `measure_matrix` gave.
        path: A picture; its ending says which kind (`.png`, `.svg`).

    Raises:
        ValueError: There is nothing to draw, or the ending is unknown.
        MissingExtraError: matplotlib is not installed.
    """
    require("matplotlib", "the picture of framing")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    target = check_target(path)
    if not framings:
        raise ValueError("there is nothing to draw")
    rows = list(dict.fromkeys(map(_row, framings)))
    windows = sorted({one.window for one in framings})
    # A file's own letters, so that an SVG shows what was drawn wherever it is read.
    with rc_context({"font.size": 10.5, "svg.fonttype": "path"}):
        figure = Figure(figsize=(3.4 + 1.35 * len(windows), 2.3 + 0.62 * len(rows)), dpi=130, layout="constrained")
        if (kind := Path(target).suffix.removeprefix(".").lower()) not in figure.canvas.get_supported_filetypes():
            raise ValueError(f"{path}: {kind!r} is no kind of picture that can be drawn; png and svg are")
        _cells(figure.add_subplot(), framings, rows, windows)
        first = framings[0]
        figure.suptitle("Votes that match decoding one token a call", x=0.02, ha="left", fontweight="bold", fontsize=13)
        machines = " · ".join(sorted({one.machine for one in framings}))
        # Some 14 letters of that size are an inch wide.
        told = textwrap.fill(f"ONNX Runtime {first.runtime} · {machines}", int(14 * figure.get_figwidth()))
        figure.supxlabel(told, x=0.02, ha="left", fontsize=8, color="#52606d")
        with replacing(target) as temporary:
            figure.savefig(temporary, format=kind)


def _row(framing: Framing) -> str:
    provider = framing.provider.removesuffix("ExecutionProvider")
    return f"{framing.model}\n{framing.precision}, {provider}"


def _cells(axes: Any, framings: Sequence[Framing], rows: list[str], windows: list[int]) -> None:  # noqa: ANN401
    for one in framings:
        matched, total = sum(one.matches), sum(one.totals)
        share = matched / total
        x, y = windows.index(one.window), rows.index(_row(one))
        colour = "#00796b" if matched == total else "#c98a1b" if share >= 0.95 else "#c0392b"
        axes.add_patch(_rectangle(x, y, colour))
        # Whole only where it is: 99.97 % is not 100 %.
        percent = "all" if matched == total else f"{min(share, 0.9999):.2%}"
        axes.text(x, y, f"{matched}/{total}\n{percent}", ha="center", va="center", color="white", fontweight="bold")
    axes.set(xlim=(-0.5, len(windows) - 0.5), ylim=(len(rows) - 0.5, -0.5), xlabel="tokens a call (W)")
    axes.set_xticks(range(len(windows)), list(map(str, windows)))
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def _rectangle(x: float, y: float, colour: str) -> Any:  # noqa: ANN401
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, color=colour, linewidth=0)
