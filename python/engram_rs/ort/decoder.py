"""A decoder, with a cache that stays on the device or without one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from .model_files import CACHED, DECODER, IDS, STATES, ModelFiles, shapes
from .placement import Profile
from .providers import device_of
from .sessions import open_session, run_bound

__all__ = ["Cache", "Decoder"]

_LOGITS = "logits"
# The exporter's promise that rows of zeros in the encoder's output count as padding.
_PADDING, _ZERO_ROWS = "engram.padding", "zero-rows"
_FLOATS: dict[str, type[np.floating]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


@dataclass(frozen=True)
class Cache:
    """Keys and values of the tokens so far; never changed, so that one may be used any number of times.

    Attributes:
        values: `past_key_0`, `past_value_0`, …, each `[B, heads, length, d_kv]`.
        length: Tokens that it holds.
    """

    values: tuple[onnxruntime.OrtValue, ...]
    length: int


class Decoder:
    """Runs `decoder-kv.onnx`, or `decoder.onnx` where there is no other. Safe to call from several threads.

    Args:
        files: Where it is.
        providers: As in `open_session`.
        threads: Threads of one call.
        profile: As in `open_session`.
        plain: Take `decoder.onnx` in any case.

    Attributes:
        session: ONNX Runtime's.
        cached: Whether it has a cache.
        zero_rows: Whether it takes rows of zeros in the encoder's output as padding.
    """

    def __init__(
        self,
        files: ModelFiles,
        providers: Sequence[str] | None,
        threads: int | None,
        profile: Profile | None = None,
        plain: bool = False,
    ) -> None:
        name = DECODER if plain else files.decoder
        self._where = files.named(name)
        self.session = open_session(files.graph(name), providers, threads, named=self._where, profile=profile)
        self._device = device_of(self.session.get_providers()[0])
        inputs, outputs = shapes(self.session.get_inputs()), shapes(self.session.get_outputs())
        self.cached = name == CACHED
        layers = sum(port.startswith("past_key_") for port in inputs)
        pairs = [f"{what}_{layer}" for layer in range(layers) for what in ("key", "value")] if self.cached else []
        self._pasts, self._presents = [f"past_{pair}" for pair in pairs], [f"present_{pair}" for pair in pairs]
        for what, given, wanted in (
            ("inputs", inputs, {IDS, STATES, *self._pasts}),
            ("outputs", outputs, {_LOGITS, *self._presents}),
        ):
            if set(given) != wanted or (self.cached and not layers):
                raise ValueError(f"{self._where} has the {what} {', '.join(given)}; wanted {', '.join(sorted(wanted))}")
        self.states_type = inputs[STATES][0]
        # The sizes that the first call's empty cache must have.
        self._empty = [self._past(past, *inputs[past]) for past in self._pasts]
        properties = self.session.get_modelmeta().custom_metadata_map
        self.zero_rows = properties.get(_PADDING) == _ZERO_ROWS

    def _past(self, name: str, kind: str, shape: list[int | str]) -> tuple[int, int, type[np.floating]]:
        heads, width = (shape[1], shape[3]) if len(shape) == 4 else (None, None)
        if kind not in _FLOATS or not isinstance(heads, int) or not isinstance(width, int):
            raise ValueError(
                f"{self._where}: {name} is {kind} {shape}; wanted floats [batch, heads, past, d_kv] of fixed heads and "
                "d_kv (open the model with plain=True to decode without a cache)"
            )
        return heads, width, _FLOATS[kind]

    def step(
        self, states: onnxruntime.OrtValue, tokens: NDArray[np.int64], cache: Cache | None = None
    ) -> tuple[NDArray[np.floating], Cache | None]:
        """Logits at every token, and the cache that holds these tokens too.

        Args:
            states: The encoder's output, `[B, S, d_model]`.
            tokens: int64 `[B, W]`: the tokens that follow those in `cache`; without a cache, all from the first on.
            cache: What the call before gave.

        Returns:
            `[B, W, vocabulary]`, float32 or float16 as the graph gives them, and the new cache (None if the decoder
            has none).

        Raises:
            ValueError: A cache is given to a decoder without one, or ONNX Runtime cannot run the graph.
        """
        if cache is not None and not self.cached:
            raise ValueError(f"{self._where} takes no cache; give it all tokens from the first on")
        batch, width = tokens.shape
        if cache is None:
            cache = Cache(tuple(self._nothing(batch, *sizes) for sizes in self._empty), 0)
        binding = self.session.io_binding()
        binding.bind_ortvalue_input(IDS, onnxruntime.OrtValue.ortvalue_from_numpy(tokens))
        binding.bind_ortvalue_input(STATES, states)
        for name, value in zip(self._pasts, cache.values, strict=True):
            binding.bind_ortvalue_input(name, value)
        binding.bind_output(_LOGITS, "cpu")
        for name in self._presents:
            binding.bind_output(name, self._device)
        run_bound(self.session, binding, self._where)
        logits, *presents = binding.get_outputs()
        return logits.numpy(), Cache(tuple(presents), cache.length + width) if self.cached else None

    @staticmethod
    def _nothing(batch: int, heads: int, width: int, dtype: type[np.floating]) -> onnxruntime.OrtValue:
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.empty((batch, heads, 0, width), dtype=dtype))
