"""All commands under one name."""

from typing import Annotated

import typer

from .._core import __version__
from .address import address
from .doctor import doctor
from .export import export
from .framing import framing
from .info import info
from .pack import pack
from .run import run
from .train import train
from .validate import validate
from .vectors import vectors
from .verify import verify

app = typer.Typer(
    name="engram-rs",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"engram_rs {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
) -> None:
    """Hash-addressed n-gram memories: addresses, training, export, parity, model zips."""


for command in (address, train, export, verify, pack, validate, info, run, framing, vectors, doctor):
    app.command()(command)
