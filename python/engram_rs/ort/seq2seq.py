"""A whole sequence-to-sequence model, run from texts."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, SupportsIndex, overload

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from .._core import EOS, PAD
from .batches import encode_texts, padded, plan, two_dimensional
from .decoder import Cache, Decoder
from .encoder import Encoder, Fed
from .feeding import ahead
from .model_files import ModelFiles
from .pieces import Pieces
from .placement import Profile
from .sessions import check_threads

__all__ = ["Seq2SeqSession"]

Text = str | bytes
# Rows of one call; a decoder's step costs little more for a few rows than for one.
_BATCH = 32


class Seq2SeqSession:
    """Decodes with a model zip or a folder of graphs: addresses in Rust, all else in ONNX Runtime.

    Decoding is greedy. With `decoder-kv.onnx` the cache stays on the session's device from step to step. Safe to call
    from several threads.

    Args:
        path: A model zip, which is checked as `imf.load` does, or a folder that holds its graphs.
        providers: ONNX Runtime providers in order of preference; `None` takes CUDA where there is a GPU,
            else the CPU. A provider that is named and cannot run is an error.
        threads: Threads of one call, for hashing and for ONNX Runtime; `None` for what the machine has.
        plain: Decode without a cache, by `decoder.onnx`, though there be a `decoder-kv.onnx`.
        profile: Whether to note what runs, for `placement`.

    Attributes:
        path: The zip or folder.
        metadata: The `imf.Metadata` of the zip, or of the folder where it has them.
        addressing: The scheme of the addresses that the encoder takes; None where it takes ids alone.
        provider: The execution provider that runs it.
        cached: Whether decoding uses a cache.
        pads: Whether texts of several lengths share a batch; if not, only those of one length do, since nothing in
            the graphs promises that padding is seen as such.
        profile: What was noted; None without `profile`.

    Raises:
        FileNotFoundError: There is no such file, or the folder lacks a graph.
        ValueError: The zip is damaged, the graphs are not those of a model, or a provider is unknown or cannot run.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        providers: Sequence[str] | None = None,
        threads: SupportsIndex | None = None,
        *,
        plain: bool = False,
        profile: bool = False,
    ) -> None:
        number = check_threads(threads)
        self.path = Path(path)
        self.profile = Profile() if profile else None
        with ModelFiles.open(self.path) as files:
            self._encoder = Encoder(files, providers, number, self.profile)
            self._decoder = Decoder(files, providers, number, self.profile, plain)
            self.metadata = files.metadata
        if self._encoder.output_type != self._decoder.states_type:
            given, wanted = self._encoder.output_type, self._decoder.states_type
            raise ValueError(f"{self.path}: the encoder gives {given}, but the decoder takes {wanted}")
        self.addressing = self._encoder.addressing
        self.provider = self._encoder.provider
        self.cached = self._decoder.cached
        self.pads = self._decoder.zero_rows

    @property
    def precision(self) -> str:
        """The precision of the weights, as the metadata or the encoder tell it; `"unknown"` if neither does."""
        if self.metadata is not None:
            return self.metadata.precision
        return "unknown" if self._encoder.memory is None else self._encoder.memory.precision

    # A str is a sequence of str as well; the first overload that fits is the one that holds.
    @overload
    def generate(  # type: ignore[overload-overlap]
        self, texts: Text, max_new_tokens: int = ..., stream: Literal[False] = ..., *, batch_size: int = ...
    ) -> str: ...
    @overload
    def generate(
        self, texts: Sequence[Text], max_new_tokens: int = ..., stream: Literal[False] = ..., *, batch_size: int = ...
    ) -> list[str]: ...
    @overload
    def generate(  # type: ignore[overload-overlap]
        self, texts: Text, max_new_tokens: int = ..., *, stream: Literal[True], batch_size: int = ...
    ) -> Iterator[str]: ...
    @overload
    def generate(
        self, texts: Sequence[Text], max_new_tokens: int = ..., *, stream: Literal[True], batch_size: int = ...
    ) -> Iterator[tuple[int, str]]: ...
    def generate(
        self,
        texts: Text | Sequence[Text],
        max_new_tokens: int = 256,
        stream: bool = False,
        *,
        batch_size: int = _BATCH,
    ) -> str | list[str] | Iterator[str] | Iterator[tuple[int, str]]:
        """Decodes texts greedily, until the end symbol or `max_new_tokens`.

        Args:
            texts: One text, or several; a `bytes` is taken as it is, a `str` as UTF-8.
            max_new_tokens: The most tokens of one output; a token is a byte.
            stream: Give pieces as they are decoded. A character comes when its last byte is there.
            batch_size: The most texts that are decoded together. Those of like length are put together.

        Returns:
            The text, or one for each of `texts`. With `stream`, an iterator of pieces, or for several texts of
            (index, piece); pieces of texts that are decoded together alternate. Bytes that are no UTF-8 are U+FFFD.

        Raises:
            TypeError: A text is neither `str` nor `bytes`.
            ValueError: A number is less than 1, or ONNX Runtime cannot run the model.
        """
        for name, number in (("max_new_tokens", max_new_tokens), ("batch_size", batch_size)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {number!r}")
        if isinstance(texts, (str, bytes)):
            pieces = self._pieces(encode_texts([texts]), max_new_tokens, batch_size)
            return (piece for _, piece in pieces) if stream else "".join(piece for _, piece in pieces)
        rows = encode_texts(texts)
        pieces = self._pieces(rows, max_new_tokens, batch_size)
        if stream:
            return pieces
        parts: list[list[str]] = [[] for _ in rows]
        for index, piece in pieces:
            parts[index].append(piece)
        return ["".join(part) for part in parts]

    def encode(self, ids: Any) -> onnxruntime.OrtValue:  # noqa: ANN401
        """The encoder's output.

        Args:
            ids: Integers `[B, S]`, of equal length or padded with 0 on the right.

        Returns:
            Hidden states `[B, S, d_model]`, on the session's device.

        Raises:
            TypeError: `ids` are not integers.
            ValueError: They are not `[B, S]` with B and S at least 1, or ONNX Runtime cannot run the graph.
        """
        return self._encoder.run(self._encoder.feed(two_dimensional(ids, "ids")))

    def step(
        self,
        states: onnxruntime.OrtValue,
        tokens: Any,  # noqa: ANN401
        cache: Cache | None = None,
    ) -> tuple[NDArray[np.floating], Cache | None]:
        """One call of the decoder.

        Args:
            states: What `encode` gave.
            tokens: Integers `[B, W]`: the tokens that follow those in `cache`. The first of all is the pad, 0.
            cache: What the call before gave; None for the first, and for a decoder without a cache, which takes all
                tokens from the first on.

        Returns:
            Logits `[B, W, vocabulary]`, and the cache that holds these tokens too (None without one). The given
            cache stays as it was.

        Raises:
            TypeError: `tokens` are not integers.
            ValueError: They are not `[B, W]` with B and W at least 1, a cache is given to a decoder without one, or
                ONNX Runtime cannot run the graph.
        """
        return self._decoder.step(states, two_dimensional(tokens, "tokens"), cache)

    def tokens(self, states: onnxruntime.OrtValue, max_new_tokens: int) -> Iterator[NDArray[np.int64]]:
        """Greedy decoding.

        Args:
            states: What `encode` gave, `[B, S, d_model]`.
            max_new_tokens: How many steps at most.

        Yields:
            int64 `[B]`: the next token of every row; pad, 0, where the row has ended. Stops when all have.
        """
        batch = states.shape()[0]
        ended = np.zeros(batch, dtype=np.bool_)
        fed = np.full((batch, 1), PAD, dtype=np.int64)
        cache: Cache | None = None
        for _ in range(max_new_tokens):
            logits, cache = self._decoder.step(states, fed, cache)
            chosen = np.where(ended, PAD, logits[:, -1].argmax(axis=-1))
            ended |= chosen == EOS
            yield chosen
            if ended.all():
                return
            fed = chosen[:, np.newaxis] if self.cached else np.hstack((fed, chosen[:, np.newaxis]))

    def _pieces(self, rows: list[NDArray[np.int64]], limit: int, batch_size: int) -> Iterator[tuple[int, str]]:
        batches = plan([len(row) for row in rows], batch_size, self.pads)

        def prepare(indices: list[int]) -> tuple[list[int], Fed]:
            return indices, self._encoder.feed(padded([rows[index] for index in indices]))

        # The next batch's addresses are computed, and copied to the device, while this one is decoded.
        for indices, fed in ahead(batches, prepare):
            texts = [Pieces() for _ in indices]
            for chosen in self.tokens(self._encoder.run(fed), limit):
                for index, text, token in zip(indices, texts, chosen.tolist(), strict=True):
                    if piece := text.push(token):
                        yield index, piece
            for index, text in zip(indices, texts, strict=True):
                if piece := text.finish():
                    yield index, piece

    def __repr__(self) -> str:
        scheme = "" if self.addressing is None else f", addressing={self.addressing}"
        return (
            f"Seq2SeqSession({self.path.name!r}, provider={self.provider!r}, precision={self.precision!r}, "
            f"cached={self.cached}{scheme})"
        )
