"""The shipped model writes nothing where nobody speaks."""

import numpy as np

from cortado.model.backends.choice import load_recognizer
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.streaming.recordings import transcribe_many

SECONDS = 20
TIME = np.arange(SECONDS * SAMPLE_RATE) / SAMPLE_RATE
NOISE = np.random.default_rng(0).standard_normal(len(TIME))

SOUNDS = {
    "digital silence": 0 * TIME,
    "noise at -60 dB": 1e-3 * NOISE,
    "noise at -30 dB": 0.03 * NOISE,
    "a hum": 0.1 * np.sin(2 * np.pi * 50 * TIME),
}


def test_nothing_is_written_where_nobody_speaks() -> None:
    online = load_recognizer()
    sounds = [sound.astype(np.float32) for sound in SOUNDS.values()]
    found = dict(transcribe_many(online, sounds, len(sounds)))
    assert {name: found[k] for k, name in enumerate(SOUNDS)} == {name: [] for name in SOUNDS}
