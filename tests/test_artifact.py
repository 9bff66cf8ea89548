"""The published int8 form: what it holds, and what is refused when it is read."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.numpy")

from safetensors import safe_open  # noqa: E402

from engram_rs import Addressing, artifact  # noqa: E402
from engram_rs.artifact import MemoryArtifact  # noqa: E402
from engram_rs.torch import Engram  # noqa: E402


def test_the_published_arithmetic(trained):
    state = trained.state_int8()
    table = trained.table.detach()
    scale = table.abs().max().clamp(min=1e-8) / 127
    assert state["scale"].item() == scale.item()
    assert torch.equal(state["table"], torch.round(table / scale).to(torch.int8))
    assert torch.equal(state["projection"], trained.projection.detach().half())
    assert {name: value.dtype for name, value in state.items()} == {
        "table": torch.int8,
        "scale": torch.float32,
        "projection": torch.float16,
    }


def test_save_and_load(trained, tmp_path):
    path = tmp_path / "memory.safetensors"
    trained.save(path)
    loaded = Engram.load(path)
    assert loaded.addressing == trained.addressing
    assert (loaded.table - trained.table).abs().max() <= trained.state_int8()["scale"] / 2 * 1.0001
    assert torch.equal(loaded.projection, trained.projection.half().float())
    # A memory that was int8 before loses nothing more.
    again = tmp_path / "again.safetensors"
    loaded.save(again)
    assert np.array_equal(MemoryArtifact.load(again).table, MemoryArtifact.load(path).table)
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["again.safetensors", "memory.safetensors"]


def test_a_saved_file_has_the_permissions_of_any_other(trained, tmp_path):
    trained.save(tmp_path / "memory.safetensors")
    (tmp_path / "other").touch()
    assert (tmp_path / "memory.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_the_default_size_on_disk(tmp_path):
    module = Engram(1472)
    path = tmp_path / "default.safetensors"
    module.save(path)
    weights = 2_097_152 * 32 + 1472 * 32 * 2 + 4
    assert weights < path.stat().st_size < weights + 4096


def test_a_table_of_zeros(tmp_path):
    module = Engram(4, entries=10, dim=2)
    torch.nn.init.zeros_(module.table)
    module.save(tmp_path / "zeros")
    assert torch.equal(Engram.load(tmp_path / "zeros").table, module.table)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["table", "projection"])
def test_what_is_not_finite_is_not_saved(trained, tmp_path, name, value):
    path = tmp_path / "memory.safetensors"
    path.write_bytes(b"older")
    with torch.no_grad():
        getattr(trained, name)[-1, -1] = value
    with pytest.raises(ValueError, match=name):
        trained.save(path)
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


def test_a_projection_beyond_float16_is_not_saved(trained, tmp_path):
    with torch.no_grad():
        trained.projection[0, 0] = 70_000
    with pytest.raises(ValueError, match="float16"):
        trained.save(tmp_path / "memory.safetensors")


def parts(path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors of a saved memory, and what its metadata declare."""
    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
        assert list(metadata) == ["engram"]
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(metadata["engram"])  # noqa: SIM118


def foreign(metadata):
    metadata["addressing"] = Addressing.byte_fnv1a(4099, (2, 3, 5)).to_json()


def fewer_rows(metadata):
    other = Addressing.byte_fnv1a(4098)
    metadata.update(addressing=other.to_json(), addressing_digest=other.digest)


