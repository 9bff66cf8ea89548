"""A smaller vocabulary for token memories: tokens that differ in form only share a symbol."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._extras import require

__all__ = ["compress_vocabulary"]

# A private-use character: it stands for a lone space while others are stripped.
_SPACE = "\ue000"


def compress_vocabulary(tokenizer: Any) -> NDArray[np.int64]:  # noqa: ANN401
    """The token map of DeepSeek's Engram, for any tokenizer of transformers.

    Tokens whose texts are equal after NFKC, NFD, dropping accents, lowering case, folding white space
    and stripping get one symbol (a token that is all white space becomes one space). A token whose bytes
    are no whole characters, so that its text holds U+FFFD, keeps its own spelling; one that normalises to
    nothing keeps its text. Symbols are numbered by first appearance. Source of the rule: the published
    Engram demo of DeepSeek.

    Args:
        tokenizer: Anything with `__len__`, `decode` and `convert_ids_to_tokens`.

    Returns:
        int64 `[len(tokenizer)]`, the symbol of each id; there are `map.max() + 1` symbols.

    Raises:
        MissingExtraError: The package tokenizers is not installed.
        TypeError: `tokenizer` lacks one of the methods.
    """
    missing = [name for name in ("__len__", "decode", "convert_ids_to_tokens") if not hasattr(tokenizer, name)]
    if missing:
        raise TypeError(f"tokenizer must be one of transformers; {type(tokenizer).__name__} lacks {missing[0]}")
    tokenizers = require("tokenizers", "engram_rs.compress_vocabulary")
    form = tokenizers.normalizers
    normalizer = form.Sequence(
        [
            form.NFKC(),
            form.NFD(),
            form.StripAccents(),
            form.Lowercase(),
            form.Replace(tokenizers.Regex(r"[ \t\r\n]+"), " "),
            form.Replace(tokenizers.Regex(r"^ $"), _SPACE),
            form.Strip(),
            form.Replace(_SPACE, " "),
        ]
    )
    symbols: dict[str, int] = {}
    mapped = np.empty(len(tokenizer), dtype=np.int64)
    for token in range(len(tokenizer)):
        text = tokenizer.decode([token], skip_special_tokens=False)
        key = tokenizer.convert_ids_to_tokens(token) if "\ufffd" in text else normalizer.normalize_str(text) or text
        mapped[token] = symbols.setdefault(key, len(symbols))
    return mapped
