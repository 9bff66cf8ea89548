"""Examples; `python -m examples.demo` runs the whole tour."""
