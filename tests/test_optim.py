"""The optimizers: the table's rule, which parameter gets which rule, and the whole as one optimizer."""

import copy
import io
import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR  # noqa: E402

from conftest import VECTORS  # noqa: E402
from engram_rs import encode  # noqa: E402
from engram_rs.torch import Engram  # noqa: E402
from engram_rs.torch.optim import CombinedOptimizer, SinkhornMomentum, build_optimizer, param_groups  # noqa: E402

FORMS = ("all", "touched")
LAWS = settings(max_examples=15)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads wait for each other longer than matrices of a few rows take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def moves(gradients, **options):
    """How far a parameter of zeros goes under the gradients, one step each."""
    weights = nn.Parameter(torch.zeros(gradients[0].shape, dtype=options.pop("dtype", torch.float32)))
    optimizer = SinkhornMomentum([weights], **options)
    for gradient in gradients:
        weights.grad = gradient
        optimizer.step()
    return weights.detach()


def as_sparse(gradient):
    """The same gradient as `nn.functional.embedding` would leave it: rows in any order, some of them twice."""
    rows = torch.cat([gradient.any(dim=1).nonzero().squeeze(1)] * 2).flip(0)
    return torch.sparse_coo_tensor(rows[None], gradient[rows] / 2, gradient.shape, check_invariants=True)


def by_the_book(weights, gradients, *, lr, beta=0.95, gamma=0.18, tau=1e-3, iterations=11, eps=1e-20):
    """The dense rule, as the reference words it, in float64."""
    weights, momentum = weights.double(), torch.zeros_like(weights, dtype=torch.float64)
    for gradient in gradients:
        gradient = gradient.double()
        momentum = beta * momentum + (1 - beta) * gradient
        update = (1 - beta) * gradient + beta * momentum
        norms = update.norm(dim=1, keepdim=True)
        masked = norms <= tau * norms.mean()
        update = update.masked_fill(masked, 0)
        for iteration in range(iterations):
            update = update / (update.norm(dim=1 - iteration % 2, keepdim=True) + eps)
        weights = weights - lr * gamma * weights.shape[1] ** 0.5 * update.masked_fill(masked, 0)
    return weights


@st.composite
def gradients(draw, steps=1):
    """Some gradients of one matrix, with rows of zeros among them."""
    rows, columns = draw(st.integers(1, 40)), draw(st.integers(1, 9))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    drawn = []
    for _ in range(steps):
        gradient = torch.randn(rows, columns, generator=generator)
        gradient *= torch.rand(rows, 1, generator=generator) < draw(st.sampled_from([0.3, 0.9]))
        drawn.append(gradient)
    return drawn


# The rule


@pytest.mark.parametrize("rows", FORMS)
def test_golden_vectors(rows):
    document = json.loads((VECTORS / "sinkhorn.json").read_text())
    assert document["rule"] == "sinkhorn_balance"
    for case in document["cases"]:
        gradient, direction = torch.tensor(case["gradient"]), torch.tensor(case["direction"])
        # The first lookahead is a multiple of the gradient, and the balance knows no scale.
        options = {"lr": 1.0, "gamma": gradient.shape[1] ** -0.5, "tau": case["tau"], "iterations": case["k"]}
        moved = -moves([gradient], rows=rows, **options)
        torch.testing.assert_close(moved, direction, atol=1e-6, rtol=1e-6)
        assert (moved == 0).all(dim=1).nonzero().squeeze(1).tolist() == case["masked_rows"]


@LAWS
@given(gradients(steps=4), st.sampled_from([1, 5, 11]), st.sampled_from([0.0, 0.5, 0.95]))
def test_the_dense_rule_is_the_reference(drawn, iterations, beta):
    options = {"lr": 0.1, "iterations": iterations, "beta": beta, "tau": 0.1}
    wanted = by_the_book(torch.zeros_like(drawn[0]), drawn, **options)
    torch.testing.assert_close(moves(drawn, **options).double(), wanted, atol=1e-4, rtol=1e-3)


