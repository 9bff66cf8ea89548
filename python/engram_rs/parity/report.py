"""What `verify_models` found, for people: numbers in a file, and a picture."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .._extras import require
from .._files import replacing
from .models import ModelParity

__all__ = ["save_report"]

_WIDTH = 0.62


def save_report(
    found: Sequence[ModelParity], folder: str | os.PathLike[str], names: Sequence[str] | None = None
) -> list[Path]:
    """Writes `parity.json` and `parity.png`.

    Args:
        found: The results. A number that is not finite, as of a model that overflows, is null in the file.
        folder: Where they go, made if its parent is there.
        names: What the models are called; their precision if nothing is said.

    Returns:
        The two paths.

    Raises:
        ValueError: There is no result, or not as many names as results.
        FileNotFoundError: There is no folder to make `folder` in.
    """
    if not found:
        raise ValueError("found must hold at least one result")
    names = [one.precision for one in found] if names is None else names
    if len(names) != len(found):
        raise ValueError(f"there are {len(names)} names for {len(found)} results")
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    numbers, picture = folder / "parity.json", folder / "parity.png"
    values = [
        {"name": name, **{key: _known(value) for key, value in asdict(one).items()}, "cer_delta": one.cer_delta}
        for name, one in zip(names, found, strict=True)
    ]
    with replacing(numbers) as temporary:
        temporary.write_text(json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    with replacing(picture) as temporary:
        _draw(found, names, temporary)
    return [numbers, picture]


def _known(value: Any) -> Any:  # noqa: ANN401
    # JSON has no other word for it.
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _draw(found: Sequence[ModelParity], names: Sequence[str], path: Path) -> None:
    figures = require("matplotlib.figure", "the parity report")
    figure = figures.Figure(figsize=(10, 0.9 + 0.42 * len(found)), layout="constrained")
    panels = figure.subplots(1, 4, sharey=True)
    places = list(range(len(found)))
    _bars(panels[0], places, [one.size / 2**20 for one in found], "size, MiB", "{:.2f}", "#8a8f98")
    _bars(
        panels[1], places, [one.logit_difference for one in found], "largest difference of a logit", "{:.2g}", "#4c78a8"
    )
    shares = [100 * one.flips / max(1, one.positions) for one in found]
    # A legend would lie over some model's bar.
    _bars(panels[2], places, shares, "other first choice, % (pale: near ties)", "{:.2f}", "#e45756")
    near = [100 * one.near_ties / max(1, one.positions) for one in found]
    panels[2].barh(places, near, height=_WIDTH, color="#f2b8b8")
    _bars(
        panels[3], places, [100 * one.error_rate for one in found], "characters unlike torch's, %", "{:.2f}", "#54a24b"
    )
    panels[0].set_yticks(places, list(names), fontsize=8)
    panels[0].invert_yaxis()
    texts, positions = found[0].texts, found[0].positions
    figure.suptitle(f"Against the torch model: {texts:,} texts, {positions:,} tokens", fontsize=9)
    figure.savefig(path, dpi=150, format="png")


def _bars(panel: Any, places: list[int], values: list[float], title: str, form: str, colour: str) -> None:  # noqa: ANN401
    lengths = [value if math.isfinite(value) else 0.0 for value in values]
    drawn = panel.barh(places, lengths, height=_WIDTH, color=colour)
    panel.bar_label(drawn, [form.format(value) for value in values], fontsize=7, padding=2)
    panel.set_title(title, fontsize=8)
    panel.set_xlim(0, 1.3 * max([*lengths, 1e-9]))
    panel.tick_params(labelsize=7)
    panel.spines[["top", "right"]].set_visible(False)
