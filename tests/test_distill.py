"""Runs that prove themselves: specs, labels, resumption, the gate."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import safetensors.torch  # noqa: E402
from rich.console import Console  # noqa: E402

from engram_rs import distill  # noqa: E402
from engram_rs.distill import checkpoints, evaluation, labels, parallel, running, student  # noqa: E402
from engram_rs.distill.corpora import Text, held_out  # noqa: E402
from engram_rs.distill.loss import supervised  # noqa: E402
from engram_rs.distill.spec import parse_spec  # noqa: E402
from engram_rs.torch import require_memory  # noqa: E402

SPECS = Path(__file__).parent.parent / "specs"
QUIET = Console(quiet=True)
T5 = {
    "model_type": "t5",
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 32,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "num_heads": 2,
    "dropout_rate": 0.1,
}


def corpus(folder):
    """Puts a small corpus into a directory: words and their letters in reverse."""
    words = [f"{a}{b}{c}" for a in "kltmn" for b in "aeiou" for c in "rsdgf"]
    lines = [json.dumps({"input": word, "reference": " ".join(reversed(word))}) + "\n" for word in words]
    (folder / "texts.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture
def base(tmp_path):
    return corpus(tmp_path)


def make(base, **changes):
    """A spec over that corpus, its labels pinned."""
    value = {
        "name": "small",
        "task": "text",
        "data": {"corpus": "file", "path": "texts.jsonl"},
        "labels": {"sha256": "0" * 64, "path": "labels.jsonl"},
        "student": {"config": T5},
        "memory": {"block": 1, "entries": 997, "dim": 4, "orders": [1, 2]},
        "training": {"steps": 6, "positions": 64, "checkpoint_every": 2},
        "evaluation": {"max_new_tokens": 8},
    } | changes
    _, digest = distill.label(parse_spec(value, "test"), base, base, QUIET)
    value["labels"] = {**value["labels"], "sha256": digest}
    return parse_spec(value, "test")


def weights(folder):
    record = distill.read_record(folder)
    files = sorted((folder / record["checkpoint"]).glob("*.safetensors"))
    assert len(files) == (2 if record["memory"] else 1)
    return [file.read_bytes() for file in files]


def table_of(checkpoint):
    tensors = safetensors.torch.load_file(checkpoint / "engram.safetensors")
    return next(tensor for name, tensor in tensors.items() if name.endswith("table"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One run for all that look at a record."""
    folder = corpus(tmp_path_factory.mktemp("finished"))
    distill.run(make(folder), folder, folder / "run", QUIET)
    return folder / "run"


@pytest.mark.parametrize("file", sorted(SPECS.glob("*.yaml")), ids=lambda file: file.stem)
def test_shipped_specs_are_valid(file):
    spec = distill.read_spec(file)
    assert spec.name == file.stem
    assert distill.read_spec(file) == parse_spec(json.loads(spec.to_json()), "again")


def test_the_published_recipe():
    spec = distill.read_spec(SPECS / "ara-diac-small-2-1-engram.yaml")
    assert spec.memory is not None
    assert (spec.memory.entries, spec.memory.dim, spec.memory.block) == (2_097_152, 32, 3)
    assert (spec.training.epochs, spec.data.max_length) == (6, 1450)
    assert spec.optimizer.base_lr * spec.optimizer.table_lr_scale == pytest.approx(2.6e-4)
    assert spec.optimizer.base_lr * spec.optimizer.matrix_lr_scale == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"memory": {"blok": 3}}, "memory.blok: Extra inputs"),
        ({"training": {"steps": 1, "epochs": 1}}, "training: Value error, give epochs or steps"),
        ({"training": {"steps": "1"}}, "training.steps: Input should be a valid integer"),
        ({"mode": "logit"}, "needs teacher.model"),
        ({"memory": {"orders": []}}, "memory"),
        ({"labels": {"sha256": "abc"}}, "labels.sha256"),
        ({"student": {"config": {}}}, "must name its model_type"),
        ({"data": {"corpus": "quran", "path": "x"}}, "path belongs to the corpus 'file'"),
    ],
)
def test_specs_that_are_refused(base, change, sentence):
    value = json.loads(make(base).to_json()) | change
    with pytest.raises(ValueError, match=sentence):
        parse_spec(value, "test")


