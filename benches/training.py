"""A training step with a memory: addresses by the operator, computed ahead, and by a loop in Python."""

import argparse

import torch
from transformers import T5Config, T5EncoderModel

from engram_rs.torch import attach

from .harness import Contestant, Report, main

__all__ = ["bench"]

AHEAD = "computed ahead"
SHAPES = ((8, 128), (2, 512))


def bench(report: Report, arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = T5Config(vocab_size=384, d_model=128, d_kv=32, d_ff=512, num_layers=4, num_heads=4)
    model = T5EncoderModel(config).train()
    handle = attach(model, 3, entries=65_536, dim=32, quiet=True)
    orders = handle.module.addressing.orders
    cases = {}
    for batch, length in SHAPES[: 1 if arguments.quick else None]:
        ids = torch.randint(3, 259, (batch, length))
        rows = handle.module.rows(ids)
        assert _in_python(ids, orders, 65_536) == rows.tolist()

        def step(ids: torch.Tensor = ids, **ours: object) -> None:
            model.zero_grad()
            model(input_ids=ids, **ours)[0].square().mean().backward()

        def ahead(ids: torch.Tensor = ids, rows: torch.Tensor = rows) -> None:
            model.zero_grad()
            model(input_ids=ids, engram_addresses=rows)[0].square().mean().backward()

        def python(ids: torch.Tensor = ids) -> None:
            addresses = torch.tensor(_in_python(ids, orders, 65_536))
            model.zero_grad()
            model(input_ids=ids, engram_addresses=addresses)[0].square().mean().backward()

        def alone(ids: torch.Tensor = ids) -> None:
            handle.module.rows(ids)

        contestants = [
            Contestant(AHEAD, ahead),
            Contestant("operator", step),
            Contestant("Python", python),
            # Steps differ by percents from round to round; what the operator adds is told by itself.
            Contestant("the operator alone", alone),
        ]
        cases[f"{batch} x {length:,}"] = (ids.numel(), contestants)
    report.table(
        "Forward and backward of a T5 encoder of 4 blocks, width 128, one thread",
        cases,
        [AHEAD],
        "The optimizer's step is not in it; python -m benches.optimizers has that.",
    )


def _in_python(ids: torch.Tensor, orders: tuple[int, ...], entries: int) -> list[list[list[int]]]:
    """The hash as one would write it first."""
    batch = []
    for sequence in ids.tolist():
        symbols = [(one - 3) % 256 for one in sequence]
        positions = []
        for end in range(1, len(symbols) + 1):
            rows = []
            for column, order in enumerate(orders, 1):
                value = 0x811C9DC5 ^ column
                for symbol in symbols[max(0, end - order) : end]:
                    value = ((value ^ symbol) * 0x01000193) & 0xFFFFFFFF
                rows.append((value or 1) % entries if end >= order else 0)
            positions.append(rows)
        batch.append(positions)
    return batch


if __name__ == "__main__":
    main(__doc__, bench)
