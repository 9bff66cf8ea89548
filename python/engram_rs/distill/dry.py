"""A spec at a size that takes two steps in a moment, to see that all of it can be built."""

from typing import Any

from .spec import RunSpec, parse_spec

__all__ = ["reduced"]

_SMALL = {
    "d_model": 64,
    "d_ff": 128,
    "d_kv": 16,
    "num_heads": 4,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
}
_LAYERS = ("num_layers", "num_decoder_layers", "num_hidden_layers")
# Stands in for a checkpoint that is not here; ByT5 is of this kind.
_STAND_IN = {"model_type": "t5", "num_layers": 12, "num_decoder_layers": 4, "feed_forward_proj": "gated-gelu"}


def reduced(spec: RunSpec) -> RunSpec:
    """The same spec with a small model, table and corpus, and two steps."""
    value: dict[str, Any] = spec.model_dump(mode="json")
    value["name"] += "-dry-run"
    value["training"] |= {"epochs": None, "steps": 2, "positions": 1024, "checkpoint_every": 1}
    value["evaluation"] |= {"samples": 4, "max_new_tokens": 16}
    value["data"]["max_length"] = min(value["data"]["max_length"], 256)
    if spec.memory is not None:
        value["memory"]["entries"] = min(spec.memory.entries, 8192)
    for model in (value["student"], value["teacher"]["model"]):
        if model is None:
            continue
        config = dict(model["config"] or _STAND_IN)
        config |= {key: size for key, size in _SMALL.items() if key in config or config["model_type"] == "t5"}
        if config["model_type"] == "t5":
            config = {
                key: size for key, size in config.items() if not key.startswith(("hidden", "interm", "num_a", "num_k"))
            }
        least = 1 if spec.memory is None else spec.memory.block + 1
        config |= {key: min(config[key], max(least, 2)) for key in _LAYERS if key in config}
        model |= {"checkpoint": None, "config": config}
    return parse_spec(value, "the dry run")
