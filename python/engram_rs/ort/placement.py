"""Which provider runs which node, by ONNX Runtime's own profile."""

import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import onnxruntime

__all__ = ["Placed", "Profile", "misplaced", "placement"]

_KERNEL = "_kernel_time"
# What the builders of a memory's graph call its nodes.
_CORE = "engram"


@dataclass(frozen=True)
class Placed:
    """A node of a graph as it ran.

    Attributes:
        graph: Which graph it is of.
        node: Its name; ONNX Runtime names copies between devices, and what it makes of several nodes, itself.
        operator: Such as `Gather`.
        provider: What ran it.
        microseconds: How long, in all runs together.
    """

    graph: str
    node: str
    operator: str
    provider: str
    microseconds: int

    @property
    def core(self) -> bool:
        """Whether it is of the memory: from addresses to what is added to the stream."""
        return _CORE in self.node


class Profile:
    """The profiles of the graphs that one session runs, in a private folder."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="engram_rs-profile-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._sessions: dict[str, onnxruntime.InferenceSession] = {}
        self._placed: list[Placed] | None = None

    @property
    def prefix(self) -> Path:
        """Where the next session is to write, less an ending."""
        return self._folder / str(len(self._sessions))

    def add(self, graph: str, session: onnxruntime.InferenceSession) -> None:
        """Takes note of a session that writes there."""
        self._sessions[graph] = session

    def read(self) -> list[Placed]:
        """All nodes that have run, by graph; the first call ends the profile."""
        if self._placed is None:
            self._placed = [one for graph in self._sessions for one in self._of(graph)]
            self._remove()
        return self._placed

    def _of(self, graph: str) -> Iterable[Placed]:
        events = json.loads(Path(self._sessions[graph].end_profiling()).read_text(encoding="utf-8"))
        found: dict[str, Placed] = {}
        for event in events:
            name = event["name"]
            if event["cat"] != "Node" or not name.endswith(_KERNEL):
                continue
            node, told = name.removesuffix(_KERNEL), event["args"]
            before = found[node].microseconds if node in found else 0
            found[node] = Placed(graph, node, told["op_name"], told["provider"], before + event["dur"])
        return found.values()


class _Profiled(Protocol):
    @property
    def profile(self) -> Profile | None: ...


def placement(session: _Profiled) -> list[Placed]:
    """Where each node of a session ran, by the session's own profile, which ends with the first call.

    Args:
        session: A `MemorySession` or `Seq2SeqSession` that was opened with `profile=True` and has run.

    Returns:
        The nodes that have run, graph by graph in the order of their first run.

    Raises:
        ValueError: The session was opened without a profile, or has not run.
    """
    if session.profile is None:
        raise ValueError("the session has no profile: open it with profile=True")
    placed = session.profile.read()
    if not placed:
        raise ValueError("the session has not run anything, so that no node has a place")
    return placed


def misplaced(placed: Iterable[Placed], provider: str) -> list[Placed]:
    """Nodes of the memory that another provider than `provider` ran.

    Raises:
        ValueError: There is no node of a memory among `placed`.
    """
    core = [one for one in placed if one.core]
    if not core:
        raise ValueError(f"no node is of a memory: none has {_CORE!r} in its name")
    return [one for one in core if one.provider != provider]
