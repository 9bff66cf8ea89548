"""Memories on disk: back whole, or refused."""

import json
import shutil

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import engram_rs.torch  # noqa: E402
from engram_rs import Addressing  # noqa: E402
from engram_rs.torch import attach, load, memories, require_memory, save  # noqa: E402
from engram_rs.torch.persistence import CONFIG, TENSORS  # noqa: E402
from test_attach import ask, bert, llama, t5, wake  # noqa: E402

IDS = torch.randint(3, 300, (2, 12), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A model's directory with a memory in it, and what the model says."""
    torch.manual_seed(0)
    model = t5().eval()
    wake(attach(model, 1, entries=97, dim=4, quiet=True))
    folder = tmp_path_factory.mktemp("kept")
    model.save_pretrained(folder)
    return folder, ask(model, IDS)


@pytest.fixture
def folder(kept, tmp_path):
    return shutil.copytree(kept[0], tmp_path / "model")


@pytest.mark.parametrize("build", [t5, lambda: t5("T5EncoderModel"), bert, lambda: bert("BertModel"), llama])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_round_trip(build, dtype, tmp_path):
    model = build().eval().to(dtype)
    wake(attach(model, 0, entries=97, dim=4, quiet=True))
    wake(attach(model, 2, Addressing.utf8_fnv1a(101), dim=3, quiet=True))
    wanted = ask(model, IDS)
    model.save_pretrained(tmp_path)
    bare = type(model).from_pretrained(tmp_path, dtype=dtype).eval()
    assert memories(bare) == []
    assert not torch.equal(ask(bare, IDS), wanted)
    with pytest.raises(ValueError, match="must have a memory, and has none; its configuration declares"):
        require_memory(bare)
    handles = load(bare, tmp_path, quiet=True)
    assert require_memory(bare) == handles
    assert torch.equal(ask(bare, IDS), wanted)
    # And into a memory that is attached already.
    wake(handles[0])
    load(bare, tmp_path)
    assert torch.equal(ask(bare, IDS), wanted)


def test_a_loader_that_does_not_mind(folder, kept):
    """A state dict without the memory, `strict=False`: what trainers do when they resume from the model's own file."""
    bare = type(t5()).from_pretrained(folder).state_dict()
    model = t5().eval()
    handle = attach(model, 1, entries=97, dim=4, quiet=True)
    state = model.state_dict()
    model.load_state_dict(bare, strict=False)
    with pytest.raises(RuntimeError, match=r"without this memory.*Fill it by engram_rs\.torch\.load"):
        ask(model, IDS)
    load(model, folder, quiet=True)
    assert torch.equal(ask(model, IDS), kept[1])
    model.load_state_dict(bare, strict=False)
    handle.module.reset_parameters()
    assert torch.equal(ask(model, IDS), ask(type(model).from_pretrained(folder).eval(), IDS))
    model.load_state_dict(bare, strict=False)
    model.load_state_dict(state, strict=False)
    ask(model, IDS)
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict(bare)


def test_a_model_with_another_head(tmp_path):
    whole = bert().eval()
    handle = attach(whole, 1, entries=97, dim=4, quiet=True)
    wake(handle)
    handle.save(tmp_path / "memory")
    body = transformers.BertModel(whole.config, add_pooling_layer=False).eval()
    body.load_state_dict(whole.bert.state_dict(), strict=False)
    load(body, tmp_path / "memory", quiet=True)
    torch.testing.assert_close(body(IDS)[0], whole.bert(IDS)[0])


def edit(folder, change):
    file = folder / CONFIG
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


def retensor(folder, change):
    """Other tensors, with their own digest."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / TENSORS)
    change(tensors)
    save_file(tensors, folder / TENSORS)
    from engram_rs.torch.persistence import _sha256

    edit(folder, lambda value: value.update(sha256=_sha256(folder / TENSORS)))


TABLE = "encoder.block.1.table"
FOREIGN = Addressing.byte_fnv1a(97, (1, 2))
DAMAGES = {
    "holds no engram.safetensors": lambda folder: (folder / TENSORS).unlink(),
    "declares a memory in its config.json, but holds no engram_config.json": lambda folder: (folder / CONFIG).unlink(),
    "is damaged or foreign: its sha256": lambda folder: (folder / TENSORS).write_bytes(b"x"),
    "is damaged: Expecting": lambda folder: (folder / CONFIG).write_text("{"),
    "format is 'v9'": lambda folder: edit(folder, lambda value: value.update(format="v9")),
    "holds no table": lambda folder: retensor(folder, lambda tensors: tensors.pop(TABLE)),
    r"wanted floats \[97, 4\]": lambda folder: retensor(
        folder, lambda tensors: tensors.update({TABLE: torch.zeros(98, 4)})
    ),
    "wanted floats": lambda folder: retensor(
        folder, lambda tensors: tensors.update({TABLE: torch.zeros(97, 4, dtype=torch.int8)})
    ),
    "the addressing has digest": lambda folder: edit(
        folder, lambda value: value["memories"][0].update(addressing=FOREIGN.to_json())
    ),
    "each of another block": lambda folder: edit(folder, lambda value: value["memories"].append(value["memories"][0])),
    "must hold sha256 and memories": lambda folder: edit(folder, lambda value: value["memories"][0].update(dim=True)),
    "has no block encoder.block.9": lambda folder: edit(
        folder, lambda value: value["memories"][0].update(block="encoder.block.9")
    ),
    "has no block nowhere.0": lambda folder: edit(folder, lambda value: value["memories"][0].update(block="nowhere.0")),
}


@pytest.mark.parametrize("sentence", DAMAGES)
def test_what_is_refused_changes_nothing(folder, sentence):
    DAMAGES[sentence](folder)
    model = t5().eval()
    before = ask(model, IDS)
    with pytest.raises(ValueError, match=sentence):
        load(model, folder)
    assert memories(model) == []
    assert torch.equal(ask(model, IDS), before)


def test_models_that_do_not_fit(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        load(t5(), tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"holds no memory: there is no engram_config\.json"):
        load(t5(), tmp_path / "empty")
    config = transformers.T5Config(vocab_size=300, d_model=24, d_kv=8, d_ff=32, num_layers=4, num_heads=2)
    with pytest.raises(ValueError, match="for hidden states of 16, this model's have 24"):
        load(transformers.T5EncoderModel(config), folder)
    other = t5()
    attach(other, 1, FOREIGN, dim=4, quiet=True)
    with pytest.raises(ValueError, match="has an addressing with digest"):
        load(other, folder)
    more = t5()
    attach(more, 2, entries=97, dim=4, quiet=True)
    with pytest.raises(ValueError, match=r"holds nothing for the memory at encoder\.block\.2"):
        load(more, folder)
    with pytest.raises(ValueError, match="has no memory to save"):
        save(t5(), tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("full", ["save_file", "rename"])
def test_a_full_disk_leaves_the_earlier_files(folder, kept, monkeypatch, full):
    model = t5().eval()
    load(model, folder, quiet=True)
    wake(memories(model)[0])

    def fails(*arguments, **options):
        raise OSError(28, "No space left on device")

    if full == "save_file":
        monkeypatch.setattr("safetensors.torch.save_file", fails)
    else:
        monkeypatch.setattr("pathlib.Path.replace", fails)
    before = {file.name for file in folder.iterdir()}
    with pytest.raises(OSError, match="No space left"):
        engram_rs.torch.save(model, folder)
    assert {file.name for file in folder.iterdir()} == before
    monkeypatch.undo()
    again = type(model).from_pretrained(folder).eval()
    load(again, folder, quiet=True)
    assert torch.equal(ask(again, IDS), kept[1])


def test_a_state_dict_is_strict(folder):
    model, twin = t5(), t5()
    attach(model, 1, entries=97, dim=4, quiet=True)
    with pytest.raises(RuntimeError, match=r"Missing key.*encoder\.block\.1\.engram\.table"):
        model.load_state_dict(twin.state_dict())
    attach(twin, 1, FOREIGN, dim=4, quiet=True)
    with pytest.raises(ValueError, match="belongs to an addressing with digest"):
        model.load_state_dict(twin.state_dict())
