"""`engram-rs train`: a distillation run from its spec, or the gate over one that is done."""

from pathlib import Path
from typing import Annotated

import typer

from .options import console


def train(
    spec: Annotated[Path | None, typer.Argument(help="The spec, a YAML file.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's directory; runs/NAME if nothing is said.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Build everything small and take two steps.")] = False,
    labels: Annotated[bool, typer.Option("--labels", help="Only make the labels file and print its sha256.")] = False,
    gate: Annotated[Path | None, typer.Option(help="Check the record of a run, and train nothing.")] = None,
) -> None:
    """Trains a student from one spec file; exit status 1 if the run must not count."""
    from .. import distill

    if (spec is None) == (gate is None):
        raise ValueError("give a spec to run, or --gate and a run's directory")
    if gate is not None:
        record = distill.gate(gate)
        console.print(f"{record['spec']['name']} counts: error {record['evaluation']['error']:.2%} of units")
        return
    assert spec is not None
    described = distill.read_spec(spec)
    folder = out or Path("runs", described.name + ("-dry-run" if dry_run else ""))
    if labels:
        folder.mkdir(parents=True, exist_ok=True)
        file, digest = distill.label(described, spec.parent, folder, console)
        console.print(f"{file}: sha256 {digest}", soft_wrap=True)
        return
    record = distill.run(described, spec.parent, folder, console, dry_run=dry_run)
    if "evaluation" in record:
        found = record["evaluation"]
        console.print(
            f"{record['spec']['name']}: {found['error']:.2%} of {found['units']:,} {found['unit']}s wrong, "
            f"{found['exact']:.2%} of {found['texts']:,} texts whole"
        )
        if "memory_share" in found:
            share = found["memory_share"]
            console.print(
                f"  training moved the logits by {share['change']:.3g} (root mean square); without its memory the "
                f"model's are {share['memory']:.3g} away, {share['share']:.0%} of that"
            )
