"""Pictures of what a text model attended to for each word that it wrote."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from torch import Tensor

from cortado.training.scoring.attention_picture import PAPER, SOFT, WEIGHT, write

INCHES = 0.2  # of a word, across and down
LONGEST = 60  # source words that are drawn; of longer sources the first


def draw(
    source: Sequence[str], text: Sequence[str], weights: Tensor, path: Path, title: str
) -> None:
    """Write a picture: the source's words across, those written down, (U, T) weights between them.

    Raises: ValueError for a suffix that is not known; OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, lambda: _figure(source[:LONGEST], text, weights[: len(text), :LONGEST], title))


def _figure(source: Sequence[str], text: Sequence[str], weights: Tensor, title: str) -> Figure:
    size = max(3.0, INCHES * len(source) + 1.5), max(1.5, INCHES * len(text) + 1.5)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.imshow(weights.numpy(), cmap=WEIGHT, vmin=0, vmax=1, aspect="auto", interpolation="none")
    axes.set_facecolor(PAPER)
    axes.set_xticks(range(len(source)), source, rotation=90, fontsize=7)
    axes.set_yticks(range(len(text)), text, fontsize=7)
    axes.tick_params(length=0)
    axes.set_title(title, loc="left", fontsize=8, color=SOFT)
    return figure
