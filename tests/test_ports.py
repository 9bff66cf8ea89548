"""The same hash in every language: the ports against golden and new vectors, and what wrong ports would show."""

import functools
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from conftest import VECTORS, load_vectors
from engram_rs import Addressing
from engram_rs.vectors import SCHEMES, vectors_json

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # pytest, started by its own name, puts only this folder there

import ports  # noqa: E402
from ports import PORTS, PortError, check, hash_stream, insert_table  # noqa: E402
from ports import __main__ as all_ports  # noqa: E402

GOLDEN = VECTORS / "byte_fnv1a.json"
C = next(port for port in PORTS if port.language == "C")
MOST_LINES = 20
# The first line of each port's function; it ends where a line of the same indent closes it.
FUNCTIONS = {
    "C": "static inline int engram_byte_fnv1a(",
    "Go": "func ByteFNV1a(",
    "Java": "    public static long[] hashes(",
    "JavaScript": "export function byteFnv1a(",
    "Ruby": "  def self.byte_fnv1a(",
}


@pytest.fixture(scope="session")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("ports")


@pytest.fixture(scope="session")
def new(scratch):
    """New vectors, as `engram-rs vectors` writes them."""
    path = scratch / "new.json"
    path.write_text(vectors_json("byte_fnv1a", all_ports.SEED), encoding="utf-8")
    return path


@pytest.fixture(scope="session", params=PORTS, ids=lambda port: port.language)
def port(request):
    missing = request.param.missing()
    if missing is not None:
        pytest.skip(f"{request.param.language}: this machine has no {missing}")
    return request.param


@pytest.fixture(scope="session")
def building(scratch):
    """The programs of all ports, each a future."""
    with ThreadPoolExecutor() as pool:
        yield {port: pool.submit(port.build, scratch) for port in PORTS if port.missing() is None}


@pytest.fixture(scope="session")
def command(port, building):
    return building[port].result()


def write(path: Path, cases: list[dict]) -> Path:
    path.write_text(json.dumps({"scheme": "byte_fnv1a", "cases": cases}), encoding="utf-8")
    return path


def test_c_is_never_skipped():
    assert C.missing() is None


def test_every_case(port, command, new, scratch):
    assert check(port, command, GOLDEN, scratch) == (len(load_vectors("byte_fnv1a")), [])
    assert check(port, command, new, scratch) == (len(json.loads(new.read_text())["cases"]), [])


def test_a_program_names_the_cases_that_differ(port, command, tmp_path):
    cases = load_vectors("byte_fnv1a")
    cases[5]["hashes"][-1][-1] ^= 1
    cases[9]["rows"][0][0] += 1
    assert check(port, command, write(tmp_path / "wrong.json", cases), tmp_path) == (len(cases), [5, 9])


def test_an_order_below_one_is_refused(port, command, tmp_path):
    case = {"ids": [5], "orders": [2, 0], "entries": 7, "hashes": [[0, 0]], "rows": [[0, 0]]}
    with pytest.raises(PortError, match=r"(?s)did not go through 1 cases.*order"):
        check(port, command, write(tmp_path / "refused.json", [case]), tmp_path)


@pytest.mark.parametrize(("length", "orders"), [(0, (2, 3)), (1, (1, 2)), (65_540, (2, 1, 9)), (300, (64, 1, 7))])
def test_a_stream_of_ids(port, command, length, orders, tmp_path):
    ids = np.random.default_rng(length).integers(-(2**31), 2**31, length, dtype=np.int64)
    (tmp_path / "ids").write_bytes(ids.astype("<i4").tobytes())
    wanted = Addressing.byte_fnv1a(orders=orders).hashes(ids).astype("<i8").tobytes()
    digest, seconds = hash_stream(port, command, tmp_path / "ids", orders)
    assert digest == hashlib.sha256(wanted).hexdigest()
    assert seconds >= 0


def test_a_program_that_breaks_off_is_an_error(port, command, tmp_path):
    with pytest.raises(PortError):
        check(port, [*command, "nonsense"], GOLDEN, tmp_path)
    (tmp_path / "ids").write_bytes(b"")
    with pytest.raises(PortError):
        hash_stream(port, [*command, "nonsense"], tmp_path / "ids", (2,))


