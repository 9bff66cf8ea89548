"""`engram-rs vectors`: ids with their hashes and rows, for the tests of a port."""

from pathlib import Path
from typing import Annotated

import typer

from .._files import check_target, replacing
from ..vectors import SCHEMES, vectors_json
from .options import addressing_of, console


def vectors(
    scheme: Annotated[str, typer.Option(help=f"One of {', '.join(SCHEMES)}.")],
    seed: Annotated[int, typer.Option(help="Equal seeds give equal files.")] = 0,
    entries: Annotated[int | None, typer.Option(help="Rows of the table; several sizes if not given.")] = None,
    orders: Annotated[str | None, typer.Option(help="n-gram lengths, with commas; several lists if not given.")] = None,
    cases: Annotated[int, typer.Option(help="Random cases, besides the edge cases.")] = 32,
    out: Annotated[Path | None, typer.Option(help="Write a file instead of standard output.")] = None,
) -> None:
    """Writes new vectors of a scheme as JSON, in the schema of the golden ones."""
    if out is not None:
        check_target(out)
    lengths = None if orders is None else addressing_of(1, orders).orders
    text = vectors_json(scheme, seed, cases, entries=entries, orders=lengths)
    if out is None:
        typer.echo(text, nl=False)
        return
    with replacing(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    console.print(f"vectors of {scheme}, seed {seed}, written to {out}", highlight=False)
