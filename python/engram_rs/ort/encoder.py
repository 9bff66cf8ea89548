"""An encoder: ids, and addresses where it takes them, to hidden states that stay where they were computed."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from .._core import Addressing
from ..memory_graph import EncoderMetadata
from .feeding import Feeder
from .model_files import ENCODER, IDS, ModelFiles, scheme_of, shapes
from .placement import Profile
from .providers import device_of
from .sessions import open_session, run_bound

__all__ = ["Encoder", "Fed"]


@dataclass(frozen=True)
class Fed:
    """Inputs that are where the encoder reads them.

    Attributes:
        shape: Batch and length.
        values: By the input's name.
    """

    shape: tuple[int, int]
    values: dict[str, onnxruntime.OrtValue]


class Encoder:
    """Runs `encoder.onnx`. Safe to call from several threads.

    Args:
        files: Where it is.
        providers: As in `open_session`.
        threads: Threads of one call.
        profile: As in `open_session`.

    Attributes:
        session: ONNX Runtime's.
        provider: What runs it.
        addressing: The scheme of the addresses that it takes; None if it takes ids alone.
        memory: What it says of a memory in it.
    """

    def __init__(
        self,
        files: ModelFiles,
        providers: Sequence[str] | None,
        threads: int | None,
        profile: Profile | None = None,
    ) -> None:
        self._where = files.named(ENCODER)
        self._threads = threads
        self.session = open_session(files.graph(ENCODER), providers, threads, named=self._where, profile=profile)
        self.provider: str = self.session.get_providers()[0]
        properties = self.session.get_modelmeta().custom_metadata_map
        self.memory = EncoderMetadata.from_properties(properties, self._where)
        inputs, outputs = shapes(self.session.get_inputs()), shapes(self.session.get_outputs())
        self._input: str | None = None
        self.addressing: Addressing | None = None
        if scheme := scheme_of(list(inputs), self.memory, files):
            self._input, self.addressing = scheme
        wrong = [name for name, (kind, _) in inputs.items() if kind != "tensor(int64)"]
        if self._input is not None and inputs[self._input][1][-1:] != [self._columns]:
            wrong.append(self._input)
        if wrong:
            raise ValueError(f"{self._where}: the inputs are {inputs}; {', '.join(wrong)} is not what is wanted")
        if len(outputs) != 1:
            raise ValueError(f"{self._where} has {len(outputs)} outputs; wanted one, the last hidden state")
        self.output, (self.output_type, _) = next(iter(outputs.items()))
        self._device = device_of(self.provider)
        # One for each thread that feeds at the same time; page-locked memory is too dear to get anew each time.
        self._feeders: deque[Feeder] = deque()

    @property
    def _columns(self) -> int:
        return 0 if self.addressing is None else self.addressing.num_columns

    def feed(self, ids: NDArray[np.int64]) -> Fed:
        """Computes addresses and puts all inputs where the encoder reads them.

        Args:
            ids: int64 `[B, S]`.
        """
        batch, length = ids.shape
        try:
            feeder = self._feeders.pop()
        except IndexError:
            feeder = Feeder(self.provider)
        values = {IDS: feeder.put(ids)}
        if self.addressing is not None and self._input is not None:
            buffer = feeder.buffer((batch, length, self._columns))
            # The FNV schemes' graphs take hashes and reduce them; those of the others take rows.
            addresses = self.addressing.hashes if self.addressing.scheme.endswith("fnv1a") else self.addressing
            values[self._input] = feeder.put(addresses(ids, out=buffer, threads=self._threads))
        self._feeders.append(feeder)
        return Fed((batch, length), values)

    def run(self, fed: Fed) -> onnxruntime.OrtValue:
        """The last hidden state, `[B, S, d_model]`, on the session's device.

        Raises:
            ValueError: ONNX Runtime cannot run the graph.
        """
        binding = self.session.io_binding()
        for name, value in fed.values.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_output(self.output, self._device)
        run_bound(self.session, binding, self._where)
        return binding.get_outputs()[0]