def test_a_run_counts(base):
    spec = make(base)
    record = distill.run(spec, base, base / "run", QUIET)
    assert distill.gate(base / "run") == record == distill.read_record(base / "run")
    memory = record["memory"]
    assert memory["line"].startswith("[engram] attached at encoder block 1: +")
    assert memory["parameters_after"] - memory["parameters_before"] == (997 + 16) * 4
    assert memory["table_gradient_norm"] > 0
    assert record["evaluation"]["memory_digests"] == [spec.memory.addressing().digest]
    outcomes = (base / "run" / evaluation.OUTCOMES).read_text().splitlines()
    assert len(outcomes) == record["texts"]["held_out"] == record["evaluation"]["texts"]
    assert len(list((base / "run" / "checkpoints").iterdir())) == spec.training.keep
    with pytest.raises(ValueError, match="is finished"):
        distill.run(spec, base, base / "run", QUIET)
    with pytest.raises(ValueError, match="belongs to another spec"):
        distill.run(make(base, seed=1), base, base / "run", QUIET)


def test_arms_differ_in_the_memory_alone(base):
    with_memory, without = make(base), make(base, memory=None)
    one = distill.run(with_memory, base, base / "one", QUIET)
    two = distill.run(without, base, base / "two", QUIET)
    assert two["memory"] is None
    assert one["memory"]["parameters_before"] == two["parameters"]
    distill.gate(base / "two")
    first = [json.loads((base / name / "log.jsonl").read_text().splitlines()[0])["loss"] for name in ("one", "two")]
    assert first[0] == first[1], "the memory adds zero at first, and dropout draws the same"


@pytest.mark.parametrize("stop", [1, 3, 5])
@pytest.mark.parametrize("sparse", [False, True])
def test_resumption_is_exact(base, monkeypatch, stop, sparse):
    spec = make(base, optimizer={"base_lr": 0.01, "sparse_table": sparse})
    distill.run(spec, base, base / "whole", QUIET)
    step, calls = running._step, []

    def dies(*arguments):
        calls.append(1)
        if len(calls) > stop:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(running, "_step", dies)
    with pytest.raises(KeyboardInterrupt):
        distill.run(spec, base, base / "cut", QUIET)
    monkeypatch.setattr(running, "_step", step)
    distill.run(spec, base, base / "cut", QUIET)
    assert weights(base / "cut") == weights(base / "whole")
    logs = [(base / name / "log.jsonl").read_text().splitlines() for name in ("cut", "whole")]
    assert [json.loads(line)["loss"] for line in logs[0]] == [json.loads(line)["loss"] for line in logs[1]]
    distill.gate(base / "cut")


