"""Every kernel of this CPU on 10^8 random ids: equal rows, told by a running digest."""

import argparse
import hashlib

import numpy as np
from rich.progress import Progress

from engram_rs import Addressing, _core

from .harness import Report, main

__all__ = ["bench"]

PIECE = 1 << 20
SCHEMES = {
    "byte_fnv1a, a power of two": Addressing.byte_fnv1a(),
    "byte_fnv1a, a prime": Addressing.byte_fnv1a(2_097_143),
    "byte_fnv1a, five columns": Addressing.byte_fnv1a(2_097_143, (1, 2, 5, 9, 64)),
    "multiply_xor, 4 columns": Addressing.qwen_ple(heads=2),
    "polynomial, 2 columns": Addressing.blt(2, (3,)),
}


def bench(report: Report, arguments: argparse.Namespace) -> None:
    total = 1_000_000 if arguments.quick else 100_000_000
    share = total // len(SCHEMES)
    digests: dict[str, dict[str, str]] = {}
    with Progress(console=report.console) as bar:
        task = bar.add_task("ids", total=share * len(SCHEMES))
        for name, addressing in SCHEMES.items():
            streams = {kernel: (addressing.stream(), hashlib.blake2b(digest_size=8)) for kernel in _core.kernels()}
            rng = np.random.default_rng(0)
            high = 256 if addressing.vocab_size is None else addressing.vocab_size
            for start in range(0, share, PIECE):
                ids = rng.integers(0, high, min(PIECE, share - start))
                for kernel, (stream, digest) in streams.items():
                    _core.force_kernel(kernel)
                    digest.update(stream.push(ids).data)
                bar.advance(task, len(ids))
            digests[name] = {kernel: digest.hexdigest() for kernel, (_, digest) in streams.items()}
    _core.force_kernel(None)
    for name, found in digests.items():
        equal = len(set(found.values())) == 1
        report.console.print(f"{name}: {share:,} ids, {found if not equal else ', '.join(found)}: ", end="")
        report.console.print("equal" if equal else "[red]DIFFERENT[/]")
    if any(len(set(found.values())) > 1 for found in digests.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main(__doc__, bench)
