"""Weights that lie beside a graph: the same model, read by ONNX's own parser, and no file that breaks the walk."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, external_data_helper, helper, numpy_helper  # noqa: E402

from engram_rs.ort import sessions, weights  # noqa: E402

CPU = ["CPUExecutionProvider"]
BIG = 2**20


def model(*tensors, **changes):
    """Adds all that is gathered from each table."""
    nodes, inputs = [], [helper.make_tensor_value_info("rows", TensorProto.INT64, ["n"])]
    for number, tensor in enumerate(tensors):
        nodes.append(helper.make_node("Gather", [tensor.name, "rows"], [f"taken.{number}"], f"take.{number}"))
        nodes.append(helper.make_node("Cast", [f"taken.{number}"], [f"float.{number}"], to=TensorProto.FLOAT))
    nodes.append(helper.make_node("Sum", [f"float.{number}" for number in range(len(tensors))], ["y"]))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", None])]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(tensors), doc_string="stays")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=7, **changes)
    helper.set_model_props(made, {"some.key": "some value"})
    return made


def table(name, dtype, rows=BIG // 8, width=8):
    values = np.random.default_rng(len(name)).integers(-100, 100, (rows, width)).astype(dtype)
    return numpy_helper.from_array(values, name)


def read(path):
    """The model as ONNX's own parser puts it together again."""
    found = onnx.load(path)
    assert not any(external_data_helper.uses_external_data(tensor) for tensor in found.graph.initializer)
    return plain(found)


def plain(found):
    """The model without the word that its weights are inside, which is optional."""
    for tensor in found.graph.initializer:
        tensor.ClearField("data_location")
    return found


TABLES = (
    table("small", np.float32, 16),
    table("bytes", np.int8),
    table("odd", np.int8, BIG // 8 + 1),
    table("f", np.float32),
)


def test_the_model_is_the_same(tmp_path):
    whole = model(*TABLES)
    onnx.save(whole, tmp_path / "model.onnx")
    (tmp_path / "out").mkdir()
    path = weights.detach_weights(tmp_path / "model.onnx", tmp_path / "out")
    assert path == tmp_path / "out" / "model.onnx"
    assert path.stat().st_size < 4096
    assert read(path) == whole
    # The alignment that mapping and vector loads want.
    bare = onnx.load(path, load_external_data=False)
    places = [{entry.key: entry.value for entry in one.external_data} for one in bare.graph.initializer]
    assert [len(place) for place in places] == [0, 3, 3, 3]
    assert all(int(place["offset"]) % 4096 == 0 for place in places[1:])


def test_a_weight_that_says_it_is_inside(tmp_path):
    """As ONNX's own loader leaves it when it has read a weight from outside."""
    whole = model(*TABLES)
    for tensor in whole.graph.initializer:
        tensor.data_location = TensorProto.DEFAULT
    onnx.save(whole, tmp_path / "model.onnx")
    (tmp_path / "out").mkdir()
    path = weights.detach_weights(tmp_path / "model.onnx", tmp_path / "out")
    assert path.parent == tmp_path / "out"
    assert read(path) == plain(whole)


def test_sessions_give_the_same(tmp_path):
    import onnxruntime

    onnx.save(model(*TABLES), tmp_path / "model.onnx")
    rows = {"rows": np.array([0, 3, 15])}
    wanted = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=CPU).run(None, rows)[0]
    session = sessions.open_session(tmp_path / "model.onnx", CPU, 1)
    # A file that is overwritten under a session changes nothing in it.
    (tmp_path / "model.onnx").write_bytes(bytes(3 * BIG))
    np.testing.assert_array_equal(session.run(None, rows)[0], wanted)


def test_what_needs_no_second_file_stays_as_it_is(tmp_path):
    (tmp_path / "out").mkdir()
    onnx.save(model(TABLES[0]), tmp_path / "small.onnx")
    assert weights.detach_weights(tmp_path / "small.onnx", tmp_path / "out") == tmp_path / "small.onnx"
    onnx.save(model(TABLES[1]), tmp_path / "outside.onnx", save_as_external_data=True, location="data")
    assert weights.detach_weights(tmp_path / "outside.onnx", tmp_path / "out") == tmp_path / "outside.onnx"
    session = sessions.open_session(tmp_path / "outside.onnx", CPU, 1)
    wanted = numpy_helper.to_array(TABLES[1])[[5]]
    np.testing.assert_array_equal(session.run(None, {"rows": np.array([5])})[0], wanted)


def test_every_way_to_write_numbers_is_passed_on(tmp_path):
    """Payloads that are no raw bytes, and numbers of a name's length, stay where they are."""
    listed = helper.make_tensor("listed", TensorProto.FLOAT, [BIG // 4, 1], np.ones(BIG // 4, np.float32))
    assert not listed.raw_data
    whole = model(listed, TABLES[3])
    onnx.save(whole, tmp_path / "model.onnx")
    (tmp_path / "out").mkdir()
    assert read(weights.detach_weights(tmp_path / "model.onnx", tmp_path / "out")) == whole


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_is_an_error_or_the_same_model(tmp_path, monkeypatch, data):
    monkeypatch.setattr(weights, "_LEAST", 16)
    path, out = tmp_path / "model.onnx", tmp_path / "out"
    out.mkdir(exist_ok=True)
    good = model(TABLES[0]).SerializeToString()
    content = bytearray(good[: data.draw(st.integers(0, len(good)))])
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        found = weights.detach_weights(path, out)
    except ValueError as error:
        found = str(error)
    if isinstance(found, str):
        assert found == "it is no ONNX model, or was cut short"
        return
    try:
        wanted = onnx.load_from_string(bytes(content))
    except Exception:  # protobuf's own class of error depends on its implementation
        return
    if found != path:
        assert read(found) == plain(wanted)


def test_errors_name_the_model(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
    with pytest.raises(ValueError, match=r"cannot load .*model\.onnx: it is no ONNX model"):
        sessions.open_session(tmp_path / "model.onnx", CPU)
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(ValueError, match=r"cannot load the encoder"):
        sessions.open_session(tmp_path / "model.onnx", CPU, named="the encoder")
    with pytest.raises(FileNotFoundError, match="no file the encoder"):
        sessions.open_session(tmp_path / "none.onnx", CPU, named="the encoder")
