"""What a run is: one file, checked before anything is built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .._core import Addressing

__all__ = ["Memory", "RunSpec", "read_spec"]

Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    # A word that nothing reads is a mistake: it would look as if it had been obeyed.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Data(_Part):
    """The texts of a run.

    Attributes:
        corpus: `quran` (vocalised verses), `cmudict` (English words and their phonemes), or `file`.
        path: For `file`: JSON lines with `input` and `reference`, relative to the spec.
        limit: Only the first so many texts.
        max_length: The most ids of an input or an output; longer texts are left out, and counted.
    """

    corpus: Literal["quran", "cmudict", "file"]
    path: str | None = None
    limit: Count | None = None
    max_length: Annotated[int, Field(ge=2)] = 1450

    @model_validator(mode="after")
    def _path_of_a_file(self) -> Self:
        if (self.path is not None) != (self.corpus == "file"):
            raise ValueError("path belongs to the corpus 'file', and only to it")
        return self


class Model(_Part):
    """A student or a teacher: a checkpoint's directory, or a configuration of transformers.

    Attributes:
        checkpoint: A directory, relative to the spec, or a name that transformers knows.
        config: `model_type` and what else the configuration class takes; weights are drawn.
    """

    checkpoint: str | None = None
    config: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.checkpoint is None) == (self.config is None):
            raise ValueError("give checkpoint or config, and not both")
        if self.config is not None and not isinstance(self.config.get("model_type"), str):
            raise ValueError("config must name its model_type")
        return self


class Teacher(_Part):
    """Who makes the labels.

    Attributes:
        kind: `reference` takes the corpus's own outputs; `model` lets a model make them.
        model: The model, for `model`, and for the mode `logit`.
    """

    kind: Literal["reference", "model"] = "reference"
    model: Model | None = None

    @model_validator(mode="after")
    def _model_of_a_model(self) -> Self:
        if self.kind == "model" and self.model is None:
            raise ValueError("a teacher of kind 'model' needs a model")
        return self


class Labels(_Part):
    """The outputs that the student learns.

    Attributes:
        sha256: Of the labels file; a run with any other file does not start. `engram-rs train --labels` makes
            the file and prints its digest.
        path: The file, relative to the spec; in the run's directory if nothing is said.
    """

    sha256: Sha256
    path: str | None = None


class Memory(_Part):
    """The memory, if there is one.

    Attributes:
        block: The block of the encoder.
        scheme: `byte_fnv1a` or `utf8_fnv1a`.
        entries: Rows of the table.
        dim: Values a row.
        orders: The n-gram lengths, in bytes or characters.
    """

    block: Annotated[int, Field(ge=0)] = 3
    scheme: Literal["byte_fnv1a", "utf8_fnv1a"] = "byte_fnv1a"
    entries: Count = 2_097_152
    dim: Count = 32
    orders: list[Count] = [2, 3, 4]

    @model_validator(mode="after")
    def _addressable(self) -> Self:
        self.addressing()
        return self

    def addressing(self) -> Addressing:
        """The scheme as a value."""
        make = Addressing.byte_fnv1a if self.scheme == "byte_fnv1a" else Addressing.utf8_fnv1a
        return make(self.entries, self.orders)


class Optimizer(_Part):
    """How weights move: Sinkhorn for the table, Muon for matrices, AdamW for the rest.

    Attributes:
        base_lr: The rate of all but the table, as AdamW understands one.
        table_lr_scale: The table's rate over it.
        weight_decay: Of matrices; neither the table nor the rest decays.
        adjust_lr_fn: How Muon's rate depends on a matrix, by torch's names; `original` is that of most recipes.
        matrix_lr_scale: Muon's rate over `base_lr`.
        warmup: The share of the steps in which rates rise from 0; then they fall to 0 in a line.
        clip: The largest norm of all gradients but the table's together; none if nothing is said.
        sparse_table: Whether only the rows that a batch reads move; see docs/optimizers.md.
    """

    base_lr: Annotated[float, Field(gt=0)] = 0.001
    table_lr_scale: Annotated[float, Field(gt=0)] = 5.0
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    adjust_lr_fn: Literal["original", "match_rms_adamw"] = "match_rms_adamw"
    matrix_lr_scale: Annotated[float, Field(gt=0)] = 1.0
    warmup: Fraction = 0.05
    clip: Annotated[float, Field(gt=0)] | None = None
    sparse_table: bool = False


class Logit(_Part):
    """The loss of the mode `logit`: `weight * T² * KL(teacher, student) + (1 - weight) * CE(labels)`.

    Attributes:
        weight: The teacher's share.
        temperature: T, which divides both logits.
    """

    weight: Fraction = 0.5
    temperature: Annotated[float, Field(gt=0)] = 1.0


class Training(_Part):
    """How long, and how much at once.

    Attributes:
        epochs: Passes over the data; or
        steps: optimizer steps.
        positions: The most padded positions of a batch; a text takes those of its input or its output, the longer.
        checkpoint_every: Steps between checkpoints; the last step always makes one.
        keep: How many checkpoints stay.
        threads: torch threads; results on a CPU depend on them.
        shard_table: Whether the processes of `torchrun` share the rows of the table; each holds all if not.
    """

    epochs: Count | None = None
    steps: Count | None = None
    positions: Count = 4096
    checkpoint_every: Count = 500
    keep: Count = 2
    threads: Count = 1
    shard_table: bool = False

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give epochs or steps, and not both")
        return self


class Evaluation(_Part):
    """What is measured at the end.

    Attributes:
        samples: The most held-out texts; all if nothing is said.
        max_new_tokens: The most ids of a generated output.
        positions: The most padded positions of a batch.
    """

    samples: Count | None = None
    max_new_tokens: Count = 256
    positions: Count = 8192


class RunSpec(_Part):
    """One run.

    Attributes:
        format: `engram-run-v1`.
        name: What the run is called.
        task: `diacritics` (a class for every byte, by an encoder) or `text` (an output for every input).
        mode: `sequence` (cross-entropy on the labels) or `logit` (a teacher's distribution too).
        seed: Of weights, order and dropout.
    """

    format: Literal["engram-run-v1"] = "engram-run-v1"
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    task: Literal["diacritics", "text"]
    mode: Literal["sequence", "logit"] = "sequence"
    seed: int = 0
    data: Data
    teacher: Teacher = Teacher()
    labels: Labels
    student: Model
    memory: Memory | None
    optimizer: Optimizer = Optimizer()
    logit: Logit = Logit()
    training: Training
    evaluation: Evaluation = Evaluation()

    @model_validator(mode="after")
    def _logits_of_a_teacher(self) -> Self:
        if self.mode == "logit" and self.teacher.model is None:
            raise ValueError("the mode 'logit' needs teacher.model")
        return self

    def to_json(self) -> str:
        """The whole spec, defaults included, in one canonical line."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))


def read_spec(path: str | Path) -> RunSpec:
    """Reads and checks a spec.

    Args:
        path: A YAML file.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no YAML, or something in it is unknown, missing or out of range; all of it is named.
    """
    from .._yaml import parse

    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    try:
        value = parse(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return parse_spec(value, str(file))


def parse_spec(value: object, where: str) -> RunSpec:
    """A spec of plain values; see `read_spec`."""
    try:
        return RunSpec.model_validate(value)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, one['loc'])) or 'the spec'}: {one['msg']}" for one in error.errors()]
        raise ValueError(f"{where}: " + "; ".join(lines)) from None
