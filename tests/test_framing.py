"""Framing: the protocol finds a decoder that depends on it, and refuses to report what was measured wrongly."""

import io
import json
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("transformers")

import engram_rs  # noqa: E402
import seq2seq_models as models  # noqa: E402
from engram_rs.ort import Seq2SeqSession, measure_framing  # noqa: E402
from engram_rs.ort.framing import SelfCheckError, feed_windows  # noqa: E402
from engram_rs.ort.framing_matrix import draw, measure_matrix, write_json  # noqa: E402

CPU = ["CPUExecutionProvider"]
INPUTS = ["table", "memory ship", "gold zebra", "ខ្មែរ", "naïve كتاب"]
WINDOWS = (1, 2, 8, 100)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return models.export(models.trained(), tmp_path_factory.mktemp("framing") / "rot13")


@pytest.fixture
def session(folder):
    return Seq2SeqSession(folder, CPU, 1)


@pytest.mark.parametrize("window", WINDOWS)
def test_at_fp32_all_votes_match(session, window):
    found = measure_framing(session, INPUTS, window, steps=24)
    # Every token counts, the end symbol among them.
    texts = [session.generate(text, 24) for text in INPUTS]
    lengths = tuple(min(24, len(engram_rs.encode(text))) for text in texts)
    assert found.totals == found.matches == lengths
    assert found.window == window
    assert (found.model, found.precision, found.provider) == ("rot13", "unknown", CPU[0])
    for part in (found.runtime, found.machine, f"{sum(lengths)}/{sum(lengths)}", f"W = {window}"):
        assert part in str(found)


def on_a_cache_that_holds_them(session, states, consumed, window):
    """The first classic mistake: each window is fed once to get on, and asked again on what came of that."""
    votes, cache = [], None
    for start in range(0, len(consumed), window):
        tokens = consumed[np.newaxis, start : start + window]
        _, cache = session.step(states, tokens, cache)
        logits, _ = session.step(states, tokens, cache)
        votes.append(logits[0].argmax(axis=-1))
    return np.concatenate(votes)


def without_the_pad(session, states, consumed, window):
    """The second: windows begin at the first token and not at the pad before it."""
    votes = feed_windows(session, states, consumed[1:], window)
    return np.append(votes, 1)


def one_vote_less(session, states, consumed, window):
    """A window whose last token is forgotten."""
    return feed_windows(session, states, consumed[:-1], window)


@pytest.mark.parametrize("feed", [on_a_cache_that_holds_them, without_the_pad, one_vote_less])
def test_a_wrong_way_to_feed_is_caught(session, feed):
    for window in WINDOWS:
        with pytest.raises(SelfCheckError, match=r"the measurement is wrong"):
            measure_framing(session, INPUTS, window, steps=24, feed=feed)


def test_the_mistakes_are_ones_that_would_have_been_reported(session):
    """Without a self-check they give figures that look like a decoder's fault."""
    states = session.encode(engram_rs.encode("memory ship")[None])
    wanted = np.concatenate(list(session.tokens(states, 24)))
    consumed = np.concatenate(([0], wanted[:-1]))
    assert (feed_windows(session, states, consumed, 8) == wanted).all()
    for feed in (on_a_cache_that_holds_them, without_the_pad):
        votes = feed(session, states, consumed, 8)
        assert votes.shape == wanted.shape
        assert not (votes == wanted).all()


class Fickle:
    """A session whose decoder answers otherwise when several tokens share a call."""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        return getattr(self._session, name)

    def step(self, states, tokens, cache=None):
        logits, cache = self._session.step(states, tokens, cache)
        logits = logits.copy()
        # Every call's second position sees the ids in another order.
        logits[:, 1:2] = logits[:, 1:2, ::-1]
        return logits, cache


def test_a_decoder_that_depends_on_framing_is_found(session):
    found = measure_framing(Fickle(session), INPUTS, 4, steps=24)
    # One position in each window that has a second one is lost.
    assert found.matches == tuple(total - (total + 2) // 4 for total in found.totals)
    assert measure_framing(Fickle(session), INPUTS, 1, steps=24).matches == found.totals


@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        ({"window": 0}, ValueError, "window must be"),
        ({"window": True}, ValueError, "window must be"),
        ({"steps": 0}, ValueError, "steps must be"),
        ({"inputs": []}, ValueError, "at least one input"),
        ({"inputs": "one text"}, TypeError, "a sequence of texts"),
        ({"inputs": [3]}, TypeError, "a text must be str or bytes, not int"),
    ],
)
def test_what_is_refused(session, given, error, named):
    with pytest.raises(error, match=named):
        measure_framing(session, **({"inputs": INPUTS, "window": 8, "steps": 4} | given))


def test_a_decoder_without_a_cache_is_refused(folder):
    with pytest.raises(ValueError, match="without a cache"):
        measure_framing(Seq2SeqSession(folder, CPU, 1, plain=True), INPUTS, 8)


def test_a_matrix(folder, tmp_path):
    seen = []
    found = measure_matrix([folder, folder], INPUTS[:2], [1, 8], CPU, 8, threads=1, progress=lambda: seen.append(0))
    assert [one.window for one in found] == [1, 8, 1, 8]
    # Two of one name are told apart.
    assert {one.model for one in found} == {str(folder)}
    assert len(seen) == 4
    write_json(found, tmp_path / "framing.json")
    told = json.loads((tmp_path / "framing.json").read_text())["framing"]
    assert [one["matched"] for one in told] == [sum(one.matches) for one in found]
    for key in ("window", "matches", "totals", "precision", "provider", "runtime", "machine", "of"):
        assert all(key in one for one in told)


def test_a_picture(folder, tmp_path):
    pytest.importorskip("matplotlib")
    found = measure_matrix([folder], INPUTS[:1], [1, 8], CPU, 4, threads=1)
    for name, start in (("framing.png", b"\x89PNG"), ("framing.svg", b"<?xml")):
        draw(found, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(ValueError, match="'txt' is no kind of picture"):
        draw(found, tmp_path / "framing.txt")
    with pytest.raises(ValueError, match="nothing to draw"):
        draw([], tmp_path / "none.png")
    with pytest.raises(FileNotFoundError):
        draw(found, tmp_path / "no" / "framing.png")


def test_the_command(folder, tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer")
    from engram_rs.cli import main

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["engram-rs", "framing", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code or 0, *capsys.readouterr()

    (tmp_path / "inputs.txt").write_text("memory\n\nship\n", encoding="utf-8")
    code, out, _ = run(
        folder, "--window", 1, "--window", 4, "--steps", 6, "--text", tmp_path / "inputs.txt", "--threads", 1,
        "--provider", CPU[0], "--json", tmp_path / "out.json", "--picture", tmp_path / "out.svg",
    )  # fmt: skip
    assert code == 0
    assert "2 inputs, at most 6 steps" in out
    told = json.loads((tmp_path / "out.json").read_text())["framing"]
    assert [one["window"] for one in told] == [1, 4]
    assert (tmp_path / "out.svg").exists()
    for word in ("rot13", CPU[0], "all", told[0]["machine"]):
        assert word in out
    code, out, err = run(folder, "--json", tmp_path / "no" / "out.json")
    assert (code, out) == (1, "")
    assert "there is no folder" in err