def lines_of(port: ports.Port) -> int:
    """Lines of the port's function, from its first through the one that closes it."""
    lines = (port.folder / port.source).read_text(encoding="utf-8").splitlines()
    first = FUNCTIONS[port.language]
    start = next(number for number, line in enumerate(lines) if line.startswith(first))
    indent = first[: len(first) - len(first.lstrip())]
    closing = {f"{indent}}}", f"{indent}end"}
    return next(number for number, line in enumerate(lines[start:], 1) if line in closing)


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.language, scope="function")
def test_a_port_is_short_and_needs_nothing(port):
    assert 5 < lines_of(port) <= MOST_LINES
    text = (port.folder / port.source).read_text(encoding="utf-8")
    named = set(re.findall(r"^\s*(?:#include|import|require\w*|use|from)\s+(.+?);?$", text, re.MULTILINE))
    # Headers of freestanding C, and one package of Go's standard library.
    assert named <= {"<stddef.h>", "<stdint.h>", '"slices"'}


def node(code: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("node") is None:
        pytest.skip("JavaScript: this machine has no node")
    program = f'import {{ byteFnv1a, rows }} from "./byte_fnv1a.mjs"; {code}'
    words = ["node", "--input-type=module", "-e", program]
    return subprocess.run(words, cwd=ROOT / "ports/javascript", capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("byteFnv1a([5, 2 ** 53], [1])", "9007199254740992"),
        ("byteFnv1a([1.5], [1])", "1.5"),
        ("byteFnv1a(['7'], [1])", "id 7"),
        ("byteFnv1a([5], [1.5])", "order"),
        ("rows(byteFnv1a([5], [1]), 0)", "0 rows"),
    ],
)
def test_javascript_refuses_what_a_double_cannot_tell(call, named):
    done = node(call)
    assert done.returncode != 0
    assert f"RangeError: {done.stderr.partition('RangeError: ')[2].splitlines()[0]}" in done.stderr
    assert named in done.stderr.partition("RangeError: ")[2]


def test_javascript_takes_typed_arrays():
    done = node(
        "const ids = [0, 1, 2, 200, 255];"
        "const kinds = [ids, Uint8Array.from(ids), Int32Array.from(ids), BigInt64Array.from(ids.map(BigInt))];"
        "console.log(new Set(kinds.map((kind) => byteFnv1a(kind, Uint8Array.of(2, 1)).join())).size)"
    )
    assert done.stdout.strip() == "1", done.stderr


def test_types_of_typescript(tmp_path):
    compiler = shutil.which("tsc")
    if compiler is None:
        pytest.skip("TypeScript: this machine has no tsc")
    for name in ("byte_fnv1a.mjs", "byte_fnv1a.d.mts"):
        shutil.copy(ROOT / "ports/javascript" / name, tmp_path)
    start = 'import { byteFnv1a, rows } from "./byte_fnv1a.mjs";\n'
    good = "export const found: BigInt64Array = rows(byteFnv1a(new Uint8Array(3), [2, 3]), 97);\n"
    for number, (line, accepted) in enumerate(
        [(good, True), ("byteFnv1a([1, 2n], [2]);", True), ('byteFnv1a("text", [2]);', False), ("rows([1], 5);", False)]
    ):
        program = tmp_path / f"program{number}.mts"
        program.write_text(start + line, encoding="utf-8")
        words = [compiler, "--noEmit", "--strict", "--target", "es2020", "--module", "nodenext", program.name]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == accepted, done.stdout


