"""A memory in models of transformers: nothing at first, never lost, nothing left behind."""

import copy
import pickle
import threading

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from engram_rs import Addressing  # noqa: E402
from engram_rs.torch import attach, memories  # noqa: E402

SIZES = {
    "vocab_size": 300,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "eos_token_id": None,
    "bos_token_id": None,
}


def t5(cls="T5ForConditionalGeneration"):
    config = transformers.T5Config(
        vocab_size=300, d_model=16, d_kv=8, d_ff=32, num_layers=4, num_heads=2, decoder_start_token_id=0
    )
    return getattr(transformers, cls)(config)


def bert(cls="BertForMaskedLM"):
    sizes = {key: value for key, value in SIZES.items() if key not in ("num_key_value_heads", "head_dim")}
    return getattr(transformers, cls)(transformers.BertConfig(**sizes))


def llama(cls="LlamaForCausalLM"):
    return getattr(transformers, cls)(transformers.LlamaConfig(**SIZES))


def qwen():
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES))


MODELS = {
    "t5": t5,
    "t5-encoder": lambda: t5("T5EncoderModel"),
    "bert": bert,
    "bert-base": lambda: bert("BertModel"),
    "llama": llama,
    "llama-base": lambda: llama("LlamaModel"),
    "qwen3": qwen,
}
CAUSAL = {"llama": llama, "qwen3": qwen}
models = pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
causal = pytest.mark.parametrize("build", CAUSAL.values(), ids=CAUSAL)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def ask(model, ids, **arguments):
    if model.config.is_encoder_decoder:
        arguments["decoder_input_ids"] = ids[:, :5]
    torch.manual_seed(1)
    return model(input_ids=ids, **arguments)[0]


def wake(handle):
    """As if it had been trained."""
    torch.nn.init.normal_(handle.module.projection)
    torch.nn.init.normal_(handle.module.table)


@pytest.fixture
def ids():
    torch.manual_seed(2)
    return torch.randint(3, 300, (2, 12))


@models
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_untrained_it_changes_nothing(build, ids, training):
    model = build().train(training)
    bare = ask(model, ids)
    handle = attach(model, 1, entries=977, dim=8, quiet=True)
    assert torch.equal(ask(model, ids), bare)
    wake(handle)
    assert not torch.equal(ask(model, ids), bare)
    handle.detach()
    assert torch.equal(ask(model, ids), bare)


@models
def test_it_is_part_of_the_model(build, ids):
    model = build()
    handle = attach(model, 1, entries=97, dim=4, quiet=True)
    names = {f"{handle.name}.engram.table", f"{handle.name}.engram.projection"}
    assert names <= {name for name, _ in model.named_parameters()} <= set(model.state_dict())
    wake(handle)
    ask(model, ids).float().square().sum().backward()
    assert handle.module.table.grad.abs().sum() > 0
    assert handle.module.projection.grad.abs().sum() > 0
    model.to(torch.float64)
    assert handle.module.table.dtype == torch.float64
    assert ask(model, ids).dtype == torch.float64


@models
def test_silenced_it_is_the_model_without(build):
    model = build()
    handle = attach(model, 1, entries=97, dim=4, quiet=True)
    ids = torch.randint(3, 90, (2, 7), generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if model.config.is_encoder_decoder else {})
    bare = model.eval()(**inputs)[0]
    torch.nn.init.normal_(handle.module.projection)
    heard = model(**inputs)[0]
    with handle.silenced(), handle.silenced():
        assert torch.equal(model(**inputs)[0], bare)
    assert torch.equal(model(**inputs)[0], heard)
    assert not torch.equal(heard, bare)


@models
def test_detached_it_leaves_nothing(build):
    model = build()
    before = (set(model.state_dict()), set(vars(model)), model.config.to_dict())
    hooks = [(len(one._forward_hooks), len(one._forward_pre_hooks)) for one in model.modules()]
    for handle in [attach(model, block, entries=97, dim=4, quiet=True) for block in (0, 2)]:
        handle.detach()
    assert memories(model) == []
    after = vars(model).keys() - {"_keys_to_ignore_on_save"}
    assert (set(model.state_dict()), set(after), model.config.to_dict()) == (
        before[0],
        before[1] - {"_keys_to_ignore_on_save"},
        before[2],
    )
    assert [(len(one._forward_hooks), len(one._forward_pre_hooks)) for one in model.modules()] == hooks


def test_the_line(capsys):
    handle = attach(t5(), 3, entries=100_000, dim=16)
    assert capsys.readouterr().out == handle.line + "\n"
    assert handle.line == "[engram] attached at encoder block 3: +1.6M params on a 0.0M model"
    assert attach(llama(), 1, entries=10, dim=1, quiet=True).line.startswith("[engram] attached at decoder block 1: ")
    assert capsys.readouterr().out == ""


