"""The samples of an utterance: a whole recording, or a part of one."""

from functools import lru_cache
from pathlib import Path

from cortado.model.arrays import Samples
from cortado.model.audio.decode import decode
from cortado.model.audio.error import AudioError
from cortado.model.features.framing import SAMPLE_RATE
from cortado.training.data.manifest import Utterance

SLACK = 0.05  # seconds that a part may reach beyond its recording; corpora round


def samples_of(utterance: Utterance) -> Samples:
    """Return the (n,) samples of an utterance at 16 kHz, as `decode` does.

    Raises: AudioError for a recording that cannot be read, or that ends before the utterance.
    """
    if utterance.start is None:
        return decode(utterance.audio)
    recording = _recording(utterance.audio)
    start = round(utterance.start * SAMPLE_RATE)
    stop = start + round(utterance.duration * SAMPLE_RATE)
    if stop > len(recording) + SLACK * SAMPLE_RATE:
        got = f"one of {len(recording) / SAMPLE_RATE:.2f} s"
        raise AudioError(
            utterance.audio, f"a recording of at least {stop / SAMPLE_RATE:.2f} s", got
        )
    return recording[start:stop]


@lru_cache(maxsize=1)  # parts of a recording follow each other in a manifest
def _recording(path: Path) -> Samples:
    return decode(path)
