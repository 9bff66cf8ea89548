"""A trained run as everything that it ships as, beside torch on real inputs: all ways to addresses, all precisions.

    engram-rs train specs/eng-g2p-tiny-engram.yaml --out runs/g2p
    python -m benches.shipped runs/g2p --out runs/shipped

The run must pass its gate. Inputs are held-out words of the run's corpus with their right outputs. Every zip gets its
parity block from what was measured; whether it passes the strict validation is printed.
"""

import argparse
from pathlib import Path

from rich.console import Console

from engram_rs import encode, imf, parity
from engram_rs.cli.verify import table_of
from engram_rs.distill import gate
from engram_rs.distill.corpora import held_out, read_corpus
from engram_rs.distill.spec import parse_spec
from engram_rs.onnx import export_seq2seq
from engram_rs.onnx.seq2seq import TIERS

README = (
    "# A small model of English pronunciation\n\nIt was trained to be measured, not to be used.\n\n## error\n\n{}\n"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="a finished run of a model with an encoder and a decoder")
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--out", type=Path, required=True, help="folder for the models and the report")
    arguments = parser.parse_args()
    console = Console(markup=False, highlight=False, width=150)
    record = gate(arguments.run)
    spec = parse_spec(record["spec"], "the record")
    pairs = [text for text in read_corpus(spec.data, arguments.run) if held_out(text.input)]
    calibration = [encode(text.input) for text in pairs[-16:]]
    pairs = pairs[: arguments.texts]
    model = parity.load_model(arguments.run / record["checkpoint"])
    arguments.out.mkdir(parents=True, exist_ok=True)

    names, paths = [], []
    plans = [("fp32", mode) for mode in ("input", "graph")] + [(tier, "graph") for tier in TIERS[1:]]
    for precision, mode in plans:
        name = precision if precision != "fp32" else f"fp32, {mode}"
        samples = calibration if precision == "int8-static" else None
        folder = arguments.out / f"{precision}-{mode}"
        exported = export_seq2seq(model, folder, addresses=mode, precision=precision, calibration=samples)
        error = record["evaluation"]["error"]
        said = README.format(f"{error:.2%} of phonemes wrong on {record['evaluation']['texts']} held-out words.")
        fields = {
            "id": "eng-arpabet-0.1",
            "task": "g2p",
            "source_script": "Latn",
            "target": "ARPAbet",
            "trained_from": f"the run {spec.name}",
            "license": "BSD-2-Clause",
            "metrics": [
                {
                    "name": "per",
                    "value": 100 * error,
                    "protocol": "held-out words, percent",
                    "source": "README.md#error",
                }
            ],
        }
        target = arguments.out / f"{precision}-{mode}.zip"
        imf.pack({**exported.paths, "README.md": said.encode()}, target, {**fields, **exported.zip_fields()})
        names.append(name)
        paths.append(target)
    with console.status(f"{len(pairs)} texts, {len(paths)} models"):
        found = parity.verify_models(
            paths, model, [text.input for text in pairs], [text.reference for text in pairs], max_new_tokens=64
        )
    console.print(table_of(found, names))
    for path in parity.save_report(found, arguments.out / "report", names):
        console.print(str(path))
    for one, name in zip(found, names, strict=True):
        parity.stamp(one)
        try:
            imf.validate(one.path, strict=True)
            verdict = "ready for a release"
        except ValueError as refused:
            verdict = str(refused)
        console.print(f"{name}: {verdict}")


if __name__ == "__main__":
    main()
