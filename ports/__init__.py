"""`byte_fnv1a` in other languages: how each port is built and run. Python's standard library alone."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["PORTS", "Port", "PortError", "as_numbers", "check", "hash_stream", "insert_table"]

HERE = Path(__file__).parent
CHUNK = 1 << 20
C_FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic")


class PortError(RuntimeError):
    """A toolchain refused the port, or its program did not finish."""


@dataclass(frozen=True)
class Port:
    """One port.

    In the commands `{build}` stands for the folder that `build` is given; all run in the port's own folder.

    Attributes:
        language: Its name, which is its folder's too, in lower case.
        source: The one file that another project would copy.
        tools: Programs that building and running need.
        version: Tells the toolchain's version before any other number.
        building: Makes the program, where there is something to make.
        running: Starts the program.
        reads_json: Whether the program reads the vectors themselves, or what `as_numbers` makes of them.
    """

    language: str
    source: str
    tools: tuple[str, ...]
    version: tuple[str, ...]
    building: tuple[str, ...]
    running: tuple[str, ...]
    reads_json: bool = True

    @property
    def folder(self) -> Path:
        return HERE / self.language.lower()

    def missing(self) -> str | None:
        """The first tool that is not on this machine."""
        return next((tool for tool in self.tools if shutil.which(tool) is None), None)

    def toolchain(self) -> str:
        """The version of the toolchain, as numbers."""
        told = _run(self.version, self.folder)
        found = re.search(r"\d+(\.\d+)+", told)
        if found is None:
            raise PortError(f"{' '.join(self.version)} told no version: {told}")
        return found[0]

    def build(self, folder: Path) -> list[str]:
        """Builds the program inside `folder`, an absolute path; returns the command that starts it."""
        if self.building:
            _run([word.format(build=folder) for word in self.building], self.folder)
        return [word.format(build=folder) for word in self.running]


PORTS = (
    Port(
        "C",
        "byte_fnv1a.h",
        ("gcc",),
        ("gcc", "--version"),
        ("gcc", *C_FLAGS, "-o", "{build}/check-c", "check.c"),
        ("{build}/check-c",),
        reads_json=False,
    ),
    Port(
        "Java",
        "ByteFnv1a.java",
        ("javac", "java"),
        ("java", "--version"),
        ("javac", "-Xlint:all", "-Werror", "-d", "{build}/java", "ByteFnv1a.java", "Check.java"),
        ("java", "-cp", "{build}/java", "Check"),
        reads_json=False,
    ),
    Port("JavaScript", "byte_fnv1a.mjs", ("node",), ("node", "--version"), (), ("node", "check.mjs")),
    Port("Ruby", "byte_fnv1a.rb", ("ruby",), ("ruby", "--version"), (), ("ruby", "-w", "check.rb")),
    # Last, since a new machine compiles Go's own library first; tests use the others meanwhile.
    Port(
        "Go",
        "byte_fnv1a.go",
        ("go",),
        ("go", "version"),
        ("go", "build", "-buildvcs=false", "-o", "{build}/check-go", "./check"),
        ("{build}/check-go",),
    ),
)


def check(port: Port, command: Sequence[str], vectors: Path, scratch: Path) -> tuple[int, list[int]]:
    """Runs a port against a file of vectors.

    Args:
        port: The port.
        command: What `Port.build` gave.
        vectors: A JSON file of `byte_fnv1a`.
        scratch: A folder where the vectors may be written in another form.

    Returns:
        How many cases the program read, and the numbers of those where its hashes or rows differ.

    Raises:
        PortError: The program failed, or did not read every case.
    """
    cases = json.loads(vectors.read_text(encoding="utf-8"))["cases"]
    given = vectors.resolve()
    if not port.reads_json:
        given = scratch / f"{vectors.stem}.txt"
        given.write_text(as_numbers(cases), encoding="ascii")
    done = _start([*command, "check", str(given)], port.folder)
    mismatches = [int(number) for number in re.findall(r"^mismatch in case (\d+)$", done.stdout, re.MULTILINE)]
    # The status of a program that broke off is often 1 too, so its last word is what counts.
    whole = done.stdout.splitlines()[-1:] == [f"cases {len(cases)}, mismatches {len(mismatches)}"]
    if not whole or done.returncode != min(len(mismatches), 1):
        raise PortError(f"{port.language} did not go through {len(cases)} cases: {done.stdout[-2000:]}{done.stderr}")
    return len(cases), mismatches


def as_numbers(cases: Sequence[dict[str, Any]]) -> str:
    """Vectors for a language without JSON: their count; then for each its T, K, entries, ids, orders, hashes, rows."""
    lines = [str(len(cases))]
    for case in cases:
        flat = [number for key in ("hashes", "rows") for columns in case[key] for number in columns]
        head = [len(case["ids"]), len(case["orders"]), case["entries"]]
        lines.append(" ".join(map(str, [*head, *case["ids"], *case["orders"], *flat])))
    return "\n".join(lines) + "\n"


def hash_stream(port: Port, command: Sequence[str], ids: Path, orders: Sequence[int]) -> tuple[str, float]:
    """Lets a port hash a file of little-endian int32 ids.

    Returns:
        The SHA-256 of its hashes, int64 and little-endian, and the seconds that the hashing alone took.

    Raises:
        PortError: The program failed.
    """
    words, digest = [*command, "hash", ",".join(map(str, orders))], hashlib.sha256()
    with (
        ids.open("rb") as given,
        subprocess.Popen(
            words, cwd=port.folder, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment()
        ) as running,
    ):
        assert running.stdout is not None
        assert running.stderr is not None
        while piece := running.stdout.read(CHUNK):
            digest.update(piece)
        told = running.stderr.read().decode(errors="replace")
    seconds = re.search(r"^seconds ([\d.]+)$", told, re.MULTILINE)
    if running.returncode or seconds is None:
        raise PortError(f"{' '.join(words)} ended with {running.returncode}: {told}")
    return digest.hexdigest(), float(seconds[1])


def insert_table(page: Path, name: str, lines: Sequence[str]) -> None:
    """Puts lines between the two comments of this name on a page.

    Raises:
        ValueError: The page has no such comments.
    """
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no place for a table between {begin.strip()} and {end.strip()}")
    table = "".join(f"{line}\n" for line in lines)
    page.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")


def _run(words: Sequence[str], folder: Path) -> str:
    done = _start(words, folder)
    if done.returncode:
        raise PortError(f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def _start(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env=_environment())


def _environment() -> dict[str, str]:
    """Go would otherwise look for a toolchain on the network if go.mod asked for a newer one."""
    return {**os.environ, "GOTOOLCHAIN": "local"}