def test_a_full_disk_leaves_the_last_checkpoint(base, monkeypatch):
    spec = make(base)
    save, calls = torch.save, []

    def full(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            Path(arguments[1]).write_bytes(b"half")
            raise OSError(28, "No space left on device")
        return save(*arguments, **options)

    monkeypatch.setattr(checkpoints.torch, "save", full)
    with pytest.raises(OSError, match="No space left"):
        distill.run(spec, base, base / "run", QUIET)
    assert [folder.name for folder in (base / "run" / "checkpoints").iterdir()] == ["step-0000002"]
    distill.run(spec, base, base / "run", QUIET)
    distill.run(spec, base, base / "whole", QUIET)
    assert weights(base / "run") == weights(base / "whole")


def test_a_damaged_checkpoint_is_passed_over(base):
    distill.run(make(base), base, base / "run", QUIET)
    newest = checkpoints.latest(base / "run")
    (newest / "training.pt").write_bytes(b"noise")
    assert checkpoints.latest(base / "run") != newest


def test_other_labels_stop_a_run_before_any_step(base):
    spec = make(base)
    file = base / "labels.jsonl"
    file.write_text(file.read_text().replace("k", "K", 1))
    with pytest.raises(ValueError, match="these are other labels"):
        distill.run(spec, base, base / "run", QUIET)
    assert not (base / "run" / "log.jsonl").exists()


def test_a_run_whose_attach_was_removed_is_refused(base, monkeypatch):
    build = running.build_student

    def forgetful(spec, *arguments):
        return build(spec.model_copy(update={"memory": None}), *arguments)

    monkeypatch.setattr(running, "build_student", forgetful)
    with pytest.raises(distill.GateError, match=r"lacks the line .* parameter count grew by None.*no gradient"):
        distill.run(make(base), base, base / "run", QUIET)
    assert distill.read_record(base / "run")["status"] == "refused"
    with pytest.raises(distill.GateError, match="lacks the line"):
        distill.gate(base / "run")


def test_a_run_whose_table_is_frozen_is_refused(base, monkeypatch):
    build = running.build_student

    def frozen(*arguments):
        made = build(*arguments)
        made.handle.module.table.requires_grad_(False)
        return made

    monkeypatch.setattr(running, "build_student", frozen)
    with pytest.raises(distill.GateError, match="its table received no gradient"):
        distill.run(make(base), base, base / "run", QUIET)


def test_a_run_evaluated_with_the_vanilla_loader_is_refused(base, monkeypatch):
    def vanilla(spec, task, at, checkpoint):
        model = student._auto(task).from_pretrained(checkpoint)
        with pytest.raises(ValueError, match="must have a memory"):
            require_memory(model)
        return student.Student(model, None, 0)

    monkeypatch.setattr(evaluation, "build_student", vanilla)
    with pytest.raises(distill.GateError, match=r"its evaluation loaded the memories \[\]"):
        distill.run(make(base), base, base / "run", QUIET)


@pytest.mark.parametrize(
    ("keys", "value", "sentence"),
    [
        (("memory", "line"), "[engram] nothing", "lacks the line"),
        (("memory", "parameters_after"), 5, "parameter count grew"),
        (("memory", "table_gradient_norm"), 0.0, "no gradient"),
        (("memory", "table_gradient_norm"), float("nan"), "no gradient"),
        (("memory", "addressing_digest"), "0" * 64, "digest"),
        (("labels", "sha256"), "0" * 64, "not the pinned"),
        (("evaluation", "memory_digests"), [], "its evaluation loaded"),
        (("status",), "trained", "not finished"),
        (("dry_run",), True, "dry run"),
        (("steps",), 7, "its log has 6 steps"),
        (("checkpoint",), "checkpoints/step-9", "is gone"),
    ],
)
def test_records_that_do_not_count(finished, base, keys, value, sentence):
    folder = base / "copy"
    shutil.copytree(finished, folder)
    record = distill.read_record(folder)
    inner = record
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(distill.GateError, match=sentence):
        distill.gate(folder)


def test_a_checkpoint_without_its_memory_does_not_count(base):
    record = distill.run(make(base), base, base / "run", QUIET)
    (base / "run" / record["checkpoint"] / "engram.safetensors").unlink()
    with pytest.raises(distill.GateError, match="holds no memory"):
        distill.gate(base / "run")


def test_logit_mode_follows_a_teacher(base):
    teacher = {"kind": "model", "model": {"config": T5 | {"d_model": 24}}}
    spec = make(base, mode="logit", teacher=teacher, logit={"weight": 0.5, "temperature": 2.0})
    record = distill.run(spec, base, base / "run", QUIET)
    assert record["status"] == "finished"
    plain = distill.run(make(base, teacher=teacher), base, base / "plain", QUIET)
    assert plain["labels"] == record["labels"]
    losses = [json.loads((base / name / "log.jsonl").read_text().splitlines()[0])["loss"] for name in ("run", "plain")]
    assert losses[0] != losses[1]


def test_labels_go_on_where_they_were_cut_off(tmp_path):
    texts = [Text(f"text {number}", f"output {number}") for number in range(150)]
    asked = []

    def teach(lot):
        asked.extend(text.input for text in lot)
        if len(asked) == 128:
            raise ConnectionError("the teacher is gone")
        return [text.reference for text in lot]

    file = tmp_path / "labels.jsonl"
    with pytest.raises(ConnectionError):
        labels.make_labels(texts, file, teach, lambda _: None)
    assert not file.exists()
    with (tmp_path / "labels.jsonl.part").open("a") as part:
        part.write('{"input": "text 64", "outp')
    digest = labels.make_labels(texts, file, teach, lambda _: None)
    assert asked[128:] == [text.input for text in texts[64:]]
    assert labels.read_labels(file, texts) == [text.reference for text in texts]
    assert digest == labels.sha256_of(file)
    file.rename(tmp_path / "labels.jsonl.part")
    with pytest.raises(ValueError, match="belongs to another corpus"):
        labels.make_labels(texts[1:], file, teach, lambda _: None)


def test_held_out_texts_depend_on_the_text_alone():
    kept = [held_out(f"text {number}") for number in range(2000)]
    assert 0.07 < sum(kept) / len(kept) < 0.13


def test_a_rank_without_a_text_adds_nothing():
    model = transformers.AutoModelForSeq2SeqLM.from_config(transformers.AutoConfig.for_model(**T5, vocab_size=384))
    batch = {"input_ids": torch.tensor([[5, 6, 1]]), "labels": torch.tensor([[7, 1]])}
    parts = [parallel.World(rank, 2, torch.device("cpu")).share(batch) for rank in (0, 1)]
    assert torch.equal(parts[0]["labels"], batch["labels"])
    model.config.decoder_start_token_id = 0
    total = supervised(model(**parts[1], decoder_input_ids=torch.tensor([[0, 7]])).logits, parts[1]["labels"])
    total.backward()
    assert total == 0
    assert all(not parameter.grad.any() for parameter in model.parameters())


def test_the_record_says_what_the_memory_changed(finished, base):
    share = distill.read_record(finished)["evaluation"]["memory_share"]
    assert 0 < share["memory"] < share["change"]
    assert share["share"] == pytest.approx(share["memory"] / share["change"])
    spec = make(base, memory=None)
    distill.run(spec, base, base / "run", QUIET)
    assert "memory_share" not in distill.read_record(base / "run")["evaluation"]


@pytest.mark.parametrize("shared", [False, True])
def test_two_processes_do_what_one_does(base, shared):
    """Two gloo processes on this machine; the losses of every step agree within rounding.

    Where they share the table, they go on from a checkpoint of the one process, and what they leave is read, for the
    evaluation, by one.
    """
    spec = make(
        base,
        student={"config": T5 | {"dropout_rate": 0.0}},
        optimizer={"base_lr": 0.01, "sparse_table": shared},
        training={"steps": 6, "positions": 64, "checkpoint_every": 2, "keep": 3, "shard_table": shared},
    )
    (base / "spec.json").write_text(spec.to_json())
    distill.run(spec, base, base / "one", QUIET)
    if shared:
        shutil.copytree(base / "one", base / "two")
        for name in ("run.json", "evaluation.jsonl"):
            (base / "two" / name).unlink()
        for step in (4, 6):
            shutil.rmtree(base / "two" / "checkpoints" / f"step-{step:07d}")
    code = (
        "import sys; from pathlib import Path; from rich.console import Console; from engram_rs import distill;"
        "b = Path(sys.argv[1]); s = distill.read_spec(b / 'spec.json');"
        "distill.run(s, b, b / 'two', Console(quiet=True))"
    )
    (base / "go.py").write_text(code.replace(";", "\n").replace("\n ", "\n"))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(base / "go.py"), str(base)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    logs = [
        [json.loads(line)["loss"] for line in (base / name / "log.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    ]
    assert logs[1] == pytest.approx(logs[0], rel=2e-4)
    # The optimizers' steps do not depend on a gradient's size, so it is looked at by itself: added, not averaged.
    records = [distill.read_record(base / name) for name in ("one", "two")]
    norms = [record["memory"]["table_gradient_norm"] for record in records]
    assert norms[1] == pytest.approx(norms[0], rel=1e-3)
    assert records[1]["processes"] == {"count": 2, "table": "shared" if shared else "whole"}
    distill.gate(base / "two")
    tables = [
        table_of(base / name / record["checkpoint"]) for name, record in zip(("one", "two"), records, strict=True)
    ]
    assert torch.allclose(tables[1], tables[0], atol=1e-3)
