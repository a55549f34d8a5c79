"""A picture of the attention: log-mel frames, characters, and their weights."""

import io
from collections.abc import Callable
from pathlib import Path
from textwrap import shorten
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from cortado.model.whole_file import write_whole
from cortado.training.scoring.attending import Attending, Matrix

SUFFIXES = (".svg", ".png", ".pdf")
INCHES_A_SECOND = 1.5
WIDTH = (6.0, 30.0)  # inches, narrowest and widest
LETTERS_AN_INCH = 14  # of a title, at most: one wider than the picture would leave it no room
LETTERS = 46  # characters from which on the vertical axis names only some
LETTERS_OF_A_WORD = 20  # that it names, at most: a wider one would leave the picture no room
PAPER, INK, SOFT, ACCENT = "#fbf8f3", "#221b16", "#6d6156", "#8f4a1d"
SOUND = LinearSegmentedColormap.from_list("sound", [PAPER, "#dcc6ab", "#8a6239", INK])
WEIGHT = LinearSegmentedColormap.from_list("weight", [f"{PAPER}00", "#e6aa6c", ACCENT])
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "text.color": INK,
    "svg.fonttype": "none",  # letters stay letters: smaller, and they can be searched
    "svg.hashsalt": "cortado",  # the same picture is the same file
}


def check_suffix(path: Path) -> None:
    """Look whether a picture of the kind that a name says can be drawn.

    Raises: ValueError where it cannot.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"expected a name that ends in {', '.join(SUFFIXES)}, got {path.name}")


def draw(found: Attending, path: Path, title: str = "") -> None:
    """Write the picture of a recording, its characters and the attention to them.

    Raises: ValueError for a suffix that is not known; OSError.
    """
    write(path, lambda: figure(found, title))


def write(path: Path, made: Callable[[], Figure]) -> None:
    """Write a figure, which is made in the one style of pictures.

    Raises: ValueError for a suffix that is not known; OSError.
    """
    check_suffix(path)
    with mpl.rc_context(STYLE):
        buffer = io.BytesIO()
        kind = path.suffix.lower()[1:]
        metadata = {"Date": None} if kind == "svg" else None
        made().savefig(buffer, format=kind, dpi=150, facecolor=PAPER, metadata=metadata)
    write_whole(path, buffer.getvalue())


def figure(found: Attending, title: str = "") -> Figure:
    """Return the picture of a recording, its characters and the attention to them.

    Above are the log-mel frames (as pixels, in vector formats too), with a line at each stop and
    its character; below, a row for each character, with the weights of the frames in its context;
    beside them, where it is there, the expected alignment. The time axis is in seconds.
    """
    named = {"attended": found.weights, "expected to stop": found.expected}
    panels = {name: one for name, one in named.items() if one is not None and len(one)}
    width = float(np.clip(INCHES_A_SECOND * found.duration, *WIDTH))
    heights = [1.4, *(float(np.clip(0.13 * len(one), 1.5, 6.0)) for one in panels.values())]
    whole = Figure(figsize=(width, sum(heights) + 0.9), layout="constrained")
    axes = whole.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    fitting = shorten(title, int(LETTERS_AN_INCH * width), placeholder=" …")
    _sound(axes[0], found, fitting)
    for below, (name, weights) in zip(axes[1:], panels.items(), strict=True):
        _weights(below, found, weights, name)
    axes[-1].set_xlabel("seconds")
    axes[-1].set_xlim(0, found.duration)
    return whole


def _sound(axes: Axes, found: Attending, title: str) -> None:
    low, high = np.quantile(found.logmel, [0.1, 0.995])
    axes.imshow(
        found.logmel,
        origin="lower",
        aspect="auto",
        extent=(0, found.duration, 0, len(found.logmel)),
        cmap=SOUND,
        vmin=low,
        vmax=high,
        interpolation="none",
    )
    axes.set_ylabel("mel bands")
    axes.set_yticks([])
    before, raised = -1.0, False
    for one in found.characters:
        axes.axvline(one.time, color=ACCENT, linewidth=0.5, alpha=0.6)
        if not one.text.strip():
            continue
        raised = one.time - before < 0.06 and not raised
        before = one.time
        axes.annotate(
            one.text,
            (one.time, len(found.logmel)),
            xytext=(0, 10 if raised else 2),
            textcoords="offset points",
            ha="center",
            annotation_clip=False,
        )
    if title:
        axes.set_title(title, loc="left", pad=22, color=SOFT, fontsize=8)


def _weights(axes: Axes, found: Attending, weights: Matrix, name: str) -> None:
    """Draw (U, T) weights, the first character on top; each frame where its time is.

    Characters that the attention has not stopped for have no name.
    """
    begin, _ = found.times(0)
    _, end = found.times(weights.shape[1] - 1)
    axes.imshow(
        weights,
        aspect="auto",
        extent=(begin, end, len(weights) - 0.5, -0.5),
        cmap=WEIGHT,
        vmin=0,
        vmax=1,
        interpolation="none",
    )
    axes.set_facecolor(PAPER)
    for k, one in enumerate(found.characters):
        axes.plot(one.time, k, marker="|", color=INK, markersize=4, markeredgewidth=0.8)
    texts = ["␣" if one.text == " " else one.text for one in found.characters]
    count = len(texts)
    if count <= LETTERS:
        axes.set_yticks(range(count), ["" if one == "␣" else one for one in texts], fontsize=7)
    elif found.separator:
        named = range(0, count, -(-count // LETTERS))
        axes.set_yticks(named, [texts[k] for k in named], fontsize=6)
    else:
        _words(axes, texts)
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel(name)


def _words(axes: Axes, texts: list[str]) -> None:
    """Name the rows of words where there is no room for their characters."""
    starts = [k for k, text in enumerate(texts) if text != "␣" and (k == 0 or texts[k - 1] == "␣")]
    words = [_fitting(one) for one in "".join(texts).replace("␣", " ").split()]
    axes.set_yticks(starts, words[: len(starts)], fontsize=6)


def _fitting(word: str) -> str:
    return word if len(word) <= LETTERS_OF_A_WORD else f"{word[: LETTERS_OF_A_WORD - 1]}…"
