"""An alignment as a picture of a few kilobytes: sound and weights as pixels, letters as letters."""

from html import escape
from pathlib import Path

from cortado.model.features.framing import STEP_SECONDS
from cortado.model.recognizer import Recognizer
from cortado.training.data.manifest import Utterance
from cortado.training.data.recordings import samples_of
from cortado.training.scoring.attending import Attending, Matrix, attend
from cortado.training.scoring.embedding import picture, shades

INK, WEIGHT = (34, 27, 22), (143, 74, 29)
PAPER, SOFT = "#fbf8f3", "#6d6156"
SCALE = 150  # points a second
SOUND = 60  # points, the height of the log-mel frames
ROW = 7  # points, the height of a character's weights
LEFT, TOP, GAP = 14, 34, 14  # points


def draw(recognizer: Recognizer, utterance: Utterance, title: str, path: Path) -> None:
    """Write the alignment of an utterance to what is said in it, as SVG.

    Above are the log-mel frames with each character where the attention stops (or looks most);
    below, a row a character, the weights of the frames in its context, and then the expected
    alignment of training, if the attention is monotonic. Where a recogniser stops for fewer
    characters, it has fewer rows.

    Raises: ValueError for a text that the recogniser cannot spell; OSError.
    """
    online = recognizer.decoder.online
    found = attend(recognizer, samples_of(utterance), utterance.text, expected=online)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_svg(found, title, utterance.text), encoding="utf-8")


def _svg(found: Attending, title: str, text: str) -> str:
    end = max([found.duration, *(one.time for one in found.characters)])  # some come after it
    parts = [
        _text(LEFT, 9, f"{title}: {text}", SOFT),
        _image(LEFT, TOP, SCALE * found.duration, SOUND, picture(found.logmel, INK)),
    ]
    for k, one in enumerate(found.characters):
        x = LEFT + SCALE * one.time
        parts.append(_text(x, TOP - 3 - 8 * (k % 2), one.text, "#000", ' text-anchor="middle"'))
    top = TOP + SOUND
    panels = {"attended": found.weights, "expected to stop": found.expected}
    for name, weights in panels.items():
        if weights is None or not len(weights):
            continue
        parts.append(_text(LEFT, top + 9, name, SOFT))
        parts += _panel(found, weights, text, top + GAP, end)
        top += GAP + ROW * len(weights)
    seconds = range(1, int(end) + 1)
    parts += [_text(LEFT + SCALE * one - 7, top + 9, f"{one} s", SOFT) for one in seconds]
    size = f"{LEFT + SCALE * end + 6:.0f} {top + GAP:.0f}"
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" font-family="sans-serif" '
        f'font-size="7">\n<rect width="100%" height="100%" fill="{PAPER}"/>\n{body}\n</svg>\n'
    )


def _panel(found: Attending, weights: Matrix, text: str, top: float, end: float) -> list[str]:
    """Return (U, T) weights, the first character on top, each frame where its time is."""
    frames = range(weights.shape[1])
    shown = [
        k for k in frames if found.times(k)[0] >= 0 and found.times(k)[1] <= end + STEP_SECONDS
    ]
    image = _image(
        LEFT + SCALE * found.times(shown[0])[0],
        top,
        SCALE * STEP_SECONDS * len(shown),
        ROW * len(weights),
        shades(weights[:, shown], WEIGHT),
    )
    names = zip(range(len(weights)), text, strict=False)
    return [image, *(_text(4, top + ROW * (k + 0.8), one, SOFT) for k, one in names)]


def _image(x: float, y: float, width: float, height: float, address: str) -> str:
    return (
        f'<image x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'preserveAspectRatio="none" style="image-rendering:pixelated" href="{address}"/>'
    )


def _text(x: float, y: float, text: str, colour: str, more: str = "") -> str:
    if not text.strip():
        return ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{more}>{escape(text)}</text>'
