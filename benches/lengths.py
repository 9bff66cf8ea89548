"""Throughput over length, and time over the fill limit: two pictures."""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

from engram_rs import Addressing

from .harness import Contestant, Report, main, measure

__all__ = ["bench", "options"]

SCHEMES = {
    "byte_fnv1a, 2,097,152 rows": Addressing.byte_fnv1a(),
    "byte_fnv1a, 2,097,143 rows": Addressing.byte_fnv1a(2_097_143),
    "utf8_fnv1a, 2,097,152 rows": Addressing.utf8_fnv1a(),
    "DeepSeek-V4.1, 24 columns": Addressing.deepseek_v41(1),
}
COLOURS = ("#00796b", "#7cb342", "#5e35b1", "#ef6c00")
FILL = "#90a4ae"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pictures", type=Path, default=Path(), help="the folder for lengths.png and over-fill.png")


def bench(report: Report, arguments: argparse.Namespace) -> None:
    lengths = [1 << power for power in range(0, 17 if arguments.quick else 23, 2)]
    rates: dict[str, list[float]] = {}
    ratios: dict[str, list[float]] = {}
    for length in lengths:
        rng = np.random.default_rng(length)
        for name, addressing in SCHEMES.items():
            # The widest scheme stops where its output leaves what this machine's memory is for.
            if length * addressing.num_columns > 1 << 24:
                continue
            high = addressing.vocab_size or 256
            ids = rng.integers(0, high, length).astype(np.uint8 if high == 256 else np.int64)
            out = np.empty((length, addressing.num_columns), dtype=np.int64)
            tensor = torch.from_numpy(out)
            names = {"addressing": addressing, "ids": ids, "out": out, "tensor": tensor}
            found = measure(
                [
                    Contestant("fill", "out.fill(7)", names),
                    Contestant("one", "addressing(ids, out=out, threads=1)", names),
                    Contestant("two", "addressing(ids, out=out, threads=2)", names),
                ],
                report.rounds,
            )
            rates.setdefault(name, []).append(length / found["one"].median / 1e6)
            rates.setdefault(f"{name}, 2 threads", []).append(length / found["two"].median / 1e6)
            rates.setdefault(f"{name}, fill", []).append(length / found["fill"].median / 1e6)
            ratios.setdefault(name, []).append(found["one"].over(found["fill"]))
        report.console.print(f"{length:>9,} ids: " + ", ".join(f"{found[-1]:.2f}" for found in ratios.values()))
    _draw(lengths, rates, ratios, arguments.pictures, report.machine["CPU"])


def _draw(
    lengths: list[int],
    rates: dict[str, list[float]],
    ratios: dict[str, list[float]],
    folder: Path,
    cpu: str,
) -> None:
    mpl.use("agg")
    from matplotlib import pyplot as plt

    first = next(iter(SCHEMES))
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    fill = rates[f"{first}, fill"]
    axes.plot(lengths[: len(fill)], fill, color=FILL, lw=3, label="filling the same output (3 columns)")
    for (name, _), colour in zip(SCHEMES.items(), COLOURS, strict=True):
        axes.plot(lengths[: len(rates[name])], rates[name], "o-", color=colour, ms=4, label=name)
    two = rates[f"{first}, 2 threads"]
    axes.plot(lengths[: len(two)], two, "o:", color=COLOURS[0], ms=4, label=f"{first}, 2 threads")
    axes.set(
        xscale="log", yscale="log", xlabel="ids in one call", ylabel="million positions a second", title="Throughput"
    )
    _finish(figure, axes, folder / "lengths.png", cpu)

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    axes.axhline(1, color=FILL, lw=2)
    axes.annotate("the fill limit", (lengths[0], 1), (0, 4), textcoords="offset points", color="#546e7a")
    for (name, found), colour in zip(ratios.items(), COLOURS, strict=True):
        axes.plot(lengths[: len(found)], found, "o-", color=colour, ms=4, label=name)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="ids in one call",
        ylabel="time, as a multiple of filling the output",
        title="Distance from the limit, one thread",
    )
    _finish(figure, axes, folder / "over-fill.png", cpu)


def _finish(figure, axes, path: Path, cpu: str) -> None:
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    axes.text(1, -0.13, cpu, transform=axes.transAxes, ha="right", fontsize=8, color="#546e7a")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(__doc__, bench, options=options)
