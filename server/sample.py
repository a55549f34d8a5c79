"""The page's recording of speech, with which servers are measured and loaded, too."""

from functools import cache

from cortado.model.arrays import Samples
from cortado.model.audio.decode import decode
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.server.web import FOLDER

SAMPLE = FOLDER / "sample.webm"


@cache
def speech() -> Samples:
    """Return the recording at 16 kHz, cut to whole steps."""
    samples = decode(SAMPLE)
    return samples[: len(samples) // SAMPLES_PER_STEP * SAMPLES_PER_STEP]