def test_a_table_of_several_blocks(monkeypatch):
    torch.manual_seed(0)
    drawn = [torch.randn(50, 4) * (torch.rand(50, 1) < 0.6) for _ in range(3)]
    whole = {rows: moves(drawn, rows=rows) for rows in FORMS}
    monkeypatch.setattr("engram_rs.torch.optim.balance.CPU_BLOCK", 7 * 4)
    for rows in FORMS:
        torch.testing.assert_close(moves(drawn, rows=rows), whole[rows], atol=1e-8, rtol=1e-5)


@LAWS
@given(gradients(), st.randoms(use_true_random=False))
def test_rows_in_another_order(drawn, random):
    order = list(range(len(drawn[0])))
    random.shuffle(order)
    for rows in FORMS:
        moved = moves(drawn, rows=rows)
        torch.testing.assert_close(moves([drawn[0][order]], rows=rows), moved[order], atol=1e-9, rtol=1e-4)


@LAWS
@given(gradients(), st.integers(-30, 30))
def test_the_first_step_knows_no_scale(drawn, exponent):
    for rows in FORMS:
        scaled = moves([drawn[0] * 2.0**exponent], rows=rows)
        torch.testing.assert_close(scaled, moves(drawn, rows=rows), atol=1e-9, rtol=1e-4)


@LAWS
@given(gradients(steps=2), st.sampled_from([1e-3, 0.9]))
def test_every_row_stands_still_or_moves_by_the_rate(drawn, tau):
    """In both forms the last normalisation is that of the rows."""
    gradient = drawn[0]
    norms = gradient.norm(dim=1)
    moving = norms > tau * norms.mean()
    for rows in FORMS:
        moved = moves([gradient], rows=rows, tau=tau, lr=1e-3)
        assert not moved[~moving].any()
        rms = moved[moving].square().mean(dim=1).sqrt()
        torch.testing.assert_close(rms, torch.full_like(rms, 1e-3 * 0.18), atol=0, rtol=1e-4)


@LAWS
@given(gradients(steps=4))
def test_the_forms_agree_where_every_row_is_touched(drawn):
    drawn = [gradient + 1e-2 for gradient in drawn]
    dense = moves(drawn, rows="all")
    torch.testing.assert_close(moves(drawn, rows="touched"), dense, atol=1e-7, rtol=1e-4)
    torch.testing.assert_close(moves(list(map(as_sparse, drawn)), rows="touched"), dense, atol=1e-7, rtol=1e-4)


@LAWS
@given(gradients(steps=4))
def test_sparse_and_dense_gradients_are_one(drawn):
    torch.testing.assert_close(
        moves(list(map(as_sparse, drawn)), rows="touched"), moves(drawn, rows="touched"), atol=1e-8, rtol=1e-5
    )


def test_a_row_catches_up_with_what_the_dense_rule_did():
    """One row is touched once, the others always: the rule differs in when that row moves, and little besides."""
    torch.manual_seed(0)
    always = torch.randn(200, 64, 4)
    drawn = [gradient.index_fill(0, torch.tensor([0]), 0.0) for gradient in always]
    drawn[0] = always[0]
    dense, rare = nn.Parameter(torch.zeros(64, 4)), nn.Parameter(torch.zeros(64, 4))
    rules = [SinkhornMomentum([dense]), SinkhornMomentum([rare], rows="touched")]
    for gradient in drawn:
        dense.grad, rare.grad = gradient, gradient.clone()
        for rule in rules:
            rule.step()
    step = 2.6e-4 * 0.18 * 2
    assert rare[0].norm().item() == pytest.approx(step, rel=1e-4)
    rules[1].catch_up()
    moved = rare[0].norm().item() / step
    assert moved > 50
    assert moved == pytest.approx(dense[0].norm().item() / step, abs=3)
    assert F.cosine_similarity(rare[0], dense[0], dim=0) > 0.98
    torch.testing.assert_close(rare[1:], dense[1:], atol=step / 2, rtol=0)
    before = rare.detach().clone()
    rules[1].catch_up()
    assert torch.equal(rare, before)


