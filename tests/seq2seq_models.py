"""Small sequence-to-sequence models and their graphs, made with torch alone, for the tests of what runs graphs."""

import codecs
import functools
import random
import subprocess
import sys
from pathlib import Path

import torch
from transformers import DynamicCache, EncoderDecoderCache, T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

import engram_rs
from engram_rs.memory_graph import EncoderMetadata

WORDS = ["table", "memory", "ship", "gold", "zebra", "naïve", "كتاب"]


def small_t5(seed: int = 0, d_model: int = 32, layers: int = 2, loud: bool = False) -> T5ForConditionalGeneration:
    """A fresh model; `loud` has weights so large that each input and step gives something else."""
    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=384, d_model=d_model, d_kv=d_model // 4, d_ff=2 * d_model, num_layers=layers, num_heads=4,
        dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config).eval()
    if loud:
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                torch.nn.init.normal_(weight, std=1.0 if "shared" in name else 0.5)
    return model


def rot13(text: str) -> str:
    """The letters a-z turned by half the alphabet; all else as it is."""
    return codecs.encode(text, "rot13")


def pad(rows: list) -> torch.Tensor:
    rows = [torch.as_tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def train(model: T5ForConditionalGeneration, steps: int = 150) -> T5ForConditionalGeneration:
    """Teaches it ROT13 of a word or two, until its output is far from noise."""
    choose = random.Random(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(steps):
        texts = [" ".join(choose.choices(WORDS, k=choose.randint(1, 2))) for _ in range(8)]
        ids, labels = (pad([engram_rs.encode(text) for text in side]) for side in (texts, map(rot13, texts)))
        mask = ids != 0
        loss = model(input_ids=ids, attention_mask=mask, labels=labels.masked_fill(labels == 0, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@functools.cache
def trained() -> T5ForConditionalGeneration:
    """One that has learnt its task, for all tests of a process."""
    return train(small_t5())


class Encoder(torch.nn.Module):
    """The encoder with padding told by zeros; with a memory it takes addresses too."""

    def __init__(self, model: T5ForConditionalGeneration) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids, engram_addresses=None):
        mask = (input_ids != 0).long()
        more = {} if engram_addresses is None else {"engram_addresses": engram_addresses}
        states = self.model.encoder(input_ids=input_ids, attention_mask=mask, **more).last_hidden_state
        return states * mask.unsqueeze(-1).to(states.dtype)


class Decoder(torch.nn.Module):
    """The decoder; rows of zeros in the encoder's output are padding. Pasts make it the one with a cache."""

    def __init__(self, model: T5ForConditionalGeneration, masked: bool = True) -> None:
        super().__init__()
        self.model = model
        self.masked = masked

    def forward(self, input_ids, encoder_hidden_states, *pasts):
        cache = None
        if pasts:
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
            for layer in range(len(pasts) // 2):
                cache.self_attention_cache.update(pasts[2 * layer], pasts[2 * layer + 1], layer)
        mask = (encoder_hidden_states != 0).any(-1).long()
        out = self.model(
            encoder_outputs=BaseModelOutput(encoder_hidden_states),
            attention_mask=mask if self.masked else torch.ones_like(mask),
            decoder_input_ids=input_ids,
            past_key_values=cache,
            use_cache=cache is not None,
        )
        if cache is None:
            return out.logits
        layers = out.past_key_values.self_attention_cache.layers
        return out.logits, *(part for layer in layers for part in (layer.keys, layer.values))


def export(model: T5ForConditionalGeneration, folder: Path, *, addressing=None, kv=True, masked=True) -> Path:
    """Writes the graphs of a model; with `addressing` its encoder takes addresses."""
    import onnx

    folder.mkdir(parents=True, exist_ok=True)
    ids, start = torch.tensor([[5, 6, 7, 1], [8, 9, 1, 0]]), torch.tensor([[0, 9], [0, 4]])
    inputs, names = (ids,), ["input_ids"]
    if addressing is not None:
        inputs, names = (ids, torch.from_numpy(addressing.hashes(ids.numpy()))), [*names, "engram_addresses"]
    encoder = Encoder(model).eval()
    _write(folder / "encoder.onnx", encoder, inputs, names, ["last_hidden_state"])
    states = encoder(*inputs).detach()
    decoder = Decoder(model, masked).eval()
    names = ["input_ids", "encoder_hidden_states"]
    _write(folder / "decoder.onnx", decoder, (start, states), names, ["logits"])
    if kv:
        layers, heads, width = model.config.num_decoder_layers, model.config.num_heads, model.config.d_kv
        pairs = [f"{what}_{layer}" for layer in range(layers) for what in ("key", "value")]
        pasts = [torch.randn(2, heads, 3, width) for _ in pairs]
        _write(
            folder / "decoder-kv.onnx", decoder, (start, states, *pasts),
            [*names, *(f"past_{pair}" for pair in pairs)], ["logits", *(f"present_{pair}" for pair in pairs)],
        )  # fmt: skip
    for path in folder.glob("*.onnx"):
        graph = onnx.load(path)
        if path.name == "encoder.onnx" and addressing is not None:
            told = EncoderMetadata(addressing, "input", "fp32", model.config.d_model, 8, 1)
            onnx.helper.set_model_props(graph, told.to_properties())
            _name_core(graph.graph)
        elif path.name != "encoder.onnx" and masked:
            onnx.helper.set_model_props(graph, {"engram.padding": "zero-rows"})
        onnx.save(graph, path)
    return folder


def _name_core(graph) -> None:
    """Marks the memory's nodes: those that work on addresses and constants alone."""
    constants = {weight.name for weight in graph.initializer}
    reached = {"engram_addresses"}
    for node in graph.node:
        constants |= set(node.output) if node.op_type == "Constant" else set()
        if set(node.input) & reached and set(node.input) <= reached | constants:
            node.name = f"engram.{node.name}"
            reached |= set(node.output)


def _write(path: Path, module: torch.nn.Module, inputs: tuple, names: list[str], outputs: list[str]) -> None:
    axes = {"input_ids": {0: "batch", 1: "sequence"}, "engram_addresses": {0: "batch", 1: "sequence"}}
    axes |= {"encoder_hidden_states": {0: "batch", 1: "source"}, "last_hidden_state": {0: "batch", 1: "sequence"}}
    axes |= {"logits": {0: "batch", 1: "sequence"}}
    for name in (*names, *outputs):
        if name.startswith(("past_", "present_")):
            axes[name] = {0: "batch", 2: "past" if name.startswith("past_") else "total"}
    with torch.no_grad():
        torch.onnx.export(
            module, inputs, str(path), input_names=names, output_names=outputs, opset_version=14, dynamo=False,
            dynamic_axes={name: axes[name] for name in (*names, *outputs)},
        )  # fmt: skip


def greedy(model: T5ForConditionalGeneration, texts: list, limit: int, **more) -> list[str]:
    """What transformers decodes, one text at a time."""
    found = []
    for text in texts:
        ids = torch.from_numpy(engram_rs.encode(text))[None]
        out = model.generate(input_ids=ids, max_new_tokens=limit, do_sample=False, num_beams=1, **more)
        found.append(engram_rs.decode(out[0, 1:].numpy()))
    return found


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
