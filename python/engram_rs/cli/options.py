"""Options that several commands share."""

from typing import Annotated

import typer
from rich.console import Console

from .._core import Addressing

Entries = Annotated[int, typer.Option(help="Rows of the table.")]
Orders = Annotated[str, typer.Option(help="n-gram lengths, one column each, separated by commas.")]
Providers = Annotated[
    list[str] | None, typer.Option("--provider", help="An ONNX Runtime provider; repeat for a list, best first.")
]

# Paths and texts are shown as they are, whatever brackets they hold.
console = Console(markup=False, highlight=False)


def addressing_of(entries: int, orders: str) -> Addressing:
    """The scheme that `--entries` and `--orders` name."""
    try:
        lengths = [int(order) for order in orders.split(",")]
    except ValueError:
        raise ValueError(f"orders must be numbers separated by commas, not {orders!r}") from None
    return Addressing.byte_fnv1a(entries, lengths)
