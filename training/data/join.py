"""Streams with pauses: each speaker's recordings of a set, one after another.

A corpus has single sentences, cut out of silence. Who speaks into a microphone waits, speaks and
waits again. What a recogniser makes of that is measured on streams made of the corpus.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import soundfile

from cortado.model.arrays import Samples
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.progress import Count, counted, unwatched
from cortado.model.whole_file import whole, write_whole
from cortado.training.data.manifest import Utterance, as_row, read
from cortado.training.data.recordings import samples_of
from cortado.training.data.voices import by_speaker_indices

SECONDS = 45.0  # of speech, after which a stream ends with the recording
QUIETEST = 4000  # samples of a recording that its pause is like: a quarter of a second
UNEVEN = 0.3  # share of the pause by which one may be longer or shorter
MANIFEST = "streams.jsonl"


def join(manifest: Path, out: Path, pause: float, count: Count = unwatched) -> list[Utterance]:
    """Write streams and their manifest into a folder; return them.

    A stream is the recordings of one speaker in their order, each behind a pause of about `pause`
    seconds. Pauses are noise of the same power and spectrum as the quietest quarter of a second of
    the recording that follows. The same manifest gives the same streams.

    Args:
        manifest: of the recordings.
        out: folder, made if it is not there.
        pause: seconds, at least 0.
        count: called with the streams that are done, and all.

    Raises:
        ValueError: a pause below 0, no such manifest, or a folder with recordings of its own.
        AudioError: a recording that cannot be read.
        OSError: a file cannot be read or written.
    """
    if not 0 <= pause < float("inf"):
        raise ValueError(f"expected a pause of at least 0 seconds, got {pause:g}")
    utterances = read(manifest, None)
    if any(one.audio.resolve().parent == out.resolve() for one in utterances):
        raise ValueError(f"expected another folder than that of the recordings, got {out}")
    groups = list(_groups(utterances))
    out.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    written = []
    for number, group in enumerate(counted(groups, len(groups), count)):
        samples = _stream(group, pause, random)
        path = (out / f"{number:04}.flac").absolute()
        with whole(path) as part:
            soundfile.write(part, samples, SAMPLE_RATE, format="FLAC")
        text = " ".join(one.text for one in group)
        seconds = len(samples) / SAMPLE_RATE
        written.append(Utterance(path.stem, path, seconds, group[0].speaker, text))
    rows = (as_row(one) | {"audio": one.audio.name} for one in written)
    lines = (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    write_whole(out / MANIFEST, "".join(lines))
    return written


def _groups(utterances: Sequence[Utterance]) -> Iterator[list[Utterance]]:
    """Yield the recordings of each stream."""
    for own in by_speaker_indices(utterances):
        group: list[Utterance] = []
        for one in map(utterances.__getitem__, own):
            group.append(one)
            if sum(each.duration for each in group) > SECONDS:
                yield group
                group = []
        if group:
            yield group


def _stream(group: Sequence[Utterance], pause: float, random: np.random.Generator) -> Samples:
    parts = []
    for one in group:
        samples = samples_of(one)
        seconds = pause * random.uniform(1 - UNEVEN, 1 + UNEVEN)
        parts += [noise_like(samples, round(seconds * SAMPLE_RATE), random), samples]
    return np.concatenate(parts)


def noise_like(samples: Samples, length: int, random: np.random.Generator) -> Samples:
    """Return (length,) noise with the power and spectrum of the quietest part of (N,) samples."""
    width = min(QUIETEST, len(samples))
    if not width or not length:
        return np.zeros(length, np.float32)
    energy = np.cumsum(np.concatenate([[0.0], samples.astype(np.float64) ** 2]))
    starts = np.arange(0, len(samples) - width + 1, SAMPLE_RATE // 200)
    start = starts[(energy[starts + width] - energy[starts]).argmin()]
    quiet = samples[start : start + width].astype(np.float64)
    spectrum = np.abs(np.fft.rfft(quiet * np.hanning(width), 2 * length))
    phases = np.exp(2j * np.pi * random.random(len(spectrum)))
    noise = np.fft.irfft(spectrum * phases, 2 * length)[:length]
    power = np.sqrt((quiet**2).mean() / max((noise**2).mean(), 1e-20))
    return np.asarray(noise * power, np.float32)
