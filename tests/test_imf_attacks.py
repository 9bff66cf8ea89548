"""Zips that were made to harm, or were harmed: each is refused with its reason, and nothing is written."""

import contextlib
import dataclasses
import io
import os
import random
import stat
import struct
import time
import zipfile
import zlib

import pytest

onnx = pytest.importorskip("onnx")
yaml = pytest.importorskip("yaml")
pytest.importorskip("pydantic")

from onnx import TensorProto, helper  # noqa: E402

from engram_rs import _yaml as document  # noqa: E402
from engram_rs import imf  # noqa: E402
from test_imf import FLOAT, METADATA, decoder, encoder, members, metadata, sha  # noqa: E402

SENTINEL = 0xFFFFFFFF


@dataclasses.dataclass
class Entry:
    """A member as it is written: what its header and the directory say, and its data."""

    name: bytes
    data: bytes
    deflate: bool = True
    local: dict = dataclasses.field(default_factory=dict)
    central: dict = dataclasses.field(default_factory=dict)
    packed: bytes | None = None
    local_extra: bytes = b""
    central_extra: bytes = b""
    before: bytes = b""
    behind: bytes = b""
    offset: int | None = None
    attributes: int = (stat.S_IFREG | 0o644) << 16

    def fields(self, changes):
        packed = self.payload()
        wanted = {
            "flags": 0,
            "method": 8 if self.deflate else 0,
            "crc": zlib.crc32(self.data),
            "packed": len(packed),
            "size": len(self.data),
            "name": self.name,
        }
        return {**wanted, **changes}

    def payload(self):
        if self.packed is not None:
            return self.packed
        if not self.deflate:
            return self.data
        stream = zlib.compressobj(6, zlib.DEFLATED, -15)
        return stream.compress(self.data) + stream.flush()


def archive(entries, prefix=b"", suffix=b"", end=None, tail=None):
    """The bytes of a zip of these entries, as right as they are."""
    out, directory = bytearray(prefix), bytearray()
    for entry in entries:
        out += entry.before
        offset = len(out) if entry.offset is None else entry.offset
        told = entry.fields(entry.local)
        name, extra = told.pop("name"), entry.local_extra
        flags, method, crc, packed, size = told.values()
        out += struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 33, crc, packed, size, len(name), len(extra))
        out += name + extra + entry.payload() + entry.behind
        told = entry.fields(entry.central)
        name, extra = told.pop("name"), entry.central_extra
        flags, method, crc, packed, size = told.values()
        lengths = len(name), len(extra), 0, 0, 0
        directory += struct.pack("<4s6H3L5H", b"PK\1\2", 788, 20, flags, method, 0, 33, crc, packed, size, *lengths)
        directory += struct.pack("<2L", entry.attributes, offset) + name + extra
    numbers = {"disk": 0, "first": 0, "here": len(entries), "count": len(entries)}
    numbers |= {"length": len(directory), "at": len(out), "comment": 0, **(end or {})}
    out += directory
    if tail is not None:
        out += tail(len(directory), len(out) - len(directory), len(entries))
    return bytes(out + struct.pack("<4s4H2LH", b"PK\5\6", *numbers.values()) + suffix)


def entries(text=None, **changes):
    """The entries of a right zip by name; `changes` are those of `members`."""
    contents = members(**changes)
    given = metadata(sha256={name: sha(content) for name, content in contents.items() if name.endswith(".onnx")})
    text = yaml.safe_dump(given).encode() if text is None else text
    return {name: Entry(name.encode(), content) for name, content in {"metadata.yaml": text, **contents}.items()}