def test_missed_moves_are_made_at_the_rates_of_their_time():
    always = torch.full((3, 2), 2.0)
    once = always.index_fill(0, torch.tensor([0]), 0.0)
    weights = nn.Parameter(torch.zeros(3, 2))
    optimizer = SinkhornMomentum([weights], gamma=2**-0.5, rows="touched")
    rates = [1.0, 10.0, 100.0, 0.0, 0.0]
    for step, rate in enumerate(rates):
        optimizer.param_groups[0]["lr"] = rate
        weights.grad = once if step else always
        optimizer.step()
    assert weights[0].norm().item() == pytest.approx(1.0, rel=1e-4)
    optimizer.catch_up()
    assert weights[0].norm().item() == pytest.approx(111.0, rel=1e-4)


def test_a_step_of_zeros_moves_nothing():
    """A fresh memory's projection is zero, and so is the first gradient of its table."""
    for rows in FORMS:
        assert not moves([torch.zeros(9, 4)], rows=rows).any()


def test_untouched_rows_stay_as_they_are():
    torch.manual_seed(0)
    drawn = [F.pad(torch.randn(5, 4), (0, 0, 3, 2)) for _ in range(3)]
    moved = moves(drawn, rows="touched")
    assert not moved[:3].any()
    assert not moved[8:].any()
    assert moved[3:8].any(dim=1).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", FORMS)
def test_half_precision_computes_in_float32(dtype, rows):
    torch.manual_seed(0)
    drawn = [torch.randn(20, 4).to(dtype) for _ in range(3)]
    moved = moves(drawn, rows=rows, dtype=dtype, lr=0.1)
    torch.testing.assert_close(
        moved.float(), moves([each.float() for each in drawn], rows=rows, lr=0.1), atol=1e-3, rtol=0.02
    )


def test_momentum_does_not_linger_among_the_smallest_floats():
    weights = nn.Parameter(torch.zeros(2, 2))
    optimizer = SinkhornMomentum([weights], beta=0.5)
    for step in range(100):
        weights.grad = torch.tensor([[1.0, 2.0], [float(step == 0)] * 2])
        optimizer.step()
    assert not optimizer.state[weights]["momentum_buffer"][1].any()


def test_a_sparse_embedding_trains():
    torch.manual_seed(0)
    table = nn.Parameter(torch.randn(100, 4))
    optimizer = SinkhornMomentum([table], lr=0.1, rows="touched")
    ids = torch.randint(0, 100, (64,))

    def closure():
        optimizer.zero_grad()
        loss = F.embedding(ids, table, sparse=True).square().mean()
        loss.backward()
        return loss

    first = optimizer.step(closure)
    for _ in range(50):
        last = optimizer.step(closure)
    assert last < 0.5 * first
    with pytest.raises(RuntimeError, match="'touched'"):
        SinkhornMomentum([table]).step()
    table.grad = torch.ones(100, 4).to_sparse()
    with pytest.raises(RuntimeError, match="one sparse dimension"):
        optimizer.step()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"lr": -1.0}, "lr"),
        ({"lr": float("nan")}, "lr"),
        ({"beta": 1.0}, "beta"),
        ({"beta": -0.1}, "beta"),
        ({"gamma": 0.0}, "gamma"),
        ({"tau": -1e-3}, "tau"),
        ({"tau": 1.0}, "tau"),
        ({"iterations": 10}, "iterations must be an odd number, not 10"),
        ({"iterations": -1}, "iterations"),
        ({"iterations": 3.0}, "iterations"),
        ({"eps": 0.0}, "eps"),
        ({"eps": 1e-50}, "eps"),
        ({"rows": "some"}, "rows"),
    ],
)
def test_bad_hyperparameters(options, named):
    weights = nn.Parameter(torch.zeros(2, 2))
    with pytest.raises(ValueError, match=named):
        SinkhornMomentum([weights], **options)
    optimizer = SinkhornMomentum([nn.Parameter(torch.zeros(2, 2))])
    with pytest.raises(ValueError, match=named):
        optimizer.add_param_group({"params": [weights], **options})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4)])
