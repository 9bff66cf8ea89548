"""What each of two processes does in `test_sharding.py`."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from transformers import T5Config, T5EncoderModel

from engram_rs.torch import attach, build_optimizer, load, shard_tables

dist.init_process_group("gloo")
torch.set_num_threads(1)
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))


def make(seed):
    torch.manual_seed(seed)
    config = T5Config(vocab_size=384, d_model=16, d_kv=4, d_ff=32, num_layers=3, num_heads=2, dropout_rate=0.0)
    model = T5EncoderModel(config)
    # An odd number of rows, so that the parts differ.
    handle = attach(model, 1, entries=101, dim=8, quiet=True)
    torch.nn.init.normal_(handle.module.projection)
    return model, handle.module


def step(model, ids, weights):
    outputs = model(input_ids=ids)[0]
    (outputs * weights).sum().backward()
    return outputs.detach()


one, alone = make(0)
two, shared = make(0)
if rank:
    # The first process's values count.
    torch.nn.init.zeros_(shared.table)
assert shard_tables(two, mesh) == ["encoder.block.1.engram.table"]
parallel = torch.nn.parallel.DistributedDataParallel(two)
ids = torch.randint(3, 259, (4, 9), generator=torch.Generator().manual_seed(1))
weights = torch.randn(4, 9, 16, generator=torch.Generator().manual_seed(2))
optimizers = [build_optimizer(model, 0.01) for model in (one, two)]
for _ in range(3):
    one.zero_grad()
    two.zero_grad()
    outputs = step(one, ids, weights)
    torch.testing.assert_close(step(parallel, ids[rank::size], weights[rank::size]), outputs[rank::size])
    assert shared.table.grad.to_local().shape == shared.table.to_local().shape == (51 - rank, 8)
    torch.testing.assert_close(shared.table.grad.full_tensor(), alone.table.grad)
    for optimizer in optimizers:
        optimizer.step()
torch.testing.assert_close(shared.table.full_tensor(), alone.table.data, atol=1e-5, rtol=1e-4)

two.save_pretrained(sys.argv[1], is_main_process=rank == 0)
dist.barrier()
saved = shared.table.full_tensor()
model, memory = make(7)
load(model, sys.argv[1], quiet=True)
assert torch.equal(memory.table, saved), "a whole table reads what was shared"
model, memory = make(8)
shard_tables(model, mesh)
load(model, sys.argv[1], quiet=True)
assert torch.equal(memory.table.full_tensor(), saved), "a shared table reads it too"
dist.barrier()
dist.destroy_process_group()
sys.stdout.write(f"equal in process {rank}\n")
