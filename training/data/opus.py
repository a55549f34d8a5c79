"""Ogg files with speech as Opus, written by FFmpeg."""

from pathlib import Path
from typing import BinaryIO

import av
import numpy as np

from cortado.model.arrays import Samples
from cortado.model.features.framing import SAMPLE_RATE

BIT_RATE = 26_000  # bit/s: speech at 16 kHz sounds as it is
# A file of a single page whose end is trimmed is malformed to libsndfile, or has its trim ignored.
# No utterance is shorter than this, with the silence at its ends.
PAGE = 100_000  # us
COMPLEXITY = 3  # of 10: three times as fast as 10, not to be heard at this bit rate


def write_opus(file: Path | BinaryIO, samples: Samples) -> None:
    """Write (N,) samples at 16 kHz; libsndfile would fix the complexity at 10."""
    options = {"compression_level": str(COMPLEXITY)}
    # Bit-exact: no random serial number, so that a rerun gives the same bytes.
    layout = {"fflags": "+bitexact", "page_duration": str(PAGE)}
    target = str(file) if isinstance(file, Path) else file
    with av.open(target, "w", format="ogg", options=layout) as container:
        stream = container.add_stream("libopus", rate=SAMPLE_RATE, options=options)
        stream.layout = "mono"
        stream.format = "flt"
        stream.bit_rate = BIT_RATE
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="flt", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
