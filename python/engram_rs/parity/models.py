"""Whole models: graphs at any precision against the torch model that they came from."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import decode
from .._distance import edits
from ..ort import Seq2SeqSession
from .by_torch import ByTorch, batches, evaluated

__all__ = ["NEAR_TIE", "ModelParity", "verify_models"]

# Two tokens whose logits are closer than this are as good as equally likely: e^0.1 is 1.1.
NEAR_TIE = 0.1
_GRAPHS = ("encoder.onnx", "decoder.onnx", "decoder-kv.onnx")


@dataclass(frozen=True)
class ModelParity:
    """How far the graphs of one model are from torch.

    Attributes:
        path: The zip or folder.
        precision: As the model says it; `"unknown"` if it does not.
        provider: The ONNX Runtime provider that ran it.
        size: Bytes of the graphs, or of the zip.
        texts: How many inputs were compared.
        positions: How many tokens of torch's own outputs; the next five are over them, the graphs fed with the same
            tokens.
        encoder_difference: Largest difference of a hidden state.
        logit_difference: Largest difference of a logit.
        flips: Positions whose most likely token is another.
        near_ties: Those of them where torch's two most likely tokens are less than 0.1 apart.
        divergence: Mean Kullback-Leibler divergence from torch's distribution, in nats.
        same: Inputs whose whole greedy text is the same.
        error_rate: Characters in which the greedy text differs from torch's, over torch's.
        reference_error: Character error rate against the references; None without.
        torch_error: That of torch; None without.
    """

    path: str
    precision: str
    provider: str
    size: int
    texts: int
    positions: int
    encoder_difference: float
    logit_difference: float
    flips: int
    near_ties: int
    divergence: float
    same: int
    error_rate: float
    reference_error: float | None
    torch_error: float | None

    @property
    def cer_delta(self) -> float:
        """What a model zip's parity block has, in percentage points.

        The difference of the two error rates where there are references, or else the rate of the differences.
        """
        if self.reference_error is None or self.torch_error is None:
            return 100 * self.error_rate
        return 100 * (self.reference_error - self.torch_error)


def verify_models(
    paths: Sequence[str | os.PathLike[str]],
    model: torch.nn.Module,
    texts: Sequence[str],
    references: Sequence[str] | None = None,
    *,
    max_new_tokens: int = 128,
    providers: Sequence[str] | None = None,
    on_done: Callable[[int], object] = lambda count: None,
) -> list[ModelParity]:
    """Runs models in ONNX Runtime beside the torch model, on real inputs, greedily and on torch's own outputs.

    Args:
        paths: Model zips, or folders that `export_seq2seq` wrote.
        model: What they were exported from, with its memory. It is compared in float32, whatever its dtype.
        texts: Real inputs.
        references: The right outputs, for error rates.
        max_new_tokens: The most tokens of an output.
        providers: As in `Seq2SeqSession`.
        on_done: Is told how many texts are done.

    Returns:
        A result for each of `paths`. Nothing is raised for a difference.

    Raises:
        TypeError: `model` is no sequence-to-sequence model of transformers.
        ValueError: There is no text, there are not as many references as texts, or a model cannot be run.
        FileNotFoundError: A path does not exist.
    """
    config = getattr(model, "config", None)
    if not getattr(config, "is_encoder_decoder", False):
        raise TypeError(f"model must be a sequence-to-sequence model of transformers, not {type(model).__name__}")
    if not texts:
        raise ValueError("texts must hold at least one text")
    if references is not None and len(references) != len(texts):
        raise ValueError(f"there are {len(references)} references for {len(texts)} texts")
    sessions = [Seq2SeqSession(path, providers) for path in paths]
    tallies = [_Tally() for _ in sessions]
    said: list[str] = [""] * len(texts)
    with evaluated(model) as whole:
        for indices, by_torch in batches(whole, texts, max_new_tokens):
            for index, text in zip(indices, by_torch.texts, strict=True):
                said[index] = text
            for session, tally in zip(sessions, tallies, strict=True):
                tally.add(session, indices, by_torch, max_new_tokens)
            on_done(len(indices))
    torch_error = None if references is None else _rate(said, references)
    return [
        ModelParity(
            path=os.fspath(path),
            precision=session.precision,
            provider=session.provider,
            size=_size(Path(path)),
            texts=len(texts),
            positions=tally.positions,
            encoder_difference=tally.encoder,
            logit_difference=tally.logits,
            flips=tally.flips,
            near_ties=tally.near_ties,
            divergence=tally.divergence / max(1, tally.positions),
            same=sum(tally.said[index] == text for index, text in enumerate(said)),
            error_rate=_rate([tally.said[index] for index in range(len(texts))], said),
            reference_error=None
            if references is None
            else _rate([tally.said[index] for index in range(len(texts))], references),
            torch_error=torch_error,
        )
        for path, session, tally in zip(paths, sessions, tallies, strict=True)
    ]


@dataclass
class _Tally:
    """Sums over the batches."""

    positions: int = 0
    encoder: float = 0.0
    logits: float = 0.0
    flips: int = 0
    near_ties: int = 0
    divergence: float = 0.0
    said: dict[int, str] = field(default_factory=dict)

    def add(self, session: Seq2SeqSession, indices: Sequence[int], wanted: ByTorch, limit: int) -> None:
        states = session.encode(wanted.ids)
        here = wanted.ids != 0
        self.encoder = _larger(self.encoder, _apart(states.numpy()[here], wanted.states[here]))
        given, _ = session.step(states, wanted.fed)
        got, right = given[wanted.valid].astype(np.float32), wanted.logits[wanted.valid]
        self.positions += len(right)
        self.logits = _larger(self.logits, _apart(got, right))
        flipped = got.argmax(-1) != right.argmax(-1)
        best = np.partition(right, -2, axis=-1)[:, -2:]
        self.flips += int(flipped.sum())
        self.near_ties += int((flipped & (best[:, 1] - best[:, 0] < NEAR_TIE)).sum())
        theirs, ours = _log_softmax(right), _log_softmax(got)
        self.divergence += float((np.exp(theirs) * (theirs - ours)).sum())
        columns = np.stack(list(session.tokens(states, limit)), axis=1)
        self.said |= {index: decode(row) for index, row in zip(indices, columns, strict=True)}


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    found: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found


def _apart(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    return float(np.abs(one.astype(np.float32) - other).max(initial=0.0))


def _larger(one: float, other: float) -> float:
    # max() would drop a NaN that comes second.
    return float(np.maximum(one, other))


def _rate(said: Sequence[str], wanted: Sequence[str]) -> float:
    return sum(map(edits, said, wanted)) / max(1, sum(map(len, wanted)))


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum((path / name).stat().st_size for name in _GRAPHS if (path / name).is_file())
