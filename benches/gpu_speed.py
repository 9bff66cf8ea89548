"""What `make gpu-check` times: the memory alone, decoding, and copies to the device; seconds by contestant."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from engram_rs.ort import MemorySession, Seq2SeqSession
from engram_rs.ort.feeding import Feeder
from engram_rs.ort.providers import CPU, CUDA
from engram_rs.torch import Engram

from .harness import Contestant, measure

__all__ = ["Speeds", "copies", "decoding", "memory"]

Speeds = dict[str, list[tuple[str, float]]]
_BATCHES = 16


def memory(provider: str, folder: Path, module: Engram, shape: tuple[int, int], rounds: int) -> Speeds:
    """Batches of one shape from ids to vectors on the host: torch, and graphs with and without work ahead."""
    device = "cuda" if provider == CUDA else "cpu"
    there = module.to(device)

    @torch.inference_mode()
    def in_torch(pool: list[np.ndarray]) -> None:
        for ids in pool:
            there(torch.from_numpy(ids).to(device)).cpu()

    random = np.random.default_rng(0)
    pool = [random.integers(3, 259, shape) for _ in range(_BATCHES)]
    contestants = [Contestant("torch, one by one", partial(in_torch, pool))]
    for precision in ("fp32", "int8"):
        session = MemorySession(folder / f"memory-{precision}.onnx", [provider])
        contestants.append(Contestant(f"{precision}, one by one", partial(_each, session.run, pool)))
        contestants.append(Contestant(f"{precision}, ahead", partial(_all, session.run_many, pool)))
    timed = measure(contestants, rounds)
    title = f"The memory alone, {shape[0]} x {shape[1]}: a batch"
    return {title: [(name, sample.median / len(pool)) for name, sample in timed.items()]}


def _each(run: Callable[[object], object], pool: list[np.ndarray]) -> None:
    for ids in pool:
        run(ids)


def _all(run: Callable[[object], Iterable[object]], pool: list[np.ndarray]) -> None:
    for _ in run(pool):
        pass


def decoding(provider: str, folder: Path, texts: Sequence[str], steps: int, rounds: int) -> Speeds:
    """A whole model with the provider and with the CPU."""
    sessions = {name: Seq2SeqSession(folder, [name]) for name in dict.fromkeys((provider, CPU))}
    contestants = [Contestant(name, partial(session.generate, texts, steps)) for name, session in sessions.items()]
    timed = measure(contestants, rounds)
    title = f"Decoding {len(texts)} texts, {steps} steps each at most"
    return {title: [(name, sample.median) for name, sample in timed.items()]}


def copies(rounds: int) -> tuple[bool, Speeds]:
    """Whether page-locked memory is to be had, and how fast the GPU copies from it and from memory as it comes."""
    feeder, speeds = Feeder(CUDA), {}
    for mebibytes in (1, 16):
        count = mebibytes * 2**20 // 8
        locked, usual = feeder.buffer((count,)), np.zeros(count, dtype=np.int64)
        locked[...] = 0
        contestants = [
            Contestant("page-locked", partial(feeder.put, locked)),
            Contestant("as it comes", partial(feeder.put, usual)),
        ]
        timed = measure(contestants, rounds)
        speeds[f"{mebibytes} MiB to the device"] = [(name, sample.median) for name, sample in timed.items()]
    return feeder.pinned, speeds