def refused(tmp_path, data, told):
    """Whether every way to read the zip refuses it with these words, and leaves nothing behind."""
    path = tmp_path / "hostile.zip"
    path.write_bytes(data)
    for call in (imf.load, imf.validate):
        with pytest.raises(ValueError, match=told) as caught:
            call(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["hostile.zip"]


def test_a_right_zip_of_these_tests_is_taken(tmp_path):
    path = tmp_path / "right.zip"
    path.write_bytes(archive(entries().values()))
    assert imf.validate(path, strict=True).metadata.id == "khm-latn-1.0"
    path.write_bytes(archive([dataclasses.replace(entry, deflate=False) for entry in entries().values()]))
    assert imf.validate(path, strict=True)


NAMES = [
    "../encoder.onnx",
    "/etc/passwd",
    "a/../../b",
    "sub/file",
    "..\\encoder.onnx",
    "C:\\file",
    "C:file",
    "\\\\server\\share",
    "..",
    ".",
    "",
    ".hidden",
    "-rf",
    "trailing.",
    "trailing ",
    "two words",
    "NUL",
    "con.txt",
    "Lpt1.onnx",
    "new\nline",
    "\x1b[2J",
    "zero\0.onnx",
    "encoder.onnx\0",
    "ünï",
    "\u202egpj.exe",
    "file\uff0fname",
    "~",
    "x" * 101,
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_that_are_not_plain(tmp_path, name):
    more = Entry(name.encode(), b"data", local={"flags": 0x800}, central={"flags": 0x800})
    refused(tmp_path, archive([*entries().values(), more]), "member name .*wanted a plain file name")


def test_names_that_are_not_plain_are_not_packed(tmp_path):
    for name in NAMES:
        with pytest.raises(ValueError, match="wanted a plain file name"):
            imf.pack({**members(), name: b""}, tmp_path / "model.zip", METADATA)
    assert not os.listdir(tmp_path)


def test_names_that_are_not_utf8(tmp_path):
    for flags, told in ((0x800, "name is not UTF-8"), (0, "wanted a plain file name")):
        more = Entry(b"\xff\xfe", b"data", local={"flags": flags}, central={"flags": flags})
        refused(tmp_path, archive([*entries().values(), more]), told)


def change(name="encoder.onnx", **fields):
    """The zip with one entry changed."""
    made = entries()
    made[name] = dataclasses.replace(made[name], **fields)
    return made.values()


def more(name, data=b"data", **fields):
    return [*entries().values(), Entry(name.encode(), data, **fields)]


def both(**fields):
    return {"local": fields, "central": fields}


def overlapping():
    """Two directory entries of one member's data, as bombs of a high ratio have."""
    made = list(entries().values())
    made.append(dataclasses.replace(made[-1], name=b"again", offset=0))
    return made


def nested():
    """A member whose data hold the header and data of another."""
    inner = Entry(b"inner", b"data", deflate=False)
    hidden = archive([inner])[: 30 + 5 + 4]
    made = list(entries().values())
    outer = Entry(b"outer", hidden, deflate=False)
    start = archive([*made, outer]).index(hidden)
    return [*made, outer, dataclasses.replace(inner, offset=start)]


PADDED = entries()["encoder.onnx"].payload()
UNICODE_PATH = struct.pack("<2HBL", 0x7075, 8, 1, zlib.crc32(b"encoder.onnx")) + b"x.y"

LAYOUTS = {
    "twice": (lambda: more("encoder.onnx"), r"encoder\.onnx is there twice"),
    "differing in case": (lambda: more("Encoder.ONNX"), r"encoder\.onnx and Encoder\.ONNX differ in case"),
    "a link": (
        lambda: more("link", b"/etc/passwd", attributes=(stat.S_IFLNK | 0o777) << 16),
        "link is a symbolic link",
    ),
    "a device": (lambda: more("device", attributes=stat.S_IFCHR << 16), "device is a device or a pipe"),
    "a pipe": (lambda: more("pipe", attributes=stat.S_IFIFO << 16), "device or a pipe"),
    "a folder's mode": (lambda: change(attributes=stat.S_IFDIR << 16), r"encoder\.onnx is a folder"),
    "a DOS folder": (lambda: change(attributes=0x10), r"encoder\.onnx is a folder"),
    "a folder's name": (
        lambda: change(**both(name=b"encoder.onnx/")),
        "plain file name",
    ),
    "encrypted": (lambda: change(**both(flags=1)), r"encoder\.onnx is encrypted"),
    "strongly encrypted": (lambda: change(**both(flags=0x40)), "flags 0x0040"),
    "sizes behind": (lambda: change(**both(flags=8)), "sizes behind its data"),
    "bzip2": (lambda: change(**both(method=12)), "compression method 12; wanted 0 .* or 8"),
    "lzma": (lambda: change(**both(method=14)), "compression method 14"),
    "an unknown method": (lambda: change(**both(method=99)), "compression method 99"),
    "another method in the header": (lambda: change(local={"method": 0}), r"method 0 in its header, but 8"),
    "another flag in the header": (lambda: change(local={"flags": 1}), "flags 1 in its header, but 0"),
    "another name in the header": (
        lambda: change(local={"name": b"encoder.0nnx"}),
        r"name b'encoder\.0nnx' in its header",
    ),
    "another CRC in the header": (lambda: change(local={"crc": 5}), "CRC 5 in its header"),
    "another size in the header": (lambda: change(local={"size": 5}), " size 5 in its header"),
    "another packed size in the header": (lambda: change(local={"packed": 5}), "compressed size 5 in its header"),
    "a wrong CRC": (lambda: change(**both(crc=5)), r"encoder\.onnx: it is damaged: its CRC is"),
    "a size too small": (lambda: change(**both(size=100)), "more than the 100 bytes that are declared"),
    "a size too big": (lambda: change(**both(size=9999)), "it unpacks to .* bytes; 9,999 are declared"),
    "a stored size": (lambda: change(deflate=False, **both(size=9999)), "is stored, but declares"),
    "a packed size too small": (lambda: change(**both(packed=100)), "overlap or leave gaps"),
    "data behind the stream": (lambda: change(packed=PADDED + b"more"), "go on behind their end"),
    "a second stream": (lambda: change(packed=PADDED + PADDED), "go on behind their end"),
    "a stream cut short": (lambda: change(packed=PADDED[:-5]), "cut short"),
    "no stream": (lambda: change(packed=b"\xff" * 50), r"encoder\.onnx: it is damaged"),
    "a gap": (lambda: change(before=b"gap"), r"encoder\.onnx begins at .* leave gaps"),
    "data behind a member": (lambda: change(behind=b"gap"), "leave gaps"),
    "data behind the last member": (lambda: change("decoder-kv.onnx", behind=b"gap"), "do not end where"),
    "one member's data twice": (overlapping, "overlap or leave gaps"),
    "a member in a member": (nested, "overlap or leave gaps|do not end where"),
    "a second name": (lambda: change(central_extra=UNICODE_PATH), "second name"),
    "a second name in the header": (lambda: change(local_extra=UNICODE_PATH), "second name"),
    "a damaged extra field": (lambda: change(local_extra=b"\x99\x99\xff\0"), "extra fields are damaged"),
    "half an extra field": (lambda: change(local_extra=b"\x99"), "extra fields are damaged"),
    "too many members": (lambda: [Entry(b"m%d" % index, b"") for index in range(65)], "65 members.*at most 64"),
    "a damaged zip64 header": (lambda: change(local={"size": SENTINEL}), "damaged zip64 header"),
    "a bomb": (lambda: more("bomb", b"\0" * 2**23), "bomb would unpack 8,.* bytes to 8,388,608"),
    "a bomb for metadata": (
        lambda: change("metadata.yaml", data=b" " * 2**20),
        r"metadata\.yaml takes 1,048,576 bytes",
    ),
    "a bomb whose size is hidden": (lambda: more("bomb", b"\0" * 2**23, **both(size=5)), "more than the 5 bytes"),
    "3 GiB declared": (lambda: change(**both(size=3 * 2**30)), "takes 3,221,225,472 bytes; at most 2,147,483,647"),
    "9 GiB together": (
        lambda: [*entries().values(), *(Entry(b"m%d" % i, b"", **both(size=2**31 - 1)) for i in range(5))],
        "together; at most 8,589,934,592",
    ),
    "no members": (list, r"missing: metadata\.yaml"),
}


@pytest.mark.parametrize(("make", "told"), LAYOUTS.values(), ids=LAYOUTS)
def test_layouts_that_two_readers_could_read_in_two_ways(tmp_path, make, told):
    refused(tmp_path, archive(make()), told)


RIGHT = archive(entries().values())
FILES = {
    "nothing": (b"", "no zip"),
    "text": (b"no zip" * 20, "no zip"),
    "data behind": (RIGHT + b"x", "data behind"),
    "another end behind": (RIGHT + struct.pack("<4s4H2LH", b"PK\5\6", *[0] * 7), "data stand before or within"),
    "a comment": (archive(entries().values(), end={"comment": 3}, suffix=b"abc"), "comment or data behind"),
    "two zips": (RIGHT + RIGHT, "data stand before"),
    "data before": (b"#!/bin/sh\n" + RIGHT, "data stand before"),
    "data before that the offsets count": (
        archive(entries().values(), prefix=b"#!/bin/sh\n"),
        "begins at 10; wanted 0",
    ),
    "another count": (
        archive(entries().values(), end={"count": 4, "here": 4}),
        "has 5 members, but its end declares 4",
    ),
    "several disks": (archive(entries().values(), end={"disk": 1}), "one of several parts"),
    "a part of the members": (archive(entries().values(), end={"here": 4}), "one of several parts"),
    "a big directory": (archive(entries().values(), end={"length": 2**30}), "in a directory of 1,073,741,824 bytes"),
    "a directory elsewhere": (archive(entries().values(), end={"at": 5}), "directory does not end where"),
}


@pytest.mark.parametrize(("data", "told"), FILES.values(), ids=FILES)
def test_files_that_are_more_or_less_than_a_zip(tmp_path, data, told):
    refused(tmp_path, data, told)


def test_truncated_files(tmp_path):
    for length in (1, 21, 22, 30, 100, len(RIGHT) // 2, len(RIGHT) - 22, len(RIGHT) - 1):
        refused(tmp_path, RIGHT[:length], "no zip, is cut short|data stand before or within|one of several|directory")


# --- zip64 ------------------------------------------------------------------------------------------------------------


def zip64_end(length, at, count, /, **changes):
    told = {"record": 44, "made": 45, "needed": 45, "disk": 0, "first": 0, "here": count, "count": count}
    told |= {"length": length, "at": at}
    told |= {name: value for name, value in changes.items() if name in told}
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", *told.values())
    return record + struct.pack("<4sLQL", b"PK\6\7", 0, changes.get("located", at + length), changes.get("disks", 1))


NARROW = {"here": 0xFFFF, "count": 0xFFFF, "length": SENTINEL, "at": SENTINEL}


def test_zip64_is_taken_where_both_ends_agree(tmp_path):
    path = tmp_path / "right.zip"
    for end in ({}, NARROW):
        path.write_bytes(archive(entries().values(), tail=zip64_end, end=end))
        assert imf.validate(path)
    with zipfile.ZipFile(path, "w") as file:
        for name, entry in entries().items():
            with file.open(name, "w", force_zip64=True) as member:
                member.write(entry.data)
    assert imf.validate(path)


@pytest.mark.parametrize(
    ("changes", "end", "told"),
    [
        ({}, {"count": 4, "here": 4}, "zip64 end is damaged"),
        ({}, {"at": 5}, "zip64 end is damaged"),
        ({"located": 5}, NARROW, "zip64 end is damaged"),
        ({"record": 50}, NARROW, "zip64 end is damaged"),
        ({"disks": 2}, NARROW, "zip64 end is damaged"),
        ({"disk": 1}, NARROW, "several parts"),
        ({"here": 1}, NARROW, "several parts"),
        ({"at": 5}, NARROW, "directory does not end where"),
        ({"count": 2**40, "here": 2**40}, NARROW, "1099511627776 members"),
        ({"length": 2**62}, NARROW, "in a directory of"),
    ],
)
def test_zip64_ends_that_disagree(tmp_path, changes, end, told):
    def tail(length, at, count):
        return zip64_end(length, at, count, **changes)

    refused(tmp_path, archive(entries().values(), tail=tail, end=end), told)


# --- digests ----------------------------------------------------------------------------------------------------------


def with_digests(**changes):
    digests = {name: sha(content) for name, content in members().items() if name.endswith(".onnx")}
    digests = {name: digest for name, digest in {**digests, **changes}.items() if digest is not None}
    return archive(entries(yaml.safe_dump(metadata(sha256=digests)).encode()).values())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"encoder.onnx": "0" * 64},
            rf"encoder\.onnx: .* {sha(members()['encoder.onnx'])}; 0{{64}} is declared",
        ),
        ({"README.md": "0" * 64}, r"README\.md: it is damaged: its sha256"),
        ({"metadata.yaml": "0" * 64}, r"sha256 of themselves"),
        ({"encoder.onnx": None}, r"no sha256 in metadata: encoder\.onnx"),
        ({"other.onnx": "0" * 64}, r"not there: other\.onnx"),
        ({"../other.onnx": "0" * 64}, r"not there: \.\./other\.onnx"),
        ({"encoder.onnx": "0" * 63}, r"metadata\.yaml: sha256\.encoder\.onnx"),
        ({"encoder.onnx": 5}, r"metadata\.yaml: sha256\.encoder\.onnx"),
    ],
)
def test_digests_that_are_wrong_missing_or_dangling(tmp_path, changes, told):
    refused(tmp_path, with_digests(**changes), told)