@models
def test_what_is_hidden_is_no_part_of_a_gram(build, ids):
    """Padding on either side: what real positions get is what they get alone."""
    model = build().eval()
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    handle = attach(model, 1, entries=977, dim=8, quiet=True)
    wake(handle)
    rows = []
    handle.module.from_rows, kept = lambda given: rows.append(given) or kept(given), handle.module.from_rows
    mask = torch.ones_like(ids)
    mask[0, :4], mask[1, 9:] = 0, 0
    model(input_ids=ids, attention_mask=mask)
    addressing = handle.module.addressing
    assert torch.equal(rows[0][0, 4:], torch.from_numpy(addressing(ids[0, 4:].numpy())))
    assert torch.equal(rows[0][1, :9], torch.from_numpy(addressing(ids[1, :9].numpy())))


@causal
@pytest.mark.parametrize(
    "how",
    [
        {"do_sample": False},
        {"do_sample": False, "num_beams": 3},
        {"do_sample": True, "top_k": 20},
        {"do_sample": False, "cache_implementation": "static"},
    ],
    ids=["greedy", "beams", "sampling", "static"],
)
@pytest.mark.parametrize("scheme", ["byte_fnv1a", "utf8_fnv1a"])
def test_generation_with_a_cache_is_generation_without(build, ids, how, scheme):
    model = build().eval()
    wake(attach(model, 1, getattr(Addressing, scheme)(977), dim=8, quiet=True))
    mask = torch.ones_like(ids)
    # So little is left that the first steps reach back into the padding.
    mask[0, :10] = 0
    plain = {key: value for key, value in how.items() if key != "cache_implementation"}
    written = []
    for arguments in ({"use_cache": True, **how}, {"use_cache": False, **plain}):
        torch.manual_seed(3)
        written.append(model.generate(ids, attention_mask=mask, max_new_tokens=10, **arguments))
    assert torch.equal(*written)
    alone = model.generate(ids[:1, 10:], max_new_tokens=10, do_sample=False)
    if how == {"do_sample": False}:
        assert torch.equal(alone[0, 2:], written[0][0, 12:])


def test_generation_of_an_encoder_decoder(ids):
    model = t5().eval()
    handle = attach(model, 1, entries=977, dim=8, quiet=True)
    inner = attach(model, 1, entries=499, dim=8, stack="decoder", quiet=True)
    assert (handle.name, inner.name) == ("encoder.block.1", "decoder.block.1")
    wake(handle)
    wake(inner)
    written = [
        model.generate(ids, max_new_tokens=9, do_sample=False, use_cache=cache, eos_token_id=None)
        for cache in (True, False)
    ]
    assert torch.equal(*written)


@causal
@torch.no_grad()
def test_loops_of_ones_own(build, ids):
    model = build().eval()
    wake(attach(model, 1, entries=977, dim=8, quiet=True))
    first = model(input_ids=ids, use_cache=True)
    with pytest.raises(ValueError, match="a cache of 12 positions"):
        model(input_ids=ids[:, :1], cache=copy.deepcopy(first.cache))
    with pytest.raises(ValueError, match="engram_history holds 1 ids"):
        model(input_ids=ids[:, :1], cache=copy.deepcopy(first.cache), engram_history=ids[:, -1:])
    with pytest.raises(ValueError, match=r"must be ids \[2, H\]"):
        model(input_ids=ids[:, :1], cache=copy.deepcopy(first.cache), engram_history=ids[:1])
    step = model(input_ids=ids[:, :2], cache=first.cache, engram_history=ids).logits
    whole = model(input_ids=torch.cat([ids, ids[:, :2]], dim=1)).logits[:, -2:]
    torch.testing.assert_close(step, whole, atol=1e-5, rtol=1e-5)


@models
def test_ids_are_needed_or_addresses(build, ids):
    model = build().eval()
    handle = attach(model, 1, entries=977, dim=8, quiet=True)
    wake(handle)
    embeds = model.get_input_embeddings()(ids)
    more = {"decoder_input_ids": ids[:, :5]} if model.config.is_encoder_decoder else {}
    with pytest.raises(ValueError, match="inputs_embeds without ids"):
        model(inputs_embeds=embeds, **more)
    addresses = torch.from_numpy(handle.module.addressing.hashes(ids.numpy()))
    wanted = ask(model, ids)
    torch.testing.assert_close(ask(model, ids, engram_addresses=addresses), wanted)
    torch.testing.assert_close(ask(model, ids, engram_addresses={1: addresses}), wanted)
    for wrong in ({2: addresses}, addresses[..., :2], addresses[:1], addresses[:, :1]):
        with pytest.raises(ValueError, match=r"for blocks|must be \[\.\.\., T, 3\]|the addresses are for"):
            ask(model, ids, engram_addresses=wrong)
    for wrong in (torch.ones(2, 3, 12), torch.ones(1, 12), "all"):
        with pytest.raises(ValueError, match=r"engram_mask must be \[2, H \+ T\]"):
            ask(model, ids, engram_mask=wrong)
    with pytest.raises(ValueError, match="the attention mask has 5 positions for 12 ids"):
        ask(model, ids, engram_mask=torch.ones(2, 5))


