"""100,000 generate calls of mixed lengths on one session, one thread and eight: does memory grow?"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from rich.progress import Progress
from rich.table import Table
from transformers import T5Config, T5ForConditionalGeneration

from engram_rs.onnx import export_seq2seq
from engram_rs.ort import Seq2SeqSession
from engram_rs.torch import attach

from .harness import Report, main

__all__ = ["bench", "resident", "soak", "tiny_session"]

CALLS, QUICK = 100_000, 1_000
# The first tenth fills arenas, pools and caches; what comes behind it must stay within this.
WARM = 0.1
BOUND = 8 * 2**20
SAMPLES = 20
_STATUS = Path("/proc/self/status")


def tiny_session(folder: Path) -> Seq2SeqSession:
    """A model of two blocks with a memory, whose weights are random."""
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=384, d_model=16, d_kv=4, d_ff=32, num_layers=2, num_decoder_layers=1, num_heads=4,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config).eval()
    handle = attach(model, 1, entries=4099, dim=8, quiet=True)
    torch.nn.init.normal_(handle.module.projection, std=0.5)
    export_seq2seq(model, folder)
    return Seq2SeqSession(folder, ["CPUExecutionProvider"], 1)


def resident() -> int:
    """Bytes of this process that are in memory."""
    (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def soak(
    session: Seq2SeqSession, calls: int, threads: int, advance: Callable[[int], object] = lambda _: None
) -> list[int]:
    """Makes `calls` calls and gives the memory in use: after the first tenth, then at equal distances to the end."""

    def call(number: int) -> None:
        choose = random.Random(number)
        texts = [choose.randbytes(choose.randint(0, 60)) for _ in range(choose.choice((1, 1, 1, 3)))]
        found = session.generate(texts, choose.randint(1, 6), stream=True, batch_size=choose.randint(1, 3))
        # Some callers leave before the end.
        for count, _ in enumerate(found):
            if count == 5:
                break

    stops = [round(calls * (WARM + (1 - WARM) * sample / SAMPLES)) for sample in range(SAMPLES + 1)]
    found, done = [], 0
    with ThreadPoolExecutor(threads) as pool:
        for stop in stops:
            list(pool.map(call, range(done, stop)))
            advance(stop - done)
            done = stop
            found.append(resident())
    return found


def bench(report: Report, arguments: argparse.Namespace) -> None:
    if not _STATUS.exists():
        report.console.print("This system does not tell a process's memory as Linux does: nothing was measured.")
        return
    torch.set_num_threads(1)
    calls = QUICK if arguments.quick else CALLS
    table = Table(title=f"Resident memory over {calls:,} generate calls, MiB", title_justify="left")
    for heading in ("threads", "after a tenth", "at the end", "least", "most", "growth", "calls/s"):
        table.add_column(heading, justify="right")
    rows, grown = [], []
    with tempfile.TemporaryDirectory() as folder, Progress(console=report.console) as bar:
        session = tiny_session(Path(folder, "model"))
        for threads in (1, 8):
            task = bar.add_task(f"{threads} threads", total=calls // 2)
            start = time.monotonic()
            found = soak(session, calls // 2, threads, lambda count, task=task: bar.advance(task, count))
            rate = calls // 2 / (time.monotonic() - start)
            grown.append(max(found) - found[0])
            rows.append({"threads": threads, "resident": found, "calls_per_second": rate})
            figures = (found[0], found[-1], min(found), max(found), grown[-1])
            table.add_row(str(threads), *(f"{figure / 2**20:.1f}" for figure in figures), f"{rate:,.0f}")
    report.console.print(table)
    report.tables.append({"title": table.title, "rows": rows})
    if max(grown) > BOUND:
        report.console.print(f"[red]Memory grew by more than {BOUND / 2**20:.0f} MiB.[/]")
        raise SystemExit(1)
    report.console.print(f"Flat within {BOUND / 2**20:.0f} MiB.")


if __name__ == "__main__":
    main(__doc__, bench)