def test_bad_parameters(shape):
    with pytest.raises(ValueError, match="two dimensions"):
        SinkhornMomentum([nn.Parameter(torch.zeros(shape))])
    with pytest.raises(ValueError, match="floating"):
        SinkhornMomentum([torch.zeros(2, 2, dtype=torch.complex64, requires_grad=True)])


# States


def saved(state):
    """Through a file, as a checkpoint goes."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", FORMS)
def test_a_state_resumes_exactly(rows, dtype):
    torch.manual_seed(0)
    drawn = [(torch.randn(30, 4) * (torch.rand(30, 1) < 0.4)).to(dtype) for _ in range(10)]
    weights = nn.Parameter(torch.randn(30, 4, dtype=dtype))
    optimizer = SinkhornMomentum([weights], lr=0.1, rows=rows)
    for gradient in drawn[:6]:
        weights.grad = gradient
        optimizer.step()
    again = nn.Parameter(weights.detach().clone())
    resumed = SinkhornMomentum([again], rows=rows)
    resumed.load_state_dict(saved(optimizer.state_dict()))
    assert resumed.state[again]["momentum_buffer"].dtype == torch.float32
    for gradient in drawn[6:]:
        weights.grad, again.grad = gradient, gradient
        optimizer.step()
        resumed.step()
    assert torch.equal(weights, again)
    optimizer.catch_up()
    resumed.catch_up()
    assert torch.equal(weights, again)


def test_a_hook_on_loading_is_heard():
    weights = nn.Parameter(torch.zeros(2, 2, dtype=torch.bfloat16))
    optimizer = SinkhornMomentum([weights])
    weights.grad = torch.ones_like(weights)
    optimizer.step()
    state = optimizer.state_dict()
    optimizer.register_load_state_dict_pre_hook(
        lambda _, loaded: {**loaded, "state": {0: {"momentum_buffer": torch.full((2, 2), 0.123)}}}
    )
    optimizer.load_state_dict(state)
    assert torch.equal(optimizer.state[weights]["momentum_buffer"], torch.full((2, 2), 0.123))


# Groups


class Host(nn.Module):
    """A small language model with a memory deep inside."""

    def __init__(self, memory=True, tied=False):
        super().__init__()
        self.embed = nn.Embedding(384, 16)
        self.body = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16), nn.LayerNorm(16))
        self.body.memory = nn.ModuleList([Engram(16, entries=509, dim=4)] if memory else [])
        self.lm_head = nn.Linear(16, 384, bias=False)
        if tied:
            self.lm_head.weight = self.embed.weight

    def forward(self, ids):
        hidden = self.embed(ids)
        for memory in self.body.memory:
            hidden = hidden + memory(ids)
        for layer in list(self.body)[:4]:
            hidden = layer(hidden)
        return self.lm_head(hidden)


IDS = torch.from_numpy(encode("the ids of a batch, and what follows them"))


def train(model, optimizer, steps, scheduler=None):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(IDS[:-1]), IDS[1:])
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return loss.item()


def names_of(model, **options):
    """The groups by the parameters' names; fails unless each trainable parameter is in exactly one."""
    groups = param_groups(model, **options)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = [parameter for group in vars(groups).values() for parameter in group]
    assert sorted(map(id, found)) == sorted(id(each) for each in model.parameters() if each.requires_grad)
    return {key: {names[id(parameter)] for parameter in group} for key, group in vars(groups).items()}


def test_groups_of_a_host():
    host = Host()
    assert names_of(host) == {
        "table": {"body.memory.0.table"},
        "projection": {"body.memory.0.projection"},
        "matrices": {"body.0.weight", "body.2.weight"},
        "rest": {
            "embed.weight", "lm_head.weight", "body.0.bias", "body.2.bias", "body.3.weight", "body.3.bias",
        },
    }  # fmt: skip
    assert names_of(host, heads=())["matrices"] == {"body.0.weight", "body.2.weight", "lm_head.weight"}
    assert names_of(host, heads=["body"])["matrices"] == {"lm_head.weight"}


