"""`engram-rs run`: decodes with a model."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .options import Providers


def run(
    model: Annotated[Path, typer.Argument(help="A model zip, or a folder with its graphs.")],
    text: Annotated[str | None, typer.Argument(help="The text; without one, each line of standard input.")] = None,
    provider: Providers = None,
    max_new_tokens: Annotated[int, typer.Option(help="The most tokens of one output; a token is a byte.")] = 256,
    threads: Annotated[int | None, typer.Option(help="Threads of one call.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Decode without a cache.")] = False,
) -> None:
    """Decodes greedily and prints as it decodes, one line for each input."""
    from ..ort import Seq2SeqSession

    session = Seq2SeqSession(model, provider, threads, plain=plain)
    lines = [text] if text is not None else (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
    for line in lines:
        for piece in session.generate(line, max_new_tokens, stream=True):
            typer.echo(piece, nl=False)
            sys.stdout.flush()
        typer.echo()
