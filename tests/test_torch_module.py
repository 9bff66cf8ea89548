"""The memory as a module: what it computes, how it starts, what it refuses."""

import pytest

torch = pytest.importorskip("torch")

from conftest import load_vectors  # noqa: E402
from engram_rs import Addressing, encode  # noqa: E402
from engram_rs.torch import Engram  # noqa: E402


def by_hand(module: Engram, rows: torch.Tensor) -> torch.Tensor:
    """Gather, mean, project, as the reference words it."""
    return torch.nn.functional.embedding(rows, module.table).mean(dim=-2) @ module.projection.T


def test_a_fresh_memory_adds_exactly_zero():
    module = Engram(64, entries=1000, dim=8)
    out = module(torch.randint(0, 300, (3, 40)))
    assert out.shape == (3, 40, 64)
    assert torch.equal(out, torch.zeros(3, 40, 64))
    hidden = torch.randn(3, 40, 64)
    assert torch.equal(hidden + out, hidden)


def test_the_table_starts_as_published():
    torch.manual_seed(0)
    module = Engram(4, entries=50_000, dim=16)
    assert module.table.std().item() == pytest.approx(0.02, rel=0.01)
    assert module.table.mean().item() == pytest.approx(0, abs=1e-4)
    assert [name for name, _ in module.named_parameters()] == ["table", "projection"]


def test_forward_is_gather_mean_project(trained):
    ids = torch.from_numpy(encode("Ünïcode — كِتَابٌ"))
    rows = torch.from_numpy(trained.addressing(ids.numpy()))
    torch.testing.assert_close(trained(ids), by_hand(trained, rows), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(trained(ids[None])[0], trained(ids), atol=0, rtol=0)


def test_rows_of_the_golden_vectors():
    for case in load_vectors("byte_fnv1a")[::40]:
        module = Engram(3, entries=case["entries"], dim=2, orders=case["orders"])
        torch.nn.init.normal_(module.projection)
        rows = torch.tensor(case["rows"]).reshape(-1, len(case["orders"]))
        wanted = by_hand(module, rows)
        torch.testing.assert_close(module(torch.tensor(case["ids"], dtype=torch.int64)), wanted, atol=1e-6, rtol=1e-5)
        hashes = torch.tensor(case["hashes"]).reshape(rows.shape)
        torch.testing.assert_close(module.from_addresses(hashes), wanted, atol=1e-6, rtol=1e-5)


def test_null_rows_count_in_the_mean():
    module = Engram(1, entries=10, dim=1, orders=(1, 5))
    with torch.no_grad():
        module.table.copy_(torch.arange(10.0)[:, None] + 1)
        module.projection.fill_(1)
    ids = torch.tensor([7])
    row = int(module.addressing([7])[0, 0])
    assert module(ids).item() == pytest.approx((row + 1 + 1) / 2)


def test_negative_addresses_take_the_remainder(trained):
    addresses = torch.tensor([[-1, 0, 4099]])
    rows = torch.tensor([[4098, 0, 0]])
    torch.testing.assert_close(trained.from_addresses(addresses), by_hand(trained, rows), atol=1e-6, rtol=1e-5)


def test_gradients_reach_the_touched_rows_only(trained):
    ids = torch.from_numpy(encode("gradient"))
    trained(ids).square().sum().backward()
    touched = torch.zeros(4099, dtype=torch.bool)
    touched[torch.from_numpy(trained.addressing(ids.numpy())).flatten()] = True
    assert trained.table.grad[~touched].abs().max() == 0
    assert (trained.table.grad[touched].abs().sum(dim=1) > 0).all()
    assert trained.projection.grad.abs().sum() > 0


def test_gradients_are_right():
    module = Engram(3, entries=7, dim=2, dtype=torch.float64)
    addresses = torch.randint(0, 100, (2, 4, 3))

    def call(table, projection):
        return torch.func.functional_call(Addressed(module), {"m.table": table, "m.projection": projection}, addresses)

    inputs = (torch.randn(7, 2, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64))
    assert torch.autograd.gradcheck(call, tuple(value.requires_grad_() for value in inputs))


class Addressed(torch.nn.Module):
    """`from_addresses` as a forward, so that `functional_call` reaches it."""

    def __init__(self, module: Engram) -> None:
        super().__init__()
        self.m = module

    def forward(self, addresses: torch.Tensor) -> torch.Tensor:
        return self.m.from_addresses(addresses)


def test_it_learns():
    torch.manual_seed(1)
    module = Engram(8, entries=997, dim=4)
    ids = torch.from_numpy(encode("what follows is learned from the bytes before"))
    target = torch.randn(len(ids), 8)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    losses = []
    for _ in range(200):
        loss = (module(ids) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8, torch.uint16])
def test_integer_dtypes_and_strides(trained, dtype):
    ids = torch.randint(3, 120, (4, 10)).to(dtype)
    wanted = trained(ids.long())
    assert torch.equal(trained(ids), wanted)
    assert torch.equal(trained(ids.T.contiguous().T), wanted)


def test_a_state_knows_its_addressing(trained):
    state = trained.state_dict()
    assert set(state) == {"table", "projection", "_extra_state"}
    same = Engram(48, entries=4099, dim=16)
    same.load_state_dict(state)
    assert torch.equal(same.table, trained.table)
    other = Engram(48, entries=4099, dim=16, orders=(4, 8, 12))
    with pytest.raises(ValueError, match=f"{trained.addressing.digest}.*{other.addressing.digest}"):
        other.load_state_dict(state)
    del state["_extra_state"]
    with pytest.raises(RuntimeError, match="_extra_state"):
        same.load_state_dict(state)


def test_another_addressing():
    addressing = Addressing.byte_fnv1a(77, (5,))
    module = Engram(4, dim=2, addressing=addressing)
    assert module.table.shape == (77, 2)
    assert "orders=(5,)" in repr(module)
    with pytest.raises(ValueError, match="both already"):
        Engram(4, entries=77, addressing=addressing)
    with pytest.raises(TypeError, match="Addressing"):
        Engram(4, addressing="byte_fnv1a")


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"d_model": 0}, ValueError, "d_model"),
        ({"d_model": 8.0}, TypeError, "d_model"),
        ({"d_model": 8, "dim": -1}, ValueError, "dim"),
        ({"d_model": 8, "dim": True}, TypeError, "dim"),
        ({"d_model": 8, "entries": 0}, ValueError, "entries"),
        ({"d_model": 8, "orders": (0,)}, ValueError, "order"),
    ],
)
def test_bad_sizes(arguments, error, named):
    with pytest.raises(error, match=named):
        Engram(**arguments)


@pytest.mark.parametrize(
    ("ids", "error"),
    [
        (torch.zeros(2, 3), TypeError),
        (torch.zeros(2, dtype=torch.bool), TypeError),
        ([1, 2], TypeError),
        (torch.zeros((), dtype=torch.int64), ValueError),
        (torch.zeros(1, 1, 1, dtype=torch.int64), ValueError),
    ],
)
def test_bad_ids(trained, ids, error):
    with pytest.raises(error):
        trained(ids)


@pytest.mark.parametrize(
    ("addresses", "error"),
    [
        (torch.zeros(2, 3), TypeError),
        (torch.zeros(2, 3, dtype=torch.int32), TypeError),
        (torch.zeros(3, dtype=torch.int64), ValueError),
        (torch.zeros(2, 4, dtype=torch.int64), ValueError),
    ],
)
def test_bad_addresses(trained, addresses, error):
    with pytest.raises(error, match="addresses must be"):
        trained.from_addresses(addresses)