def test_a_memory_may_be_the_model():
    memory = Engram(8, entries=10, dim=2)
    assert names_of(memory) == {"table": {"table"}, "projection": {"projection"}, "matrices": set(), "rest": set()}


def test_shared_and_frozen_parameters():
    host = Host(tied=True)
    host.again = host.body.memory[0]
    host.body[2].weight = nn.Parameter(host.body[0].weight.detach().T.clone())
    host.twin = nn.Linear(16, 24, bias=False)
    host.twin.weight = host.body[0].weight
    host.body[3].requires_grad_(False)
    host.body.memory[0].projection.requires_grad_(False)
    found = names_of(host)
    assert found["table"] == {"body.memory.0.table"}
    assert found["projection"] == set()
    assert found["matrices"] == {"body.0.weight", "body.2.weight"}
    assert found["rest"] == {"embed.weight", "body.0.bias", "body.2.bias"}
    # The head's name does not matter where its weight is an embedding's.
    assert "embed.weight" in names_of(host, heads=())["rest"]


def test_matrices_outside_linear_layers():
    model = nn.ModuleDict({"attention": nn.MultiheadAttention(8, 2), "lstm": nn.LSTM(8, 8)})
    model.register_parameter("positions", nn.Parameter(torch.zeros(10, 8)))
    found = names_of(model)
    assert found["matrices"] == {
        "attention.in_proj_weight", "attention.out_proj.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0",
    }  # fmt: skip
    assert "positions" in found["rest"]


def hosts():
    """Tiny models of transformers, how many matrices each has, and a name that must not be among them."""
    transformers = pytest.importorskip("transformers")
    small = {"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    t5 = transformers.T5Config(**small)
    byt5 = transformers.T5Config(**small, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    bert = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24
    )
    llama = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    llama |= {"intermediate_size": 24, "num_key_value_heads": 1}
    yield transformers.T5ForConditionalGeneration(t5), 2 * 6 + 2 * 10, "relative_attention_bias"
    yield transformers.T5ForConditionalGeneration(byt5), 2 * 7 + 2 * 11, "shared"
    yield transformers.T5EncoderModel(byt5), 2 * 7, "relative_attention_bias"
    yield transformers.BertForMaskedLM(bert), 2 * 6, "predictions"
    yield transformers.BertForSequenceClassification(bert), 2 * 6 + 1, "classifier"
    yield transformers.LlamaForCausalLM(transformers.LlamaConfig(**llama)), 2 * 7, "lm_head"
    yield transformers.LlamaForCausalLM(transformers.LlamaConfig(**llama, tie_word_embeddings=True)), 2 * 7, "embed"
    gpt2 = transformers.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=20, bos_token_id=0, eos_token_id=0
    )
    yield transformers.GPT2LMHeadModel(gpt2), 2 * 4, "wpe"


def test_models_of_transformers():
    for model, matrices, apart in hosts():
        # Where a handle would hang it, below a block.
        block = next(module for module in model.modules() if isinstance(module, nn.ModuleList))[0]
        block.memory = Engram(16, entries=101, dim=4)
        found = names_of(model)
        assert [len(found["table"]), len(found["projection"])] == [1, 1]
        assert len(found["matrices"]) == matrices, sorted(found["matrices"])
        assert not any(apart in name for name in found["matrices"])
        assert any(apart in name for name in found["rest"])
        # Its own account of the head is enough.
        assert names_of(model, heads=("cls", "classifier")) == found
        optimizer = build_optimizer(nn.DataParallel(model), 1e-3)
        assert [group["name"] for group in optimizer.param_groups] == ["table", "projection", "matrices", "rest"]


# One optimizer