ZERO_RULE, SYMBOL = "h == 0 ? 1 : h;", "uint8_t symbol = (uint8_t)((uint64_t)ids[i] - 3);"
STEP, FIRST, ENOUGH = "h = (h ^ symbol) * 0x01000193u;", "size_t i = t + 1 - orders[c];", "t + 1 < orders[c]"
ROW = "rows[i] = hashes[i] % entries;"
# What a port may get wrong, as changes to the one in C.
MISTAKES = {
    "has a prime that is off by two": {STEP: "h = (h ^ symbol) * 0x01000195u;"},
    "has a basis that is off by one": {"0x811C9DC5u": "0x811C9DC6u"},
    "takes bytes as signed": {SYMBOL: "int8_t symbol = (int8_t)((uint64_t)ids[i] - 3);"},
    "has no null row": {f"if ({ENOUGH}) continue;": "", FIRST: f"size_t i = {ENOUGH} ? 0 : t + 1 - orders[c];"},
    "has one null row too many": {ENOUGH: "t + 1 <= orders[c]"},
    "gives the null row the hash 1": {"= 0; /* the null row */": "= 1;"},
    "takes the remainder at each step": {STEP: f"{STEP} h %= 2097152u;"},
    "gives rows for hashes": {ZERO_RULE: "h == 0 ? 1 : h % 2097152u;"},
    "begins with the newest symbol": {"ids[i] - 3": "ids[2 * t + 1 - orders[c] - i] - 3"},
    "forgets the offset 3": {"ids[i] - 3": "ids[i]"},
    "takes the offset only from bytes": {"(uint64_t)ids[i] - 3": "(uint64_t)(ids[i] < 3 ? ids[i] : ids[i] - 3)"},
    "counts columns from 0": {"(uint32_t)(c + 1)": "(uint32_t)c"},
    "takes the order for the seed": {"(uint32_t)(c + 1)": "(uint32_t)orders[c]"},
    "adds the seed": {"0x811C9DC5u ^": "0x811C9DC5u +"},
    "is FNV-1 and not FNV-1a": {STEP: "h = (h * 0x01000193u) ^ symbol;"},
    "does not wrap at 32 bits": {"uint32_t h =": "uint64_t h ="},
    "gives hashes as signed": {ZERO_RULE: "h == 0 ? 1 : (int32_t)h;"},
    "leaves a hash of 0": {ZERO_RULE: "h;"},
    "takes a remainder with a sign": {SYMBOL: "int symbol = (int)((ids[i] - 3) % 256);"},
    "passes ids through a double": {"(uint64_t)ids[i]": "(uint64_t)(__int128)(double)ids[i]"},
    "clamps ids to 0 … 258": {
        "(uint64_t)ids[i]": "(uint64_t)(ids[i] < 0 ? 0 : ids[i] > 258 ? 258 : ids[i])",
    },
    "masks instead of dividing": {ROW: "rows[i] = hashes[i] & (entries - 1);"},
    "has rows of 32 bits": {ROW: "rows[i] = (int32_t)(hashes[i] % entries);"},
}


