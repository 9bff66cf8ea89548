"""A run from its spec to its record: labels, student, steps, gate, checkpoints, evaluation."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..torch.optim import build_optimizer
from ..torch.sharding import whole
from . import batches as planning
from .checkpoints import latest, resume, save_checkpoint
from .corpora import Text, read_corpus
from .dry import reduced
from .evaluation import OUTCOMES, evaluate
from .gate import GateError, check_evaluation, check_launch
from .labels import check_labels, make_labels, read_labels
from .loss import counted, distilled, supervised
from .parallel import World, enter_world
from .record import RECORD, new_record, read_record, write_record
from .spec import RunSpec
from .student import Student, build_student
from .tasks import Example, Task, task_of
from .teacher import build_teacher, teach_by

__all__ = ["LOG", "label", "run"]

LOG = "log.jsonl"
# The projection starts at zero, so the table's first gradient is in the second step.
GATE_AFTER = 3


def label(spec: RunSpec, base: Path, folder: Path, console: Console) -> tuple[Path, str]:
    """Makes a spec's labels file, or what is missing of it.

    Returns:
        The file and its sha256, which is to be pinned in the spec.
    """
    texts = read_corpus(spec.data, base)
    file = _labels_file(spec, base, folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    task = None
    if spec.teacher.kind == "model":
        task = task_of(spec.task, texts, [text.reference for text in texts], spec.data.max_length)
    teach = teach_by(spec, task, base)
    with _progress(console) as bars:
        bar = bars.add_task("labels", total=len(texts), note="")
        return file, make_labels(texts, file, teach, lambda count: bars.update(bar, advance=count))


def run(spec: RunSpec, base: Path, folder: Path, console: Console, *, dry_run: bool = False) -> dict[str, Any]:
    """Trains and evaluates a student, or goes on where an earlier call was cut off.

    Args:
        spec: The run.
        base: The directory that relative paths in it start from.
        folder: The run's directory; made if it is not there. A run that was cut off goes on from its newest
            checkpoint, bit for bit on a CPU.
        console: Where progress is shown.
        dry_run: Takes two steps at a reduced size.

    Returns:
        The record that `run.json` holds.

    Raises:
        ValueError: The labels are not the pinned ones, or the directory belongs to another spec; then no step was
            made. Or it is finished already.
        GateError: The first steps, or the evaluation, do not show the memory.
    """
    pinned = spec
    if dry_run:
        spec = reduced(spec)
    world = enter_world()
    torch.set_num_threads(spec.training.threads)
    folder.mkdir(parents=True, exist_ok=True)
    record = _record(spec, folder)
    texts, outputs, digest = _labelled(pinned, base, folder, console, world)
    task = task_of(spec.task, texts, outputs, spec.data.max_length)
    plan = planning.plan(task.train, spec.training.positions, spec.seed, spec.training.epochs, spec.training.steps)
    checkpoint = latest(folder)
    student = build_student(spec, task, base, checkpoint)
    record |= _facts(digest, task, student, plan)
    if dry_run:
        record["dry_run"] = True
    if student.handle is not None and world.is_first:
        console.print(student.handle.line, markup=False, highlight=False, soft_wrap=True)
    _train(spec, base, folder, console, world, record, student, task, plan, checkpoint)
    if world.is_first:
        _evaluate(spec, base, folder, console, world, record, task)
    return record


def _labels_file(spec: RunSpec, base: Path, folder: Path) -> Path:
    return folder / "labels.jsonl" if spec.labels.path is None else base / spec.labels.path


def _labelled(
    spec: RunSpec, base: Path, folder: Path, console: Console, world: World
) -> tuple[list[Text], list[str], str]:
    """The corpus, its labels, which must be those that the spec pins, and their sha256."""
    file = _labels_file(spec, base, folder)

    def make() -> None:
        if not file.is_file():
            label(spec, base, folder, console)

    world.first_then_all(make)
    digest = check_labels(file, spec.labels.sha256)
    texts = read_corpus(spec.data, base)
    return texts, read_labels(file, texts), digest


def _record(spec: RunSpec, folder: Path) -> dict[str, Any]:
    """The record of this run: a new one, or that of the call which was cut off."""
    record = new_record(spec)
    if not (folder / RECORD).is_file():
        return record
    earlier = read_record(folder)
    if earlier["spec"] != record["spec"]:
        raise ValueError(f"{folder} belongs to another spec, {earlier['spec'].get('name')!r}; take another directory")
    if earlier["status"] == "finished":
        raise ValueError(f"{folder} is finished; take another directory to run it again")
    return record


def _facts(digest: str, task: Task, student: Student, plan: Sequence[Sequence[Example]]) -> dict[str, Any]:
    """What is known before the first step."""
    after = sum(parameter.numel() for parameter in student.model.parameters())
    before = student.bare_parameters
    memory = None
    if student.handle is not None:
        module = student.handle.module
        memory = {
            "line": student.handle.line,
            "block": student.handle.name,
            "d_model": module.d_model,
            "addressing": json.loads(module.addressing.to_json()),
            "addressing_digest": module.addressing.digest,
            "parameters_before": before,
            "parameters_after": after,
            "table_gradient_norm": None,
        }
    return {
        "labels": {"sha256": digest},
        "texts": {"train": len(task.train), "held_out": len(task.held_out), "left_out": task.left_out},
        "parameters": after,
        "steps": len(plan),
        "memory": memory,
    }


def _train(
    spec: RunSpec,
    base: Path,
    folder: Path,
    console: Console,
    world: World,
    record: dict[str, Any],
    student: Student,
    task: Task,
    plan: Sequence[Sequence[Example]],
    checkpoint: Path | None,
) -> None:
    model = student.model.to(world.device).train()
    shared = spec.training.shard_table and world.share_tables(model)
    record["processes"] = {"count": world.size, "table": "shared" if shared else "whole"}
    if student.handle is not None:
        student.handle.module.sparse_gradient = spec.optimizer.sparse_table and world.size == 1
    optimizer = build_optimizer(
        model,
        spec.optimizer.base_lr,
        table_lr_scale=spec.optimizer.table_lr_scale,
        weight_decay=spec.optimizer.weight_decay,
        adjust_lr_fn=spec.optimizer.adjust_lr_fn,
        matrix_lr_scale=spec.optimizer.matrix_lr_scale,
        sparse_table=spec.optimizer.sparse_table,
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, _Schedule(len(plan), spec.optimizer.warmup))
    teacher = build_teacher(spec, task, base).to(world.device) if spec.mode == "logit" else None
    # A teacher draws weights or nothing; the student's dropout must not depend on it.
    torch.manual_seed(spec.seed + 2)
    done, facts = (0, {}) if checkpoint is None else resume(checkpoint, optimizer, scheduler)
    if record["memory"] is not None:
        # A checkpoint is read with its memory, so what it grew from was measured when the run began.
        record["memory"] |= facts
    if world.is_first:
        _cut_log(folder, done)
    others = [parameter for parameter in model.parameters() if not _is_table(student, parameter)]
    parallel = world.wrap(model)
    recent: list[float] = []
    with _progress(console, disable=not world.is_first) as bars, (folder / LOG).open("a", encoding="utf-8") as log:
        bar = bars.add_task(spec.name, total=len(plan), completed=done, note="")
        for step, batch in enumerate(plan[done:], done + 1):
            began = time.perf_counter()
            loss = _step(spec, world, parallel, teacher, task, batch)
            if spec.optimizer.clip is not None:
                torch.nn.utils.clip_grad_norm_(others, spec.optimizer.clip)
            if student.handle is not None and step <= GATE_AFTER:
                _note_gradient(record["memory"], student)
            optimizer.step()
            scheduler.step()
            if world.is_first:
                rate = optimizer.param_groups[0]["lr"]
                line = {"step": step, "loss": loss, "lr": rate, "seconds": round(time.perf_counter() - began, 4)}
                log.write(json.dumps(line) + "\n")
                log.flush()
            if step == min(GATE_AFTER, len(plan)):
                _launch(spec, folder, world, record)
            if step == len(plan):
                # A table that moves only in the rows of a batch makes up for what the others missed.
                optimizer.catch_up()
            if step % spec.training.checkpoint_every == 0 or step == len(plan):
                kept = record["memory"] or {}
                kept = {key: kept[key] for key in ("parameters_before", "table_gradient_norm") if key in kept}
                saved = folder / "checkpoints" / f"step-{step:07d}"
                save_checkpoint(folder, step, model, optimizer, scheduler, kept, spec.training.keep, world)
                record["checkpoint"] = str(saved.relative_to(folder))
            recent.append(loss)
            bars.update(bar, advance=1, note=f"loss {sum(recent[-20:]) / len(recent[-20:]):.3f}")
    record["status"] = "trained"
    if checkpoint is not None:
        record.setdefault("checkpoint", str(checkpoint.relative_to(folder)))
    if world.is_first:
        write_record(folder, record)


def _step(spec: RunSpec, world: World, model: Any, teacher: Any, task: Task, batch: Sequence[Example]) -> float:
    """One batch forward and backward; gives the mean loss of the whole batch, in nats."""
    # Padded as a whole, so that every rank has the shape of one process.
    whole = task.collate(batch)
    count = max(1, counted(whole["labels"]))
    inputs = world.share(whole)
    labels = inputs["labels"]
    model.zero_grad(set_to_none=True)
    logits = model(**inputs).logits
    if teacher is None:
        total = supervised(logits, labels)
    else:
        with torch.no_grad():
            taught = teacher(**inputs).logits
        total = distilled(logits, taught, labels, spec.logit)
    torch.autograd.backward(total / count)
    return world.total(float(total.detach())) / count


class _Schedule:
    """Rates rise in a line, then fall to 0 in a line."""

    def __init__(self, steps: int, warmup: float) -> None:
        self.steps, self.rising = steps, max(1, round(steps * warmup))

    def __call__(self, step: int) -> float:
        if step < self.rising:
            return (step + 1) / self.rising
        return max(0.0, (self.steps - step) / max(1, self.steps - self.rising))


def _is_table(student: Student, parameter: torch.Tensor) -> bool:
    return student.handle is not None and parameter is student.handle.module.table


def _note_gradient(memory: dict[str, Any], student: Student) -> None:
    assert student.handle is not None
    gradient = student.handle.module.table.grad
    if gradient is not None and gradient.is_sparse:
        gradient = gradient.coalesce().values()
    norm = 0.0 if gradient is None else float(whole(gradient.norm()))
    memory["table_gradient_norm"] = max(norm, memory["table_gradient_norm"] or 0.0)


def _launch(spec: RunSpec, folder: Path, world: World, record: dict[str, Any]) -> None:
    """After the first steps: goes on only if the record shows the memory."""
    reasons = check_launch(spec, record)
    record["status"] = "refused" if reasons else "running"
    if world.is_first:
        write_record(folder, record)
    if reasons:
        raise GateError(f"{folder} does not count: " + "; ".join(reasons))


def _evaluate(
    spec: RunSpec, base: Path, folder: Path, console: Console, world: World, record: dict[str, Any], task: Task
) -> None:
    total = len(task.held_out[: spec.evaluation.samples])
    with _progress(console) as bars:
        bar = bars.add_task("evaluation", total=total, note="")
        record["evaluation"] = evaluate(
            spec,
            task,
            base,
            folder / record["checkpoint"],
            folder / OUTCOMES,
            world.device,
            lambda count: bars.update(bar, advance=count),
        )
    reasons = check_evaluation(spec, record)
    record["status"] = "refused" if reasons else "finished"
    write_record(folder, record)
    if reasons:
        raise GateError(f"{folder} does not count: " + "; ".join(reasons))


def _cut_log(folder: Path, done: int) -> None:
    """Forgets the steps after the checkpoint: they will be made again."""
    file = folder / LOG
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)[:done] if file.is_file() else []
    file.write_text("".join(lines), encoding="utf-8")


def _progress(console: Console, disable: bool = False) -> Progress:
    return Progress(
        TextColumn("  {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=console,
        disable=disable,
    )