def test_the_rates_of_the_groups():
    optimizer = build_optimizer(Host(), 1e-3, matrix_lr_scale=20.0, weight_decay=0.1, betas=(0.8, 0.9), momentum=0.7)
    assert isinstance(optimizer, torch.optim.Optimizer)
    table, projection, matrices, rest = optimizer.param_groups
    assert (table["lr"], table["rows"]) == (5e-3, "all")
    for group in (projection, matrices):
        assert (group["lr"], group["weight_decay"], group["momentum"]) == (20e-3, 0.1, 0.7)
        assert group["adjust_lr_fn"] == "match_rms_adamw"
    assert (rest["lr"], rest["weight_decay"], rest["betas"]) == (1e-3, 0.0, (0.8, 0.9))


def test_all_rules_move_parameters_about_as_far():
    """What makes one base rate fit all of them."""
    torch.manual_seed(0)
    host = Host()
    nn.init.normal_(host.body.memory[0].projection)
    before = {name: parameter.detach().clone() for name, parameter in host.named_parameters()}
    optimizer = build_optimizer(host, 1e-3, table_lr_scale=1.0)
    train(host, optimizer, 10)
    for name, parameter in host.named_parameters():
        moved = (parameter - before[name]).detach()
        moved = moved[moved.any(dim=1)] if moved.ndim == 2 else moved
        assert 0.1 < moved.square().mean().sqrt() / (10 * 1e-3) < 1.1, name


@pytest.mark.parametrize("sparse_table", [True, False])
@pytest.mark.parametrize("memory", [True, False])
def test_it_learns_with_and_without_a_memory(sparse_table, memory):
    torch.manual_seed(0)
    host = Host(memory)
    optimizer = build_optimizer(host, 5e-3, sparse_table=sparse_table)
    assert len(optimizer.param_groups) == (4 if memory else 2)
    assert train(host, optimizer, 40) < 0.5 * F.cross_entropy(Host(memory)(IDS[:-1]), IDS[1:]).item()
    before = copy.deepcopy(host.state_dict())
    optimizer.catch_up()
    changed = {name for name, value in host.state_dict().items() if not torch.equal(value, before[name])}
    assert changed <= {"body.memory.0.table"}


def by_lambda(optimizer):
    return LambdaLR(optimizer, lambda step: 1 / (1 + step))


def by_one_cycle(optimizer):
    peaks = [group["lr"] for group in optimizer.param_groups]
    return OneCycleLR(optimizer, max_lr=peaks, total_steps=20, cycle_momentum=False)


def by_warmup(optimizer):
    return pytest.importorskip("transformers").get_linear_schedule_with_warmup(optimizer, 5, 20)


@pytest.mark.parametrize("schedule", [by_lambda, by_one_cycle, by_warmup])
def test_one_scheduler_drives_all_rates(schedule):
    host = Host()
    optimizer = build_optimizer(host, 1e-3, matrix_lr_scale=2.0)
    scheduler = schedule(optimizer)
    seen = set()
    for _ in range(10):
        train(host, optimizer, 1, scheduler)
        rates = [group["lr"] for group in optimizer.param_groups]
        assert rates == pytest.approx([5 * rates[3], 2 * rates[3], 2 * rates[3], rates[3]])
        seen.add(rates[3])
    assert len(seen) > 5


def test_a_rate_of_zero_changes_nothing():
    """So a scheduler's rate reaches every part, not only the groups that one reads."""
    host = Host()
    optimizer = build_optimizer(host, 1e-3)
    train(host, optimizer, 2)
    before = copy.deepcopy(host.state_dict())
    LambdaLR(optimizer, lambda step: 0.0)
    train(host, optimizer, 2)
    assert all(torch.equal(value, before[name]) for name, value in host.state_dict().items())


def test_one_cycle_says_what_it_cannot_do():
    with pytest.raises(ValueError, match="cycle_momentum"):
        OneCycleLR(build_optimizer(Host(), 1e-3), max_lr=1e-3, total_steps=10)


