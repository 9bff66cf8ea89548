"""What a zip needs before a release, beyond what every load checks."""

from .metadata import Metadata

__all__ = ["check_release"]

MIN_SAMPLES = 500
# Percentage points of the character error rate.
MAX_DELTA = {"fp32": 0.2, "fp16": 1.0, "int8": 2.0, "int4": 3.0}


def check_release(metadata: Metadata) -> None:
    """Checks metrics, licence and parity.

    Raises:
        ValueError: Something is missing or beyond its limit; the error names all of it.
    """
    problems = list(_problems(metadata))
    if problems:
        raise ValueError(f"not ready for a release: {'; '.join(problems)}")


def _problems(metadata: Metadata) -> list[str]:
    found = []
    if metadata.license is None:
        found.append("no license")
    if not metadata.metrics:
        found.append("no metrics")
    for metric in metadata.metrics:
        page, _, anchor = metric.source.partition("#")
        if not page.strip() or not anchor.strip():
            found.append(f"the source of metric {metric.name} is {metric.source!r}; wanted page#anchor")
    if metadata.parity is None:
        return [*found, "no parity"]
    samples, delta, limit = metadata.parity.samples, metadata.parity.cer_delta, MAX_DELTA[metadata.precision]
    if samples < MIN_SAMPLES:
        found.append(f"parity on {samples} samples; wanted at least {MIN_SAMPLES}")
    # A model that got better by as much is another model too.
    if abs(delta) > limit:
        found.append(f"parity differs by {delta:g} percentage points; at {metadata.precision} at most {limit:g} may be")
    return found
