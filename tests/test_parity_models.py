"""Whole models beside torch: what is measured, what is drawn, and what is written into a zip."""

import copy
import dataclasses
import json

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner  # noqa: E402

import engram_rs  # noqa: E402
from engram_rs import imf, parity  # noqa: E402
from engram_rs.cli.app import app  # noqa: E402
from engram_rs.onnx import export_seq2seq  # noqa: E402
from engram_rs.torch import attach  # noqa: E402
from seq2seq_models import WORDS, rot13, small_t5, train  # noqa: E402

TEXTS = [" ".join(pair) for pair in zip(WORDS, reversed(WORDS), strict=True)] + WORDS
FIELDS = {
    "id": "eng-rot-0.1",
    "task": "translit",
    "source_script": "Latn",
    "target": "Latn",
    "trained_from": "words",
    "license": "MIT",
    "metrics": [{"name": "cer", "value": 0.1, "protocol": "its own words", "source": "RESULTS.md#rot13"}],
}


@pytest.fixture(scope="module")
def shipped(one_thread, tmp_path_factory):
    """A model that was trained with a memory, its directory, and zips at three precisions."""
    folder = tmp_path_factory.mktemp("shipped")
    model = small_t5()
    attach(model, 0, entries=4099, dim=8, quiet=True)
    train(model, 200)
    model.save_pretrained(folder / "model")
    for precision in ("fp32", "int8", "int4"):
        exported = export_seq2seq(model, folder / precision, precision=precision, addresses="graph")
        members = {**exported.paths, "README.md": b"A model.\n"}
        imf.pack(members, folder / f"{precision}.zip", {**FIELDS, **exported.zip_fields()})
    return model, folder


def test_every_way_and_torch_say_the_same(shipped, tmp_path):
    """At fp32, by addresses that are fed and by the hash in the graph."""
    model, folder = shipped
    export_seq2seq(model, tmp_path / "fed")
    modes = [module.training for module in model.modules()]
    references = [rot13(text) for text in TEXTS]
    found = parity.verify_models([tmp_path / "fed", folder / "fp32.zip"], model, TEXTS, references, max_new_tokens=40)
    assert [module.training for module in model.modules()] == modes
    for one in found:
        assert (one.texts, one.same, one.flips, one.error_rate) == (len(TEXTS), len(TEXTS), 0, 0.0)
        assert one.encoder_difference <= 1e-4
        assert one.logit_difference <= 1e-3
        assert one.divergence < 1e-6
        assert one.reference_error == one.torch_error < 0.6
        assert one.cer_delta == 0
    assert found[0].precision == found[1].precision == "fp32"
    assert found[1].size == (folder / "fp32.zip").stat().st_size


def test_fewer_bits_are_farther(shipped):
    model, folder = shipped
    paths = [folder / f"{precision}.zip" for precision in ("fp32", "int8", "int4")]
    done = []
    found = parity.verify_models(paths, model, TEXTS, max_new_tokens=40, on_done=done.append)
    assert sum(done) == len(TEXTS)
    for name in ("logit_difference", "divergence", "encoder_difference"):
        values = [getattr(one, name) for one in found]
        assert values == sorted(values), name
        assert values[0] < values[1]
    assert all(one.near_ties <= one.flips <= one.positions for one in found)
    assert found[2].flips > 0
    assert found[2].same < len(TEXTS)
    assert found[2].error_rate > 0
    assert found[2].reference_error is None
    assert found[2].cer_delta == 100 * found[2].error_rate


def test_near_ties_are_told(shipped):
    """A graph that always says the second choice flips everywhere; the near ties among them are torch's."""
    from engram_rs.parity.by_torch import ask
    from engram_rs.parity.models import NEAR_TIE, _Tally

    model, _ = shipped
    wanted = ask(model.eval(), [engram_rs.encode(text) for text in WORDS], 20)

    class Value:
        def numpy(self):
            return wanted.states

    class Second:
        def encode(self, ids):
            return Value()

        def step(self, states, fed):
            logits = wanted.logits.copy()
            np.put_along_axis(logits, logits.argmax(-1)[..., None], -1e4, axis=-1)
            return logits, None

        def tokens(self, states, limit):
            yield np.ones(len(WORDS), dtype=np.int64)

    tally = _Tally()
    tally.add(Second(), range(len(WORDS)), wanted, 20)
    margins = np.sort(wanted.logits[wanted.valid], axis=-1)
    assert tally.flips == tally.positions == wanted.valid.sum()
    assert tally.near_ties == (margins[:, -1] - margins[:, -2] < NEAR_TIE).sum()
    assert tally.encoder == 0
    assert tally.logits > 1e3


