"""The operator: the same rows as the core, whatever torch does with it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from engram_rs import Addressing  # noqa: E402
from engram_rs.torch import Engram, addresses  # noqa: E402
from engram_rs.torch.arithmetic import addresses_on_device  # noqa: E402
from test_boundaries import IDS, SCHEMES  # noqa: E402

OPERATOR = torch.ops.engram_rs.addresses.default


@pytest.mark.parametrize("addressing", SCHEMES, ids=lambda one: one.scheme)
def test_opcheck(addressing):
    ids = torch.randint(0, 290, (2, 9))
    for arguments in ((ids, addressing.to_json()), (ids[0].int(), addressing.to_json())):
        torch.library.opcheck(OPERATOR, arguments)
    torch.library.opcheck(OPERATOR, (ids, addressing.to_json()), {"dead": ids % 5 == 0})


@settings(max_examples=150)
@given(addressing=st.sampled_from(SCHEMES), ids=IDS, seed=st.integers(0, 99))
def test_the_arithmetic_for_devices_is_the_core(addressing, ids, seed):
    batch = np.array([ids, ids[::-1]], dtype=np.int64)
    dead = np.random.default_rng(seed).random(batch.shape) < 0.1
    for mask in (None, dead):
        given_mask = None if mask is None else torch.from_numpy(mask)
        got = addresses_on_device(addressing, torch.from_numpy(batch), given_mask)
        np.testing.assert_array_equal(got.numpy(), addressing(batch, dead=mask))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.uint32, torch.uint64])
def test_any_integers_and_any_layout(dtype):
    addressing = Addressing.byte_fnv1a(977)
    ids = torch.arange(120).reshape(8, 15).to(dtype)
    for view in (ids, ids.T, ids[::2, 1::3], ids[0], ids[:1].expand(4, -1), ids[:, :0], ids[:0]):
        np.testing.assert_array_equal(addresses(view, addressing).numpy(), addressing(view.numpy()))


def test_one_graph_for_all_lengths():
    module = Engram(8, entries=977, dim=4)
    torch.nn.init.normal_(module.projection)
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(module, backend=backend, fullgraph=True, dynamic=True)
    for length in (3, 4, 9, 20, 33):
        ids = torch.randint(0, 300, (2, length))
        torch.testing.assert_close(compiled(ids), module(ids), rtol=0, atol=0)
    assert len(graphs) == 1


def test_compiled_training_step():
    module = Engram(8, entries=97, dim=4)
    torch.nn.init.normal_(module.projection)
    ids = torch.randint(0, 300, (2, 12))
    module(ids).square().sum().backward()
    wanted = module.table.grad.clone()
    module.zero_grad()
    torch._dynamo.reset()
    torch.compile(module, backend="aot_eager", fullgraph=True)(ids).square().sum().backward()
    torch.testing.assert_close(module.table.grad, wanted)


def test_export_carries_the_scheme():
    module = Engram(8, entries=977, dim=4, orders=(2, 5))
    torch.nn.init.normal_(module.projection)
    length = torch.export.Dim("length", min=2, max=512)
    program = torch.export.export(module, (torch.randint(0, 300, (2, 9)),), dynamic_shapes={"input_ids": {1: length}})
    ids = torch.randint(0, 300, (2, 50))
    torch.testing.assert_close(program.module()(ids), module(ids), rtol=0, atol=0)
    assert module.addressing.to_json() in str(program.graph)


def test_what_is_refused():
    addressing = Addressing.multiply_xor([7, 5], [11], 1, vocab_size=300)
    ids = torch.zeros(2, 3, dtype=torch.int64)
    for error, sentence, arguments in (
        (TypeError, "tensor of integers, not torch.float32", (ids.float(), addressing)),
        (TypeError, "tensor of integers, not list", ([1, 2], addressing)),
        (TypeError, "must be an Addressing", (ids, "scheme")),
        (ValueError, r"\[T\] or \[B, T\], not \[1, 2, 3\]", (ids[None], addressing)),
        (TypeError, "dead must be booleans", (ids, addressing, ids)),
        (ValueError, "dead must have the shape", (ids, addressing, ids[:1].bool())),
        (ValueError, "id 300 was given", (ids + 300, addressing)),
    ):
        with pytest.raises(error, match=sentence):
            addresses(*arguments)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("addressing", SCHEMES, ids=lambda one: one.scheme)
def test_cuda_never_asks_the_host(addressing):
    ids = torch.randint(0, 290, (3, 100))
    wanted = addresses(ids, addressing)
    on_device = ids.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        got = addresses(on_device, addressing)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(got.cpu(), wanted)
