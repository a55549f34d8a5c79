"""Telephone codes to samples: mu-law and A-law (ITU-T G.711)."""

from functools import cache
from typing import Literal

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from numpy.typing import NDArray

Law = Literal["mulaw", "alaw"]


def linear(codes: bytes, law: Law) -> NDArray[np.int16]:
    """Return the (N,) 16-bit samples that N codes of one byte stand for."""
    return _table(law)[np.frombuffer(codes, np.uint8)]


@cache
def _table(law: Law) -> NDArray[np.int16]:
    """Return the (256,) samples of all codes, as FFmpeg has them."""
    context = AudioCodecContext.create(f"pcm_{law}", "r")
    assert isinstance(context, AudioCodecContext)
    context.sample_rate, context.layout = 8000, "mono"
    [frame] = context.decode(av.Packet(bytes(range(256))))
    return frame.to_ndarray()[0].astype(np.int16)
