"""What several test files share."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No test may depend on how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Nor on the length of a temporary folder's name, which wraps the tables of the command line.
os.environ["COLUMNS"] = "200"

if "PYTEST_XDIST_WORKER" in os.environ:
    # Processes that test side by side would wait for each other's threads.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

VECTORS = Path(__file__).parent / "vectors"


def load_vectors(scheme: str) -> list[dict]:
    """The cases of one scheme's golden vectors."""
    document = json.loads((VECTORS / f"{scheme}.json").read_text())
    assert document["scheme"] == scheme
    return document["cases"]


@pytest.fixture(scope="module")
def one_thread():
    """Torch on one thread: small models are faster on it, and processes that test side by side do not wait."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def trained():
    """A small memory whose output is not zero, as after training."""
    torch = pytest.importorskip("torch")
    from engram_rs.torch import Engram

    torch.manual_seed(5)
    module = Engram(48, entries=4099, dim=16)
    torch.nn.init.normal_(module.projection, std=0.5)
    return module
