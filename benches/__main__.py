"""All benches, with their default settings."""

from . import addresses, memory, short
from .harness import main

main(__doc__, addresses.bench, short.bench, memory.bench, options=memory.options)
