"""`demo.png`: four views of the two runs."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

__all__ = ["Findings", "draw"]

WITHOUT, WITH, INK = "#9aa5b1", "#00796b", "#243b53"
STYLE: dict[str, Any] = {
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#bcccdc",
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4eaf0",
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Findings:
    """What is drawn; pairs are (without, with) the memory.

    Attributes:
        losses: The loss of every step.
        errors: Held-out error rates.
        intervals: Their 95% intervals, low and high.
        baseline: The error rate of each letter's most frequent marks.
        wrong: bool, one a held-out letter.
        seen: How many of the n-grams that end at a held-out letter were trained on, or -1 (`seen_ngrams`).
        orders: The memory's orders in bytes.
        norms: L2 norm of every row of the trained table.
        touches: How often training read each row.
    """

    losses: tuple[Sequence[float], Sequence[float]]
    errors: tuple[float, float]
    intervals: tuple[tuple[float, float], tuple[float, float]]
    baseline: float
    wrong: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    seen: NDArray[np.int64]
    orders: tuple[int, ...]
    norms: NDArray[np.float32]
    touches: NDArray[np.int64]


def draw(findings: Findings, path: Path) -> None:
    """Writes the picture; needs no display."""
    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15, wspace=0.04, hspace=0.05)
        # A bare Figure, without pyplot, draws with Agg whatever the user's backend is.
        figure = Figure(figsize=(13, 9), dpi=120, layout=layout)
        panels = figure.subplots(2, 2)
        _losses(panels[0, 0], findings)
        _errors(panels[0, 1], findings)
        _by_seen(panels[1, 0], findings)
        _norms(panels[1, 1], findings)
        figure.suptitle(
            "Restoring Arabic diacritics with a tiny byte encoder, with and without an n-gram memory",
            x=0.012,
            ha="left",
            fontsize=15,
            fontweight="bold",
        )
        figure.savefig(path)


def _losses(axes: Axes, findings: Findings) -> None:
    window = max(1, len(findings.losses[0]) // 20)
    for losses, colour, name in zip(findings.losses, (WITHOUT, WITH), ("without memory", "with memory"), strict=True):
        steps = np.arange(1, len(losses) + 1)
        axes.plot(steps, losses, color=colour, alpha=0.25, linewidth=1)
        smooth = np.convolve(losses, np.ones(window) / window, mode="valid")
        middle = (window - 1) // 2
        axes.plot(steps[middle : middle + len(smooth)], smooth, color=colour, linewidth=2.4, label=name)
    axes.set(title="Training loss", xlabel="step", ylabel="cross-entropy (nats a letter)", ylim=(0, None))
    axes.margins(x=0.01)
    axes.legend(title=f"bold: mean of {window} steps", title_fontsize=9)


def _errors(axes: Axes, findings: Findings) -> None:
    values = (findings.baseline, *findings.errors)
    names = ("most frequent marks\nof each letter", "encoder\nwithout memory", "encoder\nwith memory")
    bars = axes.bar(names, values, color=("#d3dce6", WITHOUT, WITH), width=0.6)
    ends = np.array(findings.intervals)
    errors = np.array(findings.errors)
    axes.errorbar((1, 2), errors, np.abs(ends.T - errors), fmt="none", ecolor=INK, elinewidth=1.5, capsize=6)
    axes.bar_label(bars, [f"{value:.1%}" for value in values], padding=8, fontweight="bold", fontsize=12)
    axes.set(title="Letters with wrong marks, held-out verses", ylim=(0, max(values) * 1.15))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(visible=False, axis="x")
    axes.text(0.99, 0.97, "whiskers: 95% interval,\nverses resampled", transform=axes.transAxes, ha="right", va="top",
              fontsize=9)  # fmt: skip


def _by_seen(axes: Axes, findings: Findings) -> None:
    columns = len(findings.orders)
    # A handful of letters would give a rate that means nothing.
    groups = [number for number in range(columns + 1) if (findings.seen == number).sum() >= 100]
    for offset, wrong, colour, name in zip(
        (-0.2, 0.2), findings.wrong, (WITHOUT, WITH), ("without memory", "with memory"), strict=True
    ):
        rates = [wrong[findings.seen == number].mean() for number in groups]
        bars = axes.bar(np.arange(len(groups)) + offset, rates, width=0.38, color=colour, label=name)
        axes.bar_label(bars, [f"{rate:.1%}" for rate in rates], padding=3, fontsize=10)
    names = ["none" if number == 0 else f"{findings.orders[number - 1]} bytes" for number in groups]
    counted = findings.seen >= 0
    shares = [(findings.seen[counted] == number).mean() for number in groups]
    axes.set_xticks(range(len(groups)), [f"{n}\n{s:.1%} of letters" for n, s in zip(names, shares, strict=True)])
    axes.set_title("The same errors, by what training had shown")
    start = f"(letters from byte {findings.orders[-1]} of a verse on)"
    axes.set_xlabel(f"longest n-gram ending at the letter that training had read\n{start}")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    # No half percents, which the labels would round.
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.margins(y=0.22)
    axes.grid(visible=False, axis="x")
    axes.legend(ncols=2, loc="upper right")


def _norms(axes: Axes, findings: Findings) -> None:
    touched = findings.touches > 0
    counts, norms = findings.touches[touched], findings.norms[touched]
    cells = axes.hexbin(counts, norms, xscale="log", gridsize=(46, 30), bins="log", mincnt=1, cmap="GnBu", linewidths=0)
    axes.figure.colorbar(cells, ax=axes, label="rows", pad=0.01).outline.set_visible(False)
    edges = np.unique(np.geomspace(1, counts.max() + 1, 14).astype(int))
    inside = [(counts >= low) & (counts < high) for low, high in itertools.pairwise(edges)]
    # A median of a handful of rows would be noise.
    full = [(np.median(counts[mask]), np.median(norms[mask])) for mask in inside if mask.sum() >= 20]
    if full:
        axes.plot(*zip(*full, strict=True), color="#d64545", linewidth=2.2, marker="o", markersize=4, label="median")
    if not touched.all():
        start = float(np.median(findings.norms[~touched]))
        axes.axhline(start, color=INK, linestyle="--", linewidth=1.2, label="median of rows never read")
    axes.set(
        title="Rows of the table grow as they are read",
        xlabel="times training read the row",
        ylabel="L2 norm of the row",
    )
    axes.legend(loc="upper left")
