"""The token map of a tokenizer that is built here."""

import numpy as np
import pytest

tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("transformers")

from engram_rs import Addressing, compress_vocabulary  # noqa: E402

WORDS = ["a", "A", "á", "ａ", " a", "b", " ", "\t\n", "  ", "", "Straße", "STRASSE", "x  y", "x\ty", "ﬁ", "fi"]


def tokenizer_of(words):
    from transformers import PreTrainedTokenizerFast

    model = tokenizers.models.WordLevel({word: index for index, word in enumerate(words)}, unk_token=words[0])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(model), clean_up_tokenization_spaces=False)


def test_tokens_that_differ_in_form_only_share_a_symbol():
    mapped = compress_vocabulary(tokenizer_of(WORDS))
    symbols = dict(zip(WORDS, mapped.tolist(), strict=True))
    assert mapped.dtype == np.int64
    assert symbols["a"] == symbols["A"] == symbols["á"] == symbols["ａ"] == symbols[" a"] == 0
    assert symbols["b"] == 1
    # White space is one symbol of its own, and nothing is another.
    assert symbols[" "] == symbols["\t\n"] == symbols["  "] == 2
    assert symbols[""] == 3
    assert symbols["Straße"] != symbols["STRASSE"]
    assert symbols["x  y"] == symbols["x\ty"]
    assert symbols["ﬁ"] == symbols["fi"]
    assert sorted(set(symbols.values())) == list(range(mapped.max() + 1))


def test_bytes_that_are_no_characters_keep_their_spelling():
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    core = tokenizers.Tokenizer(tokenizers.models.BPE({symbol: i for i, symbol in enumerate(alphabet)}, []))
    core.decoder = tokenizers.decoders.ByteLevel()
    mapped = compress_vocabulary(PreTrainedTokenizerFast(tokenizer_object=core))
    at = {symbol: mapped[index] for index, symbol in enumerate(alphabet)}
    assert at["a"] == at["A"]
    # Half characters all read as U+FFFD, and yet each is itself.
    halves = [tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str("é")[0][0]]
    assert len({at[symbol] for half in halves for symbol in half}) == 2
    Addressing.deepseek_v41(1, token_map=mapped)(np.arange(256))


@pytest.mark.parametrize("what", [None, "gpt2", [1, 2]])
def test_what_is_no_tokenizer(what):
    with pytest.raises(TypeError, match="lacks"):
        compress_vocabulary(what)
