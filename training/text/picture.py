"""Pictures of what a text model attended to for each word that it wrote."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from torch import Tensor

from cortado.training.scoring.attention_picture import INK, PAPER, SOFT, WEIGHT, check_suffix

INCHES = 0.2  # of a word, across and down
LONGEST = 60  # source words that are drawn; of longer sources the first


def draw(
    source: Sequence[str], text: Sequence[str], weights: Tensor, path: Path, title: str
) -> None:
    """Write a picture: the source's words across, those written down, (U, T) weights between them.

    Raises: ValueError for a suffix that is not known; OSError.
    """
    check_suffix(path)
    shown, cut = list(source[:LONGEST]), weights[: len(text), :LONGEST]
    size = max(3.0, INCHES * len(shown) + 1.5), max(1.5, INCHES * len(text) + 1.5)
    settings: dict[Any, Any] = {
        "font.size": 8,
        "svg.fonttype": "none",
        "svg.hashsalt": "cortado",
        "axes.edgecolor": SOFT,
        "text.color": INK,
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        axes.imshow(cut.numpy(), cmap=WEIGHT, vmin=0, vmax=1, aspect="auto", interpolation="none")
        axes.set_facecolor(PAPER)
        axes.set_xticks(range(len(shown)), shown, rotation=90, fontsize=7)
        axes.set_yticks(range(len(text)), list(text), fontsize=7)
        axes.tick_params(length=0)
        axes.set_title(title, loc="left", fontsize=8, color=SOFT)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, facecolor=PAPER, metadata=metadata, dpi=120)