@pytest.mark.parametrize("sparse_table", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_whole_resumes_exactly(sparse_table, dtype):
    def make():
        torch.manual_seed(0)
        host = Host(tied=True).to(dtype)
        optimizer = build_optimizer(host, 5e-3, sparse_table=sparse_table)
        return host, optimizer, LambdaLR(optimizer, lambda step: 1 / (1 + step))

    host, optimizer, scheduler = make()
    train(host, optimizer, 5, scheduler)
    again, resumed, later = make()
    checkpoint = saved([each.state_dict() for each in (host, optimizer, scheduler)])
    for each, state in zip((again, resumed, later), checkpoint, strict=True):
        each.load_state_dict(state)
    copied_host, copied = copy.deepcopy((host, optimizer))
    train(host, optimizer, 5, scheduler)
    train(again, resumed, 5, later)
    for name, value in host.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    assert optimizer.state[host.body.memory[0].table]["momentum_buffer"].dtype == torch.float32

    # A copy is whole as well, and trains the copied parameters.
    train(copied_host, copied, 5, LambdaLR(copied, lambda step: 1 / (6 + step)))
    assert torch.equal(copied_host.body.memory[0].table, host.body.memory[0].table)
    assert torch.equal(copied_host.body[0].weight, host.body[0].weight)


def test_a_state_of_other_groups_is_refused():
    state = build_optimizer(Host(memory=False), 1e-3).state_dict()
    optimizer = build_optimizer(Host(), 1e-3)
    with pytest.raises(ValueError, match="parameter groups"):
        optimizer.load_state_dict(state)


def test_combining():
    host = Host()
    with pytest.raises(RuntimeError, match="combine"):
        build_optimizer(host, 1e-3).add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    with pytest.raises(ValueError, match="empty"):
        CombinedOptimizer([])
    one = torch.optim.SGD(host.body.parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(ValueError, match="more than one"):
        CombinedOptimizer([one, torch.optim.SGD(host.parameters(), lr=0.1)])
    # What a part knew before it became one goes on.
    train(host, one, 2)
    momentum = one.state[host.body[0].weight]["momentum_buffer"]
    whole = CombinedOptimizer([one, torch.optim.AdamW(host.embed.parameters())])
    assert whole.state[host.body[0].weight]["momentum_buffer"] is momentum
    calls = []

    def closure():
        calls.append(torch.is_grad_enabled())
        return 1.5

    assert whole.step(closure) == 1.5
    assert calls == [True]


def test_nothing_to_train():
    with pytest.raises(ValueError, match="requires a gradient"):
        build_optimizer(Host().requires_grad_(False), 1e-3)


# Processes

SPREAD = """
import sys

import torch
from torch import distributed, nn
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

from engram_rs.torch.optim import SinkhornMomentum

torch.set_num_threads(1)
distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
drawn = [torch.randn(31, 4) * (torch.rand(31, 1) < 0.5) for _ in range(5)]
drawn[2][:20] = 0  # one process has nothing to do
for rows in ("all", "touched"):
    whole = nn.Parameter(torch.ones(31, 4))
    parts = nn.Parameter(distribute_tensor(whole.detach(), mesh, [Shard(0)]))
    rules = [SinkhornMomentum([whole], rows=rows), SinkhornMomentum([parts], rows=rows)]
    for gradient in drawn:
        whole.grad, parts.grad = gradient, distribute_tensor(gradient, mesh, [Shard(0)])
        for rule in rules:
            rule.step()
    for rule in rules:
        rule.catch_up()
    torch.testing.assert_close(parts.full_tensor(), whole, atol=1e-7, rtol=1e-5)
try:
    SinkhornMomentum([nn.Parameter(distribute_tensor(torch.ones(4, 4), mesh, [Shard(1)]))])
except ValueError as error:
    assert "by rows only" in str(error)
else:
    raise AssertionError("columns may not be spread")
distributed.destroy_process_group()
"""


def test_a_table_spread_over_processes(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SPREAD, str(tmp_path / "meeting"), str(rank)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for process in processes:
            output, _ = process.communicate(timeout=120)
            assert process.returncode == 0, output
    finally:
        for process in processes:
            process.kill()
