"""One step of a table's optimizer: time, memory, and what the row-sparse rule costs in learning."""

import argparse
import ctypes
import multiprocessing
import sysconfig
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from rich.table import Table
from torch import nn
from torch.nn import functional as F

from engram_rs import Addressing
from engram_rs.torch import Engram
from engram_rs.torch.optim import SinkhornMomentum

from .harness import Contestant, Report, main

__all__ = ["bench", "learning", "memory", "options"]

ENTRIES, DIM = 2_097_152, 32
BATCHES = ((8, 512), (32, 1024))
# Sparse gradients go round a pool, so that a step does not find its rows in the cache from the step before.
POOL = 4
ADAMW, FUSED, SPARSE_ADAM, SGD = "AdamW", "AdamW, fused", "SparseAdam", "SGD"
DENSE, TOUCHED, SPARSE = "Sinkhorn, all rows", "Sinkhorn, touched rows", "Sinkhorn, touched rows, sparse gradient"
OF_SPARSE_GRADIENTS = (SPARSE, SPARSE_ADAM)

RULES: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    DENSE: SinkhornMomentum,
    TOUCHED: partial(SinkhornMomentum, rows="touched"),
    SPARSE: partial(SinkhornMomentum, rows="touched"),
    ADAMW: torch.optim.AdamW,
    FUSED: partial(torch.optim.AdamW, fused=True),
    SPARSE_ADAM: torch.optim.SparseAdam,
    SGD: torch.optim.SGD,
}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, default=1, help="torch's threads (default %(default)s)")
    parser.add_argument("--learning", action="store_true", help="also train a small model by each rule; minutes")


def bench(report: Report, arguments: argparse.Namespace) -> None:
    torch.set_num_threads(arguments.threads)
    weights = torch.empty(ENTRIES, DIM).normal_(std=0.02)
    cases = {}
    for batch, length in BATCHES[:1] if arguments.quick else BATCHES:
        sparse = [_gradient(batch, length, seed) for seed in range(POOL)]
        # A dense one is large enough to leave no cache anything of the table.
        dense = [sparse[0].to_dense()]
        contestants = []
        for name, rule in RULES.items():
            parameter = nn.Parameter(weights)
            gradients = cycle(sparse if name in OF_SPARSE_GRADIENTS else dense)
            contestants.append(Contestant(name, _stepper(parameter, rule([parameter]), gradients)))
        cases[f"{batch} x {length:,}"] = (batch * length, contestants)
    report.table(
        f"A step on a table of {ENTRIES:,} x {DIM}, 3 rows a position: {arguments.threads} thread(s)",
        cases,
        [ADAMW, FUSED, SPARSE_ADAM, SGD],
        "Random bytes, so nearly every row is another. SparseAdam's gradient is sparse too. SGD without momentum adds "
        "the gradient to the table: no rule that goes through both can do less.",
        rate=False,
    )


def _gradient(batch: int, length: int, seed: int) -> torch.Tensor:
    """What `embedding(sparse=True)` leaves of a batch: one row for each position and column, in their order."""
    ids = np.random.default_rng(seed).integers(3, 259, (batch, length))
    rows = torch.from_numpy(Addressing.byte_fnv1a(ENTRIES)(ids)).flatten()
    values = torch.randn(len(rows), DIM, generator=torch.Generator().manual_seed(seed))
    return torch.sparse_coo_tensor(rows[None], values, (ENTRIES, DIM), check_invariants=True)


def _stepper(
    parameter: nn.Parameter, optimizer: torch.optim.Optimizer, gradients: Iterator[torch.Tensor]
) -> Callable[[], None]:
    def step() -> None:
        parameter.grad = next(gradients)
        optimizer.step()

    return step


def memory(report: Report, arguments: argparse.Namespace) -> None:
    """Each rule in a process of its own, since a peak belongs to a process."""
    batch, length = BATCHES[-1]
    title = f"Memory of a step on {ENTRIES:,} x {DIM} ({ENTRIES * DIM >> 18} MiB), {batch} x {length:,} positions, MiB"
    table = Table("contestant", "state", "peak beside weights, gradient and state", title=title, title_justify="left")
    rows = []
    context = multiprocessing.get_context("spawn")
    for name in RULES:
        with context.Pool(1) as pool:
            state, peak = pool.apply(_memory_of, (name, batch, length))
        table.add_row(name, f"{state:,.0f}", f"{peak:,.0f}")
        rows.append({"contestant": name, "state_mib": state, "peak_mib": peak})
    report.console.print()
    report.console.print(table)
    report.tables.append({"title": title, "rows": rows})


