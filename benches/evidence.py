"""Does a memory help? The diacritics spec under four arms and three seeds, on the same batches in the same order.

    python -m benches.evidence specs/ara-diac-tiny-engram.yaml --out runs/evidence

Runs that are finished already are not made again. Writes `docs/evidence.md` and `docs/evidence.png`.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from rich.console import Console
from rich.progress import Progress

from engram_rs import _yaml
from engram_rs.distill import gate, read_spec
from ports import insert_table

ROOT = Path(__file__).parent.parent
SEEDS = (0, 1, 2)
BARE = "no memory"
ARMS: dict[str, dict[str, Any] | None] = {
    BARE: None,
    "bytes (2, 3, 4)": {"scheme": "byte_fnv1a", "orders": [2, 3, 4]},
    "bytes (4, 8, 12)": {"scheme": "byte_fnv1a", "orders": [4, 8, 12]},
    "characters (2, 3, 4)": {"scheme": "utf8_fnv1a", "orders": [2, 3, 4]},
}
DRAWS = 10_000


@dataclass(frozen=True)
class Result:
    """One run.

    Attributes:
        errors: Wrong letters of every held-out verse, int64 `[verses]`.
        letters: Letters of every held-out verse.
        losses: The loss of every step.
        seconds: What its steps took.
    """

    errors: np.ndarray
    letters: np.ndarray
    losses: np.ndarray
    seconds: float

    @property
    def error(self) -> float:
        return float(self.errors.sum() / self.letters.sum())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/evidence"))
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each (default: %(default)s)")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = [(arm, seed) for seed in SEEDS for arm in ARMS]
    with Progress(console=Console(stderr=True)) as bars, ThreadPoolExecutor(options.jobs) as pool:
        bar = bars.add_task("runs", total=len(jobs))

        def work(job: tuple[str, int]) -> None:
            _run(options.spec, options.out, *job)
            bars.update(bar, advance=1)

        list(pool.map(work, jobs))
    results = {job: _read(options.out / _name(*job)) for job in jobs}
    _draw(results, options.docs / "evidence.png")
    insert_table(options.docs / "evidence.md", "figures", _table(results))
    return 0


def _name(arm: str, seed: int) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in arm).strip("-") + f"-{seed}"


def _run(spec: Path, out: Path, arm: str, seed: int) -> None:
    """One run in a process of its own, or nothing if it is done."""
    folder = out / _name(arm, seed)
    value: Any = _yaml.parse(spec.read_text(encoding="utf-8"))
    chosen = ARMS[arm]
    value["name"] = _name(arm, seed).lower()
    value["seed"] = seed
    value["memory"] = None if chosen is None else value["memory"] | chosen
    file = out / f"{_name(arm, seed)}.yaml"
    file.write_text(_yaml.dump(value), encoding="utf-8")
    if (folder / "run.json").is_file() and json.loads((folder / "run.json").read_text())["status"] == "finished":
        wanted = json.loads(read_spec(file).to_json())
        if json.loads((folder / "run.json").read_text())["spec"] != wanted:
            raise ValueError(f"{folder} was made from another spec; take another --out")
        return
    command = [sys.executable, "-m", "engram_rs.cli", "train", str(file), "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{folder}: {done.stderr[-2000:]}")


def _read(folder: Path) -> Result:
    gate(folder)
    outcomes = [json.loads(line) for line in (folder / "evaluation.jsonl").read_text(encoding="utf-8").splitlines()]
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return Result(
        np.array([one["errors"] for one in outcomes]),
        np.array([one["units"] for one in outcomes]),
        np.array([one["loss"] for one in log]),
        sum(one["seconds"] for one in log),
    )


def _difference(results: dict[tuple[str, int], Result], arm: str) -> tuple[float, float, float]:
    """The mean difference to no memory, and where 95 % of it lie when verses are drawn anew.

    Paired: one draw of verses stands for both arms and all seeds (Efron and Tibshirani 1993, chapter 13).
    """
    letters = results[arm, SEEDS[0]].letters
    gained = sum(results[arm, seed].errors - results[BARE, seed].errors for seed in SEEDS) / len(SEEDS)
    drawn = np.random.default_rng(0).integers(len(letters), size=(DRAWS, len(letters)))
    low, high = np.percentile(gained[drawn].sum(axis=1) / letters[drawn].sum(axis=1), (2.5, 97.5))
    return float(gained.sum() / letters.sum()), float(low), float(high)


def _table(results: dict[tuple[str, int], Result]) -> list[str]:
    seeds = " | ".join(f"seed {seed}" for seed in SEEDS)
    lines = [f"| arm | {seeds} | mean | to no memory, points (95 %) | last loss | seconds |", "|---" * 8 + "|"]
    for arm in ARMS:
        runs = [results[arm, seed] for seed in SEEDS]
        errors = " | ".join(f"{run.error:.2%}" for run in runs)
        mean = np.mean([run.error for run in runs])
        if arm == BARE:
            versus = "—"
        else:
            middle, low, high = (100 * value for value in _difference(results, arm))
            versus = f"{middle:+.2f} ({low:+.2f} … {high:+.2f})"
        loss = np.mean([run.losses[-50:].mean() for run in runs])
        seconds = np.mean([run.seconds for run in runs])
        lines.append(f"| {arm} | {errors} | {mean:.2%} | {versus} | {loss:.3f} | {seconds:.0f} |")
    return lines


def _draw(results: dict[tuple[str, int], Result], target: Path) -> None:
    colours = dict(zip(ARMS, ("#9aa5b1", "#c9a227", "#00796b", "#5e35b1"), strict=True))
    style = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"}
    with mpl.rc_context(style):
        figure = Figure(figsize=(11, 4.4), dpi=120, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
        for arm, colour in colours.items():
            curves = np.stack([results[arm, seed].losses for seed in SEEDS])
            window = max(1, curves.shape[1] // 25)
            smooth = np.stack([np.convolve(curve, np.ones(window) / window, mode="valid") for curve in curves])
            steps = np.arange(smooth.shape[1]) + window
            left.plot(steps, smooth.mean(axis=0), color=colour, label=arm, linewidth=1.8)
            left.fill_between(steps, smooth.min(axis=0), smooth.max(axis=0), color=colour, alpha=0.2, linewidth=0)
        # The first steps fall from ten nats to two, and would leave no room for the rest.
        top = 1.7 * max(result.losses[-50:].mean() for result in results.values())
        left.set(title="Training loss, the range of three seeds", xlabel="step", ylabel="nats a letter", ylim=(0, top))
        left.legend(frameon=False)
        for position, (arm, colour) in enumerate(colours.items()):
            errors = [results[arm, seed].error for seed in SEEDS]
            right.bar(position, float(np.mean(errors)), color=colour, width=0.6, alpha=0.85)
            right.plot([position - 0.1, position, position + 0.1], errors, "o", color="black", markersize=4)
            right.annotate(
                f"{np.mean(errors):.1%}", (position, max(errors)), (0, 6), textcoords="offset points", ha="center"
            )
        right.set_xticks(range(len(colours)), [arm.replace(" (", "\n(") for arm in colours])
        right.yaxis.set_major_formatter(PercentFormatter(1))
        right.set(title="Wrong letters of held-out verses; a dot is a seed")
        right.margins(y=0.15)
        figure.savefig(target)


if __name__ == "__main__":
    sys.exit(main())
