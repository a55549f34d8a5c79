"""A corpus on disk: recordings, and the manifest that lists them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import soundfile
from numpy.typing import NDArray

from cortado.model.features.framing import SAMPLE_RATE

Recording = tuple[NDArray, str]  # type: ignore[type-arg]  # samples at 16 kHz, and the text


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Write objects as JSON lines; return the file."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


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
    return write_rows(folder / f"{name}.jsonl", rows)
