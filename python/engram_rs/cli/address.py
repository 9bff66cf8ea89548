"""`engram-rs address`: text to rows."""

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from .._core import BYTE_OFFSET, EOS, encode
from .._files import check_target, replacing
from .options import Entries, Orders, addressing_of, console


def address(
    text: Annotated[str | None, typer.Argument(help="The text; - reads standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="Read the bytes of this file instead.")] = None,
    entries: Entries = 2_097_152,
    orders: Orders = "2,3,4",
    hashes: Annotated[bool, typer.Option(help="Hashes before the remainder, instead of rows.")] = False,
    eos: Annotated[bool, typer.Option(help="End with the id 1.")] = True,
    out: Annotated[Path | None, typer.Option(help="Write an .npy file, int64 [T, K], instead of a table.")] = None,
) -> None:
    """Prints the table rows of every byte of a text, or writes them to a file."""
    if (text is None) == (file is None):
        raise ValueError("give a text or --file, and not both")
    addressing = addressing_of(entries, orders)
    if out is not None:
        check_target(out, file)
    ids = encode(_read(text, file), eos)
    rows = addressing.hashes(ids) if hashes else addressing(ids)
    if out is not None:
        with replacing(out) as temporary, temporary.open("wb") as target:
            np.save(target, rows)
        console.print(f"{len(ids):,} positions x {addressing.num_columns} columns written to {out}", highlight=False)
        return
    table = Table("position", "id", "byte", *(f"order {order}" for order in addressing.orders), title=str(addressing))
    for position, (symbol, row) in enumerate(zip(ids.tolist(), rows.tolist(), strict=True)):
        table.add_row(str(position), str(symbol), _byte(symbol), *map(str, row))
    console.print(table)


def _read(text: str | None, file: Path | None) -> bytes:
    if file is not None:
        return file.read_bytes()
    return sys.stdin.buffer.read() if text == "-" else str(text).encode()


def _byte(symbol: int) -> str:
    if symbol == EOS:
        return "end"
    byte = symbol - BYTE_OFFSET
    return f"{byte:#04x} {chr(byte)}" if 0x20 < byte < 0x7F else f"{byte:#04x}"
