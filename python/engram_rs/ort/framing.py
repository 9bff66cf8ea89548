"""Whether a decoder's greedy output depends on how many tokens share one call.

It must not, but scales that follow the activations and kernels that switch on shape make it so, and then speculative
or batched decoding changes the text.
"""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from .._core import PAD, available_threads, cpu_features
from .batches import encode_texts

if TYPE_CHECKING:
    from .decoder import Cache
    from .seq2seq import Seq2SeqSession

__all__ = ["Feed", "Framing", "SelfCheckError", "feed_windows", "measure_framing", "measure_windows"]


class SelfCheckError(ValueError):
    """Windows of one token did not give what decoding gave: the measurement is wrong, and says nothing."""


class Feed(Protocol):
    """A way to feed the tokens that greedy decoding consumed, several a call."""

    def __call__(
        self, session: "Seq2SeqSession", states: onnxruntime.OrtValue, consumed: NDArray[np.int64], window: int
    ) -> NDArray[np.int64]:
        """The votes.

        Args:
            session: What decodes.
            states: One input's encoder output.
            consumed: int64 `[N]`: the pad, then all tokens but the last.
            window: How many of them one call takes.

        Returns:
            int64 `[N]`: at each position the call's argmax.
        """


@dataclass(frozen=True)
class Framing:
    """What was measured.

    Attributes:
        window: Tokens a call.
        matches: Of each input, how many votes were the tokens of decoding one at a time.
        totals: Of each input, how many tokens that gave.
        model: The name of its file or folder.
        precision: Of its weights.
        provider: What ran it.
        runtime: ONNX Runtime's version.
        machine: Processor, system and threads.
    """

    window: int
    matches: tuple[int, ...]
    totals: tuple[int, ...]
    model: str
    precision: str
    provider: str
    runtime: str
    machine: str

    def __str__(self) -> str:
        return (
            f"{sum(self.matches)}/{sum(self.totals)} votes match at W = {self.window} ({self.model}, "
            f"{self.precision}, ONNX Runtime {self.runtime}, {self.provider}, {self.machine})"
        )


def feed_windows(
    session: "Seq2SeqSession", states: onnxruntime.OrtValue, consumed: NDArray[np.int64], window: int
) -> NDArray[np.int64]:
    """Feeds each window with the cache that the call of the window before returned; a `Feed`."""
    votes = []
    cache: Cache | None = None
    for start in range(0, len(consumed), window):
        logits, cache = session.step(states, consumed[np.newaxis, start : start + window], cache)
        votes.append(logits[0].argmax(axis=-1))
    return np.concatenate(votes)


def measure_framing(
    session: "Seq2SeqSession",
    inputs: Sequence[str | bytes],
    window: int,
    steps: int = 96,
    *,
    feed: Feed = feed_windows,
    progress: Callable[[], object] | None = None,
) -> Framing:
    """Decodes inputs one token a call, then asks for the same tokens by calls of `window`.

    Each input is decoded to r1 … rN. Then `[pad, r1, …, r(N-1)]` is cut into windows, and each is fed with the cache
    that the window before it returned. The argmax at each position is a vote for the next token; votes equal to
    r1 … rN are counted. First the measurement checks itself: windows of one must give r1 … rN exactly.

    Args:
        session: A model that decodes with a cache.
        inputs: Texts.
        window: Tokens a call.
        steps: The most tokens an input; decoding also stops at the end symbol.
        feed: How windows are fed. Others than the default are for tests of the self-check.
        progress: Called when an input is done.

    Returns:
        Matches and totals, and what was measured on what.

    Raises:
        TypeError: An input is neither `str` nor `bytes`.
        ValueError: There is no input, a number is less than 1, the session has no cache, or ONNX Runtime cannot run
            the model.
        SelfCheckError: The self-check failed, so that a report would say nothing of the decoder.
    """
    (framing,) = measure_windows(session, inputs, [window], steps, feed=feed, progress=progress)
    return framing


def measure_windows(
    session: "Seq2SeqSession",
    inputs: Sequence[str | bytes],
    windows: Sequence[int],
    steps: int = 96,
    *,
    feed: Feed = feed_windows,
    progress: Callable[[], object] | None = None,
) -> list[Framing]:
    """What `measure_framing` gives for each of several windows; each input is decoded once."""
    for name, number in (*(("window", window) for window in windows), ("steps", steps)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {number!r}")
    if isinstance(inputs, (str, bytes)):
        raise TypeError("inputs must be a sequence of texts, not one text")
    rows = encode_texts(inputs)
    if not rows:
        raise ValueError("framing needs at least one input")
    if not session.cached:
        raise ValueError(f"{session.path} decodes without a cache, so that there is nothing to frame")
    matches: list[list[int]] = [[] for _ in windows]
    totals = []
    for index, row in enumerate(rows):
        states = session.encode(row[np.newaxis])
        wanted = np.concatenate(list(session.tokens(states, steps)))
        consumed = np.concatenate(([PAD], wanted[:-1]))
        if (same := _matches(feed(session, states, consumed, 1), wanted)) != len(wanted):
            raise SelfCheckError(
                f"the measurement is wrong: windows of one token must give what decoding gave, but of input {index} "
                f"{same}/{len(wanted)} votes match; nothing is reported"
            )
        for counts, window in zip(matches, windows, strict=True):
            counts.append(_matches(feed(session, states, consumed, window), wanted))
        totals.append(len(wanted))
        if progress is not None:
            progress()
    about = (session.path.name, session.precision, session.provider, onnxruntime.__version__, _machine())
    return [
        Framing(window, tuple(counts), tuple(totals), *about) for window, counts in zip(windows, matches, strict=True)
    ]


def _matches(votes: NDArray[np.int64], wanted: NDArray[np.int64]) -> int:
    if votes.shape != wanted.shape:
        raise SelfCheckError(f"the measurement is wrong: {len(wanted)} tokens got votes of shape {list(votes.shape)}")
    return int((votes == wanted).sum())


def _machine() -> str:
    """Processor, instruction sets, system and threads, in one line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or "a processor of unknown name"
    features = "/".join(cpu_features()) or "no vector extensions known"
    return f"{name}, {features}, {platform.system()} {platform.machine()}, {available_threads()} threads"