@models
def test_copies_are_their_own(build, ids):
    model = build().eval()
    handle = attach(model, 1, entries=97, dim=4, quiet=True)
    wake(handle)
    wanted = ask(model, ids)
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    torch.nn.init.zeros_(handle.module.projection)
    for twin in twins:
        assert torch.equal(ask(twin, ids), wanted)
        assert memories(twin)[0].module is not handle.module


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("build", [t5, bert, llama])
def test_gradient_checkpointing(build, ids, reentrant):
    model = build().train()
    handle = attach(model, 1, entries=97, dim=4, quiet=True)
    wake(handle)
    gradients = []
    for checkpointed in (False, True):
        if checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        model.zero_grad()
        more = {"use_cache": False} if build is llama else {}
        ask(model, ids, **more).float().square().sum().backward()
        gradients.append((handle.module.table.grad.clone(), handle.module.projection.grad.clone()))
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("build", [lambda: t5("T5EncoderModel"), lambda: llama("LlamaModel")], ids=["t5", "llama"])
def test_compiled_it_is_the_same(build):
    model = build().eval()
    wake(attach(model, 1, entries=97, dim=4, quiet=True))
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    more = {"use_cache": False} if model.config.model_type == "llama" else {}
    for length in (5, 8, 13):
        ids = torch.randint(3, 300, (2, length))
        with torch.no_grad():
            wanted = model(input_ids=ids, **more)[0]
            torch.testing.assert_close(compiled(input_ids=ids, **more)[0], wanted, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="compiled already"):
        attach(compiled, 2, quiet=True)


def test_two_threads(ids):
    model = t5("T5EncoderModel").eval()
    wake(attach(model, 1, entries=97, dim=4, quiet=True))
    batches = [torch.randint(3, 300, (2, length)) for length in (7, 11)]
    with torch.no_grad():
        wanted = [model(input_ids=batch)[0] for batch in batches]
    wrong = []

    def work(number):
        with torch.no_grad():
            for _ in range(60):
                if not torch.equal(model(input_ids=batches[number])[0], wanted[number]):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nested_calls_and_failures(ids):
    model = t5("T5EncoderModel").eval()
    wake(attach(model, 1, entries=97, dim=4, quiet=True))
    other = torch.randint(3, 300, (1, 5))
    with torch.no_grad():
        wanted, inner = model(input_ids=ids)[0], model(input_ids=other)[0]
        seen = []

        def nested(block, arguments):
            if not seen:
                seen.append(None)
                seen.append(model(input_ids=other)[0])

        handle = model.encoder.block[0].register_forward_pre_hook(nested)
        assert torch.equal(model(input_ids=ids)[0], wanted)
        assert torch.equal(seen[1], inner)
        handle.remove()

        def fails(block, arguments):
            raise KeyError("inside")

        handle = model.encoder.block[2].register_forward_pre_hook(fails)
        with pytest.raises(KeyError):
            model(input_ids=other)
        handle.remove()
        assert torch.equal(model(input_ids=ids)[0], wanted)


def test_autocast_and_half(ids):
    model = t5("T5EncoderModel").eval()
    bare = copy.deepcopy(model)
    attach(model, 1, entries=97, dim=4, quiet=True)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert torch.equal(model(input_ids=ids)[0], bare(input_ids=ids)[0])
    model.bfloat16()
    assert torch.equal(model(input_ids=ids)[0], bare.bfloat16()(input_ids=ids)[0])


def test_several_blocks(ids):
    model = bert().eval()
    bare = ask(model, ids)
    first = attach(model, 0, entries=97, dim=4, quiet=True)
    second = attach(model, 2, Addressing.utf8_fnv1a(101), dim=4, quiet=True)
    assert [handle.block for handle in memories(model)] == [0, 2]
    wake(first)
    only_first = ask(model, ids)
    wake(second)
    both = ask(model, ids)
    first.detach()
    assert len({tensor.sum().item() for tensor in (bare, only_first, both, ask(model, ids))}) == 4
    with pytest.raises(ValueError, match="no memory at"):
        _ = first.module
    with pytest.raises(ValueError, match="has a memory already"):
        attach(model, 2, quiet=True)


def test_what_is_refused():
    model = t5()
    for arguments, sentence in (
        ({"block": 4}, r"block must be 0 … 3 of encoder\.block, not 4"),
        ({"block": -1}, "block must be"),
        ({"stack": "middle"}, "has no stack 'middle'; it has 'encoder', 'decoder'"),
        ({"entries": 0}, "entries"),
    ):
        with pytest.raises(ValueError, match=sentence):
            attach(model, **{"quiet": True, "block": 1, **arguments})
    assert memories(model) == []
    with pytest.raises(ValueError, match="holds no stack"):
        attach(torch.nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"must be an nn\.Module"):
        attach("model")
    with pytest.raises(TypeError, match="block must be an integer"):
        attach(model, 1.5)


def test_a_block_called_alone_says_so(ids):
    model = llama().eval()
    attach(model, 1, entries=97, dim=4, quiet=True)
    with pytest.raises(RuntimeError, match="would have been left out"):
        model.model.layers[1](torch.randn(1, 3, 16), position_embeddings=(torch.ones(1, 3, 8), torch.zeros(1, 3, 8)))
