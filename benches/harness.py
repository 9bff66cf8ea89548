"""Times contestants side by side and tells their ratios.

`timeit` makes one measurement (loop, clock, no garbage collection). What it lacks, and pytest-benchmark too,
is turn-taking: both finish one contestant before the next begins, so that a machine that slows down half-way
changes who wins. Here every round runs every contestant once.
"""

import argparse
import json
import math
import os
import platform
import random
import statistics
import sys
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from rich.console import Console
from rich.table import Table

import engram_rs
from engram_rs import _core

__all__ = ["Contestant", "Report", "Sample", "main", "measure"]

# One sample lasts at least this long, so that neither the clock nor the loop around the call is seen.
SAMPLE_SECONDS = 0.02
# A comparison stops after these many seconds even where rounds are left: on a busy machine one round can take ten.
BUDGET_SECONDS = 12.0
LEAST_ROUNDS = 3
# The longest wait for the threads of the contestant before to fall asleep.
SETTLE_SECONDS = 0.5
PACKAGES = ("numpy", "torch", "numba", "onnxruntime-gpu", "onnxruntime")


@dataclass(frozen=True)
class Contestant:
    """One way to do the work.

    Attributes:
        name: What the table calls it.
        call: A function without arguments, or a statement, which spares short work the cost of a wrapper.
        names: What the statement refers to.
        share: The part of the work that one call does; its time is divided by it.
    """

    name: str
    call: Callable[[], object] | str
    names: Mapping[str, object] = field(default_factory=dict)
    share: float = 1.0


@dataclass(frozen=True)
class Sample:
    """The times of one contestant, in seconds for the whole work, one a round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a part of the median."""
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / 2 / self.median

    def over(self, other: "Sample") -> float:
        """How many times as long as `other`: the median of the rounds' own ratios.

        The two times of a round stand side by side, so that a slow minute falls on both and cancels out.
        """
        return statistics.median(mine / theirs for mine, theirs in zip(self.seconds, other.seconds, strict=True))


def measure(contestants: Sequence[Contestant], rounds: int) -> dict[str, Sample]:
    """Runs `rounds` rounds of all contestants once each is warm, or as many as fit into `BUDGET_SECONDS`."""
    timers = [timeit.Timer(one.call, globals=dict(one.names)) for one in contestants]
    numbers = []
    for timer in timers:
        _settle()
        numbers.append(_calls_per_sample(timer))
    seconds: list[list[float]] = [[] for _ in contestants]
    order = list(range(len(contestants)))
    shuffle = random.Random(0).shuffle
    start = time.monotonic()
    for done in range(rounds):
        if done >= LEAST_ROUNDS and time.monotonic() - start > BUDGET_SECONDS:
            break
        # A fixed order would always give one contestant the caches as the same other one leaves them.
        shuffle(order)
        for index in order:
            _settle()
            # A processor that slept takes milliseconds to wake on a virtual machine: longer than our own calls on two
            # threads, and nothing beside those of slower contestants.
            timers[index].timeit(1)
            taken = timers[index].timeit(numbers[index]) / numbers[index]
            seconds[index].append(taken / contestants[index].share)
    return {one.name: Sample(tuple(times)) for one, times in zip(contestants, seconds, strict=True)}


def _settle() -> None:
    """Waits until this process is idle.

    Pools of threads go on spinning when their work is done (ONNX Runtime's for about 60 ms). On a small machine
    that takes a core away from the next contestant, and one with threads of its own then slows down tenfold.
    """
    # A thread that runs elsewhere is charged at the kernel's ticks, up to 10 ms apart: a shorter look may see none.
    deadline, step = time.monotonic() + SETTLE_SECONDS, 0.012
    while time.monotonic() < deadline:
        used = time.process_time()
        time.sleep(step)
        if time.process_time() - used < step / 4:
            break


def _calls_per_sample(timer: timeit.Timer) -> int:
    """How many calls fill `SAMPLE_SECONDS`; asking warms the contestant up."""
    timer.timeit(1)
    number = 1
    while (taken := timer.timeit(number)) < SAMPLE_SECONDS:
        # Grows at most tenfold a time: the first calls are slow, and tell too little to reckon from.
        number = max(number + 1, min(10 * number, math.ceil(1.2 * number * SAMPLE_SECONDS / taken)))
    return number


