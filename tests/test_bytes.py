"""Text to byte ids and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram_rs import decode, encode


def test_the_published_tokenizer():
    ids = encode("كتاب")
    assert ids.dtype == np.int64
    assert ids.tolist() == [220, 134, 219, 173, 219, 170, 219, 171, 1]
    assert encode("a", eos=False).tolist() == [100]
    assert encode(b"\x00\xff").tolist() == [3, 258, 1]
    assert encode(bytearray(b"a")).tolist() == [100, 1]
    assert encode("").tolist() == [1]


def test_it_is_byt5s_tokenizer():
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.ByT5Tokenizer()
    for text in ("plain", "مُحَمَّد", "日本語 🧠", "\x00\t\n"):
        assert encode(text).tolist() == tokenizer(text)["input_ids"]


@given(st.text())
def test_text_survives(text):
    assert decode(encode(text)) == text


def test_decoding_stops_at_the_end_and_skips_pad_and_unk():
    assert decode([0, 100, 2, 101, 1, 102]) == "ab"
    assert decode(np.array([100 + 256, 101 - 512])) == "ab"
    assert decode([]) == ""


def test_cut_characters():
    cut = encode("é")[:1]
    assert decode(cut) == "\ufffd"
    assert decode(cut, errors="ignore") == ""
    with pytest.raises(UnicodeDecodeError):
        decode(cut, errors="strict")


@pytest.mark.parametrize("text", [None, 5, ["a"], np.array([1])])
def test_only_text_is_encoded(text):
    with pytest.raises(TypeError, match="str or bytes"):
        encode(text)


def test_lone_surrogates_are_no_text():
    with pytest.raises(UnicodeEncodeError):
        encode("\ud800")


@pytest.mark.parametrize(("ids", "error"), [("ab", TypeError), ([1.0], TypeError), ([[100]], ValueError)])
def test_only_ids_are_decoded(ids, error):
    with pytest.raises(error):
        decode(ids)
