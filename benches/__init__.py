"""Benchmarks, each told as ratios within one run; `python -m benches` runs them all."""

import os

# numpy reads this once, when it is first imported. No bench leaves work to numpy's BLAS, and its idle threads
# must not spin beside those that are timed. Every other library is told its threads by the bench itself.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
