"""What addresses cost an encoder in ONNX Runtime: by the core, in the graph, computed ahead, or by a loop in Python."""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import T5Config, T5ForConditionalGeneration

from engram_rs.onnx import export_seq2seq
from engram_rs.ort import Seq2SeqSession
from engram_rs.torch import attach

from .harness import Contestant, Report, main

AHEAD = "computed ahead"
LENGTHS = (128, 1024)
ENTRIES = 65_536


def bench(report: Report, arguments: argparse.Namespace) -> None:
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=384, d_model=256, d_kv=32, d_ff=1024, num_layers=6, num_decoder_layers=1, num_heads=8,
        decoder_start_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config).eval()
    handle = attach(model, 3, entries=ENTRIES, dim=32, quiet=True)
    torch.nn.init.normal_(handle.module.projection, std=0.02)
    addressing = handle.module.addressing
    with tempfile.TemporaryDirectory() as folder:
        sessions = {}
        for mode in ("input", "graph"):
            export_seq2seq(model, Path(folder, mode), addresses=mode)
            sessions[mode] = Seq2SeqSession(Path(folder, mode), ["CPUExecutionProvider"], threads=1)
        cases = {}
        for length in LENGTHS[: 1 if arguments.quick else None]:
            ids = np.random.default_rng(0).integers(3, 259, (1, length))
            cases[f"1 x {length:,}"] = (length, _contestants(sessions, addressing, ids))
        report.table(
            "An encoder of 6 blocks, width 256, fp32, one thread",
            cases,
            [AHEAD],
            "Each contestant gives the encoder's output, but for the last, which is the core's part of the first.",
        )


def _contestants(sessions: dict, addressing, ids: np.ndarray) -> list[Contestant]:
    fed, alone = sessions["input"], sessions["graph"]
    inner = fed._encoder
    ready = inner.feed(ids)
    buffer = np.empty((*ids.shape, addressing.num_columns), dtype=np.int64)
    wanted = fed.encode(ids).numpy()
    if not np.array_equal(alone.encode(ids).numpy(), wanted) or not np.array_equal(inner.run(ready).numpy(), wanted):
        raise AssertionError("the ways do not give one result")

    def python() -> None:
        _loop(ids[0].tolist(), addressing.orders)
        inner.run(ready)

    return [
        Contestant(AHEAD, lambda: inner.run(ready)),
        Contestant("fed by the core", lambda: fed.encode(ids)),
        Contestant("in the graph", lambda: alone.encode(ids)),
        Contestant("a loop in Python", python),
        Contestant("the core alone", lambda: addressing(ids, out=buffer, threads=1)),
    ]


def _loop(ids: list[int], orders: tuple[int, ...]) -> list[list[int]]:
    """The hash as one would write it first."""
    symbols = [(one - 3) % 256 for one in ids]
    found = []
    for end in range(1, len(symbols) + 1):
        row = []
        for column, order in enumerate(orders):
            if end < order:
                row.append(0)
                continue
            state = 0x811C9DC5 ^ (column + 1)
            for symbol in symbols[end - order : end]:
                state = ((state ^ symbol) * 0x01000193) & 0xFFFFFFFF
            row.append((state or 1) % ENTRIES)
        found.append(row)
    return found


if __name__ == "__main__":
    main(__doc__, bench)