def test_a_checkpoint_at_fewer_bits_is_compared_at_float32(shipped, tmp_path):
    """Its values are those of the graph, so that what torch rounds in between is not the graph's fault."""
    model, _ = shipped
    coarse = copy.deepcopy(model).to(torch.bfloat16)
    coarse.save_pretrained(tmp_path / "coarse")
    loaded = parity.load_model(tmp_path / "coarse")
    assert next(loaded.parameters()).dtype == torch.bfloat16
    export_seq2seq(loaded, tmp_path / "graphs", addresses="graph")
    (found,) = parity.verify_models([tmp_path / "graphs"], loaded, WORDS, max_new_tokens=20)
    assert next(loaded.parameters()).dtype == torch.bfloat16
    assert found.encoder_difference <= 1e-4
    assert found.logit_difference <= 1e-3
    assert found.same == len(WORDS)


def test_a_model_that_overflows_has_a_report(shipped, tmp_path):
    model, folder = shipped
    (good,) = parity.verify_models([folder / "fp32"], model, WORDS[:1], max_new_tokens=4)
    bad = dataclasses.replace(good, logit_difference=float("nan"), divergence=float("inf"))
    numbers, picture = parity.save_report([good, bad], tmp_path / "report")
    values = json.loads(numbers.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert values[1]["logit_difference"] is values[1]["divergence"] is None
    assert values[0]["logit_difference"] == good.logit_difference
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_the_command(shipped, tmp_path):
    _, folder = shipped
    lines = [f"{text}\t{rot13(text)}\n" for text in TEXTS]
    (tmp_path / "texts.tsv").write_text("".join(lines), encoding="utf-8")
    copy = tmp_path / "copy.zip"
    copy.write_bytes((folder / "fp32.zip").read_bytes())
    command = ["verify", str(copy), str(folder / "int8.zip"), str(folder / "model")]
    command += ["--text", str(tmp_path / "texts.tsv"), "--report", str(tmp_path / "report"), "--max-new-tokens", "40"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "copy" in done.output
    values = json.loads((tmp_path / "report" / "parity.json").read_text())
    assert [one["name"] for one in values] == ["copy", "int8"]
    assert values[0]["same"] == len(TEXTS)
    assert (tmp_path / "report" / "parity.png").read_bytes()[:4] == b"\x89PNG"
    assert imf.info(copy).metadata.parity is None

    before = imf.info(copy)
    done = CliRunner().invoke(app, [*command[:2], command[3], *command[4:6], "--stamp", "--max-new-tokens", "40"])
    assert done.exit_code == 0, done.output
    after = imf.validate(copy)
    assert after.metadata.parity == imf.Parity(samples=len(TEXTS), cer_delta=0)
    assert after.metadata.model_copy(update={"parity": None}) == before.metadata
    with pytest.raises(ValueError, match=f"parity on {len(TEXTS)} samples; wanted at least 500"):
        imf.validate(copy, strict=True)


def test_wrong_arguments(shipped, tmp_path):
    model, folder = shipped
    with pytest.raises(ValueError, match="at least one text"):
        parity.verify_models([folder / "fp32"], model, [])
    with pytest.raises(ValueError, match="1 references for 2 texts"):
        parity.verify_models([folder / "fp32"], model, ["a", "b"], ["a"])
    with pytest.raises(TypeError, match="must be a sequence-to-sequence model of transformers, not Linear"):
        parity.verify_models([folder / "fp32"], torch.nn.Linear(2, 2), ["a"])
    with pytest.raises(ValueError, match="is no zip"):
        parity.stamp(parity.verify_models([folder / "fp32"], model, ["a"], max_new_tokens=2)[0])
    with pytest.raises(ValueError, match="at least one result"):
        parity.save_report([], tmp_path / "report")
    with pytest.raises(FileNotFoundError, match="there is no model at"):
        parity.load_model(tmp_path)
    for text, message in (("", "has no text"), ("a\tb\nc\n", "not both kinds")):
        (tmp_path / "texts").write_text(text)
        with pytest.raises(ValueError, match=message):
            parity.read_pairs(tmp_path / "texts")
