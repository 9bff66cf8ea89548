"""All benches, with their default settings."""

from . import addresses, families, memory, short
from .harness import main

main(__doc__, addresses.bench, families.bench, short.bench, memory.bench, options=memory.options)