class Report:
    """Prints tables as they are measured and keeps their numbers for a file.

    Args:
        rounds: Rounds of every comparison.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        # A file or a pipe has no width of its own, and rich's guess would fold the tables.
        self.console = Console(width=None if sys.stdout.isatty() else 120)
        self.tables: list[dict[str, object]] = []
        self.machine = _machine()
        for key, value in self.machine.items():
            self.console.print(f"[bold]{key}[/]: {value}", highlight=False)

    def table(
        self,
        title: str,
        cases: Mapping[str, tuple[float, Sequence[Contestant]]],
        baselines: Sequence[str],
        note: str = "",
        *,
        rate: bool = True,
    ) -> None:
        """Measures and prints one table.

        Args:
            title: Its heading.
            cases: The positions that one round of work covers, and who does it, by the name of the case.
            baselines: Contestants that every time is divided by, a column each.
            note: A line below the table.
            rate: Whether positions a second tell anything here.
        """
        table = Table(title=title, title_justify="left", caption_justify="left")
        for heading in ("case", "contestant"):
            table.add_column(heading, no_wrap=True)
        for heading in ("median", "± spread", *["M pos/s"][:rate], *(f"time ÷ {name}" for name in baselines)):
            table.add_column(heading, justify="right")
        rows = []
        others = _Others()
        for case, (positions, contestants) in cases.items():
            samples = measure(contestants, self.rounds)
            for index, (name, sample) in enumerate(samples.items()):
                ratios = {base: sample.over(samples[base]) for base in baselines}
                table.add_row(
                    case if index == 0 else "",
                    name,
                    _duration(sample.median),
                    f"{sample.spread:.0%}",
                    *[_figures(positions / sample.median / 1e6)][:rate],
                    *map(_figures, ratios.values()),
                )
                rows.append(
                    {"case": case, "contestant": name, "positions": positions, "seconds": sample.seconds}
                    | {"median": sample.median, "spread": sample.spread, "time_over": ratios}
                )
            table.add_section()
        elsewhere = others.cores()
        table.caption = f"{note} {_warning(elsewhere)}"
        self.console.print()
        self.console.print(table)
        self.tables.append({"title": title, "note": note, "cores_busy_elsewhere": elsewhere, "rows": rows})

    def save(self, path: Path) -> None:
        """Writes the machine and all tables as JSON."""
        text = json.dumps({"machine": self.machine, "rounds": self.rounds, "tables": self.tables}, indent=1)
        path.write_text(text + "\n", encoding="utf-8")


class _Others:
    """How much of the machine other processes use, from now on; Linux tells, other systems do not."""

    def __init__(self) -> None:
        self._start = self._now()

    def cores(self) -> float | None:
        """Their time on all cores, divided by the time that has passed."""
        wall, mine, total = (now - then for now, then in zip(self._now(), self._start, strict=True))
        return max(0.0, total - mine) / wall if self._start[2] else None

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Seconds of the clock, of this process on all cores, and of all processes on all cores."""
        mine, stat = os.times(), Path("/proc/stat")
        total = 0.0
        if stat.exists():
            user, nice, system, _idle, _wait, *interrupts = map(int, stat.read_text().split("\n", 1)[0].split()[1:9])
            total = (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), mine.user + mine.system, total


def _warning(elsewhere: float | None) -> str:
    if elsewhere is None:
        return ""
    busy = f"Other processes kept {elsewhere:.1f} cores busy meanwhile"
    return f"[bold]{busy}: a look, no measurement.[/]" if elsewhere >= 0.2 else f"{busy}."


def _figures(value: float) -> str:
    """Three figures, and no exponent where there are more before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _machine() -> dict[str, str]:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "CPU": models[0] if models else platform.processor() or platform.machine(),
        "threads": f"{_core.available_threads()} available; each table states how many it uses",
        "SIMD": ", ".join(_core.cpu_features()) or "none that engram_rs asks for",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": ", ".join([f"engram_rs {engram_rs.__version__}", *_versions()]),
    }


def _versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return found


def main(
    description: str | None,
    *benches: Callable[[Report, argparse.Namespace], None],
    options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> None:
    """Reads the command line and runs the benches into one report."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less work and fewer rounds: a look, no measurement")
    parser.add_argument("--rounds", type=int, help="rounds of every comparison (default 7, quick 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every number to FILE")
    if options is not None:
        options(parser)
    arguments = parser.parse_args()
    rounds = arguments.rounds or (3 if arguments.quick else 7)
    if rounds < 2:
        parser.error("a spread needs two rounds")
    report = Report(rounds)
    for bench in benches:
        bench(report, arguments)
    if arguments.json is not None:
        report.save(arguments.json)