def _memory_of(name: str, batch: int, length: int) -> tuple[float, float]:
    """MiB of the optimizer's state, and what the resident memory reaches in a step above everything that stays."""
    torch.set_num_threads(1)
    gradient = _gradient(batch, length, 0)
    parameter = nn.Parameter(torch.zeros(ENTRIES, DIM).normal_(std=0.02))
    parameter.grad = gradient if name in OF_SPARSE_GRADIENTS else gradient.to_dense()
    optimizer = RULES[name]([parameter])
    optimizer.step()  # allocates the state, and imports what torch imports late
    ctypes.CDLL(None).malloc_trim(0)  # else the step finds what the one before has freed
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark falls to what is resident now
    optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    return sum(value.nbytes for value in states) / 2**20, _resident("VmHWM") - before


def _resident(key: str) -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) / 1024


def learning(report: Report, arguments: argparse.Namespace) -> None:
    """Trains the same small model by each form of the rule, and follows one's gradients with the other."""
    if not arguments.learning:
        return
    torch.set_num_threads(arguments.threads)
    text = b"".join(path.read_bytes() for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")))
    ids = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    title = "Loss on held-out text, nats a byte: 400 steps of 4 x 256, rates falling to 0"
    table = Table("table's rate", "none", "all rows", "touched rows", title=title, title_justify="left")
    rows = []
    without = _trained(ids, None, "all")[0]
    for rate in (4e-3, 1.6e-2, 6.4e-2) if arguments.quick else (1e-3, 4e-3, 1.6e-2, 6.4e-2, 2.56e-1):
        losses = {form: _trained(ids, rate, form)[0] for form in ("all", "touched")}
        table.add_row(f"{rate:g}", f"{without:.3f}", *(f"{loss:.3f}" for loss in losses.values()))
        rows.append({"rate": rate, "without": without} | losses)
    report.console.print()
    report.console.print(table)
    report.tables.append({"title": title, "rows": rows})
    _, apart = _trained(ids, 4e-3, "all", follow=True)
    title = "How far the touched-rows rule is from the dense one on its gradients, as a part of how far the table moved"
    report.console.print(f"{title}:", {key: f"{value:.1%}" for key, value in apart.items()}, highlight=False)
    report.tables.append({"title": title, "rows": [apart]})


class _Model(nn.Module):
    """Predicts the next byte from four, by a convolution; further than that only the memory sees."""

    def __init__(self, *, remembers: bool) -> None:
        super().__init__()
        self.embed, self.mix = nn.Embedding(256, 64), nn.Conv1d(64, 64, 4)
        self.feed = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 256)
        self.memory = Engram(64, 65_536, 16, (3, 4, 5)) if remembers else None

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(ids)
        hidden = hidden + F.gelu(self.mix(F.pad(hidden.mT, (3, 0)))).mT
        if self.memory is not None:
            hidden = hidden + self.memory(ids + 3)
        return self.head(self.norm(hidden + self.feed(hidden)))


def _trained(
    ids: torch.Tensor, rate: float | None, form: str, *, follow: bool = False, steps: int = 400
) -> tuple[float, dict[str, float]]:
    """The loss on the last tenth of the text, and how far a follower of the table's gradients ended up from it."""
    torch.manual_seed(0)
    model = _Model(remembers=rate is not None)
    tables = [] if model.memory is None else [model.memory.table]
    others = [each for each in model.parameters() if not any(each is table for table in tables)]
    optimizers = [torch.optim.AdamW(others, 2e-3, weight_decay=0.0)]
    optimizers += [SinkhornMomentum([table], rate, rows=form) for table in tables]
    start = [table.detach().clone() for table in tables]
    followers = [nn.Parameter(table.clone()) for table in start if follow]
    if followers:
        optimizers.append(SinkhornMomentum(followers, rate, rows="touched"))
    fall = [torch.optim.lr_scheduler.LinearLR(each, 1.0, 0.0, steps) for each in optimizers]
    cut, generator = len(ids) * 9 // 10, torch.Generator().manual_seed(1)
    for _ in range(steps):
        model.zero_grad()
        _loss(model, ids[:cut], 4, generator).backward()
        for follower, table in zip(followers, tables, strict=False):
            follower.grad = table.grad
        for each in (*optimizers, *fall):
            each.step()
    apart = {}
    for when in ("as it is", "caught up"):
        for follower, table, begin in zip(followers, tables, start, strict=False):
            apart[when] = ((follower - table).norm() / (table - begin).norm()).item()
        for each in optimizers[1:]:
            each.catch_up()
    with torch.no_grad():
        generator.manual_seed(2)
        return sum(_loss(model, ids[cut:], 16, generator).item() for _ in range(20)) / 20, apart


def _loss(model: _Model, ids: torch.Tensor, batch: int, generator: torch.Generator) -> torch.Tensor:
    starts = torch.randint(0, len(ids) - 257, (batch, 1), generator=generator)
    drawn = ids[starts + torch.arange(257)]
    return F.cross_entropy(model(drawn[:, :-1]).flatten(0, 1), drawn[:, 1:].flatten())


if __name__ == "__main__":
    main(__doc__, bench, memory, learning, options=options)