def test_a_graph_without_a_digest_hides_behind_no_spelling(tmp_path):
    refused(tmp_path, archive(more("other.ONNX")), r"no sha256 in metadata: other\.ONNX")


def test_damage_is_told_before_what_it_broke(tmp_path):
    made = entries()
    made["encoder.onnx"] = dataclasses.replace(made["encoder.onnx"], data=b"no graph")
    refused(tmp_path, archive(made.values()), r"encoder\.onnx: it is damaged: its sha256")


# --- metadata ---------------------------------------------------------------------------------------------------------

TEXT = yaml.safe_dump(metadata(sha256={n: sha(c) for n, c in members().items() if n.endswith(".onnx")}))
BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
DOCUMENTS = {
    "a tag that runs code": (TEXT + "x: !!python/object/apply:os.system ['touch hostile']\n", "tag .*python.*refused"),
    "a tag of YAML's own": (TEXT + "x: !!binary aGk=\n", "the tag .*refused"),
    "an own tag": (TEXT + "x: !own y\n", "the tag !own is refused"),
    "a tag on the document": ("!!map\n" + TEXT, "the tag .*refused"),
    "a tag on a key": (TEXT + "!!str x: y\n", "the tag .*refused"),
    "an anchor": (TEXT + "x: &a y\n", "anchors and aliases are refused"),
    "an alias": (TEXT + "x: *a\n", "anchors and aliases are refused"),
    "an alias for a key": (TEXT + "? *a\n: y\n", "anchors and aliases are refused"),
    "a billion laughs": (TEXT + BOMB, "anchors and aliases are refused"),
    "a merge key": (TEXT + "<<: {x: y}\n", "no merge key"),
    "a key twice": (TEXT + "opset: 13\n", "'opset' is there twice"),
    "a nested key twice": (TEXT + "x: {y: 1, y: 2}\n", "'y' is there twice"),
    "a list for a key": (TEXT + "? [a]\n: y\n", "key must be text"),
    "two documents": (TEXT + "---\nformat: imf-v1\n", "several documents"),
    "deep": (TEXT + "x: " + "[" * 5000 + "]" * 5000 + "\n", "nested more than 16 deep"),
    "deep and open": (TEXT + "x: " + "{a: " * 5000, "nested more than 16 deep"),
    "many": (TEXT + "x: [" + "a, " * 5000 + "]\n", "more than 4096 values"),
    "no mapping": ("[1, 2]", "metadata: .*"),
    "empty": ("", "it is empty"),
    "a comment alone": ("# nothing\n", "it is empty"),
    "no YAML": ("a: b: c", "it is no YAML"),
    "a tab": ("a:\n\tb: c", "it is no YAML"),
    "a control character": (TEXT + "x: a\x1b[2Jb\n", "it is no YAML.*special characters"),
    "an escaped control character": (TEXT + 'x: "\\e[2J"\n', r"U\+001B is refused"),
    "half a character": (TEXT + 'x: "\\ud800"\n', r"U\+D800 is refused"),
    "no character": (TEXT + 'x: "\\UFFFFFFFF"\n', "no YAML|not in range"),
    "a huge number": (TEXT + "x: " + "9" * 5000 + "\n", "too big"),
    "more digits than a reader holds": (TEXT + "x: 1234567890123456789\n", "too big"),
    "a huge exponent": (TEXT + "x: 1e999\n", "too big"),
}