DAMAGE = {
    "no format": (lambda t, m: m.pop("format"), "format is None"),
    "another format": (lambda t, m: m.update(format="other-v1"), "other-v1"),
    "no addressing": (lambda t, m: m.pop("addressing"), "lack addressing"),
    "no digest": (lambda t, m: m.pop("addressing_digest"), "lack addressing_digest"),
    "no digest of the tensors": (lambda t, m: m.pop("sha256"), "lack sha256"),
    "another digest of the tensors": (lambda t, m: m.update(sha256="0" * 64), "sha256.*0{64}"),
    "a number for a digest": (lambda t, m: m.update(sha256=5), "lack sha256"),
    "a foreign addressing": (lambda t, m: foreign(m), r"[0-9a-f]{64}.*[0-9a-f]{64}"),
    "fewer rows declared": (lambda t, m: fewer_rows(m), "4099 rows.*4098"),
    "no table": (lambda t, m: t.pop("table"), "tensors"),
    "one tensor more": (lambda t, m: t.update(more=t["scale"]), "more"),
    "a float table": (lambda t, m: t.update(table=t["table"].astype(np.float32)), "table must be int8"),
    "a flat table": (lambda t, m: t.update(table=t["table"].ravel()), "table must be int8 with two"),
    "a float32 projection": (
        lambda t, m: t.update(projection=t["projection"].astype(np.float32)),
        "projection must be float16",
    ),
    "another dim": (lambda t, m: t.update(projection=t["projection"][:, :-1].copy()), "one dim"),
    "two scales": (lambda t, m: t.update(scale=np.ones(2, np.float32)), "scale must be float32"),
    "a float64 scale": (lambda t, m: t.update(scale=np.ones(1)), "scale must be float32"),
    "a scale of zero": (lambda t, m: t.update(scale=np.zeros(1, np.float32)), "positive"),
    "a scale that is no number": (lambda t, m: t.update(scale=np.full(1, np.nan, np.float32)), "positive"),
    "a projection with infinities": (
        lambda t, m: t.update(projection=np.full_like(t["projection"], np.inf)),
        "not finite",
    ),
}


@pytest.mark.parametrize(("damage", "named"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_artifact_says_what_is_wrong(trained, tmp_path, damage, named):
    path = tmp_path / "damaged.safetensors"
    trained.save(path)
    tensors, declared = parts(path)
    damage(tensors, declared)
    # What is declared of the tensors is made right again, so that only the damage is wrong.
    if declared.get("sha256") == parts(path)[1]["sha256"] and set(tensors) == {"table", "scale", "projection"}:
        declared["sha256"] = artifact._sha256(tensors)
    safetensors.save_file(tensors, path, metadata={"engram": json.dumps(declared)})
    with pytest.raises(ValueError, match=named) as caught:
        Engram.load(path)
    assert "damaged.safetensors" in str(caught.value)


@pytest.mark.parametrize("metadata", [None, {"other": "1"}, {"engram": "[1]"}, {"engram": "{"}, {"engram": "null"}])
def test_metadata_that_are_no_declaration(tmp_path, metadata):
    path = tmp_path / "other.safetensors"
    safetensors.save_file({"table": np.zeros(3)}, path, metadata=metadata)
    with pytest.raises(ValueError, match="is not a memory"):
        Engram.load(path)


@pytest.mark.parametrize("at", [-1, -3000, -40_000])
def test_one_flipped_bit_in_a_tensor_is_found(trained, tmp_path, at):
    path = tmp_path / "memory.safetensors"
    trained.save(path)
    damaged = bytearray(path.read_bytes())
    damaged[at] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="sha256"):
        Engram.load(path)


def test_equal_memories_are_equal_files(trained, tmp_path):
    files = set()
    for index in range(8):
        trained.save(tmp_path / str(index))
        files.add((tmp_path / str(index)).read_bytes())
    assert len(files) == 1


def test_truncated_files(trained, tmp_path):
    path = tmp_path / "memory.safetensors"
    trained.save(path)
    whole = path.read_bytes()
    for length in (0, 4, 8, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="not a memory"):
            Engram.load(path)


def test_paths_that_cannot_be(trained, tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        Engram.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="no folder"):
        trained.save(tmp_path / "none" / "memory.safetensors")
    with pytest.raises(IsADirectoryError):
        trained.save(tmp_path)
