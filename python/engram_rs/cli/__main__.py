"""`python -m engram_rs.cli`."""

from . import main

main()