@functools.cache
def readme() -> str:
    return (VECTORS / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_port_is_caught(mistake, new, tmp_path):
    """Each mistake fails as many cases as the README of the vectors says, and the first of them is the one it names."""
    text = (C.folder / C.source).read_text(encoding="utf-8")
    for right, wrong in MISTAKES[mistake].items():
        assert text.count(right) == 1, f"the port no longer has {right!r}"
        text = text.replace(right, wrong)
    (tmp_path / C.source).write_text(text, encoding="utf-8")
    shutil.copy(C.folder / "check.c", tmp_path)
    program = tmp_path / "wrong"
    subprocess.run(["gcc", "-std=gnu99", "-O0", "-w", "-o", program, "check.c"], cwd=tmp_path, check=True)
    told = []
    for vectors in (GOLDEN, new):
        _, failing = check(C, [str(program)], vectors, tmp_path)
        told.append(f"{len(failing)} | {failing[0] if failing else ''}".strip())
    assert any(not one.startswith("0") for one in told)
    assert f"| {mistake} | {told[0]} | {told[1]} |" in readme()


def test_the_readme_tells_of_no_other_mistake():
    told = re.findall(r"^\| ([^|]+?) \| \d+ \| \d* ?\| \d+ \| \d* ?\|$", readme(), re.MULTILINE)
    assert told == list(MISTAKES)


def test_the_readme_shows_how_to_use_the_vectors(new):
    """Its function, with the core as the port and with a port that takes ids for symbols."""
    names: dict = {}
    exec(re.search(r"^```python\n(.*?)^```", readme(), re.MULTILINE | re.DOTALL)[1], names)

    def hashes(ids: list[int], orders: list[int]) -> list[list[int]]:
        return Addressing.byte_fnv1a(orders=orders).hashes(np.array(ids, dtype=np.int64)).tolist()

    for vectors in (GOLDEN, new):
        assert names["failing"](vectors, hashes) == []
    assert names["failing"](new, lambda ids, orders: hashes([id % 256 + 3 for id in ids], orders))


# The schemes once more, as the specification words them, in Python's own integers.


def wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def fnv1a(symbols: list[int], column: int) -> int:
    h = 0x811C9DC5 ^ (column + 1)
    for symbol in symbols:
        h = (h ^ symbol) * 0x01000193 % 2**32
    return h or 1


def of_fnv1a(case: dict, utf8: bool) -> dict:
    symbols = [(one - 3) % 256 for one in case["ids"]]
    hashes, starts = [], []
    for t, symbol in enumerate(symbols):
        if not utf8 or not starts or not 0x80 <= symbol <= 0xBF or t - starts[-1] == 4:
            starts.append(t)
        grams = [symbols[starts[-n] : t + 1] if n <= len(starts) else None for n in case["orders"]]
        hashes.append([0 if gram is None else fnv1a(gram, c) for c, gram in enumerate(grams)])
    return {"hashes": hashes, "rows": [[h % case["entries"] for h in one] for one in hashes]}


def of_multiply_xor(case: dict) -> dict:
    pad, eos = (case["pad"], None) if case["layout"] == "deepseek_v41" else (case["eos"], case["eos"])
    symbols, dead = case["symbols"], case.get("dead", [False] * len(case["symbols"]))
    rows = []
    for t in range(len(symbols)):
        mix, reached, found = 0, True, []
        for k, multiplier in enumerate(case["multipliers"]):
            reached = reached and k <= t and not dead[t - k] and (k == 0 or symbols[t - k] != eos)
            mix = wrapped(mix ^ wrapped((symbols[t - k] if reached else pad) * multiplier))
            columns = range((k - 1) * case["heads"], k * case["heads"]) if k else ()
            found += [mix % case["row_counts"][c] + case["offsets"][c] for c in columns]
        rows.append(found)
    return {"rows": rows}


PRIMES = [1000000007, 5915587277, 1500450271, 3267000013, 5754853343, 4093082899]
PRIMES += [9576890767, 3628273133, 2860486313, 5463458053, 3367900313]


def of_polynomial(case: dict) -> dict:
    columns = [(prime, size) for prime in PRIMES[: case["functions"]] for size in case["group_sizes"]]
    rows, ids, per_column = [], case["ids"], case["rows_per_column"]
    for t in range(len(ids)):
        found = []
        for prime, size in columns:
            gram = [ids[i] if i >= 0 else 0 for i in range(t - size + 1, t + 1)]
            found.append(wrapped(sum(symbol * prime**i for i, symbol in enumerate(gram))))
        rows.append([h % per_column + c * per_column for c, h in enumerate(found)])
    return {"rows": rows}


def of_vocabulary_radix(case: dict) -> dict:
    ids, vocabulary, splits = case["ids"], case["vocab_size"], case["splits"]
    rows = []
    for t in range(len(ids)):
        found = []
        for n in range(2, case["max_order"] + 1):
            for j in range(splits):
                size = case["ratio"] * vocabulary + 2 * ((n - 2) * splits + j) + 1
                gram = sum((ids[t - d] if d <= t else 0) * pow(vocabulary, d, size) for d in range(1, n))
                found.append((ids[t] + gram) % size)
        rows.append(found)
    return {"rows": rows}


REFERENCES = {
    "byte_fnv1a": functools.partial(of_fnv1a, utf8=False),
    "utf8_fnv1a": functools.partial(of_fnv1a, utf8=True),
    "multiply_xor": of_multiply_xor,
    "polynomial": of_polynomial,
    "vocabulary_radix": of_vocabulary_radix,
}
# They may change only where the cases are meant to: equal arguments give equal files, everywhere and later too.
DIGESTS = {
    "byte_fnv1a": "644c73da7da901e8",
    "utf8_fnv1a": "db71f69b4381851c",
    "multiply_xor": "35af083a0ed47570",
    "polynomial": "1b202479413dd09d",
    "vocabulary_radix": "0140b38570a62899",
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_new_vectors_are_right(scheme):
    text = vectors_json(scheme, 7)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == DIGESTS[scheme]
    assert vectors_json(scheme, 8) != text
    document = json.loads(text)
    golden = load_vectors(scheme)
    assert document["scheme"] == scheme
    assert {tuple(case) for case in document["cases"]} == {tuple(case) for case in golden}
    # The reference is right about what others made; so it is a witness for what we make.
    for case in [*golden, *document["cases"]]:
        wanted = REFERENCES[scheme](case)
        assert {key: case[key] for key in wanted} == wanted


@pytest.mark.parametrize("scheme", ["byte_fnv1a", "utf8_fnv1a"])
def test_new_vectors_hold_grams_that_hash_to_zero(scheme):
    """No golden vector does; about one gram in 2^32 is like that."""
    cases = json.loads(vectors_json(scheme, 3, 0, entries=97, orders=[5, 4, 6]))["cases"]
    assert {case["entries"] for case in cases} == {97}
    columns = {c for case in cases for hashes in case["hashes"] for c, h in enumerate(hashes) if h == 1}
    assert columns >= {0, 2}
    assert not any(1 in hashes for case in load_vectors(scheme) for hashes in case["hashes"])


@pytest.fixture
def run(capsys, monkeypatch):
    pytest.importorskip("typer")
    from engram_rs.cli import main as command_line

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["engram-rs", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        try:
            command_line()
        except SystemExit as stop:
            return int(stop.code or 0), *capsys.readouterr()
        return 0, *capsys.readouterr()

    return call


def test_the_command_vectors(run, tmp_path):
    out = tmp_path / "vectors.json"
    code, told, _ = run("vectors", "--scheme", "polynomial", "--seed", 7, "--cases", 3, "--out", out)
    assert (code, str(out) in told.replace("\n", "")) == (0, True)
    assert out.read_text() == vectors_json("polynomial", 7, 3)
    code, told, _ = run("vectors", "--scheme", "byte_fnv1a", "--entries", 97, "--orders", "1,3", "--cases", 2)
    assert (code, told) == (0, vectors_json("byte_fnv1a", 0, 2, entries=97, orders=(1, 3)))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--scheme", "md5"), "'md5'"),
        (("--scheme", "byte_fnv1a", "--cases", "-1"), "-1"),
        (("--scheme", "byte_fnv1a", "--seed", "-1"), "-1"),
        (("--scheme", "byte_fnv1a", "--entries", "0"), "entries"),
        (("--scheme", "byte_fnv1a", "--orders", "2,x"), "2,x"),
        (("--scheme", "polynomial", "--entries", "5"), "polynomial"),
        (("--scheme", "byte_fnv1a", "--out", "none/vectors.json"), "no folder"),
    ],
)
def test_errors_of_the_command_vectors(run, arguments, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, told, error = run("vectors", *arguments)
    assert (code, told) == (1, "")
    assert named in error
    assert len(error.splitlines()) == 1


def test_running_all_ports(monkeypatch, capsys, tmp_path):
    """What a machine without any toolchain but gcc would say, and what one would say whose C port is wrong."""
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- languages: begin -->\nold\n<!-- languages: end -->\nbelow\n", encoding="utf-8")
    monkeypatch.setattr(ports.shutil, "which", lambda tool: tool if tool == "gcc" else None)
    monkeypatch.setattr(sys, "argv", ["ports", "--table", str(page)])
    assert all_ports.main() == 0
    told = capsys.readouterr().out
    assert "Ruby: skipped, there is no ruby" in told
    assert re.search(r"^C: gcc [\d.]+, 272 golden and \d+ new cases, 0 mismatches$", told, re.MULTILINE)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("above\n<!-- languages: begin -->\n\n| language |")
    assert "| Go | skipped: no `go` | | | |\n" in text
    assert text.endswith("\n<!-- languages: end -->\nbelow\n")
    monkeypatch.setattr(all_ports, "check", lambda *_: (3, [2]))
    assert all_ports.main() == 1
    assert "golden cases 2" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no place for a table"):
        insert_table(page, "elsewhere", [])
