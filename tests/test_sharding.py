"""Tables whose rows two processes share: the same as one process, forward, backward, saved and loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.distributed import device_mesh  # noqa: E402

from engram_rs.torch import Engram, shard_tables  # noqa: E402

SCRIPT = Path(__file__).parent / "sharded.py"


def test_two_processes(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(SCRIPT), str(tmp_path / "saved")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("equal in process") == 2


@pytest.fixture
def mesh(tmp_path):
    """A group of this process alone."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield device_mesh.init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


def test_what_cannot_be_shared(mesh):
    with pytest.raises(ValueError, match="Linear has no memory"):
        shard_tables(torch.nn.Linear(2, 2), mesh)
    memory = Engram(8, entries=16, dim=4)
    assert shard_tables(memory, mesh) == ["table"]
    with pytest.raises(ValueError, match="the table of the memory is shared already"):
        shard_tables(memory, mesh)
    with pytest.raises(ValueError, match="must have one dimension, not 2"):
        shard_tables(Engram(8, entries=16, dim=4), device_mesh.init_device_mesh("cpu", (1, 1)))


class Few:
    """A mesh of four, as far as one is asked before anything is sent."""

    ndim = 1

    def size(self):
        return 4


def test_too_few_rows():
    with pytest.raises(ValueError, match="5 rows are too few for 4 processes"):
        shard_tables(Engram(8, entries=5, dim=4), Few())


def test_one_process_shares_with_itself(mesh):
    """The same sums, whole and of one part, and the artifact of both."""
    whole, shared = Engram(8, entries=31, dim=4), Engram(8, entries=31, dim=4)
    torch.nn.init.normal_(whole.projection)
    shared.load_state_dict(whole.state_dict())
    shard_tables(shared, mesh)
    ids = torch.randint(3, 259, (2, 7))
    torch.testing.assert_close(shared(ids), whole(ids))
    assert (shared.to_artifact().table == whole.to_artifact().table).all()
    assert shared(ids[:, :0]).shape == (2, 0, 8)
