"""A corpus on disk: recordings, and the manifest that lists them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import soundfile
from numpy.typing import NDArray

from cortado.model.features.framing import SAMPLE_RATE

Recording = tuple[NDArray, str]  # type: ignore[type-arg]  # samples at 16 kHz, and the text


def write_corpus(
    folder: Path,
    recordings: Iterable[Recording],
    name: str = "train",
    speakers: Sequence[str] = ("somebody",),
    subtype: str = "PCM_16",
) -> Path:
    """Write recordings, of the speakers in turn; return their manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for k, (samples, text) in enumerate(recordings):
        soundfile.write(folder / f"{name}-{k}.wav", samples, SAMPLE_RATE, subtype)
        row = {"id": f"{name}-{k}", "audio": f"{name}-{k}.wav", "text": text}
        row |= {"speaker": speakers[k % len(speakers)]}
        rows.append(row | {"duration": len(samples) / SAMPLE_RATE})
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
