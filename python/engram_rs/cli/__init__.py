"""The command `engram-rs`; needs the extra `cli`. One thin file a command, no logic of its own."""

import sys

from .._extras import MissingExtraError, require

__all__ = ["main"]


def main() -> None:
    """Runs the command line; expected errors are one line on standard error and exit status 1."""
    try:
        require("typer", "the command engram-rs")
        require("rich", "the command engram-rs")
        from .app import app

        app()
    except (MissingExtraError, ValueError, TypeError, OSError) as error:
        print(f"engram-rs: {error}", file=sys.stderr)
        sys.exit(1)