@pytest.mark.parametrize(("text", "told"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_documents_that_are_refused(tmp_path, text, told):
    started = time.process_time()
    refused(tmp_path, archive(entries(text.encode()).values()), rf"metadata\.yaml: .*{told}")
    # No figure: a document that made a reader work for minutes would not end here.
    assert time.process_time() - started < 30


def test_metadata_that_are_not_utf8(tmp_path):
    refused(tmp_path, archive(entries(TEXT.encode("utf-16")).values()), r"metadata\.yaml: .*utf-8")


def test_metadata_that_are_too_big(tmp_path):
    text = TEXT + "#" + random.Random(0).randbytes(2**18).hex()
    refused(tmp_path, archive(entries(text.encode()).values()), r"metadata\.yaml takes .* at most 262,144")
    with pytest.raises(ValueError, match=r"metadata\.yaml takes .* at most 262,144"):
        imf.pack(members(), tmp_path / "model.zip", metadata(more="x" * 2**18))
    (tmp_path / "big.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"metadata\.yaml takes .* at most 262,144"):
        imf.pack(members(), tmp_path / "model.zip", tmp_path / "big.yaml")


@pytest.mark.parametrize("change", [{"format": "imf-v3"}, {"tokenizer": "bpe"}, {"format": "IMF-V1"}])
def test_other_formats_and_tokenizers(tmp_path, change):
    text = yaml.safe_dump({**yaml.safe_load(TEXT), **change}).encode()
    refused(
        tmp_path,
        archive(entries(text).values()),
        rf"metadata\.yaml: {next(iter(change))}: Input should be 'imf-v1'|bytes",
    )


# --- graphs -----------------------------------------------------------------------------------------------------------


def outside(location="/etc/passwd", in_graph=True, declared=True):
    tensor = helper.make_tensor("table", FLOAT, [1], [0.0])
    tensor.ClearField("float_data")
    if declared:
        tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    made = encoder()
    if in_graph:
        made.graph.initializer[0].CopyFrom(tensor)
    else:
        branch = helper.make_graph([helper.make_node("Constant", [], ["c"], value=tensor)], "inner", [], [])
        made.graph.node.append(helper.make_node("If", ["x"], ["y"], then_branch=branch))
    return made


def sparse_outside():
    made = encoder()
    values = outside().graph.initializer[0]
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, values, [1]))
    return made


@pytest.mark.parametrize(
    "graph",
    [
        outside(),
        outside("README.md"),
        outside("../weights"),
        outside(declared=False),
        outside(in_graph=False),
        sparse_outside(),
    ],
    ids=["absolute", "a member", "a path", "undeclared", "in a branch", "sparse"],
)
def test_weights_that_lie_outside(tmp_path, graph):
    refused(
        tmp_path,
        archive(entries(**{"encoder.onnx": graph}).values()),
        r"encoder\.onnx: the tensor 'table' lies outside",
    )
    os.remove(tmp_path / "hostile.zip")
    with pytest.raises(ValueError, match=r"encoder\.onnx: the tensor 'table' lies outside"):
        imf.pack(members(**{"encoder.onnx": graph}), tmp_path / "model.zip", METADATA)
    assert not os.listdir(tmp_path)


def field(number, body):
    """A length-delimited field of a protobuf message."""
    return varint(number << 3 | 2) + varint(len(body)) + body


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def deep():
    body = b""
    for _ in range(60):  # graph, node, attribute, graph, …: three messages each
        body = field(1, field(5, field(6, body)))
    return field(7, body)


ENCODER = encoder().SerializeToString()
WIRE = {
    "cut short": (ENCODER[:-5], "longer than what is left"),
    "a length beyond the end": (ENCODER + b"\x3a\xff\xff\xff\xff\x07", "longer than what is left"),
    "a length beyond its message": (field(7, b"\x0a\x7fabc") + ENCODER, "longer than what is left"),
    "an endless number": (b"\xff" * 20, "longer than what is left"),
    "a group": (b"\x3b" + ENCODER, "wire type 3"),
    "wire type 7": (b"\x0f" + ENCODER, "wire type 7"),
    "nested": (deep(), "nested more than 100 deep"),
    "a name that is not UTF-8": (ENCODER.replace(b"input_ids", b"input_\xff\xfe\xfd"), r"its input .* is not UTF-8"),
    "text without end": (ENCODER + field(6, b"x" * (2**24 + 1)), "16,777,216 bytes beside the weights"),
}


@pytest.mark.parametrize(("data", "told"), WIRE.values(), ids=WIRE)
def test_bytes_that_are_no_graph(tmp_path, data, told):
    made = entries(**{"encoder.onnx": data})
    made["encoder.onnx"] = dataclasses.replace(made["encoder.onnx"], deflate=False)
    refused(tmp_path, archive(made.values()), rf"encoder\.onnx: .*{told}")


def test_a_graph_of_more_fields_than_graphs_have(tmp_path, monkeypatch):
    monkeypatch.setattr("engram_rs.imf.skeleton._MAX_FIELDS", 10_000)
    made = entries(**{"encoder.onnx": ENCODER + b"\x08\x07" * 10_000})
    refused(tmp_path, archive(made.values()), r"encoder\.onnx: more than 10,000 fields")


def test_a_graph_in_two_parts_is_the_one_that_runtimes_read(tmp_path):
    # Protobuf merges what stands twice, so an input could hide in a second graph.
    second = onnx.ModelProto()
    second.graph.input.append(helper.make_tensor_value_info("more", FLOAT, [1]))
    data = ENCODER + second.SerializeToString()
    refused(tmp_path, archive(entries(**{"encoder.onnx": data}).values()), "not exactly input_ids: unexpected more")


# --- anything ---------------------------------------------------------------------------------------------------------


def test_no_changed_byte_gives_another_model(tmp_path):
    """Every change of one byte is refused with a ValueError, or changes nothing that a reader uses."""
    path = tmp_path / "changed.zip"
    path.write_bytes(RIGHT)
    wanted = imf.load(path)
    contents = {name: wanted.read(name) for name in wanted.members}
    directory = RIGHT.index(b"PK\1\2")
    starts = [member.start for member in wanted.members.values()]
    places = {*range(directory, len(RIGHT)), *(start - back for start in starts for back in range(1, 30))}
    places |= set(random.Random(0).sample(range(len(RIGHT)), 200))
    taken = 0
    for place in sorted(places):
        changed = bytearray(RIGHT)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            found = imf.load(path)
        except ValueError:
            continue
        taken += 1
        assert {name: found.read(name) for name in found.members} == contents, place
    # What may change: versions, times, rights.
    assert taken < len(places) / 4


def test_random_documents_end_in_values_or_errors():
    rng = random.Random(0)
    for _ in range(300):
        text = list(TEXT)
        for _ in range(rng.randrange(1, 6)):
            text[rng.randrange(len(text))] = rng.choice("[]{}:,-?&*!|>'\"%@`#\n \\~<0")
        with contextlib.suppress(ValueError):
            document.parse("".join(text))


def test_a_zip_made_by_another_tool_with_times_and_fields(tmp_path):
    path = tmp_path / "other.zip"
    extra = struct.pack("<2HBL", 0x5455, 5, 1, 1_700_000_000)  # a time, as Info-ZIP writes it
    made = [dataclasses.replace(entry, local_extra=extra, central_extra=extra) for entry in entries().values()]
    path.write_bytes(archive(made))
    assert imf.validate(path)


def test_names_in_errors_do_not_steer_a_terminal(tmp_path):
    path = tmp_path / "hostile.zip"
    path.write_bytes(archive(more("\x1b]0;title\x07")))
    with pytest.raises(ValueError, match="member name") as caught:
        imf.load(path)
    assert str(caught.value).isprintable()


def test_a_file_that_is_no_file(tmp_path):
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.zip")
        with pytest.raises(FileNotFoundError):
            imf.load(tmp_path / "pipe.zip")
    with pytest.raises(FileNotFoundError):
        imf.load(tmp_path)


def test_the_decoder_is_checked_as_well(tmp_path):
    buffer = io.BytesIO(decoder().SerializeToString())
    refused(tmp_path, archive(entries(**{"decoder.onnx": buffer.getvalue()[:-3]}).values()), r"decoder\.onnx: ")
