"""Runs every port that this machine has a toolchain for against the golden vectors and new ones."""

import argparse
import sys
import tempfile
from pathlib import Path

from engram_rs.vectors import vectors_json

from . import HERE, PORTS, PortError, check, insert_table

GOLDEN = HERE.parent / "tests" / "vectors" / "byte_fnv1a.json"
SEED = 7


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ports", description=__doc__)
    parser.add_argument(
        "--table", type=Path, metavar="PAGE", help="also put the table into a page, between its comments"
    )
    arguments = parser.parse_args()
    lines = ["| language | toolchain | golden cases | new cases | mismatches |", "|---|---|---:|---:|---:|"]
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = folder / "new.json"
        made.write_text(vectors_json("byte_fnv1a", SEED), encoding="utf-8")
        for port in PORTS:
            missing = port.missing()
            if missing is not None:
                print(f"{port.language}: skipped, there is no {missing}")
                lines.append(f"| {port.language} | skipped: no `{missing}` | | | |")
                continue
            try:
                version = f"{port.tools[-1]} {port.toolchain()}"
                command = port.build(folder)
                (golden, wrong), (new, also) = (check(port, command, file, folder) for file in (GOLDEN, made))
            except PortError as error:
                print(f"{port.language}: {error}")
                lines.append(f"| {port.language} | failed | | | |")
                failed = True
                continue
            count = len(wrong) + len(also)
            print(f"{port.language}: {version}, {golden} golden and {new} new cases, {count} mismatches")
            for kind, numbers in (("golden", wrong), ("new", also)):
                if numbers:
                    print(f"  {kind} cases {', '.join(map(str, numbers))}")
            lines.append(f"| {port.language} | {version} | {golden} | {new} | {count} |")
            failed |= count > 0
    if arguments.table is not None:
        insert_table(arguments.table, "languages", lines)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
